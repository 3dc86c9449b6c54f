// What all scripts of a page share: its document, its state in the URL's hash, helpers, and the tip.
W.document = JSON.parse(document.getElementById("document").textContent);
// rows of code come as a table: names once, nulls at the end left out, and without what follows from the stack
for (const [name, view] of Object.entries(W.document.code || {})) {
  const { columns, same, values, stacks } = view.rows, components = Object.keys(view.cpi_stack), both = (value) => (Array.isArray(value) ? value : [value, value]);
  view.rows = values.map((cells, pc) => {
    const row = { pcs: [pc], ...same }, stack = {};  // replaced where a row is of other instructions
    cells.forEach((value, at) => { if (value !== null) row[columns[at]] = value; });
    let sum = 0, largest = 0;
    (stacks ? stacks[row.cpi_stack] : row.cpi_stack).forEach((part, at) => {
      if (part) stack[components[at]] = part;
      if (part > largest) { largest = part; row.cause = components[at]; }
      sum += part;
    });
    row.cpi_stack = stack;
    row.share = sum / view.cpi;
    row.wait_cycles = (sum - (stack.base || 0)) * view.cycles / view.cpi;
    row.ptx_lines = both(row.ptx_lines);
    if (row.intervals !== undefined) row.intervals = both(row.intervals);
    if (row.waits_for) row.waits_for = row.waits_for.map(([at, cycles]) => ({ pc: at, stall_cycles: cycles }));
    return row;
  });
}
for (const each of Object.values((W.document.timeline || {}).instructions || {})) each.file = W.document.timeline.files[each.file];
W.parts = [];                       // functions to call once the page is there
W.part = (begin) => W.parts.push(begin);
W.find = (ident) => document.getElementById(ident);
W.all = (selector, within) => Array.from((within || document).querySelectorAll(selector));
W.listeners = [];                   // called with the state after each change
W.watch = (listener) => W.listeners.push(listener);

// #SECTION&key=value&key=value: a link with it opens the same view.
W.read = () => {
  const words = location.hash.slice(1).split("&");
  const state = { section: W.decoded(words[0] || "") };
  for (const word of words.slice(1)) {
    const at = word.indexOf("=");
    if (at > 0) state[W.decoded(word.slice(0, at))] = W.decoded(word.slice(at + 1));
  }
  return state;
};
W.decoded = (word) => { try { return decodeURIComponent(word); } catch { return ""; } };
W.hash = (state) => "#" + encodeURIComponent(state.section || W.sections[0]) + Object.entries(state)
  .filter(([key, value]) => key !== "section" && value !== "" && value !== undefined && value !== null)
  .map(([key, value]) => "&" + encodeURIComponent(key) + "=" + encodeURIComponent(value)).join("");
// Change parts of the state; `keep` replaces the entry of the browser's history, for what changes often: then the address follows a
// moment later, since browsers refuse to change it hundreds of times.
W.change = (changes, keep) => {
  const state = { ...W.state, ...changes };
  W.state = state;
  if (keep) W.later = W.later || setTimeout(W.write, 150);
  else W.write("pushState");
  for (const listener of W.listeners) listener(state);
};
W.write = (how) => {
  clearTimeout(W.later);
  W.later = 0;
  const hash = W.hash(W.state);
  if (hash !== location.hash) history[how || "replaceState"](null, "", hash);
};
W.say = (text) => { W.find("live").textContent = text; };

// An element with text and attributes. Text is never read as HTML.
W.make = (name, attributes, ...inside) => {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  for (const each of inside) made.append(each);
  return made;
};

W.tip = (target, lines) => {
  const tip = W.find("tip");
  if (!target || !lines.length) { tip.hidden = true; return; }
  tip.replaceChildren(...lines.map((line) => W.make("p", {}, line)));
  tip.hidden = false;
  const box = target.getBoundingClientRect(), own = tip.getBoundingClientRect();
  const left = Math.max(4, Math.min(box.left, innerWidth - own.width - 4));
  const below = box.bottom + 8 + own.height < innerHeight;
  tip.style.left = left + "px";
  tip.style.top = (below ? box.bottom + 8 : Math.max(4, box.top - own.height - 8)) + "px";
};

W.start = () => {
  W.state = W.read();
  W.find("tools").hidden = false;
  for (const begin of W.parts) begin();
  const again = () => { W.state = W.read(); for (const listener of W.listeners) listener(W.state); };
  addEventListener("hashchange", again);
  addEventListener("pagehide", () => W.write());
  addEventListener("popstate", again);
  for (const listener of W.listeners) listener(W.state);
  document.documentElement.dataset.ready = "yes";
};
