// The timeline of an SM: a canvas that shows some of the cycles, moved by buttons, keys, wheel, dragging and the frame on a map of the
// launch; a cell can be chosen.
// State: from (the first cycle shown), cycles (how many), slot and at (the chosen cell).
W.part(() => {
  const part = W.document.timeline, section = W.find("timeline"), view = W.find("timeline-view"), canvas = W.find("timeline-canvas");
  const [begin, end] = part.cycles, LEFT = 60, TOP = 22, ROW = 16, STRIP = 13, LEAST = Math.min(8, end - begin);
  const states = {};
  for (const row of W.all("#timeline-states tr[data-letter]")) {
    const { letter, colour, height, dark } = row.dataset;
    states[letter] = { colour, height: Number(height), ink: dark === "yes" ? "#fff" : "#1b1f24", name: row.cells[1].textContent };
  }
  // of each slot: where its pieces start, their letters, and which of its instructions each is about
  const rows = part.rows.map((row) => {
    const pieces = { ...row, start: [], letter: [], place: [] };
    let at = begin, place = 0;
    const add = (letter, cycles) => { pieces.start.push(at); pieces.letter.push(letter); pieces.place.push(place); at += cycles; };
    for (const [, letter, count] of row.runs.matchAll(/([-A-Z])(\d*)/g)) {
      const cycles = Number(count || 1);
      if (letter !== "I") add(letter, cycles);
      else for (let k = 0; k < cycles; k++) { add("I", 1); place++; }
    }
    pieces.start.push(at);
    return pieces;
  });
  const whole = end - begin;
  // a narrow window shows fewer cycles, so that they can be told apart
  const opening = Number(view.dataset.cycles);
  let cycles = Math.max(LEAST, Math.round(opening * Math.min(1, innerWidth / 1000)));
  let from = Number(view.dataset.from) + Math.floor((opening - cycles) / 2), chosen = null, wait = 0;

  const piece = (row, cycle) => {            // the piece of a slot that holds the cycle
    let low = 0, high = row.letter.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (row.start[middle] <= cycle) low = middle; else high = middle - 1;
    }
    return low;
  };
  const where = (pc) => {
    const found = part.instructions[pc];
    const lines = /^[A-Z]/.test(found.opcode) ? "SASS line" : "PTX line", row = W.find("sass") && W.find("pc-" + pc);
    if (found.file) return `${found.file.replaceAll("\\", "/").split("/").pop()}:${found.line}`;
    return row ? "SASS " + row.cells[0].textContent : `${lines} ${found.ptx_line}`;
  };
  const warp = (row, place) => row.warps.filter(([first]) => first <= place).pop()?.[1];
  const about = ({ row: number, cycle }) => {
    const row = rows[number], k = piece(row, cycle), letter = row.letter[k], pc = row.pcs[row.place[k]];
    const title = `Slot ${row.slot}` + (letter === "-" ? "" : `, warp ${warp(row, row.place[k])}`) + `, cycle ${W.whole(cycle)}`;
    if (letter === "-") return { lines: [title, "no warp, or a warp that has just started"] };
    const last = row.start[k + 1] - 1, span = last > row.start[k] ? `, cycles ${W.whole(row.start[k])} to ${W.whole(last)}` : "";
    const what = `${part.instructions[pc].opcode}, ${where(pc)}`;
    const state = `${letter}: ${states[letter].name}${span}`;
    return { lines: [title, state, (letter === "I" ? "instruction: " : "next instruction: ") + what], pc };
  };

  const draw = () => {
    const width = view.clientWidth, height = TOP + ROW * rows.length + 4, sharp = devicePixelRatio || 1;
    if (!width) return;
    canvas.width = width * sharp;
    canvas.height = height * sharp;
    canvas.style.width = width + "px";
    canvas.style.height = height + "px";
    const pen = canvas.getContext("2d"), style = getComputedStyle(document.documentElement);
    const [ink, faint, focus] = ["--ink", "--faint", "--focus"].map((name) => style.getPropertyValue(name).trim());
    pen.scale(sharp, sharp);
    pen.font = "10px sans-serif";
    const each = (width - LEFT - 4) / cycles, x = (cycle) => LEFT + (cycle - from) * each;
    const raw = cycles * 90 / (width - LEFT), size = 10 ** Math.floor(Math.log10(raw));
    const step = Math.max(1, [1, 2, 5, 10].find((k) => k * size >= raw) * size);
    for (let tick = Math.ceil(from / step) * step; tick <= from + cycles; tick += step) {
      pen.fillStyle = faint;
      pen.fillRect(x(tick), TOP - 4, 1, height);
      pen.fillStyle = ink;
      pen.fillText(W.whole(tick), Math.min(x(tick) + 2, width - pen.measureText(W.whole(tick)).width - 1), 12);
    }
    rows.forEach((row, number) => {
      const y = TOP + ROW * number;
      pen.fillStyle = ink;
      pen.fillText(`slot ${row.slot}`, 4, y + STRIP - 2);
      for (let k = piece(row, from); k < row.letter.length && row.start[k] < from + cycles; k++) {
        const look = states[row.letter[k]];
        if (!look) continue;
        const left = Math.max(LEFT, x(row.start[k])), wide = Math.min(width, x(row.start[k + 1])) - left;
        pen.fillStyle = look.colour;
        pen.fillRect(left, y + STRIP * (1 - look.height), Math.max(0.5, wide - (wide > 4 ? 1 : 0)), STRIP * look.height);
        if (wide < 9) continue;
        pen.fillStyle = look.ink;
        pen.fillText(row.letter[k], left + 2, y + STRIP - (look.height < 1 ? 1.5 : 3), wide);
      }
      if (!chosen || chosen.row !== number || chosen.cycle < from || chosen.cycle >= from + cycles) return;
      pen.strokeStyle = focus;
      pen.lineWidth = 2;
      pen.strokeRect(x(chosen.cycle) - 1, y - 2, Math.max(4, each) + 2, STRIP + 4);
    });
    W.find("timeline-range").textContent = `cycles ${W.whole(from)} to ${W.whole(from + cycles)}`;
    frame();
  };

  // -- the map: the share of slots in each state over all recorded cycles, and a frame around those that are shown
  const map = W.find("timeline-map"), pane = W.find("timeline-window"), { step, warp_cycles: counts } = part.map;
  const last = Math.max(end, Math.min(part.simulated_cycles, step * Object.values(counts)[0].length));
  const paint = () => {
    const width = map.clientWidth, height = map.clientHeight, sharp = devicePixelRatio || 1, board = W.find("timeline-map-canvas");
    if (!width) return;
    board.width = width * sharp;
    board.height = height * sharp;
    const pen = board.getContext("2d"), each = width / last, full = height / rows.length;
    pen.scale(sharp, sharp);
    for (let at = 0; at * step < last; at++) {
      const span = Math.min(step, last - at * step), left = at * step * each;
      let y = height;
      for (const letter of Object.keys(states)) {
        const high = full * (counts[letter]?.[at] || 0) / span;
        pen.fillStyle = states[letter].colour;
        pen.fillRect(left, y - high, span * each + 0.5, high);
        y -= high;
      }
    }
    pen.globalAlpha = 0.65;                  // the page has no details of these
    pen.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--paper").trim();
    pen.fillRect(0, 0, begin * each, height);
    pen.fillRect(end * each, 0, width, height);
  };
  const frame = () => {
    pane.style.left = 100 * from / last + "%";
    pane.style.width = 100 * cycles / last + "%";
    const values = { valuemin: begin, valuemax: end - cycles, valuenow: from, valuetext: W.find("timeline-range").textContent };
    for (const [name, value] of Object.entries(values)) map.setAttribute("aria-" + name, value);
  };
  const keep = () => {                       // not at every step of a movement: the other sections look at each change
    clearTimeout(wait);
    const cell = () => (chosen ? { slot: String(rows[chosen.row].slot), at: String(chosen.cycle) } : {});
    wait = setTimeout(() => W.change({ from: String(from), cycles: String(cycles), ...cell() }, true), 100);
  };
  const show = (first, count) => {
    cycles = Math.round(Math.min(whole, Math.max(LEAST, count)));
    from = Math.round(Math.min(end - cycles, Math.max(begin, first)));
    draw();
    keep();
  };
  const zoom = (factor, round) => {
    const fixed = round ?? (chosen && chosen.cycle >= from && chosen.cycle < from + cycles ? chosen.cycle : from + cycles / 2);
    const count = Math.min(whole, Math.max(LEAST, cycles * factor));
    show(fixed - (fixed - from) * count / cycles, count);
  };
  const describe = () => {
    const line = W.find("timeline-at");
    if (!chosen) { line.textContent = ""; return; }
    const { lines, pc } = about(chosen);
    line.replaceChildren(lines.join("; ") + " ");
    if (pc !== undefined && W.sections.includes("code")) line.append(W.make("a", { href: `#code&line=pc-${pc}` }, "Show in the code"));
  };
  const choose = (row, cycle, aloud) => {
    chosen = { row: Math.min(rows.length - 1, Math.max(0, row)), cycle: Math.min(end - 1, Math.max(begin, cycle)) };
    if (chosen.cycle < from) from = chosen.cycle;
    if (chosen.cycle >= from + cycles) from = chosen.cycle - cycles + 1;
    describe();
    if (aloud) W.say(about(chosen).lines.join("; "));
    draw();
    keep();
  };
  const change = (step) => {                 // to the next piece of the chosen slot, or the one before
    const { row, cycle } = chosen, k = piece(rows[row], cycle) + step;
    if (k >= 0 && k < rows[row].letter.length) choose(row, rows[row].start[k], true);
  };
  const cell = (event) => {
    const box = canvas.getBoundingClientRect(), row = Math.floor((event.clientY - box.top - TOP) / ROW);
    const cycle = Math.floor(from + (event.clientX - box.left - LEFT) * cycles / (box.width - LEFT - 4));
    return row >= 0 && row < rows.length && cycle >= from && cycle < from + cycles ? { row, cycle } : null;
  };

  let held = null;
  canvas.addEventListener("pointerdown", (event) => {
    held = { x: event.clientX, from, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (held && (held.moved || Math.abs(event.clientX - held.x) > 4)) {
      held.moved = true;
      W.tip(null, []);
      show(held.from - (event.clientX - held.x) * cycles / (canvas.clientWidth - LEFT - 4), cycles);
      return;
    }
    const found = cell(event), box = { left: event.clientX + 8, top: event.clientY - 8, bottom: event.clientY + 8 };
    W.tip(found && { getBoundingClientRect: () => box }, found ? about(found).lines : []);
  });
  canvas.addEventListener("pointerup", (event) => {
    const found = cell(event);
    if (held && !held.moved && found) choose(found.row, found.cycle, true);
    held = null;
  });
  canvas.addEventListener("pointercancel", () => { held = null; });
  canvas.addEventListener("pointerleave", () => W.tip(null, []));
  canvas.addEventListener("wheel", (event) => {
    const aside = event.deltaX || (event.shiftKey ? event.deltaY : 0);
    if (!event.ctrlKey && !aside) return;    // the page scrolls
    event.preventDefault();
    if (event.ctrlKey) zoom(event.deltaY > 0 ? 1.25 : 0.8, cell(event)?.cycle);
    else show(from + Math.sign(aside) * Math.max(1, cycles / 10), cycles);
  }, { passive: false });
  view.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    const far = event.shiftKey ? 10 : 1;
    const step = { ",": -1, ".": 1 }[event.key], edge = { Home: begin, End: end - 1 }[event.key];
    if (!move && !step && edge === undefined) return;
    event.preventDefault();
    if (!chosen) choose(0, from, true);
    else if (move) choose(chosen.row + move[0], chosen.cycle + move[1] * far, true);
    else if (step) change(step);
    else choose(chosen.row, edge, true);
  });

  // -- the map's pointer and keys: within the frame moves it, at its edges resizes it, elsewhere brings it there
  let grip = null;
  const cycleAt = (event) => {
    const box = map.getBoundingClientRect();
    return (event.clientX - box.left) * last / box.width;
  };
  const resize = (first, stop) => {          // the edge that is not held stays
    const low = Math.max(begin, Math.min(first, stop)), high = Math.min(end, Math.max(first, stop));
    show(low, high - low);
  };
  map.addEventListener("pointerdown", (event) => {
    const box = pane.getBoundingClientRect(), x = event.clientX, near = event.pointerType === "touch" ? 16 : 8;
    const inside = Math.min(near, box.width / 4), stop = from + cycles;
    if (x > box.left - near && x < box.left + inside) grip = (cycle) => resize(cycle, stop);
    else if (x < box.right + near && x > box.right - inside) { const first = from; grip = (cycle) => resize(first, cycle); }
    else {
      if (x < box.left || x > box.right) show(cycleAt(event) - cycles / 2, cycles);
      const held = cycleAt(event) - from;
      grip = (cycle) => show(cycle - held, cycles);
    }
    map.setPointerCapture(event.pointerId);
  });
  map.addEventListener("pointermove", (event) => { if (grip) grip(cycleAt(event)); });
  for (const name of ["pointerup", "pointercancel"]) map.addEventListener(name, () => { grip = null; });
  map.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const way = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 }[event.key], page = { PageUp: -1, PageDown: 1 }[event.key];
    const edge = { Home: begin, End: end - cycles }[event.key];
    if (!way && !page && edge === undefined) return;
    event.preventDefault();
    if (page) show(from + page * cycles, cycles);
    else if (!way) show(edge, cycles);
    else if (event.shiftKey) show(from, cycles + way * Math.max(1, Math.round(cycles / 10)));
    else show(from + way * Math.max(1, Math.round(cycles / 10)), cycles);
  });

  const actions = {
    in: ["+", "timeline: zoom in", () => zoom(0.5)], out: ["-", "timeline: zoom out", () => zoom(2)],
    earlier: ["[", "timeline: earlier", () => show(from - cycles / 2, cycles)],
    later: ["]", "timeline: later", () => show(from + cycles / 2, cycles)],
    all: ["a", "timeline: all cycles", () => show(begin, whole)],
  };
  for (const [name, [key, what, action]] of Object.entries(actions)) {
    W.find("timeline-" + name).addEventListener("click", action);
    W.key(key, what, () => { if (!section.hidden) action(); });
  }
  const within = (text, low, high, otherwise) => {
    const value = text ? Math.round(Number(text)) : NaN;
    return Number.isFinite(value) ? Math.min(high, Math.max(low, value)) : otherwise;
  };
  W.watch((state) => {
    cycles = within(state.cycles, LEAST, whole, cycles);
    from = within(state.from, begin, end - cycles, from);
    const row = rows.findIndex((each) => String(each.slot) === state.slot), cycle = within(state.at, begin, end - 1, null);
    if (row >= 0 && cycle !== null) chosen = { row, cycle };
    describe();
    draw();
  });
  new ResizeObserver(draw).observe(view);
  new ResizeObserver(paint).observe(map);
  W.watch(paint);
});
