// The code: colours of lines that belong together, which line is chosen and its counterparts, what an instruction waits for.
W.part(() => {
  const section = W.find("code"), tables = W.all("table.lines", section), native = W.find("sass");
  const instructions = (W.document.code.sass || W.document.code.line).rows;
  const pcOf = (row) => Number(row.id.slice("pc-".length)), rowOf = (pc) => W.find("pc-" + pc);
  const pcsOf = (row) => row.dataset.pcs ? row.dataset.pcs.split(" ").map(Number) : row.id.startsWith("pc-") ? [pcOf(row)] : [];
  const rows = W.all("tbody tr[id]", section).filter((row) => pcsOf(row).length);
  const paneOf = new Map(rows.map((row) => [row, row.closest(".pane")]));
  const data = new Map(instructions.map((row) => [row.pcs[0], row]));
  const holders = new Map();        // the rows of a pc, one in each pane
  for (const row of rows) for (const pc of pcsOf(row)) holders.set(pc, [...(holders.get(pc) || []), row]);
  const language = (native || W.find("ptx")).caption.textContent;
  const place = (pc) => {
    const source = holders.get(pc).find((row) => row.id.startsWith("src-")), number = rowOf(pc).cells[0].textContent;
    const own = native ? number : language + " line " + number;
    return source && source.cells[0].textContent !== "none" ? "source line " + source.cells[0].textContent + ", " + own : own;
  };
  W.find("code-tools").hidden = false;
  // the chosen line: that of the link, else the hottest
  const lineOf = (state) => (/^(pc|ptx|src)-/.test(state.line || "") ? state.line : W.find("code-panes").dataset.open || "");
  W.code = { section, tables, rows, lineOf };

  // -- colours: of each line of the first pane, and of the lines in the other panes that belong to it; of several, the first one's
  const COLOURS = 7;
  const leading = new Set(paneOf.values()).size > 1 ? rows.filter((row) => paneOf.get(row) === paneOf.get(rows[0])) : [];
  leading.forEach((row, at) => {
    for (const other of [row, ...pcsOf(row).flatMap((pc) => holders.get(pc))]) {
      if (row.id !== "src-none" && !/\bk\d/.test(other.className)) other.classList.add("k" + at % COLOURS);
    }
  });

  // -- a line and its counterparts
  let marked = [], opened = false;
  W.textOf = (row) => row.lastElementChild.textContent;
  W.inPane = (row) => {
    const pane = row.closest(".pane"), top = row.offsetTop;
    return top >= pane.scrollTop + 40 && top + row.offsetHeight <= pane.scrollTop + pane.clientHeight;
  };
  W.reveal = (row) => {
    const pane = row.closest(".pane");
    if (!W.inPane(row)) pane.scrollTop = Math.max(0, row.offsetTop - pane.clientHeight / 2);
  };
  const counterparts = (row) => [...new Set(pcsOf(row).flatMap((pc) => holders.get(pc)))].filter((other) => paneOf.get(other) !== paneOf.get(row));
  const firsts = (others) => others.filter((row, at) => others.findIndex((other) => paneOf.get(other) === paneOf.get(row)) === at);
  const heat = (row) => parseFloat(row.cells[1].style.getPropertyValue("--h")) || 0;
  const hottest = (others) => firsts([...others].sort((a, b) => heat(b) - heat(a)));  // of each pane
  const choose = (row, named) => {
    for (const each of marked) { each.classList.remove("chosen", "linked"); each.removeAttribute("aria-current"); }
    marked = [];
    if (!row || (section.hidden && !named)) return;
    const others = counterparts(row);
    row.classList.add("chosen");
    row.setAttribute("aria-current", "true");
    for (const other of others) other.classList.add("linked");
    marked = [row, ...others];
    for (const other of hottest(others)) stopAt(other);
    if (section.hidden || (opened && !named)) return;
    opened = true;
    for (const each of [row, ...hottest(others)]) W.reveal(each);
    if (!named) return;              // the page itself does not scroll to where the section opens
    const pane = paneOf.get(row), box = pane.getBoundingClientRect();
    if (box.bottom < 80 || box.top > innerHeight - 80) pane.scrollIntoView({ block: "nearest" });
  };
  const go = (row, keep) => W.change({ section: "code", line: row ? row.id : "" }, keep);

  // -- the counterparts of the row under the pointer, which come into view when it rests there
  const REST_MS = 400;
  let near = [], resting = 0;
  const point = (row) => {
    if (near[0] === row) return;
    clearTimeout(resting);
    for (const each of near) each.classList.remove("near");
    near = row ? [row, ...counterparts(row)] : [];
    for (const each of near) each.classList.add("near");
    if (near.length > 1) resting = setTimeout(() => {
      const others = near.slice(1);
      for (const first of firsts(others)) {
        const own = others.filter((other) => paneOf.get(other) === paneOf.get(first));
        if (!own.some(W.inPane)) W.reveal(first);
      }
    }, REST_MS);
  };

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

  // -- pointer and keyboard: one row of each table can be tabbed to, in other tables that of the chosen row; arrows move from it
  const stops = new Map();
  const stopAt = (row) => {
    const table = row.closest("table");
    if (stops.has(table)) stops.get(table).tabIndex = -1;
    row.tabIndex = 0;
    stops.set(table, row);
  };
  for (const table of tables) {
    const own = W.all("tbody tr[id]", table).filter((row) => paneOf.has(row));
    if (own.length) stopAt(own[0]);
    table.addEventListener("click", (event) => {
      const row = event.target.closest("tbody tr");
      if (row && paneOf.has(row)) go(row);
    });
    const at = (event) => {
      const row = event.target.closest("tbody tr");
      return row && paneOf.has(row) ? row : null;
    };
    table.addEventListener("pointerover", (event) => { waits(at(event)); point(at(event)); });
    table.addEventListener("pointerleave", () => { waits(null); point(null); });
    table.addEventListener("focusin", (event) => {
      const row = at(event);
      if (!row) return;
      stopAt(row);
      waits(row);
      point(row);
    });
    table.addEventListener("focusout", () => { waits(null); point(null); });
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
  const hot = W.all("tr[data-rank]", section).sort((a, b) => a.dataset.rank - b.dataset.rank);
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

  W.watch((state) => choose(rows.find((row) => row.id === lineOf(state)), Boolean(state.line)));
});
