// CPI stacks drawn in the page: a lying bar for each row on one scale, its parts with the fills of every other picture.
W.svg = (name, attributes, ...inside) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...inside);
  return made;
};
// rows: [{name, parts: {component: CPI}, text}]; `most` is the CPI of the whole width, so that pictures can be compared.
W.stacks = (title, rows, most) => {
  const bar = 18, slot = 26, left = 8 + 6.6 * Math.max(...rows.map((row) => row.name.length)), inner = 420;
  const whole = most || Math.max(...rows.map((row) => Object.values(row.parts).reduce((sum, part) => sum + part, 0)));
  const names = new Set(rows.flatMap((row) => Object.keys(row.parts).filter((name) => row.parts[name] > 0)));
  const wide = left + inner + 16 + 6.6 * Math.max(...rows.map((row) => row.text.length));
  const high = slot * rows.length + 4 + 20 * Math.ceil(names.size / 5);
  const drawn = W.svg("svg", { viewBox: `0 0 ${wide} ${high}`, width: wide, height: high, role: "img", "aria-label": title,
    "font-family": "sans-serif", "font-size": 11, fill: "var(--ink)" });
  rows.forEach((row, number) => {
    const y = slot * number + (slot - bar) / 2;
    let x = left;
    drawn.append(W.svg("text", { x: left - 6, y: y + bar - 5, "text-anchor": "end" }, row.name));
    for (const [name, part] of Object.entries(row.parts)) {
      if (!(part > 0)) continue;
      const width = part / whole * inner;
      const rect = W.svg("rect", { x, y, width, height: bar, fill: `url(#stack-${name})`, stroke: "var(--ink)", "stroke-width": 0.5 });
      rect.append(W.svg("title", {}, `${row.name}, ${name}: ${W.number(part)} CPI`));
      drawn.append(rect);
      x += width;
    }
    drawn.append(W.svg("text", { x: x + 6, y: y + bar - 5 }, row.text));
  });
  Array.from(names).forEach((name, number) => {
    const x = left + (number % 5) * 88, y = slot * rows.length + 8 + 20 * Math.floor(number / 5);
    drawn.append(W.svg("rect", { x, y, width: 14, height: 12, fill: `url(#stack-${name})`, stroke: "var(--ink)", "stroke-width": 0.5 }));
    drawn.append(W.svg("text", { x: x + 18, y: y + 10 }, name));
  });
  return drawn;
};
// base64 of little-endian float32 as numbers
W.floats = (text) => {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)), view = new DataView(bytes.buffer);
  return Float32Array.from({ length: bytes.length / 4 }, (_, at) => view.getFloat32(4 * at, true));
};
