// The page: what is asked, when, and what is shown. A change is asked about a moment after the last one; the last one wins.

import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Result } from "./answer";
import { Designs } from "./designs";
import { Editor } from "./editor";
import { Form } from "./form";
import {
  type Answer, type LaunchForm, type Problem, type Question, Refused, type Start, type Told, type Version, ask, start, version, versions,
} from "./protocol";
import { Tabs } from "./tabs";
import { Versions } from "./versions";
import "./style.css";

const PAUSE_MS = 400;

interface Shown {
  run: string | null;
  form: LaunchForm | null;
  answer: Answer | null;
  complete: boolean;
  problem: Problem | null;
  doing: string;
}

const NOTHING: Shown = { run: null, form: null, answer: null, complete: false, problem: null, doing: "" };

function next(shown: Shown, { kind, data }: Told): Shown {
  switch (kind) {
    case "run":
      return { ...shown, run: data };
    case "form":
      return { ...shown, form: data, problem: null };
    case "progress":
      return { ...shown, doing: data.total ? `${data.stage}: ${Math.floor((100 * data.done) / data.total)} %` : data.stage };
    case "first":
    case "result":
      return { ...shown, answer: data, complete: kind === "result", problem: null, doing: kind === "result" ? "" : "advice" };
    case "error":
      return { ...shown, run: null, problem: data, doing: "" };
    default:
      return shown;
  }
}

// What is being written outlives the server and the page: the browser keeps it, for each project.
function draft(begin: Start): Question | null {
  try {
    return { ...begin.examples[0]!.question, ...(JSON.parse(localStorage.getItem(begin.project) ?? "") as Partial<Question>) };
  } catch {
    return null;
  }
}

function Explorer({ begin }: { begin: Start }) {
  const [question, setQuestion] = useState<Question>(() => draft(begin) ?? begin.examples[0]!.question);
  const [shown, setShown] = useState<Shown>(NOTHING);
  const [kept, setKept] = useState<Version[]>([]);
  const [tab, setTab] = useState("GPUs");
  const place = useRef<HTMLDivElement>(null);
  const editor = useRef<Editor | null>(null);
  // a change asks for the prediction alone; the simulator is asked again by its button
  const change = (part: Partial<Question>) => setQuestion((before) => ({ ...before, simulator: false, ...part }));

  useEffect(() => {
    // the text that an example or a version brings comes back from the editor as it is, and is no new question
    editor.current = new Editor(place.current!, (source) =>
      setQuestion((was) => (was.source === source ? was : { ...was, source, simulator: false })));
    void versions().then(setKept);
  }, []);

  useEffect(() => {
    editor.current!.text = question.source;
    localStorage.setItem(begin.project, JSON.stringify(question));
    const stop = new AbortController();
    const told = (event: Told) => {
      setShown((before) => next(before, event));
      if (event.kind === "result") void versions().then(setKept);
    };
    const timer = setTimeout(() => {
      setShown((before) => ({ ...before, run: null }));
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

  const open = (number: number) =>
    void version(number).then((found) => {
      setShown({ ...NOTHING, answer: { document: found.document, printed: "", version: number }, complete: true });
      setQuestion(found.question);
    });
  const report = shown.complete && !shown.problem ? kept.find((each) => each.number === shown.answer?.version) : undefined;

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
        <section aria-label="Answer">
          {shown.problem && <Refusal problem={shown.problem} />}
          {shown.answer && !shown.problem && (
            <Result answer={shown.answer} complete={shown.complete} simulate={() => change({ simulator: true })} />
          )}
        </section>
        <section aria-label="Launch">
          <Form form={shown.form} question={question} start={begin} change={change} />
        </section>
        <div class="tabs">
          <Tabs label="More" shown={tab} show={setTab} tabs={[
            { name: "GPUs", content: shown.answer && !shown.problem
              ? <Designs run={shown.run} gpu={question.gpu} overrides={question.overrides} own={shown.answer.document.predictions[0]} start={begin}
                  adopt={(overrides) => change({ overrides })} />
              : <p>There is no answer yet.</p> },
            { name: "Report", content: report && tab === "Report"
              ? <iframe key={`${report.number} ${report.created}`} title={`Report of version ${report.number}`} src={`${report.page}#code`} sandbox="allow-scripts" />
              : <p>The report follows the whole answer.</p> },
            { name: "Versions", content: <Versions kept={kept} open={open} /> },
          ]} />
        </div>
      </main>
    </>
  );
}

const lost: Problem = {
  kind: "Lost", what: "the server does not answer", place: "",
  remedy: "start `warpsight serve` again, and open its new URL: the versions and the text are kept", lines: [],
};

function Refusal({ problem }: { problem: Problem }) {
  return (
    <div role="alert">
      <pre>{problem.place ? `${problem.place}: ${problem.what}` : problem.what}</pre>
      {problem.remedy && <p>{problem.remedy}</p>}
    </div>
  );
}

start().then(
  (begin) => {
    document.head.append(Object.assign(document.createElement("style"), { textContent: begin.paints }));
    render(<Explorer begin={begin} />, document.getElementById("page")!);
  },
  (error: unknown) => render(<Refusal problem={error instanceof Refused ? error.problem : lost} />, document.getElementById("page")!),
);
