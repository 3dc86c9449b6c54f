// The list of results: sorted by the column whose heading is pressed, kept in the address; two results can be ticked.
(() => {
  "use strict";
  const table = document.getElementById("results");
  if (!table) return;
  const body = table.tBodies[0], heads = Array.from(table.tHead.rows[0].cells), boxes = Array.from(table.querySelectorAll("input"));
  const numbers = ["time", "date"];
  const sort = (key, down) => {
    const at = heads.findIndex((head) => head.dataset.key === key);
    if (at < 1) return;
    const value = (row) => row.cells[at].dataset.value;
    const compare = numbers.includes(key) ? (a, b) => a - b : (a, b) => a.localeCompare(b, "en", { numeric: true, sensitivity: "base" });
    const rows = Array.from(body.rows).sort((one, two) => {
      const [a, b] = [value(one), value(two)];
      if (!a || !b) return !a - !b;        // what has no value comes last
      return (down ? -1 : 1) * compare(a, b);
    });
    body.append(...rows);
    for (const head of heads.slice(1)) head.setAttribute("aria-sort", head.dataset.key !== key ? "none" : down ? "descending" : "ascending");
  };
  for (const head of heads.slice(1)) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sorter";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const way = head.getAttribute("aria-sort"), key = head.dataset.key;
      const down = way === "descending" ? false : way === "ascending" ? true : key === "date";
      history.replaceState(null, "", `#${key}=${down ? "down" : "up"}`);
      sort(key, down);
    });
  }
  const tick = () => {
    const count = boxes.filter((box) => box.checked).length;
    for (const box of boxes) box.disabled = count >= 2 && !box.checked;
    document.getElementById("compare").disabled = count !== 2;
  };
  for (const box of boxes) box.addEventListener("change", tick);
  const [key, way] = location.hash.slice(1).split("=");
  if (key) sort(key, way === "down");
  tick();
  addEventListener("pageshow", tick);      // a browser that goes back has the boxes as they were
})();
