// What the server says and takes (src/warpsight/explorer/server.py), and the calls. No other file knows a URL.

export type Language = "cuda" | "ptx" | "python";

export interface Question {
  source: string;
  language: Language;
  kernel: string;
  grid: string;
  block: string;
  shared: string;
  args: Record<string, string>;
  gpu: string;
  overrides: string[];
  model: string;
  simulator: boolean;
}

export interface Field {
  name: string;
  type: string;
  value: string;
  given: boolean;
  about: string;
}

export interface LaunchForm {
  kernels: string[];
  kernel: string;
  dimensions: Field[];
  parameters: Field[];
  unused: string[];
}

export interface LineMessage {
  line: number;
  severity: "error" | "warning";
  message: string;
}

export interface Problem {
  kind: string;
  what: string;
  place: string;
  remedy: string;
  lines: LineMessage[];
}

export interface Prediction {
  gpu: string;
  model: string;
  cycles: number;
  seconds: number;
  cpi: number;
  cpi_stack: Record<string, number>;
  bound_by: string;
  occupancy: number;
  occupancy_limiter: string;
}

export interface SourceRow {
  file: string;
  line: number;
  share: number;
  cause: string;
}

export interface Advice {
  title: string;
  gain: number;
  at_most: boolean; // the gain is a bound
}

// The parts of the report's data that the page reads; docs/reference/report.md has them all.
export interface ReportData {
  title: string;
  predictions: [Prediction, ...Prediction[]];
  references?: { kind: string; seconds: number }[];
  code?: { source?: { rows: SourceRow[] } };
  advice?: { advice: Advice[] };
}

export interface Answer {
  document: ReportData;
  printed: string;
  version?: number;
  not_kept?: string;
}

export interface Progress {
  stage: string;
  done: number;
  total: number;
}

// What the server tells, and `run`, which says what the answer is called.
export type Told =
  | { kind: "run"; data: string }
  | { kind: "form"; data: LaunchForm }
  | { kind: "note"; data: string }
  | { kind: "progress"; data: Progress }
  | { kind: "first"; data: Answer }
  | { kind: "result"; data: Answer }
  | { kind: "error"; data: Problem }
  | { kind: "cancelled"; data: object };

export interface Start {
  version: string;
  project: string;
  gpus: { name: string; title: string }[];
  models: string[];
  paints: string;
  examples: { name: string; title: string; question: Question }[];
  languages: Language[];
  sliders: string[]; // the keys that have one from the beginning
}

export interface Design {
  gpu: string;
  overrides: string[];
}

export interface KeyRow {
  key: string;
  meaning: string;
  value: string;
  live: boolean; // the model alone reads it
}

export interface Settings {
  key: string;
  settings: string[];
  own: number;
}

export interface ChangedRow {
  kind: "equal" | "replace" | "delete" | "insert";
  before: { line: number; text: string } | null;
  after: { line: number; text: string } | null;
}

export interface Changes {
  numbers: [number, number];
  predictions: [Prediction, Prediction];
  text: ChangedRow[][];
  question: { name: string; before: string; after: string }[];
}

export interface Version {
  number: number;
  created: string;
  kernel: string;
  gpu: string;
  model: string;
  seconds: number;
  cycles: number;
  bound_by: string;
  simulated: number | null;
  page: string; // the path of its report, for a frame
}

export interface FoundResult {
  ident: string;
  name: string;
  stamp: string; // another one when the file has changed
  changed: number; // seconds since 1970
  kernel: string;
  gpu: string;
  model: string;
  seconds: number | null;
  bound_by: string;
  comparable: boolean;
}

export interface Found {
  results: FoundResult[];
  others: { name: string; why: string }[];
}

// The token is behind the # of the URL that the server has printed, which no browser sends anywhere.
const token = location.hash.slice(1);
const session = crypto.randomUUID();

export class Refused extends Error {
  constructor(readonly problem: Problem) {
    super(problem.what);
  }
}

export const lost: Problem = {
  kind: "Lost", what: "the server does not answer", place: "",
  remedy: "start `warpsight serve` again, and open its new URL: the versions and the text are kept", lines: [],
};

export const problemOf = (error: unknown): Problem => (error instanceof Refused ? error.problem : lost);

// What the page looks up by itself: a server that has ended is told by what somebody asks.
export function lookUp<T>(asked: Promise<T>, found: (answer: T) => void): void {
  asked.then(found, () => {});
}

async function call(path: string, init: RequestInit = {}): Promise<Response> {
  const answer = await fetch(`api/${path}`, { ...init, headers: { Authorization: `Bearer ${token}`, ...init.headers } });
  if (!answer.ok) throw new Refused(((await answer.json()) as { error: Problem }).error);
  return answer;
}

async function json<T>(path: string): Promise<T> {
  return (await (await call(path)).json()) as T;
}

export const start = (): Promise<Start> => json<Start>("start");
export const versions = (): Promise<Version[]> => json<Version[]>("versions");
export const version = (number: number): Promise<{ question: Question; document: ReportData }> => json(`versions/${number}`);
export const report = async (number: number): Promise<Blob> => (await call(`versions/${number}/report`)).blob();

export const results = (): Promise<Found> => json<Found>("results");
// The path of the report of one result, or of two compared.
export const resultPage = async (idents: string[]): Promise<string> => (await json<{ page: string }>(`results/${idents.join("+")}`)).page;
export const changes = (before: number, after: number): Promise<Changes> => json(`changes/${before}/${after}`);
export const keys = (gpu: string, overrides: string[]): Promise<KeyRow[]> => json(`gpus/${gpu}/keys?${query("set", overrides)}`);
export const settings = (gpu: string, overrides: string[], wanted: string[]): Promise<Settings[]> =>
  json(`gpus/${gpu}/settings?${query("set", overrides)}&${query("key", wanted)}`);

const query = (name: string, values: string[]): string => values.map((value) => `${name}=${encodeURIComponent(value)}`).join("&");

// The kernel of an answer on other GPUs.
export async function predict(run: string, designs: Design[]): Promise<(Prediction | { error: Problem })[]> {
  const answer = await call(`runs/${run}/designs`, { method: "POST", body: JSON.stringify({ designs }) });
  return ((await answer.json()) as { designs: (Prediction | { error: Problem })[] }).designs;
}

// Asks, and gives every event as it comes. What this page asked before is cancelled by the server; `signal` stops listening.
export async function ask(question: Question, signal: AbortSignal, told: (event: Told) => void): Promise<void> {
  const body = JSON.stringify({ session, question });
  const { run } = (await (await call("runs", { method: "POST", body, signal })).json()) as { run: string };
  told({ kind: "run", data: run });
  const stream = (await call(`runs/${run}/events`, { signal })).body!.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (let part = await stream.read(); !part.done; part = await stream.read()) {
    text += part.value;
    const events = text.split("\n\n");
    text = events.pop()!;
    for (const event of events) {
      const kind = /^event: (.*)$/m.exec(event)?.[1];
      const data = /^data: (.*)$/m.exec(event)?.[1];
      if (kind && data) told({ kind, data: JSON.parse(data) } as Told);
    }
  }
}
