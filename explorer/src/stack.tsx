// CPI stacks as bars below each other on one scale, in the explorer, the widget and the report.

import { duration, number, paintClass, percent, whole } from "./figures";

// Of a prediction what is drawn: all have this, those of the server and those of a report's grid.
export interface Drawn {
  cycles: number;
  seconds: number;
  cpi: number;
  cpi_stack: Record<string, number>;
  bound_by: string;
}

export interface Side {
  label: string;
  prediction: Drawn | null; // not there yet
  problem?: string;
}

// One bar with the cells before it; `length` on the common scale.
export interface Row {
  label: string;
  cells: string[];
  stack: Record<string, number> | null;
  length: number;
  problem?: string | undefined;
}

function parts(stack: Record<string, number> | null): [string, number][] {
  return Object.entries(stack ?? {}).filter(([, size]) => size > 0);
}

function Bar({ label, stack, width }: { label: string; stack: Record<string, number>; width: number }) {
  const cpi = parts(stack).reduce((sum, [, size]) => sum + size, 0);
  const told = parts(stack).map(([name, size]) => ({ name, share: size / cpi, tip: `${name}: ${number(size)} CPI, ${percent(size / cpi)}` }));
  return (
    <div class="lying-bar" role="img" aria-label={`CPI stack of ${label}: ${told.map(({ name, share }) => `${name} ${percent(share)}`).join(", ")}`}>
      {told.map(({ name, share, tip }) => <span key={name} class={paintClass(name)} title={tip} style={{ width: `${100 * width * share}%` }} />)}
    </div>
  );
}

export function Stacks({ caption, heads, rows }: { caption: string; heads: string[]; rows: Row[] }) {
  const longest = Math.max(...rows.map((row) => row.length));
  const names = [...new Set(rows.flatMap((row) => parts(row.stack).map(([name]) => name)))];
  return (
    <>
      <div class="scroll" tabIndex={0} role="group" aria-label={caption}>
        <table class="stacks">
          <caption>{caption}</caption>
          <thead>
            <tr>{heads.map((title) => <th key={title} scope="col">{title}</th>)}</tr>
          </thead>
          {rows.map((row) => (
            <tbody key={row.label}>
              <tr>
                <th scope="row">{row.label}</th>
                {row.stack ? row.cells.map((cell, at) => <td key={at}>{cell}</td>) : <td colSpan={heads.length - 1}>{row.problem ?? "…"}</td>}
              </tr>
              {row.stack && <tr><td class="lying" colSpan={heads.length}><Bar label={row.label} stack={row.stack} width={row.length / longest} /></td></tr>}
            </tbody>
          ))}
        </table>
      </div>
      <p class="stack-key">{names.map((name) => <span key={name}><span class={`swatch ${paintClass(name)}`} aria-hidden="true" />{name}</span>)}</p>
    </>
  );
}

// Predictions on one scale of time. The first side is the one that the others are compared with.
export function Times({ caption, sides }: { caption: string; sides: Side[] }) {
  const own = sides[0]?.prediction;
  const rows = sides.map(({ label, prediction, problem }): Row => {
    if (!prediction) return { label, cells: [], stack: null, length: 0, problem };
    const speedup = own ? `${(own.seconds / prediction.seconds).toFixed(2)}x` : "";
    const cells = [duration(prediction.seconds), whole(prediction.cycles), speedup, prediction.bound_by];
    return { label, cells, stack: prediction.cpi_stack, length: prediction.seconds };
  });
  return <Stacks caption={caption} heads={["GPU", "Time", "Cycles", "Speedup", "Bound by"]} rows={rows} />;
}

// What each component adds to the CPI, side by side.
export function Components({ sides }: { sides: Side[] }) {
  const found = sides.flatMap(({ label, prediction }) => (prediction ? [{ label, prediction }] : []));
  const names = [...new Set(found.flatMap(({ prediction }) => Object.keys(prediction.cpi_stack)))];
  const last = found.at(-1);
  if (!last) return null;
  return (
    <div class="scroll" tabIndex={0} role="group" aria-label="CPI by component">
      <table class="components">
        <caption>CPI by component</caption>
        <thead>
          <tr>
            {["Component", ...found.map(({ label }) => label), `Share, ${last.label}`].map((title) => <th key={title} scope="col">{title}</th>)}
          </tr>
        </thead>
        <tbody>
          {names.map((name) => (
            <tr key={name} data-name={name}>
              <th scope="row"><span class={`swatch ${paintClass(name)}`} aria-hidden="true" />{name}</th>
              {found.map(({ label, prediction }) => <td key={label} class="number">{number(prediction.cpi_stack[name] ?? 0)}</td>)}
              <td class="number">{percent((last.prediction.cpi_stack[name] ?? 0) / last.prediction.cpi)}</td>
            </tr>
          ))}
        </tbody>
        <tfoot>
          <tr>
            <th scope="row">CPI</th>
            {found.map(({ label, prediction }) => <td key={label} class="number">{number(prediction.cpi)}</td>)}
            <td class="number">{percent(1)}</td>
          </tr>
        </tfoot>
      </table>
    </div>
  );
}
