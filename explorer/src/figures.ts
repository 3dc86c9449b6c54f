// Numbers as texts: those of the report's scripts.

import figures from "report-figures";

export const { number, whole, percent, duration } = figures;

// The class of a component's colour, which the server gives as in reports; a model of somebody's own shares one.
export function paintClass(component: string): string {
  return /^[A-Za-z_]\w*$/.test(component) ? `paint-${component}` : "paint-other";
}
