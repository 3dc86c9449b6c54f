// The explorer in a notebook: one answered kernel as an anywidget, which asks the notebook's Python by messages.

import { render as draw } from "preact";
import { Result } from "./answer";
import { Designs } from "./designs";
import { percent } from "./figures";
import { type Answer, type Asking, type Choices, type Problem, Refused, type SourceRow } from "./protocol";
import style from "./style.css?inline";

interface Line extends SourceRow {
  file: string;
  text: string;
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
function askingBy(model: Model): { asking: Asking; stop: () => void } {
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
    stop: () => model.off("msg:custom", heard),
  };
}

// The editor of the explorer would be 450 KB in each notebook, for text that nobody edits.
function Heat({ lines }: { lines: Line[] }) {
  return (
    <div class="scroll" tabIndex={0} role="group" aria-label="Time of each line">
      <table class="lines">
        <caption>Time of each line</caption>
        <thead>
          <tr>{["Line", "Cycles", "Source"].map((title) => <th key={title} scope="col">{title}</th>)}</tr>
        </thead>
        <tbody>
          {lines.map((each) => (
            <tr key={`${each.file}:${each.line}`}>
              <th scope="row" title={each.file}>{each.line}</th>
              <td class="heat">
                {each.share >= 0.005 && <span title={each.cause} style={{ "--share": each.share }}>{percent(each.share)}</span>}
              </td>
              <td><code>{each.text}</code></td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function render({ model, el }: { model: Model; el: HTMLElement }): () => void {
  const { answer, lines, gpu, choices } = model.get("shown");
  const { asking, stop } = askingBy(model);
  const host = el.appendChild(document.createElement("div"));
  host.dataset["lmSuppressShortcuts"] = "true"; // what is typed here is no command of JupyterLab
  const root = host.attachShadow({ mode: "open" }); // the page's styles and the notebook's do not meet
  draw(
    <>
      <style>{style + choices.paints}</style>
      <main>
        <Result answer={answer} complete />
        <Heat lines={lines} />
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
