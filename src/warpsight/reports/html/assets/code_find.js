// The code: search over the texts of both tables, and which columns are shown.
W.part(() => {
  const { tables, rows } = W.code, field = W.find("code-search"), only = W.find("code-only"), counter = W.find("code-found");

  // -- search
  let matches = [], last = "";
  const texts = new Map();
  const find = (words) => {
    if (words === last) return;
    last = words;
    for (const row of matches) row.classList.remove("found");
    const sought = words.toLowerCase();
    if (sought && !texts.size) for (const row of rows) texts.set(row, W.textOf(row).toLowerCase());
    matches = sought ? rows.filter((row) => texts.get(row).includes(sought)) : [];
    for (const row of matches) row.classList.add("found");
    counter.textContent = !sought ? "" : matches.length === 1 ? "1 line" : matches.length + " lines";
  };
  const jump = (by) => {
    if (!matches.length) return;
    const at = matches.findIndex((row) => row.id === W.state.line);
    const row = matches[at < 0 ? (by > 0 ? 0 : matches.length - 1) : (at + by + matches.length) % matches.length];
    W.change({ line: row.id }, true);
    W.say((matches.indexOf(row) + 1) + " of " + matches.length + ": " + W.textOf(row));
  };
  field.addEventListener("input", () => W.change({ search: field.value }, true));
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter") { event.preventDefault(); jump(event.shiftKey ? -1 : 1); }
    if (event.key === "Escape") { event.preventDefault(); W.change({ search: "" }, true); field.blur(); }
  });
  only.addEventListener("change", () => W.change({ only: only.checked ? "1" : "" }, true));
  W.key("/", "search in the code (Enter: next match)", () => { W.change({ section: "code" }); field.focus(); field.select(); });

  // -- columns: of long code the cells of some are made when they are first wanted; those of control words are of machine code alone
  const figures = ["wait", "cause", "executions", "requests", "sectors", "l1", "l2", "lanes", "interval"];
  const words = W.find("sass") ? ["waits", "stall", "sets", "live"] : [], columns = [...words, ...figures];
  const first = words.length ? words : ["cause"];
  const own = (table) => (table.id === "sass" ? columns : figures);
  const headings = { wait: "wait cycles", requests: "requests per execution", sectors: "sectors per request", l1: "L1 hits", l2: "L2 hits",
    lanes: "active lanes" };
  const digits = (value) => (value === undefined ? "" : W.number(value)), share = (value) => (value === undefined ? "" : W.percent(value));
  const cell = {
    wait: (row) => (row.wait_cycles >= 0.5 ? W.whole(row.wait_cycles) : ""), cause: (row) => row.cause || "", executions: (row) => W.whole(row.executions || 0),
    requests: (row) => digits(row.requests_per_execution), sectors: (row) => digits(row.sectors_per_request),
    l1: (row) => share(row.l1_hit_rate), l2: (row) => share(row.l2_hit_rate), lanes: (row) => digits(row.lanes),
    interval: ({ intervals }) => !intervals ? "" : intervals[0] === intervals[1] ? String(intervals[0]) : intervals.join("-"),
  };
  const complete = () => {
    const views = W.document.code, by = new Map();
    for (const view of Object.keys(views)) for (const row of views[view].rows) by.set(view + row.pcs[0], row);
    for (const table of tables) {
      const head = table.tHead.rows[0];
      const missing = own(table).slice(head.cells.length - 3), view = table.id === "sass" ? "sass" : table.id === "ptx" ? "line" : "source";
      head.lastElementChild.before(...missing.map((name) => W.make("th", { scope: "col" }, headings[name] || name)));
      for (const row of table.tBodies[0].rows) {
        if (!row.id) continue;
        const pc = row.dataset.pcs ? row.dataset.pcs.split(" ")[0] : row.id.replace("pc-", ""), data = by.get(view + pc);
        row.lastElementChild.before(...missing.map((name) => W.make("td", {}, data ? cell[name](data) : "")));
      }
    }
  };
  const boxes = new Map();
  for (const name of columns) {
    const box = W.make("input", { type: "checkbox", id: "column-" + name });
    box.addEventListener("change", () => W.change({ columns: columns.filter((each) => boxes.get(each).checked).join(",") || "none" }));
    boxes.set(name, box);
    W.find("code-columns").append(W.make("label", { class: "check" }, box, headings[name] || name));
  }
  const show = (wanted) => {
    const count = (table) => table.tHead.rows[0].cells.length - 3;
    if (tables.some((table) => own(table).some((name, at) => wanted.includes(name) && at >= count(table)))) complete();
    for (const name of columns) boxes.get(name).checked = wanted.includes(name);
    for (const table of tables) {
      own(table).forEach((name, at) => table.classList.toggle("no-" + (at + 3), at < count(table) && !wanted.includes(name)));
    }
  };

  // -- languages: the panes that are shown
  const panes = W.find("code-shown") ? W.all(".pane", W.find("code-panes")) : [], chosen = new Map();
  for (const pane of panes) {
    const name = pane.id.replace("pane-", ""), box = W.make("input", { type: "checkbox", id: "show-" + name });
    box.addEventListener("change", () => W.change({ hide: panes.map((each) => each.id.replace("pane-", "")).filter((each) => !chosen.get(each).checked).join(",") }));
    chosen.set(name, box);
    W.find("code-shown").append(W.make("label", { class: "check" }, box, name === "source" ? "source" : name.toUpperCase()));
  }

  W.watch((state) => {
    if (field.value !== (state.search || "")) field.value = state.search || "";
    find(state.search || "");
    only.checked = state.only === "1";
    for (const table of tables) table.classList.toggle("only", only.checked && Boolean(state.search));
    for (const pane of panes) {
      const name = pane.id.replace("pane-", ""), hidden = (state.hide || "").split(",").includes(name);
      chosen.get(name).checked = !hidden;
      pane.hidden = hidden;
    }
    show(state.columns ? state.columns.split(",") : first);
  });
});
