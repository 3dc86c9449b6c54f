// One section at a time: the links on top become tabs (ARIA authoring practices: arrow keys move, the chosen one is shown).
W.part(() => {
  const links = W.all("#tabs a"), list = W.find("tabs");
  const names = links.map((link) => link.id.slice("tab-".length));
  document.body.classList.add("one");
  list.setAttribute("role", "tablist");
  for (const [at, link] of links.entries()) {
    link.parentElement.setAttribute("role", "presentation");
    link.setAttribute("role", "tab");
    link.setAttribute("aria-controls", names[at]);
    const section = W.find(names[at]);
    section.setAttribute("role", "tabpanel");
    section.setAttribute("aria-labelledby", link.id);
    link.addEventListener("click", (event) => { event.preventDefault(); W.open(names[at]); });
    link.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1, Home: -at, End: links.length - 1 - at }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      const next = (at + step + links.length) % links.length;
      links[next].focus();
      W.open(names[next]);
    });
  }
  W.open = (name) => W.change({ section: name });
  W.sections = names;
  W.watch((state) => {
    const shown = names.includes(state.section) ? state.section : names[0];
    for (const [at, link] of links.entries()) {
      const own = names[at] === shown;
      link.setAttribute("aria-selected", own ? "true" : "false");
      link.tabIndex = own ? 0 : -1;
      W.find(names[at]).hidden = !own;
    }
  });
  // links inside the page to a section, with more of the state behind `&`
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    if (!link || link.getAttribute("role") === "tab" || link.classList.contains("skip")) return;
    event.preventDefault();
    history.pushState(null, "", link.getAttribute("href"));
    W.change(W.read());
  });
});
