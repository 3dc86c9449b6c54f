// Builds the page, with `--mode widget` the widget for notebooks, and with `--mode report` the sliders and stacks of the static report,
// into the Python package. The names have no hashes and the text no dates: the same sources give the same bytes, so that CI can build
// again and compare.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

const package_ = "../src/warpsight";
const common = { outDir: `${package_}/explorer/built`, modulePreload: { polyfill: false } };

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

// A script among the report's own, in whose scope it runs. A report is passed on alone, so that the license goes with it.
const report = {
  outDir: `${package_}/reports/html/assets/built`,
  emptyOutDir: true,
  modulePreload: { polyfill: false },
  rollupOptions: {
    input: "src/report.tsx",
    output: {
      format: "iife", entryFileNames: "what_if.js",
      postBanner: `/* With Preact:\n${readFileSync("node_modules/preact/LICENSE", "utf-8").trim()}\n*/`,
    },
  },
};

// The report's script of numbers, which fills `W`, as a module. In the report it has run already.
const FIGURES = fileURLToPath(new URL(`${package_}/reports/html/assets/figures.js`, import.meta.url));
const figures = (mode) => ({
  name: "figures",
  transform: (code, id) =>
    id !== FIGURES ? null : mode === "report" ? "export default W;" : `const W = {};\n${code}\nexport default W;`,
});

const BUILDS = { widget, report };

export default defineConfig(({ mode }) => ({
  base: "./", plugins: [figures(mode)], resolve: { alias: { "report-figures": FIGURES } }, build: BUILDS[mode] ?? page,
}));
