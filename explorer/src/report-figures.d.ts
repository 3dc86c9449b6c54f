// A script of the report that the build makes a module (vite.config.js).
declare module "report-figures" {
  const figures: Record<"number" | "whole" | "percent" | "duration", (value: number) => string>;
  export default figures;
}
