// CPI stacks drawn by a script: a lying bar for each row on one scale, its parts with the paint of every other picture.
// rows: [{name, parts: {component: CPI}, text}]; the longest is as wide as the page allows.
W.stacks = (rows) => {
  const drawn = W.make("div", {}), names = new Set(), sum = (parts) => Object.values(parts).reduce((before, part) => before + part, 0);
  const most = Math.max(...rows.map((row) => sum(row.parts)));
  for (const { name, parts, text } of rows) {
    const whole = sum(parts), spoken = [];
    const bar = W.make("div", { class: "lying-bar", role: "img" });
    for (const [component, part] of Object.entries(parts)) {
      if (!(part > 0)) continue;
      const tip = `${component}: ${W.number(part)} CPI, ${W.percent(part / whole)}`;
      const span = W.make("span", { class: "paint-" + component, title: tip });
      span.style.width = 100 * part / most + "%";
      bar.append(span);
      names.add(component);
      spoken.push(tip);
    }
    bar.setAttribute("aria-label", `${name}: ${text}. ${spoken.join("; ")}`);
    drawn.append(W.make("div", { class: "lying" }, W.make("p", { class: "lying-label" }, W.make("b", {}, name), " " + text), bar));
  }
  const key = W.make("p", { class: "stack-key" });
  for (const name of names) key.append(W.make("span", {}, W.make("span", { class: "swatch paint-" + name, "aria-hidden": "true" }), name), " ");
  drawn.append(key);
  return drawn;
};
// base64 of little-endian float32 as numbers
W.floats = (text) => {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)), view = new DataView(bytes.buffer);
  return Float32Array.from({ length: bytes.length / 4 }, (_, at) => view.getFloat32(4 * at, true));
};
