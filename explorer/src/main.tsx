// The page: what is asked, when, and what is shown. A change is asked about a moment after the last one; the last one wins.

import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Result, duration } from "./answer";
import { Editor } from "./editor";
import { Form } from "./form";
import {
  type Answer, type LaunchForm, type Problem, type Question, Refused, type Start, type Told, type Version, ask, report, start, version,
  versions,
} from "./protocol";
import "./style.css";

const PAUSE_MS = 400;

interface Shown {
  form: LaunchForm | null;
  answer: Answer | null;
  complete: boolean;
  problem: Problem | null;
  doing: string;
}

const NOTHING: Shown = { form: null, answer: null, complete: false, problem: null, doing: "" };

function next(shown: Shown, { kind, data }: Told): Shown {
  switch (kind) {
    case "form":
      return { ...shown, form: data, problem: null };
    case "progress":
      return { ...shown, doing: data.total ? `${data.stage}: ${Math.floor((100 * data.done) / data.total)} %` : data.stage };
    case "first":
    case "result":
      return { ...shown, answer: data, complete: kind === "result", problem: null, doing: kind === "result" ? "" : "advice" };
    case "error":
      return { ...shown, problem: data, doing: "" };
    default:
      return shown;
  }
}

function Explorer({ begin }: { begin: Start }) {
  const [question, setQuestion] = useState<Question>(begin.examples[0]!.question);
  const [shown, setShown] = useState<Shown>(NOTHING);
  const [kept, setKept] = useState<Version[]>([]);
  const place = useRef<HTMLDivElement>(null);
  const editor = useRef<Editor | null>(null);
  const change = (part: Partial<Question>) => setQuestion((before) => ({ ...before, ...part }));

  useEffect(() => {
    // the text that an example or a version brings comes back from the editor as it is, and is no new question
    editor.current = new Editor(place.current!, (source) => setQuestion((was) => (was.source === source ? was : { ...was, source })));
    void versions().then(setKept);
  }, []);

  useEffect(() => {
    editor.current!.text = question.source;
    const stop = new AbortController();
    const told = (event: Told) => {
      setShown((before) => next(before, event));
      if (event.kind === "result") void versions().then(setKept);
    };
    const timer = setTimeout(() => {
      ask(question, stop.signal, told).catch((error: unknown) => {
        if (stop.signal.aborted) return;
        told({ kind: "error", data: error instanceof Refused ? error.problem : lost });
      });
    }, PAUSE_MS);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [question]);

  useEffect(() => {
    editor.current!.messages = shown.problem?.lines ?? [];
    editor.current!.rows = shown.problem ? [] : (shown.answer?.document.code?.source?.rows ?? []);
  }, [shown.problem, shown.answer]);

  return (
    <>
      <header>
        <h1>Warpsight explorer</h1>
        <label>
          Example{" "}
          <select value="" onChange={(event) => setQuestion(begin.examples[event.currentTarget.selectedIndex - 1]!.question)}>
            <option value="" disabled>begin with …</option>
            {begin.examples.map((each) => <option key={each.name} value={each.name}>{each.title}</option>)}
          </select>
        </label>
        <output aria-live="polite">{shown.doing}</output>
      </header>
      <main>
        <section aria-label="Kernel" ref={place} />
        <section aria-label="Launch">
          <Form form={shown.form} question={question} start={begin} change={change} />
        </section>
        <section aria-label="Answer">
          {shown.problem && <Refusal problem={shown.problem} />}
          {shown.answer && !shown.problem && <Result answer={shown.answer} complete={shown.complete} />}
        </section>
        <section aria-label="Versions">
          <Versions kept={kept} open={(number) => void version(number).then((found) => setQuestion(found.question))} />
        </section>
      </main>
    </>
  );
}

const lost: Problem = {
  kind: "Lost", what: "the server does not answer", place: "", remedy: "start `warpsight serve --explore` again, and open its new URL", lines: [],
};

function Refusal({ problem }: { problem: Problem }) {
  return (
    <div role="alert">
      <pre>{problem.place ? `${problem.place}: ${problem.what}` : problem.what}</pre>
      {problem.remedy && <p>{problem.remedy}</p>}
    </div>
  );
}

function Versions({ kept, open }: { kept: Version[]; open: (number: number) => void }) {
  if (kept.length === 0) return null;
  return (
    <table>
      <caption>Versions</caption>
      <thead>
        <tr>{["Version", "Kernel", "GPU", "Time", "Bound by", "Report"].map((title) => <th key={title} scope="col">{title}</th>)}</tr>
      </thead>
      <tbody>
        {[...kept].reverse().map((each) => (
          <tr key={each.number}>
            <td><button onClick={() => open(each.number)}>{each.number}</button></td>
            <td>{each.kernel}</td>
            <td>{each.gpu}</td>
            <td>{duration(each.seconds)}</td>
            <td>{each.bound_by}</td>
            <td><button onClick={() => void save(each.number)}>save</button></td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

async function save(number: number): Promise<void> {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await report(number));
  link.download = `version-${number}.html`;
  link.click();
  URL.revokeObjectURL(link.href);
}

start().then(
  (begin) => {
    document.head.append(Object.assign(document.createElement("style"), { textContent: begin.paints }));
    render(<Explorer begin={begin} />, document.getElementById("page")!);
  },
  (error: unknown) => render(<Refusal problem={error instanceof Refused ? error.problem : lost} />, document.getElementById("page")!),
);
