// Keys, what they do, and the theme. A section adds its own with W.key.
W.keys = [];
W.key = (key, what, action) => W.keys.push({ key, what, action });
W.part(() => {
  const root = document.documentElement, button = W.find("theme"), help = W.find("help");
  const dark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const label = () => { button.textContent = dark() ? "Light" : "Dark"; };
  const turn = () => W.change({ theme: dark() ? "light" : "dark" }, true);
  button.addEventListener("click", turn);
  W.watch((state) => {
    if (state.theme === "dark" || state.theme === "light") root.dataset.theme = state.theme;
    label();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", label);
  const show = () => {
    const entries = [...W.keys, { key: "?", what: "this help" }, { key: "Esc", what: "close" }];
    W.find("keys").replaceChildren(...entries.flatMap(({ key, what }) => [W.make("dt", {}, W.make("kbd", {}, key)), W.make("dd", {}, what)]));
    help.showModal();
  };
  W.find("help-button").addEventListener("click", show);
  W.key("1 2 3 ...", "the sections, in order");
  W.key("d", "dark or light", turn);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
    if (event.target.matches("input, select, textarea")) return;
    if (event.key === "?") { event.preventDefault(); show(); return; }
    const place = "123456789".indexOf(event.key);
    if (place >= 0 && place < W.sections.length) { W.open(W.sections[place]); W.find("tab-" + W.sections[place]).focus(); return; }
    const found = W.keys.find(({ key, action }) => action && key === event.key);
    if (found) { event.preventDefault(); found.action(); }
  });
});
