// Tabs by the ARIA pattern: one is in the order of Tab, the arrow keys go to the others.

import type { ComponentChildren } from "preact";

export interface Tab {
  name: string;
  content: ComponentChildren;
}

export function Tabs({ label, tabs, shown, show }: { label: string; tabs: Tab[]; shown: string; show: (name: string) => void }) {
  const move = (event: KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowLeft: tabs.length - 1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const next = tabs[(tabs.findIndex((tab) => tab.name === shown) + step) % tabs.length]!;
    show(next.name);
    document.getElementById(`tab-${next.name}`)!.focus();
  };
  return (
    <>
      <div role="tablist" aria-label={label} onKeyDown={move}>
        {tabs.map(({ name }) => (
          <button key={name} type="button" role="tab" id={`tab-${name}`} aria-selected={name === shown} aria-controls={`panel-${name}`}
            tabIndex={name === shown ? 0 : -1} onClick={() => show(name)}>
            {name}
          </button>
        ))}
      </div>
      {tabs.map(({ name, content }) => (
        <section key={name} role="tabpanel" id={`panel-${name}`} aria-labelledby={`tab-${name}`} hidden={name !== shown}>{content}</section>
      ))}
    </>
  );
}
