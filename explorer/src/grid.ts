// A report's grid of designs (`what_if` of docs/reference/report.md): sliders go from one computed design to the next, and nothing is
// interpolated.

import type { Drawn } from "./stack";

export interface GridAxis {
  key: string;
  label: string;
  values: number[];
  settings: string[];
  own: number;
  simulated: boolean;
}

interface Column {
  name: string;
  type: "float64" | "uint32" | "uint16" | "uint8";
  data: string; // base64, little-endian
}

export interface GridData {
  axes: GridAxis[];
  geometries: number[][];
  columns: Column[];
  rows?: Column;
  bounds: string[];
  share_of: number;
  warp_instructions: number;
}

export type Places = Map<string, number>; // of a setting, by key

const READERS = {
  float64: [8, "getFloat64"], uint32: [4, "getUint32"], uint16: [2, "getUint16"], uint8: [1, "getUint8"],
} as const;

function unpacked({ type, data }: Column): number[] {
  const text = atob(data), [size, read] = READERS[type];
  const view = new DataView(Uint8Array.from(text, (letter) => letter.charCodeAt(0)).buffer);
  return Array.from({ length: text.length / size }, (_, at) => view[read](size * at, true));
}

export class Grid {
  readonly own: Places;
  private readonly simulated: GridAxis[];
  private readonly free: GridAxis[];
  private readonly geometries: Map<string, number>;
  private columns: Map<string, number[]> | null = null; // unpacked by the first movement

  constructor(private readonly data: GridData) {
    this.simulated = data.axes.filter((axis) => axis.simulated);
    this.free = data.axes.filter((axis) => !axis.simulated);
    this.geometries = new Map(data.geometries.map((places, at) => [places.join(), at]));
    this.own = new Map(data.axes.map((axis) => [axis.key, axis.own]));
  }

  private column(name: string): number[] | undefined {
    const { columns, rows } = this.data;
    this.columns ??= new Map([...columns, ...(rows ? [rows] : [])].map((each) => [each.name, unpacked(each)]));
    return this.columns.get(name);
  }

  // The row of the columns for the design at these places; undefined where its geometry was not simulated.
  private point(places: Places): number | undefined {
    let at = this.geometries.get(this.simulated.map((axis) => places.get(axis.key)).join());
    if (at === undefined) return undefined;
    for (const axis of this.free) at = at * axis.values.length + places.get(axis.key)!;
    return this.data.rows ? this.column("rows")![at] : at;
  }

  // What the model says of the design at these places, and what bounds it, or why there is no answer.
  design(places: Places): { prediction: Drawn | null; bound: string } {
    const at = this.point(places)!, cycles = this.column("cycles")![at]!, bound = this.data.bounds[this.column("bound_by")![at]!]!;
    if (!Number.isFinite(cycles)) return { prediction: null, bound };
    const value = (key: string) => this.data.axes.find((axis) => axis.key === key)!.values[places.get(key)!]!;
    const cpi = (cycles * value("sm_count")) / this.data.warp_instructions;
    const names = this.data.columns.flatMap(({ name }) => (name.startsWith("share.") ? [name.slice("share.".length)] : []));
    const stack = names.map((name): [string, number] => [name, (cpi * this.column(`share.${name}`)![at]!) / this.data.share_of]);
    const seconds = this.column("seconds")?.[at] ?? cycles / value("core_clock");
    return { prediction: { cycles, seconds, cpi, cpi_stack: Object.fromEntries(stack), bound_by: bound }, bound };
  }

  // The places of the settings `asked` by key, and what had to change because it was not computed. `moved` is the key that stays.
  places(asked: Record<string, string | undefined>, moved = ""): { places: Places; unknown: string[] } {
    const places: Places = new Map(this.own), unknown: string[] = [];
    for (const axis of this.data.axes) {
      const setting = asked[axis.key];
      if (!setting) continue;
      const at = axis.settings.findIndex((each) => squeezed(each) === squeezed(setting));
      if (at >= 0) places.set(axis.key, at);
      else unknown.push(`${axis.key}=${setting} was not computed`);
    }
    if (this.point(places) !== undefined) return { places, unknown };
    const nearest = this.data.geometries.reduce((best, each) => (this.away(each, places, moved) < this.away(best, places, moved) ? each : best));
    this.simulated.forEach((axis, k) => {
      if (nearest[k] === places.get(axis.key)) return;
      places.set(axis.key, nearest[k]!);
      unknown.push(`${axis.label} went to ${axis.settings[nearest[k]!]}: not computed together`);
    });
    return { places, unknown };
  }

  // How far a geometry is from what is asked: the slider that is moved stays, others rather go back to the GPU's own.
  private away(geometry: number[], places: Places, moved: string): number {
    return this.simulated.reduce((sum, axis, k) =>
      sum + (geometry[k] === places.get(axis.key) ? 0 : axis.key === moved ? 1000 : geometry[k] === axis.own ? 1 : 1.5), 0);
  }

  // The settings at these places that differ from the GPU's own, by key.
  changes(places: Places): Record<string, string> {
    const changed = this.data.axes.filter((axis) => places.get(axis.key) !== axis.own);
    return Object.fromEntries(changed.map((axis) => [axis.key, axis.settings[places.get(axis.key)!]!]));
  }
}

const squeezed = (text: string): string => text.replace(/\s/g, "").toLowerCase();
