// Sliders over keys of a GPU, and what they come to: in the explorer and the widget, where Python predicts any value, and in the
// report, which has a grid of them.

import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Components, type Side, Times } from "./stack";

export interface Axis {
  key: string;
  label: string;
  quiet?: string; // beside the label
  about?: string;
  settings: string[];
  own: number;
  marks?: string[]; // below the settings
}

interface Props {
  axes: Axis[];
  values: Record<string, string>; // the settings that differ from the GPU's own, by key
  given: string[]; // changes of the GPU that no slider makes
  change: (axis: Axis, value: string) => void;
  reset: () => void;
  exact: boolean; // values between the settings, too
  caption: string;
  sides: Side[];
  open: boolean; // shows the table of components at once
  note?: string;
  children?: ComponentChildren; // more tools
}

export function WhatIf({ axes, values, given, change, reset, exact, caption, sides, open, note, children }: Props) {
  const changes = [...given, ...Object.entries(values).map(([key, value]) => `${key}=${value}`)].map((each) => `--set '${each}'`);
  return (
    <div class="what-if">
      <form class="sliders" aria-label="The GPU" onSubmit={(event) => event.preventDefault()}
        // `0` is a digit where values are typed
        onKeyDown={(event) => { if (event.key === "0" && (event.target as HTMLInputElement).type === "range") { event.preventDefault(); reset(); } }}>
        {axes.map((axis) => (
          <Slider key={axis.key} axis={axis} value={values[axis.key] ?? axis.settings[axis.own]!} exact={exact} change={(value) => change(axis, value)} />
        ))}
        <p class="tools">
          <button type="button" id="what-if-back" onClick={reset}>Reset the sliders</button>
          {children}
        </p>
      </form>
      <div class="outcome">
        <Times caption={caption} sides={sides} />
        {note && <p class="quiet">{note}</p>}
        <p class="quiet">The same on the command line: <code id="what-if-set">{changes.join(" ") || "no change"}</code></p>
        <details open={open}><summary>CPI by component</summary><Components sides={sides} /></details>
      </div>
    </div>
  );
}

const SCALES: Record<string, number> = {
  p: 1e-12, n: 1e-9, u: 1e-6, m: 1e-3, k: 1e3, K: 1e3, M: 1e6, G: 1e9, T: 1e12, Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40,
};

// A quantity such as `1.41 GHz` in its base unit; NaN of a word.
function amount(text: string): number {
  const found = /^\s*(\d[\d.]*(?:e[+-]?\d+)?)\s*([pnumkKMGT]i?)?/.exec(text);
  return found ? Number(found[1]) * (SCALES[found[2] ?? ""] ?? 1) : NaN;
}

// The setting that is next to a value between two of them.
function nearest({ settings, own }: Axis, value: string): number {
  const away = settings.map((each) => Math.abs(amount(each) - amount(value)));
  return away.some(Number.isNaN) ? own : away.indexOf(Math.min(...away));
}

function Slider({ axis, value, exact, change }: { axis: Axis; value: string; exact: boolean; change: (value: string) => void }) {
  const at = axis.settings.indexOf(value), last = axis.settings.length - 1, ident = `what-if-${axis.key}`;
  const mark = axis.marks && at >= 0 && at !== axis.own ? ` (${axis.marks[at]})` : "";
  const [typed, setTyped] = useState(value); // what is being typed stays while an answer comes
  useEffect(() => setTyped(value), [value]);
  return (
    <div class={at === axis.own ? "slider" : "slider moved"}>
      <span><label for={ident} title={axis.about}>{axis.label}</label>{axis.quiet && <span class="quiet"> {axis.quiet}</span>}</span>
      {exact ? (
        <input type="text" aria-label={`${axis.key}, exact value`} value={typed} spellcheck={false}
          onInput={(event) => setTyped(event.currentTarget.value)} onChange={(event) => change(event.currentTarget.value)} />
      ) : (
        <output for={ident}>{value + mark}</output>
      )}
      <input type="range" id={ident} min={0} max={last} step={1} value={at < 0 ? nearest(axis, value) : at} aria-valuetext={value + mark}
        disabled={last < 1} onInput={(event) => change(axis.settings[Number(event.currentTarget.value)]!)} />
      {axis.marks && (
        <div class="marks" aria-hidden="true">
          {axis.marks.map((each, place) => <span key={place} style={{ left: `${((100 * place) / last).toFixed(2)}%` }}>{each}</span>)}
        </div>
      )}
    </div>
  );
}
