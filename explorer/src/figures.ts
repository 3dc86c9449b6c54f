// Numbers as texts, as reports and the terminal have them (src/warpsight/base/units.py).

export function percent(share: number): string {
  return share === 1 ? "100 %" : `${(100 * share).toFixed(1)} %`;
}

export function duration(seconds: number): string {
  const units: [string, number][] = [["s", 1], ["ms", 1e-3], ["us", 1e-6], ["ns", 1e-9]];
  const text = (scale: number) => (seconds / scale).toPrecision(4); // rounded first: 999.96 us is 1.000 ms
  const [unit, scale] = units.find(([, each]) => Number(text(each)) >= 1) ?? units[units.length - 1]!;
  return `${text(scale)} ${unit}`;
}

// The class of a component's colour, which the server gives as in reports; a model of somebody's own shares one.
export function paintClass(component: string): string {
  return /^[A-Za-z_]\w*$/.test(component) ? `paint-${component}` : "paint-other";
}
