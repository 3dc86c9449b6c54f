// The code: which line is chosen, what belongs to it in the other table, what an instruction waits for, and the columns.
W.part(() => {
  const section = W.find("code"), tables = W.all("table.lines", section), instructions = W.document.code.line.rows;
  const pcOf = (row) => Number(row.id.slice("pc-".length)), rowOf = (pc) => W.find("pc-" + pc);
  const rows = W.all("tbody tr[id]", section).filter((row) => row.dataset.pcs !== undefined || row.id.startsWith("pc-"));
  const data = new Map(instructions.map((row) => [row.pcs[0], row]));
  const sourceOf = new Map();       // a pc's source row
  for (const row of rows) if (row.dataset.pcs) for (const pc of row.dataset.pcs.split(" ")) sourceOf.set(Number(pc), row);
  const language = W.find("ptx").caption.textContent;
  const place = (pc) => {
    const source = sourceOf.get(pc), line = language + " line " + data.get(pc).ptx_lines[0];
    return source && source.cells[0].textContent !== "none" ? "source line " + source.cells[0].textContent + ", " + line : line;
  };
  W.find("code-tools").hidden = false;
  W.code = { section, tables, rows };

  // -- a line and its counterparts
  let marked = [];
  W.textOf = (row) => row.lastElementChild.textContent;
  W.reveal = (row) => {
    const pane = row.closest(".pane"), top = row.offsetTop, room = pane.clientHeight;
    if (top < pane.scrollTop + 40 || top + row.offsetHeight > pane.scrollTop + room) pane.scrollTop = Math.max(0, top - room / 2);
  };
  const counterparts = (row) => row.dataset.pcs ? row.dataset.pcs.split(" ").map(rowOf) : [sourceOf.get(pcOf(row))];
  const choose = (row) => {
    for (const each of marked) { each.classList.remove("chosen", "linked"); each.removeAttribute("aria-current"); }
    marked = [];
    if (!row) return;
    const others = counterparts(row).filter(Boolean);
    row.classList.add("chosen");
    row.setAttribute("aria-current", "true");
    for (const other of others) other.classList.add("linked");
    marked = [row, ...others];
    if (section.hidden) return;
    W.reveal(row);
    if (others.length) W.reveal(others[0]);
    const pane = row.closest(".pane"), box = pane.getBoundingClientRect();
    if (box.bottom < 80 || box.top > innerHeight - 80) pane.scrollIntoView({ block: "nearest" });
  };
  const go = (row, keep) => W.change({ section: "code", line: row ? row.id : "" }, keep);

  // -- what an instruction waits for
  let waited = [];
  const waits = (row) => {
    for (const each of waited) each.classList.remove("waited");
    waited = [];
    const own = row && !row.dataset.pcs ? data.get(pcOf(row)) : null;
    if (!own) { W.tip(null, []); return; }
    const lines = [];
    if (own.cause) lines.push(W.percent(own.share) + " of the cycles, mostly " + own.cause);
    for (const wait of own.waits_for || []) {
      const maker = rowOf(wait.pc);
      lines.push("waits for " + W.textOf(maker) + " (" + place(wait.pc) + "): " + W.number(wait.stall_cycles) + " stall cycles of the representative warp");
      maker.classList.add("waited");
      waited.push(maker);
    }
    W.tip(own.waits_for && own.waits_for.length ? row.lastElementChild : null, lines);
  };

  // -- pointer and keyboard: one row of each table can be tabbed to, arrows move from it
  for (const table of tables) {
    const own = W.all("tbody tr[id]", table).filter((row) => rows.includes(row));
    if (own.length) own[0].tabIndex = 0;
    let stop = own[0];
    table.addEventListener("click", (event) => {
      const row = event.target.closest("tbody tr");
      if (row && own.includes(row)) go(row);
    });
    table.addEventListener("pointerover", (event) => waits(event.target.closest("tbody tr")));
    table.addEventListener("pointerleave", () => waits(null));
    table.addEventListener("focusin", (event) => {
      const row = event.target.closest("tbody tr");
      if (!row) return;
      stop.tabIndex = -1;
      row.tabIndex = 0;
      stop = row;
      waits(row);
    });
    table.addEventListener("focusout", () => waits(null));
    table.addEventListener("keydown", (event) => {
      const row = event.target.closest("tbody tr");
      if (!row) return;
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); go(row); return; }
      const shown = own.filter((each) => each.offsetParent !== null), at = shown.indexOf(row);
      const next = { ArrowDown: shown[at + 1], ArrowUp: shown[at - 1], Home: shown[0], End: shown[shown.length - 1] }[event.key];
      if (!next) return;
      event.preventDefault();
      next.tabIndex = -1;
      next.focus();
    });
  }

  // -- the hottest instructions, in order
  const hot = W.all("tr[data-rank]", W.find("ptx")).sort((a, b) => a.dataset.rank - b.dataset.rank);
  const step = (by) => {
    if (!hot.length) { W.say("no line is hot"); return; }
    const at = hot.findIndex((row) => row.id === W.state.line);
    const row = hot[at < 0 ? (by > 0 ? 0 : hot.length - 1) : (at + by + hot.length) % hot.length];
    go(row, true);
    W.say("hot line " + row.dataset.rank + " of " + hot.length + ": " + row.cells[1].textContent + ", " + W.textOf(row));
  };
  W.key("n", "next hot line of the code", () => step(1));
  W.key("p", "previous hot line of the code", () => step(-1));
  W.find("code-next").addEventListener("click", () => step(1));
  W.find("code-previous").addEventListener("click", () => step(-1));

  W.watch((state) => choose(/^(pc|src)-/.test(state.line || "") ? rows.find((row) => row.id === state.line) : null));
});
