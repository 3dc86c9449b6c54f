// What Python says and takes: the server (src/warpsight/explorer/server.py), and the widget of a notebook (widget.py beside it).

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
  line: number;
  share: number;
  cause: string;
}

// Of a resource, how much of its peak is used.
export interface Speed {
  label: string;
  group: "compute" | "memory" | "occupancy";
  percent: number;
}

// What is drawn of the report's data (src/warpsight/explorer/shown.py); docs/reference/report.md has them all.
export interface ReportData {
  title: string;
  predictions: [Prediction];
  references?: { kind: string; seconds: number }[];
  speed_of_light?: Speed[];
  stack: string; // HTML without scripts, as the report has it; so is the advice
  advice?: string;
  rows?: SourceRow[]; // of the kernel's text
  accesses?: number[]; // the lines that access memory
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
  | { kind: "advice"; data: string }
  | { kind: "result"; data: Answer }
  | { kind: "error"; data: Problem }
  | { kind: "cancelled"; data: object };

// What GPUs side by side are chosen from.
export interface Choices {
  gpus: { name: string; title: string }[];
  sliders: string[]; // the keys that have one from the beginning
  paints: string;
}

export interface Start extends Choices {
  reading: boolean; // what is in the folder, and nothing else
  version: string;
  project: string;
  models: string[];
  examples: { name: string; title: string; question: Question }[];
  languages: Language[];
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

// What GPUs side by side ask: by HTTP in the explorer, by messages in a notebook.
export interface Asking {
  keys: (gpu: string, overrides: string[]) => Promise<KeyRow[]>;
  settings: (gpu: string, overrides: string[], wanted: string[]) => Promise<Settings[]>;
  predict: (run: string, designs: Design[]) => Promise<(Prediction | { error: Problem })[]>; // the kernel of an answer
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
