// Numbers as texts, as the terminal has them (base/units.py). The explorer's build takes this file, too.
W.number = (value) => {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e15 || size < 1e-4) return value.toExponential(2).replace(/e([+-])(\d)$/, "e$10$2");
  const digits = Math.max(0, 2 - Number(value.toExponential(2).split("e")[1]));  // rounded first: 0.9996 is 1.00
  return value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
};
W.whole = (value) => Math.round(value).toLocaleString("en-US");
W.percent = (share) => (share === 1 ? "100 %" : (100 * share).toFixed(1) + " %");
W.duration = (seconds) => {
  const text = (scale) => (seconds / scale).toPrecision(4);  // rounded first: 999.96 us is 1.000 ms
  const units = [["s", 1], ["ms", 1e-3], ["us", 1e-6], ["ns", 1e-9]];
  const [unit, scale] = units.find(([, each]) => Number(text(each)) >= 1) ?? units[3];
  return `${text(scale)} ${unit}`;
};
