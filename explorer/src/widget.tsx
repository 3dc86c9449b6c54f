// The explorer in a notebook: one answered kernel as an anywidget, which asks the notebook's Python by messages.

import { render as draw } from "preact";
import { useState } from "preact/hooks";
import { Accesses } from "./accesses";
import { Result } from "./answer";
import { Designs } from "./designs";
import { percent } from "./figures";
import { type Answer, type Asking, type Choices, type Problem, Refused, type SourceRow, problemOf } from "./protocol";
import style from "./style.css?inline";

interface Line extends SourceRow {
  file: string;
  text: string;
  accesses: boolean; // it accesses memory
}

interface Shown {
  answer: Answer;
  lines: Line[];
  gpu: string;
  choices: Choices;
}

type Reply = { id: string; answer: unknown } | { id: string; error: Problem };

// What anywidget gives.
interface Model {
  get(name: "shown"): Shown;
  send(message: object): void;
  on(event: "msg:custom", heard: (reply: Reply) => void): void;
  off(event: "msg:custom", heard: (reply: Reply) => void): void;
}

// All views of a widget hear all replies: those to other views have ids that this one does not wait for.
type AskAccesses = (file: string, line: number) => Promise<string>;

interface Asks {
  asking: Asking;
  accesses: AskAccesses;
  simulation: () => Promise<number>; // seconds
  stop: () => void;
}

function askingBy(model: Model): Asks {
  const waiting = new Map<string, (reply: Reply) => void>();
  const heard = (reply: Reply) => {
    waiting.get(reply.id)?.(reply);
    waiting.delete(reply.id);
  };
  const ask = <T,>(kind: string, data: object) =>
    new Promise<T>((found, refused) => {
      const id = String(Math.random());
      waiting.set(id, (reply) => ("error" in reply ? refused(new Refused(reply.error)) : found(reply.answer as T)));
      model.send({ id, kind, data });
    });
  model.on("msg:custom", heard);
  return {
    asking: {
      keys: (gpu, overrides) => ask("keys", { gpu, overrides }),
      settings: (gpu, overrides, keys) => ask("settings", { gpu, overrides, keys }),
      predict: (_, designs) => ask("designs", { designs }),
    },
    accesses: (file, line) => ask("accesses", { file, line }),
    simulation: () => ask("simulation", {}),
    stop: () => model.off("msg:custom", heard),
  };
}

// The answer, to which the simulator's is added.
function Simulated({ answer, simulation }: { answer: Answer; simulation: () => Promise<number> }) {
  const [seconds, found] = useState<number | null>(null);
  const [told, tell] = useState("");
  const simulate = () => {
    tell("The simulator runs …");
    simulation().then((time) => { found(time); tell(""); }, (error: unknown) => tell(problemOf(error).what));
  };
  const references = seconds === null ? {} : { references: [{ kind: "simulation", seconds }] };
  return (
    <>
      <Result answer={{ ...answer, document: { ...answer.document, ...references } }} complete simulate={told ? undefined : simulate} />
      <p role="status">{told}</p>
    </>
  );
}

// The editor of the explorer would be 450 KB in each notebook, for text that nobody edits.
function Heat({ lines, accesses }: { lines: Line[]; accesses: AskAccesses }) {
  const [looked, look] = useState<Line | null>(null);
  return (
    <>
      <div class="scroll" tabIndex={0} role="group" aria-label="Time of each line">
        <table class="lines">
          <caption>Time of each line</caption>
          <thead>
            <tr>{["Line", "Cycles", "Source"].map((title) => <th key={title} scope="col">{title}</th>)}</tr>
          </thead>
          <tbody>
            {lines.map((each) => (
              <tr key={`${each.file}:${each.line}`}>
                <th scope="row" title={each.file}>
                  {each.line}
                  {each.accesses && (
                    <button type="button" aria-label={`Accesses of line ${each.line}`} aria-pressed={each === looked} onClick={() => look(each)}>▸</button>
                  )}
                </th>
                <td class="heat">
                  {each.share >= 0.005 && <span title={each.cause} style={{ "--share": each.share }}>{percent(each.share)}</span>}
                </td>
                <td><code>{each.text}</code></td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {looked && (
        <>
          <h2>Accesses of line {looked.line}</h2>
          <Accesses of={looked.file} line={looked.line} there ask={() => accesses(looked.file, looked.line)} />
        </>
      )}
    </>
  );
}

function render({ model, el }: { model: Model; el: HTMLElement }): () => void {
  const { answer, lines, gpu, choices } = model.get("shown");
  const { asking, accesses, simulation, stop } = askingBy(model);
  const host = el.appendChild(document.createElement("div"));
  host.dataset["lmSuppressShortcuts"] = "true"; // what is typed here is no command of JupyterLab
  const root = host.attachShadow({ mode: "open" }); // the page's styles and the notebook's do not meet
  draw(
    <>
      <style>{style + choices.paints}</style>
      <main>
        <Simulated answer={answer} simulation={simulation} />
        <Heat lines={lines} accesses={accesses} />
        <Designs run="" gpu={gpu} overrides={[]} own={answer.document.predictions[0]} choices={choices} asking={asking} />
      </main>
    </>,
    root,
  );
  return () => {
    stop();
    draw(null, root);
    host.remove();
  };
}

export default { render };
