// Builds the page, and with `--mode widget` the widget for notebooks, into the Python package. The names have no hashes and the text
// no dates: the same sources give the same bytes, so that CI can build again and compare.
import { defineConfig } from "vite";

const common = { outDir: "../src/warpsight/explorer/built", modulePreload: { polyfill: false } };

const page = {
  ...common,
  emptyOutDir: true,
  license: { fileName: "licenses.md" }, // of all that the widget has, too
  chunkSizeWarningLimit: 700,
  rollupOptions: { output: { entryFileNames: "explorer.js", assetFileNames: "explorer[extname]" } },
};

// One module without imports, which a notebook carries with its output.
const widget = {
  ...common,
  emptyOutDir: false,
  rollupOptions: { input: "src/widget.tsx", preserveEntrySignatures: "strict", output: { entryFileNames: "widget.js" } },
};

export default defineConfig(({ mode }) => ({ base: "./", build: mode === "widget" ? widget : page }));
