// Sliders over a grid of designs that the document holds. They go from one computed design to the next; nothing is interpolated.
W.part(() => {
  const grid = W.document.what_if, form = W.find("what-if-sliders");
  if (!grid || !form) return;
  const axes = grid.axes, simulated = axes.filter((axis) => axis.simulated), free = axes.filter((axis) => !axis.simulated);
  const each = free.reduce((count, axis) => count * axis.values.length, 1);
  const geometries = new Map(grid.geometries.map((places, at) => [places.join(), at]));
  const rows = W.all("tr[data-name]", W.find("what-if"));
  const fills = new Map(rows.map((row) => [row.dataset.name, row.querySelector(".swatch").classList[1]]));
  let columns = null;

  const unpack = ({ type, data }) => {
    const text = atob(data), view = new DataView(new ArrayBuffer(text.length));
    for (let k = 0; k < text.length; k++) view.setUint8(k, text.charCodeAt(k));
    if (type === "float64") return Float64Array.from({ length: text.length / 8 }, (_, k) => view.getFloat64(8 * k, true));
    if (type === "uint16") return Uint16Array.from({ length: text.length / 2 }, (_, k) => view.getUint16(2 * k, true));
    if (type === "uint32") return Uint32Array.from({ length: text.length / 4 }, (_, k) => view.getUint32(4 * k, true));
    return new Uint8Array(view.buffer);
  };
  const column = (name) => {
    columns = columns || new Map([...grid.columns, ...(grid.rows ? [grid.rows] : [])].map((each) => [each.name, unpack(each)]));
    return columns.get(name);
  };
  // the row of the columns for the design at these places of the axes; undefined where its geometry was not simulated
  const point = (places) => {
    let at = geometries.get(simulated.map((axis) => places.get(axis.key)).join());
    if (at === undefined) return undefined;
    for (const axis of free) at = at * axis.values.length + places.get(axis.key);
    return grid.rows ? column("rows")[at] : at;
  };
  const valueOf = (axis, places) => axis.values[places.get(axis.key)];
  // what the document says of a design; without `cycles` where the model has no answer for it
  const design = (places) => {
    const at = point(places), cycles = column("cycles")[at], found = { bound: grid.bounds[column("bound_by")[at]], stack: new Map() };
    if (!Number.isFinite(cycles)) return found;
    const sms = valueOf(axes.find((axis) => axis.key === "sm_count"), places);
    const clock = valueOf(axes.find((axis) => axis.key === "core_clock"), places), seconds = column("seconds");
    const cpi = cycles * sms / grid.warp_instructions;
    for (const name of fills.keys()) found.stack.set(name, cpi * column("share." + name)[at] / grid.share_of);
    return Object.assign(found, { cycles, cpi, seconds: seconds ? seconds[at] : cycles / clock });
  };
  const own = new Map(axes.map((axis) => [axis.key, axis.own]));

  const squeezed = (text) => text.replace(/\s/g, "").toLowerCase();
  // the places that the state asks for, and the axes that had to go back because their geometry was not simulated
  const places = (state, moved) => {
    const found = new Map(own), unknown = [];
    for (const axis of axes) {
      if (!state[axis.key]) continue;
      const at = axis.settings.findIndex((setting) => squeezed(setting) === squeezed(state[axis.key]));
      if (at >= 0) found.set(axis.key, at); else unknown.push(`${axis.key}=${state[axis.key]} was not computed`);
    }
    if (point(found) === undefined) {
      const weight = (geometry) => simulated.reduce((sum, axis, k) =>
        sum + (geometry[k] === found.get(axis.key) ? 0 : axis.key === moved ? 1000 : geometry[k] === axis.own ? 1 : 1.5), 0);
      const nearest = grid.geometries.reduce((best, geometry) => (weight(geometry) < weight(best) ? geometry : best));
      for (const [k, axis] of simulated.entries()) {
        if (nearest[k] === found.get(axis.key)) continue;
        found.set(axis.key, nearest[k]);
        unknown.push(`${axis.label} went to ${axis.settings[nearest[k]]}: not computed together`);
      }
    }
    return { found, unknown };
  };
  const stateOf = (found) => Object.fromEntries(axes.map((axis) =>
    [axis.key, found.get(axis.key) === axis.own ? "" : axis.settings[found.get(axis.key)]]));
  const mark = (axis, at) => (at === axis.own ? "" : ` (${W.find("what-if-" + axis.key).parentElement.querySelectorAll(".marks span")[at].textContent})`);

  const bar = (ident, label, found, longest) => {
    const box = W.find(ident), parts = [], spoken = [];
    for (const [name, cpi] of found.stack) {
      if (!(cpi > 0)) continue;
      const share = cpi / found.cpi, part = W.make("span", { title: `${name}: ${W.percent(share)}`, class: fills.get(name) });
      part.style.width = 100 * share * found.seconds / longest + "%";
      parts.push(part);
      spoken.push(`${name}: ${W.percent(share)}`);
    }
    const text = found.cycles === undefined ? found.bound : `${W.duration(found.seconds)}, ${W.whole(found.cycles)} cycles`;
    box.querySelector(".lying-text").textContent = text;
    const drawn = box.querySelector(".lying-bar");
    drawn.replaceChildren(...parts);
    drawn.setAttribute("aria-label", `${label}: ${text}. ${spoken.join(", ")}`);
  };
  W.duration = (seconds) => {
    const [unit, scale] = [["s", 1], ["ms", 1e-3], ["us", 1e-6]].find(([, size]) => seconds >= size) || ["ns", 1e-9];
    return `${(seconds / scale).toPrecision(4)} ${unit}`;
  };
  const show = (found) => {
    const before = design(own), now = design(found), there = now.cycles !== undefined;
    for (const axis of axes) {
      const slider = W.find("what-if-" + axis.key), at = found.get(axis.key);
      if (!slider) continue;
      const text = axis.settings[at] + mark(axis, at);
      slider.value = at;
      slider.setAttribute("aria-valuetext", text);
      W.find("what-if-of-" + axis.key).textContent = text;
      slider.parentElement.classList.toggle("moved", at !== axis.own);
    }
    W.find("what-if-cycles").textContent = there ? W.whole(now.cycles) : "no answer";
    W.find("what-if-time").textContent = there ? W.duration(now.seconds) : "";
    W.find("what-if-speedup").textContent = there ? W.number(before.seconds / now.seconds) : "";
    W.find("what-if-bound").textContent = now.bound;
    const longest = Math.max(before.seconds || 0, now.seconds || 0);
    bar("what-if-own", "original", before, longest);
    bar("what-if-now", "changed", now, longest);
    for (const row of rows) {
      const cpi = now.stack.get(row.dataset.name);
      row.cells[2].textContent = there ? W.number(cpi) : "";
      row.cells[3].textContent = there ? W.percent(cpi / now.cpi) : "";
    }
    W.find("what-if-cpi").textContent = there ? W.number(now.cpi) : "";
    const settings = axes.filter((axis) => found.get(axis.key) !== axis.own)
      .map((axis) => ` --set '${axis.key}=${axis.settings[found.get(axis.key)]}'`);
    W.find("what-if-set").textContent = settings.length ? settings.join("").trim() : "no change";
    return now;
  };
  const announce = (now, unknown) => W.say([now.cycles === undefined ? "no answer" : `${W.whole(now.cycles)} cycles`,
    `bound by ${now.bound}`, ...unknown].join(", "));
  const moved = (slider) => {
    const axis = axes.find(({ key }) => key === slider.dataset.key);
    const asked = { ...W.state, [axis.key]: axis.settings[Number(slider.value)] };
    const { found, unknown } = places(asked, axis.key);
    W.change({ section: "what-if", ...stateOf(found) }, true);
    announce(design(found), unknown);
  };
  for (const slider of W.all("input[type=range]", form)) slider.addEventListener("input", () => moved(slider));
  form.addEventListener("submit", (event) => event.preventDefault());
  const back = () => W.change({ section: "what-if", ...stateOf(own) });
  W.find("what-if-back").addEventListener("click", back);
  // the keys of the page leave inputs alone, which take them themselves; a slider does not take this one
  form.addEventListener("keydown", (event) => { if (event.key === "0") { event.preventDefault(); back(); } });
  W.key("0", "what if: reset to the original GPU", back);
  W.watch((state) => {
    if (W.find("what-if").hidden) return;
    const { found, unknown } = places(state);
    const now = show(found);
    if (unknown.length) announce(now, unknown);
  });
});
