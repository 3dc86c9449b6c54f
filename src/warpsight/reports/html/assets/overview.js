// The CPI stacks: pointing at a part says its share, equation and lines; a click goes to its row in the table.
W.part(() => {
  const section = W.find("overview"), predictions = W.document.predictions;
  const tips = (hook) => {
    const cut = hook.indexOf("/"), row = Number(hook.slice(0, cut)), name = hook.slice(cut + 1), of = predictions[row];
    if (!of || !(name in of.cpi_stack)) return [];
    const cpi = of.cpi_stack[name], lines = [`${of.model}, ${name}: ${W.number(cpi)} CPI, ${W.percent(cpi / of.cpi)}`];
    const about = (W.document.models || {})[of.model];
    if (about && about.by_component && about.by_component[name]) lines.push(about.by_component[name]);
    const cell = W.find("component-" + name);
    if (row === 0 && cell && cell.cells[5].textContent) lines.push("from " + cell.cells[5].textContent);
    return lines;
  };
  for (const part of W.all("[data-hook], [data-component]", section)) {
    const hook = part.dataset.hook || "0/" + part.dataset.component;
    part.addEventListener("pointerenter", () => W.tip(part, tips(hook)));
    part.addEventListener("pointerleave", () => W.tip(null, []));
    part.addEventListener("click", () => W.change({ section: "overview", component: hook.slice(hook.indexOf("/") + 1) }));
  }
  W.watch((state) => {
    for (const row of W.all("tr[id^='component-']", section)) {
      const chosen = row.id === "component-" + state.component;
      row.classList.toggle("chosen", chosen);
      if (!chosen || section.hidden) continue;
      W.find("components").open = true;
      row.scrollIntoView({ block: "nearest" });
    }
  });
});
