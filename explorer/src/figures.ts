// Numbers as texts.

export function percent(share: number): string {
  return `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;
}

export function duration(seconds: number): string {
  const [size, unit] = seconds < 1e-3 ? [1e6, "µs"] : seconds < 1 ? [1e3, "ms"] : [1, "s"];
  return `${(seconds * size).toPrecision(4)} ${unit}`;
}

// The class of a component's colour, which the server gives as in reports; a model of somebody's own shares one.
export function paintClass(component: string): string {
  return /^[A-Za-z_]\w*$/.test(component) ? `paint-${component}` : "paint-other";
}
