// Lanes and sectors of the memory instructions of a line: what the report shows of them, by the same template.

import { useEffect, useRef, useState } from "preact/hooks";
import { problemOf } from "./protocol";

// The report's names of the page's colours. In a root of its own, so that its styles and the page's do not meet.
const COLOURS = `:host { display: block; --ink: light-dark(#1f2328, #d5dbe3); --paper: light-dark(#fff, #1c2128); --faint: var(--line);
  --quiet: light-dark(#57606a, #a5afba); --link: inherit; --focus: light-dark(#b35900, #ffb454); }
  .beside { display: flex; flex-wrap: wrap; gap: 0.5rem 2rem; } .beside > div { min-width: 0; max-width: 100%; }
  .quiet, figcaption { color: var(--quiet); } figure { margin: 0.5rem 0; } .scroll { overflow-x: auto; }
  caption, th, td { text-align: left; } .number { text-align: right; }
  .away { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }`;

interface Asked {
  of: string; // of what the line is a line of
  line: number;
  ask: () => Promise<string>; // HTML without scripts
  there: boolean;
}

export function Accesses({ of, line, ask, there }: Asked) {
  const place = useRef<HTMLDivElement>(null);
  const [problem, setProblem] = useState("");

  useEffect(() => {
    if (!there) return;
    let current = true;
    const root = place.current!.shadowRoot ?? place.current!.attachShadow({ mode: "open" });
    ask().then((html) => {
      if (!current) return;
      root.innerHTML = `<style>${COLOURS}</style>${html}`; // of our own server's template, which escapes every text
      setProblem("");
    }, (error: unknown) => current && setProblem(problemOf(error).what));
    return () => {
      current = false;
    };
  }, [of, line, there]);

  return (
    <>
      {problem && <p role="alert">{problem}</p>}
      <div ref={place} hidden={!there} role="group" aria-label={`Accesses of line ${line}`} />
    </>
  );
}
