// CPI stacks as bars below each other, whose lengths are times on one scale. They follow the sliders.

import { paintClass, percent, duration } from "./figures";
import type { Prediction } from "./protocol";

function parts(prediction: Prediction): [string, number][] {
  return Object.entries(prediction.cpi_stack).filter(([, size]) => size > 0);
}

function spoken(prediction: Prediction): string {
  return parts(prediction).map(([name, size]) => `${name} ${percent(size / prediction.cpi)}`).join(", ");
}

function Bar({ prediction, width = 1 }: { prediction: Prediction; width?: number }) {
  return (
    <div class="stack" role="img" aria-label={`CPI stack: ${spoken(prediction)}`} style={{ width: `${100 * width}%` }}>
      {parts(prediction).map(([name, size]) => (
        <span key={name} class={paintClass(name)} style={{ flexGrow: size }} title={`${name}: ${percent(size / prediction.cpi)}`} />
      ))}
    </div>
  );
}

export interface Side {
  label: string;
  prediction: Prediction | null; // not there yet
  problem?: string;
}

// The first side is the one that the others are compared with.
export function Stacks({ caption, sides }: { caption: string; sides: Side[] }) {
  const longest = Math.max(...sides.map((side) => side.prediction?.seconds ?? 0));
  const own = sides[0]?.prediction;
  const names = [...new Set(sides.flatMap((side) => (side.prediction ? parts(side.prediction).map(([name]) => name) : [])))];
  return (
    <>
      <div class="scroll" tabIndex={0} role="group" aria-label={caption}>
        <table class="stacks">
          <caption>{caption}</caption>
          <thead>
            <tr>{["GPU", "Time", "Speedup", "Bound by", "Stack"].map((title) => <th key={title} scope="col">{title}</th>)}</tr>
          </thead>
          <tbody>
            {sides.map((side) => (
              <tr key={side.label}>
                <th scope="row">{side.label}</th>
                {side.prediction ? (
                  <>
                    <td>{duration(side.prediction.seconds)}</td>
                    <td>{own ? `${(own.seconds / side.prediction.seconds).toFixed(2)}x` : ""}</td>
                    <td>{side.prediction.bound_by}</td>
                    <td class="bar"><Bar prediction={side.prediction} width={side.prediction.seconds / longest} /></td>
                  </>
                ) : (
                  <td colSpan={4}>{side.problem ?? "…"}</td>
                )}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="legend">{names.map((name) => <span key={name}><i class={paintClass(name)} /> {name}</span>)}</p>
    </>
  );
}
