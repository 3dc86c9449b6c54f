// Builds the page into the Python package. The names have no hashes and the text no dates: the same sources give the same bytes,
// so that CI can build again and compare.
import { defineConfig } from "vite";

export default defineConfig({
  base: "./",
  build: {
    outDir: "../src/warpsight/explorer/built",
    emptyOutDir: true,
    license: { fileName: "licenses.md" },
    chunkSizeWarningLimit: 700,
    modulePreload: { polyfill: false },
    rollupOptions: {
      output: {
        entryFileNames: "explorer.js",
        assetFileNames: "explorer[extname]",
      },
    },
  },
});
