// The table of designs: sorted by any column, a page at a time, the chosen design's stacks above it.
W.part(() => {
  // base64 of little-endian float32 as numbers
  const floats = (text) => {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)), view = new DataView(bytes.buffer);
    return Float32Array.from({ length: bytes.length / 4 }, (_, at) => view.getFloat32(4 * at, true));
  };
  const data = W.document.designs, texts = JSON.parse(W.find("key-texts").textContent), page = 100;
  const stacks = floats(data.stacks), table = W.find("design-table"), body = table.tBodies[0], count = data.design.length;
  const width = data.components.length, kernels = data.kernels.length;
  const heads = W.all("thead th", table), placeOf = new Map(data.design.map((design, place) => [String(design), place]));
  const column = (name) => {
    if (name === "design" || name === "performance") return data[name];
    const [kind, rest] = [name.slice(0, name.indexOf("/")), name.slice(name.indexOf("/") + 1)];
    return kind === "keys" ? data.keys[rest] : data.bound_by[Number(rest)].map((code) => data.words[code]);
  };
  const order = (name, down) => {
    const values = column(name), places = Array.from({ length: count }, (_, place) => place);
    const compare = typeof values[0] === "string" ? (a, b) => (a < b ? -1 : a > b ? 1 : 0) : (a, b) => a - b;
    return places.sort((a, b) => (down ? -1 : 1) * compare(values[a], values[b]) || a - b);
  };
  const keyText = (key, value) => texts[key][String(value)] ?? texts[key][Number(value).toFixed(1)] ?? String(value);
  const rowOf = (place) => {
    const head = W.make("th", { scope: "row", class: "number" });
    const link = W.make("a", { href: "#designs" }, String(data.design[place]));
    link.addEventListener("click", (event) => { event.preventDefault(); event.stopPropagation(); choose(place); });
    head.append(link);
    const row = W.make("tr", { id: "design-" + data.design[place] }, head);
    row.append(W.make("td", { class: "number" }, W.number(data.performance[place])));
    for (const key of Object.keys(data.keys)) row.append(W.make("td", { class: "number" }, keyText(key, data.keys[key][place])));
    for (const codes of data.bound_by) row.append(W.make("td", {}, data.words[codes[place]]));
    row.addEventListener("click", () => choose(place));
    return row;
  };
  const choose = (place) => W.change({ section: "designs", design: data.design[place] });
  const partsOf = (place, kernel) => {
    const at = (place * kernels + kernel) * width;
    return Object.fromEntries(data.components.map((name, number) => [name, stacks[at + number]]));
  };
  const show = (place) => {
    const holder = W.find("design-stacks");
    if (place === undefined) {
      holder.replaceChildren(...(W.state.design ? [W.make("p", { class: "note" }, `Design ${W.state.design} is not in this table.`)] : []));
      return;
    }
    const rows = data.kernels.map((name, kernel) => {
      const parts = partsOf(place, kernel), cpi = Object.values(parts).reduce((sum, part) => sum + part, 0);
      return { label: name, cells: [W.number(cpi), W.duration(data.seconds[kernel][place])], stack: parts, length: cpi };
    });
    const keys = Object.keys(data.keys).map((key) => `${key}=${keyText(key, data.keys[key][place])}`).join(", ");
    const stacks = W.make("div");
    holder.replaceChildren(W.make("h3", {}, `Design ${data.design[place]}`), W.make("p", {}, keys), stacks);
    W.stacks(stacks, "CPI stacks; the length of a bar is CPI", ["kernel", "CPI", "time"], rows);
  };
  for (const head of heads) {
    const button = W.make("button", { type: "button", class: "sorter" }, head.textContent);
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const same = (W.state.by || "performance") === head.dataset.key;
      const down = same ? W.state.way === "up" : head.dataset.key === "performance";
      W.change({ by: head.dataset.key, way: down ? "down" : "up", page: "" }, true);
    });
  }
  const pages = W.find("design-pages"), last = Math.ceil(count / page) - 1;
  const text = W.make("span", {}), back = W.make("button", { type: "button" }, "Previous"), next = W.make("button", { type: "button" }, "Next");
  pages.append(back, text, next);
  pages.hidden = last < 1;
  const turn = (step) => W.change({ page: Math.min(last, Math.max(0, Number(W.state.page || 0) + step)) || "" }, true);
  back.addEventListener("click", () => turn(-1));
  next.addEventListener("click", () => turn(1));
  let drawn = "";
  W.watch((state) => {
    const by = heads.some((head) => head.dataset.key === state.by) ? state.by : "performance", down = state.way ? state.way === "down" : true;
    let at = Math.min(last, Math.max(0, Math.floor(Number(state.page) || 0)));
    const place = placeOf.get(String(state.design));
    const places = order(by, down);
    if (place !== undefined && state.page === undefined) at = Math.floor(places.indexOf(place) / page);
    const now = [by, down, at].join();
    if (now !== drawn) {
      drawn = now;
      body.replaceChildren(...places.slice(at * page, at * page + page).map(rowOf));
      for (const head of heads) head.setAttribute("aria-sort", head.dataset.key === by ? (down ? "descending" : "ascending") : "none");
      text.textContent = `${W.whole(at * page + 1)} to ${W.whole(Math.min(count, at * page + page))} of ${W.whole(count)}`;
      back.disabled = at === 0;
      next.disabled = at === last;
    }
    for (const row of body.rows) row.classList.toggle("chosen", row.id === "design-" + state.design);
    show(place);
  });
});
