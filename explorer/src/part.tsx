// A part of the report, rendered by the report's template: HTML without scripts of our own server, which escapes every text.

import { useEffect, useRef } from "preact/hooks";

// In a root of its own, so that its styles and the page's do not meet; it inherits the page's colours, which have the report's names.
const BASE = `:host { display: block; --link: inherit; }
  .beside { display: flex; flex-wrap: wrap; gap: 0.5rem 2rem; } .beside > div { min-width: 0; max-width: 100%; }
  .quiet, figcaption { color: var(--quiet); } figure { margin: 0.5rem 0; } .scroll { overflow-x: auto; }
  caption, th, td { text-align: left; } .number { text-align: right; }
  .away { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }`;

export function Part({ html, label, hidden = false }: { html: string; label: string; hidden?: boolean }) {
  const place = useRef<HTMLDivElement>(null);

  useEffect(() => {
    const root = place.current!.shadowRoot ?? place.current!.attachShadow({ mode: "open" });
    root.innerHTML = `<style>${BASE}</style>${html}`;
  }, [html]);

  return <div ref={place} hidden={hidden} role="group" aria-label={label} />;
}
