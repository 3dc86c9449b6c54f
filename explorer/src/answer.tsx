// The answer: time, CPI stack, occupancy, advice, and what the kernel printed.

import type { Advice, Answer, Prediction } from "./protocol";

export function Result({ answer, complete }: { answer: Answer; complete: boolean }) {
  const prediction = answer.document.predictions[0];
  const advice = answer.document.advice?.advice ?? [];
  return (
    <article aria-busy={!complete}>
      <h2>{answer.document.title}</h2>
      <p class="time">
        <strong>{duration(prediction.seconds)}</strong> {Math.round(prediction.cycles).toLocaleString("en")} cycles, bound by{" "}
        {prediction.bound_by}
      </p>
      <Stack prediction={prediction} />
      <p>
        Occupancy {percent(prediction.occupancy)}, limited by {prediction.occupancy_limiter}
      </p>
      {complete ? <AdviceList advice={advice} /> : <p>advice follows …</p>}
      {answer.printed && <pre aria-label="Printed by the kernel">{answer.printed}</pre>}
      {answer.not_kept && <p role="alert">This answer is not kept: {answer.not_kept}</p>}
    </article>
  );
}

function Stack({ prediction }: { prediction: Prediction }) {
  const parts = Object.entries(prediction.cpi_stack).filter(([, size]) => size > 0);
  const spoken = parts.map(([name, size]) => `${name} ${percent(size / prediction.cpi)}`).join(", ");
  return (
    <figure>
      <div class="stack" role="img" aria-label={`CPI stack: ${spoken}`}>
        {parts.map(([name, size]) => (
          <span key={name} class={`paint-${name}`} style={{ flexGrow: size }} title={`${name}: ${percent(size / prediction.cpi)}`} />
        ))}
      </div>
      <figcaption>
        {parts.map(([name, size]) => (
          <span key={name}>
            <i class={`paint-${name}`} /> {name} {percent(size / prediction.cpi)}
          </span>
        ))}
      </figcaption>
    </figure>
  );
}

function AdviceList({ advice }: { advice: Advice[] }) {
  if (advice.length === 0) return <p>No change that is known here would help.</p>;
  return (
    <ul>
      {advice.map((each) => (
        <li key={each.title}>
          {each.title}: {each.at_most ? "< " : ""}{percent(each.gain)}
        </li>
      ))}
    </ul>
  );
}

export function percent(share: number): string {
  return `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;
}

export function duration(seconds: number): string {
  const [size, unit] = seconds < 1e-3 ? [1e6, "µs"] : seconds < 1 ? [1e3, "ms"] : [1, "s"];
  return `${(seconds * size).toPrecision(4)} ${unit}`;
}
