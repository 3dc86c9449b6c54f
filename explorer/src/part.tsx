// A part of the report, rendered by the report's template: HTML without scripts of our own server, which escapes every text.

import { useEffect, useRef } from "preact/hooks";

// The report's names of the page's colours. In a root of its own, so that its styles and the page's do not meet.
const COLOURS = `:host { display: block; --ink: light-dark(#1f2328, #d5dbe3); --paper: light-dark(#fff, #1c2128); --faint: var(--line);
  --quiet: light-dark(#57606a, #a5afba); --link: inherit; --focus: light-dark(#b35900, #ffb454); }
  .beside { display: flex; flex-wrap: wrap; gap: 0.5rem 2rem; } .beside > div { min-width: 0; max-width: 100%; }
  .quiet, figcaption { color: var(--quiet); } figure { margin: 0.5rem 0; } .scroll { overflow-x: auto; }
  caption, th, td { text-align: left; } .number { text-align: right; }
  .away { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }`;

export function Part({ html, label, hidden = false }: { html: string; label: string; hidden?: boolean }) {
  const place = useRef<HTMLDivElement>(null);

  useEffect(() => {
    const root = place.current!.shadowRoot ?? place.current!.attachShadow({ mode: "open" });
    root.innerHTML = `<style>${COLOURS}</style>${html}`;
  }, [html]);

  return <div ref={place} hidden={hidden} role="group" aria-label={label} />;
}
