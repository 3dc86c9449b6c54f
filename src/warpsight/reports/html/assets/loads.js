// One load, store or atomic at a time: that of the chosen instruction, or of the first of a source line that has one.
W.part(() => {
  const panels = W.all("#loads > .load"), none = W.find("load-none");
  if (!panels.length) return;
  const of = (line) => {
    const row = line && W.find(line);
    if (!row) return [];
    const pcs = row.dataset.pcs ? row.dataset.pcs.split(" ") : [line.slice(line.indexOf("-") + 1)];
    return pcs.map((pc) => W.find("load-" + pc)).filter(Boolean);
  };
  W.watch((state) => {
    const shown = of(W.code.lineOf(state));
    for (const panel of panels) panel.hidden = !shown.includes(panel);
    none.hidden = shown.length > 0;
  });
});
