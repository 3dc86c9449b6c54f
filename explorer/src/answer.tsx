// The answer: time, CPI stack, occupancy, advice, and what the kernel printed.

import { duration, percent } from "./figures";
import type { Answer, Speed } from "./protocol";
import { Part } from "./part";

interface Shown {
  answer: Answer;
  complete: boolean;
  simulate?: (() => void) | undefined;
  save?: (number: number) => void; // where there are versions
}

export function Result({ answer, complete, simulate, save }: Shown) {
  const prediction = answer.document.predictions[0];
  const simulated = answer.document.references?.find((each) => each.kind === "simulation");
  return (
    <article aria-busy={!complete}>
      <h2>{answer.document.title}</h2>
      <p class="time">
        <strong>{duration(prediction.seconds)}</strong> {Math.round(prediction.cycles).toLocaleString("en")} cycles, bound by{" "}
        {prediction.bound_by}
      </p>
      {save && complete && answer.version !== undefined && (
        <p class="tools">
          <span class="quiet">Kept as version {answer.version}</span>
          <button type="button" onClick={() => save(answer.version!)}>Save its report as a file</button>
        </p>
      )}
      <Part html={answer.document.stack} label="CPI stack" />
      {answer.document.speed_of_light && <p>Speed of light: {speeds(answer.document.speed_of_light)}</p>}
      <p>Occupancy {percent(prediction.occupancy)}, limited by {prediction.occupancy_limiter}</p>
      {simulated ? (
        <p>
          The simulator takes {duration(simulated.seconds)}; the prediction differs by{" "}
          {(100 * (prediction.seconds / simulated.seconds - 1)).toFixed(1)} %.{answer.version !== undefined && " The report has its timeline."}
        </p>
      ) : (
        complete && simulate && <p><button type="button" onClick={simulate}>Simulate it cycle by cycle</button></p>
      )}
      {answer.document.advice ? <Part html={answer.document.advice} label="Advice" /> : !complete && <p class="quiet">Advice follows …</p>}
      {answer.printed && <pre aria-label="Printed by the kernel">{answer.printed}</pre>}
      {answer.not_kept && <p role="alert">This answer is not kept: {answer.not_kept}</p>}
    </article>
  );
}

// The busiest resource of each kind.
function speeds(rows: Speed[]): string {
  const groups = (["compute", "memory"] as const).flatMap((group) => {
    const most = rows.filter((row) => row.group === group).sort((one, other) => other.percent - one.percent)[0];
    return most ? [`${group} ${percent(most.percent / 100)} (${most.label})`] : [];
  });
  return groups.join(", ");
}
