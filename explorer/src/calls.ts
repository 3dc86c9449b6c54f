// The calls of the explorer's page. No other file knows a URL.

import {
  type Asking, type Changes, type Found, type Prediction, type Problem, type Question, Refused, type ReportData, type Start, type Told, type Version,
} from "./protocol";

// Behind the # of the URL, which no browser sends anywhere, are the token that the server has printed, and what the page shows.
const token = location.hash.slice(1).split("&", 1)[0]!;
// `randomUUID` is only there over HTTPS and on the machine of the server.
const session = [...crypto.getRandomValues(new Uint32Array(4))].map((each) => each.toString(16)).join("-");

// What the page shows is a part of its URL: a reload, a bookmark and a link that is passed on show the same.
export const seen = (): URLSearchParams => new URLSearchParams(location.hash.slice(token.length + 2));
export function see(what: Record<string, string>): void {
  const told = new URLSearchParams(Object.entries(what).filter(([, value]) => value !== "")).toString();
  history.replaceState(null, "", `#${token}${told && `&${told}`}`);
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
export const cancel = async (run: string): Promise<void> => void (await call(`runs/${run}`, { method: "DELETE" }));
export const versions = (): Promise<Version[]> => json<Version[]>("versions");
export const version = (number: number): Promise<{ question: Question; document: ReportData }> => json(`versions/${number}`);
// The memory instructions of a line, as HTML without scripts.
export const accesses = async (number: number, line: number): Promise<string> => (await call(`versions/${number}/accesses/${line}`)).text();
const report = async (number: number): Promise<Blob> => (await call(`versions/${number}/report`)).blob();

export const results = (): Promise<Found> => json<Found>("results");
// The path of the report of one result, or of two compared.
export const resultPage = async (idents: string[]): Promise<string> => (await json<{ page: string }>(`results/${idents.join("+")}`)).page;
export const changes = (before: number, after: number): Promise<Changes> => json(`changes/${before}/${after}`);

// Saves the report of a version as a file, which needs no server.
export async function save(number: number): Promise<void> {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await report(number));
  link.download = `version-${number}.html`;
  link.click();
  URL.revokeObjectURL(link.href);
}

const query = (name: string, values: string[]): string => values.map((value) => `${name}=${encodeURIComponent(value)}`).join("&");

export const asking: Asking = {
  keys: (gpu, overrides) => json(`gpus/${gpu}/keys?${query("set", overrides)}`),
  settings: (gpu, overrides, wanted) => json(`gpus/${gpu}/settings?${query("set", overrides)}&${query("key", wanted)}`),
  predict: async (run, designs) => {
    const answer = await call(`runs/${run}/designs`, { method: "POST", body: JSON.stringify({ designs }) });
    return ((await answer.json()) as { designs: (Prediction | { error: Problem })[] }).designs;
  },
};

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
