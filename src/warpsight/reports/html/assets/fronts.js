// A point of a front, or a cell of a map, leads to its design.
W.part(() => {
  for (const point of W.all("#fronts [data-hook], #maps [data-hook]")) {
    point.addEventListener("click", () => W.change({ section: "designs", design: point.dataset.hook.slice("design-".length) }));
  }
});
