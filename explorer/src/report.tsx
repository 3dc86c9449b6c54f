// Sliders and stacks of the static report, a build of its own, which the page's other scripts give their `W`.

import { render as draw } from "preact";
import { whole } from "./figures";
import { Grid, type GridAxis, type GridData } from "./grid";
import { type Row, type Side, Stacks } from "./stack";
import { WhatIf } from "./what_if";

type State = Record<string, string | undefined>;

// What src/warpsight/reports/html/assets/core.js has.
declare const W: {
  document: { what_if?: GridData };
  state: State;
  find(ident: string): HTMLElement | null;
  part(begin: () => void): void;
  watch(listener: (state: State) => void): void;
  change(changes: State, keep?: boolean): void;
  say(text: string): void;
  key(key: string, what: string, action: () => void): void;
  stacks(place: HTMLElement, caption: string, heads: string[], rows: Row[]): void;
};

W.stacks = (place, caption, heads, rows) => draw(<Stacks caption={caption} heads={heads} rows={rows} />, place);

W.part(() => {
  const place = W.find("what-if-live"), data = W.document.what_if;
  if (!place || !data) return;
  const grid = new Grid(data), marks = JSON.parse(place.dataset["marks"]!) as Record<string, string[]>;
  const axes = data.axes.filter((axis) => axis.values.length > 1).map((axis) => ({ ...axis, quiet: axis.key, marks: marks[axis.key]! }));
  const before = grid.design(grid.own);
  const none = Object.fromEntries(data.axes.map(({ key }) => [key, ""]));

  const reset = () => W.change({ section: "what-if", ...none });
  const change = ({ key }: Pick<GridAxis, "key">, value: string) => {
    const { places, unknown } = grid.places({ ...W.state, [key]: value }, key);
    W.change({ section: "what-if", ...none, ...grid.changes(places) }, true);
    tell(unknown, grid.design(places));
  };
  const tell = (unknown: string[], { prediction, bound }: ReturnType<Grid["design"]>) =>
    W.say([prediction ? `${whole(prediction.cycles)} cycles` : "no answer", `bound by ${bound}`, ...unknown].join(", "));

  W.key("0", "what if: reset to the original GPU", reset);
  W.watch((state) => {
    if (W.find("what-if")!.hidden) return;
    const { places, unknown } = grid.places(state), found = grid.design(places);
    const side = (label: string, { prediction, bound }: ReturnType<Grid["design"]>): Side => ({ label, prediction, problem: `no answer: ${bound}` });
    draw(
      <WhatIf axes={axes} values={grid.changes(places)} change={change} reset={reset} exact={false} open given={[]} caption="The original GPU and the changed one"
        sides={[side("original", before), side("changed", found)]} note="The length of a bar is time; its parts are the components of the CPI stack." />,
      place,
    );
    if (unknown.length > 0) tell(unknown, found);
  });
});
