// The page: what is asked, when, and what is shown. A change is asked about a moment after the last one; the last one wins.

import { render } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Accesses } from "./accesses";
import { Result } from "./answer";
import { accesses, ask, asking, cancel, results, save, see, seen, start, version, versions } from "./calls";
import { Designs } from "./designs";
import { Editor } from "./editor";
import { Form } from "./form";
import { type Answer, type LaunchForm, type Problem, type Question, type Start, type Told, type Version, lookUp, problemOf } from "./protocol";
import { Results } from "./results";
import { Tabs } from "./tabs";
import { Versions } from "./versions";
import "./style.css";

const PAUSE_MS = 400;
const LOOK_MS = 2000;
const ACCESSES = "Accesses";
const PAGES = ["Kernel", "Versions", "Results"];

const KEYS: [string, string][] = [
  ["Ctrl+Enter", "in the text: predict it again, also after Stop"], ["F8", "in the text: the next error"],
  ["Ctrl+Z", "in the text: undo, also of an example or a version that has replaced the text"],
  ["Alt+↓", "opens a list of choices, Enter takes one"], ["← →", "on a tab, the next one; on a slider, the next setting"],
];

interface Begin extends Start {
  page: string;
  wanted: number; // the version to open; 0: none
}

interface Shown {
  run: string | null;
  form: LaunchForm | null;
  answer: Answer | null;
  complete: boolean;
  problem: Problem | null;
  doing: string;
}

const NOTHING: Shown = { run: null, form: null, answer: null, complete: false, problem: null, doing: "" };

const STOPPED: Problem = { kind: "Stopped", what: "stopped", place: "", remedy: "change the text or the launch, or press Ctrl+Enter in the text, to predict it again", lines: [] };

const HEADS: Record<string, string> = {
  CompileError: "The compiler refuses it", LaunchFault: "The kernel fails as it runs", LimitError: "It takes too much",
  UnsupportedError: "Not modelled", Lost: "No connection", Stopped: "Stopped",
};

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
    case "advice":
      if (shown.answer === null) return shown;
      return { ...shown, answer: { ...shown.answer, document: { ...shown.answer.document, advice: data } }, doing: "report" };
    case "error":
      return { ...shown, run: null, problem: data, doing: "" };
    case "cancelled":
      return { ...shown, run: null, problem: STOPPED, doing: "" };
    default:
      return shown;
  }
}

// A kernel that the text no longer names is not asked for.
function retold(question: Question, source: string): Question {
  const name = question.kernel.split("<", 1)[0]!.split("::").pop()!;
  return { ...question, source, simulator: false, kernel: source.includes(name) ? question.kernel : "" };
}

// Values that were given for another kernel say nothing of one that has none of its parameters: they are suggested anew.
function ofAnother(question: Question, form: LaunchForm): boolean {
  const given = Object.keys(question.args);
  return given.length > 0 && given.every((name) => form.unused.includes(name)) && form.kernel !== "";
}

// What is being written outlives the server and the page: the browser keeps it, for each project.
function draft(begin: Start): Question | null {
  try {
    return { ...begin.examples[0]!.question, ...(JSON.parse(localStorage.getItem(begin.project) ?? "") as Partial<Question>) };
  } catch {
    return null;
  }
}

function Explorer({ begin }: { begin: Begin }) {
  const [question, setQuestion] = useState<Question>(() => draft(begin) ?? begin.examples[0]!.question);
  const [shown, setShown] = useState<Shown>(NOTHING);
  const [kept, setKept] = useState<Version[]>([]);
  const [page, setPage] = useState(begin.page);
  const [asked, setAsked] = useState(0); // how often the same question was asked again
  const [pair, setPair] = useState((seen().get("compare") ?? "").split(",").map(Number).filter(Boolean).slice(-2));
  const [tab, setTab] = useState(begin.reading ? ACCESSES : "GPUs");
  const [line, setLine] = useState(1); // of the cursor
  // a folder of results is read without any question being asked, and readers ask none
  const [visited, setVisited] = useState(begin.page === "Kernel" && !begin.reading);
  const place = useRef<HTMLDivElement>(null);
  const editor = useRef<Editor | null>(null);
  const answered = useRef<Question | null>(null); // what the answer is of
  // a change asks for the prediction alone; the simulator is asked again by its button
  const change = (part: Partial<Question>) => setQuestion((before) => ({ ...before, simulator: false, ...part }));

  useEffect(() => {
    editor.current = new Editor(place.current!, question.source, begin.reading, (source) => setQuestion((before) => retold(before, source)), () => setAsked((times) => times + 1), (looked, pressed) => {
      setLine(looked);
      if (pressed) setTab(ACCESSES);
    });
    if (begin.wanted) void open(begin.wanted);
  }, []);

  // a version is named no longer than its text and launch stay as they are: a reload must not bring it back over what was typed
  useLayoutEffect(() => {
    const opened = page === "Kernel" && shown.complete && answered.current === question ? String(shown.answer?.version ?? "") : "";
    see({ page: opened ? "" : page, version: opened, compare: page === "Versions" ? pair.join(",") : "" });
  }, [page, pair, shown, question]);

  // other tabs of a browser, and other browsers, add versions
  useEffect(() => {
    lookUp(versions(), setKept);
    if (page !== "Versions") return;
    const timer = setInterval(() => lookUp(versions(), setKept), LOOK_MS);
    return () => clearInterval(timer);
  }, [page]);

  // before the next event: whoever leaves right after a key was pressed finds its letter again
  useLayoutEffect(() => {
    if (visited) localStorage.setItem(begin.project, JSON.stringify(question));
  }, [question, visited]);

  useEffect(() => {
    if (!visited) return;
    const stop = new AbortController();
    const told = (event: Told) => {
      if (event.kind === "result") answered.current = question;
      setShown((before) => next(before, event));
      if (event.kind === "form" && ofAnother(question, event.data)) change({ grid: "", block: "", shared: "", args: {} });
      if (event.kind === "result") lookUp(versions(), setKept);
    };
    const timer = setTimeout(() => {
      setShown((before) => ({ ...before, run: null, doing: "compiling" }));
      ask(question, stop.signal, told).catch((error: unknown) => {
        if (!stop.signal.aborted) told({ kind: "error", data: problemOf(error) });
      });
    }, PAUSE_MS);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [question, visited, asked]);

  useEffect(() => {
    editor.current!.language = question.language;
  }, [question.language]);

  useEffect(() => {
    editor.current!.messages = shown.problem?.lines ?? [];
    editor.current!.rows = shown.problem ? [] : (shown.answer?.document.rows ?? []);
    editor.current!.accesses = shown.problem ? [] : (shown.answer?.document.accesses ?? []);
  }, [shown.problem, shown.answer]);

  const show = (name: string) => {
    setPage(name);
    if (name === "Kernel" && !begin.reading) setVisited(true);
  };
  // only what is brought goes into the editor: what is typed is there already, and further on than the question
  const bring = (brought: Question) => {
    show("Kernel");
    editor.current!.text = brought.source;
    setQuestion(brought);
  };
  const open = (number: number): Promise<void> =>
    version(number).then((found) => {
      answered.current = found.question;
      setShown({ ...NOTHING, answer: { document: found.document, printed: "", version: number }, complete: true });
      bring(found.question);
    }, (error: unknown) => {
      show("Kernel");
      setShown((before) => next(before, { kind: "error", data: problemOf(error) }));
    });
  const report = shown.complete && !shown.problem ? kept.find((each) => each.number === shown.answer?.version) : undefined;
  const accessing = report ? (shown.answer?.document.accesses ?? []) : [];

  const kernel = (
    <div class="kernel">
      <section aria-label="Kernel" ref={place} />
      <section aria-label="Answer">
        {shown.problem && <Refusal problem={shown.problem} busy={shown.doing !== ""} go={(number) => editor.current!.go(number)} />}
        {!shown.problem && !shown.answer && <p class="quiet">{begin.reading ? "" : "The answer comes here: time, CPI stack, and what would make the kernel faster."}</p>}
        {shown.answer && !shown.problem && (
          <Result answer={shown.answer} complete={shown.complete} simulate={begin.reading ? undefined : () => change({ simulator: true })}
            save={(number) => void save(number).catch((error: unknown) => setShown((before) => next(before, { kind: "error", data: problemOf(error) })))} />
        )}
      </section>
      <section aria-label="Launch">
        {begin.reading ? <p>This address is for reading: open a version.</p> : <Form form={shown.form} question={question} start={begin} wrong={shown.problem?.place ?? ""} change={change} />}
      </section>
      <div class="wide">
        <Tabs label="More about the answer" shown={tab} show={setTab} tabs={[
          ...(begin.reading ? [] : [{ name: "GPUs", content: shown.answer && !shown.problem
            ? <Designs run={shown.run} gpu={question.gpu} overrides={question.overrides} own={shown.answer.document.predictions[0]}
                choices={begin} asking={asking} adopt={(overrides) => change({ overrides })} />
            : <p class="quiet">Sliders over the GPU, and other GPUs, follow the first answer.</p> }]),
          { name: ACCESSES, content: (
            <>
              {!accessing.includes(line) && (
                <p>
                  {!report ? "They follow the whole answer." : accessing.length === 0 ? "No line of the text accesses memory."
                    : `Put the cursor on a line that accesses memory (▸): ${accessing.join(", ")}.`}
                </p>
              )}
              <Accesses of={String(report?.number)} line={line} there={accessing.includes(line)} ask={() => accesses(report!.number, line)} />
            </>
          ) },
          { name: "Report", content: report && tab === "Report"
            ? <iframe key={`${report.number} ${report.created}`} title={`Report of version ${report.number}`} src={`${report.page}#code`} sandbox="allow-scripts" />
            : <p>The report follows the whole answer.</p> },
        ]} />
      </div>
    </div>
  );
  return (
    <>
      <header>
        <h1>Warpsight explorer</h1>
        {!begin.reading && <label>
          Example{" "}
          <select value="" onKeyDown={(event) => {
            if (!/^Arrow(Up|Down)$/.test(event.key) || event.altKey) return; // would take the first example at once
            event.preventDefault();
            event.currentTarget.showPicker?.();
          }} onChange={(event) => {
            setShown(NOTHING);
            bring(begin.examples[event.currentTarget.selectedIndex - 1]!.question);
          }}>
            <option value="" disabled>begin with …</option>
            {begin.examples.map((each) => <option key={each.name} value={each.name}>{each.title}</option>)}
          </select>
        </label>}
        <details class="keys">
          <summary>Keys</summary>
          <dl>{KEYS.map(([key, does]) => <div key={key}><dt><kbd>{key}</kbd></dt><dd>{does}</dd></div>)}</dl>
        </details>
        <output aria-live="polite">{shown.doing}</output>
        {shown.doing !== "" && shown.run !== null && <button type="button" onClick={() => lookUp(cancel(shown.run!), () => {})}>Stop</button>}
        {shown.doing !== "" && <div class="busy" aria-hidden="true" />}
      </header>
      <main>
        <Tabs label="Pages" shown={page} show={show} tabs={[
          { name: "Kernel", content: kernel },
          { name: "Versions", content: <Versions kept={kept} open={open} ticked={pair} setTicked={setPair} /> },
          { name: "Results", content: <Results shown={page === "Results"} /> },
        ]} />
      </main>
    </>
  );
}

function Refusal({ problem, busy = false, go }: { problem: Problem; busy?: boolean; go?: (line: number) => void }) {
  const lines = [...new Set(problem.lines.map((each) => each.line))];
  return (
    <div role="alert" aria-busy={busy}>
      <h2>{HEADS[problem.kind] ?? "It cannot be predicted"}</h2>
      <pre>{problem.place ? `${problem.place}: ${problem.what}` : problem.what}</pre>
      {problem.remedy && <p>{problem.remedy}</p>}
      {go && lines.length > 0 && (
        <p class="tools">{lines.map((line) => <button key={line} type="button" onClick={() => go(line)}>Go to line {line}</button>)}</p>
      )}
    </div>
  );
}

// A folder of results that has no kernel yet is opened at its results.
async function beginning(): Promise<Begin> {
  const [begin, kept, found] = await Promise.all([start(), versions(), results()]);
  const wanted = Number(seen().get("version"));
  const there = kept.some((each) => each.number === wanted) ? wanted : 0;
  const isRead = found.results.length > 0 && kept.length === 0 && draft(begin) === null;
  const usual = begin.reading ? (kept.length > 0 ? "Versions" : "Results") : isRead ? "Results" : "Kernel";
  const page = PAGES.find((each) => each === seen().get("page")) ?? usual;
  return { ...begin, page: there ? "Kernel" : page, wanted: there };
}

beginning().then(
  (begin) => {
    document.head.append(Object.assign(document.createElement("style"), { textContent: begin.paints }));
    render(<Explorer begin={begin} />, document.getElementById("page")!);
  },
  (error: unknown) => render(<Refusal problem={problemOf(error)} />, document.getElementById("page")!),
);
