// The versions of the project: a table with their times, one opened, two compared.

import { useEffect, useState } from "preact/hooks";
import { changes, save } from "./calls";
import { duration } from "./figures";
import { type Changes, type ChangedRow, type Version, problemOf } from "./protocol";
import { Times } from "./stack";

export function Versions({ kept, open, ticked, setTicked }: {
  kept: Version[]; open: (number: number) => void; ticked: number[]; setTicked: (numbers: number[]) => void;
}) {
  const [problem, setProblem] = useState("");
  if (kept.length === 0) return <p>No version yet: predict a kernel, and its answer is kept here.</p>;
  const tick = (number: number, on: boolean) => setTicked(on ? [...ticked, number].slice(-2) : ticked.filter((each) => each !== number));
  const pair = ticked.length === 2 ? [...ticked].sort((first, second) => first - second) : null;
  return (
    <>
      <div class="scroll" tabIndex={0} role="group" aria-label="Table of versions">
        <table>
          <caption>Versions; tick two to compare them</caption>
          <thead>
            <tr>
              {["Compare", "Version", "Kernel", "GPU", "Time", "Simulator", "Bound by", "When", "Share"].map((title) => <th key={title} scope="col">{title}</th>)}
            </tr>
          </thead>
          <tbody>
            {[...kept].reverse().map((each) => (
              <tr key={each.number}>
                <td>
                  <input type="checkbox" aria-label={`Compare version ${each.number}`} checked={ticked.includes(each.number)}
                    onChange={(event) => tick(each.number, event.currentTarget.checked)} />
                </td>
                <td><button type="button" onClick={() => open(each.number)}>Open {each.number}</button></td>
                <td>{each.kernel}</td>
                <td>{each.gpu}</td>
                <td>{duration(each.seconds)}</td>
                <td>{each.simulated === null ? "" : duration(each.simulated)}</td>
                <td>{each.bound_by}</td>
                <td><time dateTime={each.created}>{new Date(each.created).toLocaleString()}</time></td>
                <td><button type="button" onClick={() => save(each.number).then(() => setProblem(""), (error: unknown) => setProblem(problemOf(error).what))}>Save the report of {each.number}</button></td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {problem && <p role="alert">The report is not saved: {problem}</p>}
      {pair && pair.every((number) => kept.some((each) => each.number === number)) && <Comparison before={pair[0]!} after={pair[1]!} />}
    </>
  );
}

function Comparison({ before, after }: { before: number; after: number }) {
  const [found, setFound] = useState<Changes | null>(null);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    let current = true;
    setProblem("");
    changes(before, after).then(
      (answer) => current && setFound(answer),
      (error: unknown) => current && setProblem(problemOf(error).what),
    );
    return () => {
      current = false;
    };
  }, [before, after]);
  if (problem) return <p role="alert">{problem}</p>;
  if (found === null) return null;
  const sides = found.predictions.map((prediction, at) => ({ label: `version ${found.numbers[at]}, ${prediction.gpu}`, prediction }));
  return (
    <section aria-label="Comparison">
      <h2>Version {before} and version {after}</h2>
      <Times caption="What it did" sides={sides} />
      {found.question.length > 0 && (
        <table>
          <caption>What changed in the launch and the GPU</caption>
          <thead><tr><th scope="col">What</th><th scope="col">Version {before}</th><th scope="col">Version {after}</th></tr></thead>
          <tbody>
            {found.question.map((row) => <tr key={row.name}><th scope="row">{row.name}</th><td>{row.before}</td><td>{row.after}</td></tr>)}
          </tbody>
        </table>
      )}
      {found.text.length === 0 ? <p>The text is the same.</p> : <Text parts={found.text} before={before} after={after} />}
    </section>
  );
}

function Text({ parts, before, after }: { parts: ChangedRow[][]; before: number; after: number }) {
  return (
    <div class="scroll" tabIndex={0} role="group" aria-label="Changed text">
      <table class="changed">
        <caption>What changed in the text</caption>
        <thead>
          <tr><th scope="col">Line</th><th scope="col">Version {before}</th><th scope="col">Line</th><th scope="col">Version {after}</th></tr>
        </thead>
        {parts.map((rows, part) => (
          <tbody key={part}>
            {rows.map((row, at) => (
              <tr key={at} class={row.kind}>
                <td>{row.before?.line}</td>
                <td class="before">{row.kind !== "equal" && row.before && <span aria-label="removed">- </span>}<code>{row.before?.text}</code></td>
                <td>{row.after?.line}</td>
                <td class="after">{row.kind !== "equal" && row.after && <span aria-label="added">+ </span>}<code>{row.after?.text}</code></td>
              </tr>
            ))}
          </tbody>
        ))}
      </table>
    </div>
  );
}
