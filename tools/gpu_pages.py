"""Writes docs/gpus/ from the catalogue's descriptions, a page for each GPU and the list of them, and the tables of keys in
docs/reference/gpu-description.md from the table in the code.

`--check` only lists the pages that would change (exit code 1). A page without a GPU is removed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from warpsight.gpu.catalog import catalog_names
from warpsight.gpu.key import FLAG, WORD, Key
from warpsight.gpu.keys import every_parameter, key_of
from warpsight.gpu.loader import load_gpu
from warpsight.gpu.spec import KEYS
from warpsight.reports.gpus import gpu_page, index_page

DOCS = Path(__file__).resolve().parents[1] / "docs"
FOLDER = DOCS / "gpus"
REFERENCE = DOCS / "reference" / "gpu-description.md"
COMMAND = "python tools/gpu_pages.py"
BEGIN, END = f"<!-- keys: {COMMAND} -->\n", "<!-- end keys -->"
TITLES = {
    "": "The whole GPU", "sm": "`sm`: one streaming multiprocessor", "latency": "`latency`: by op class",
    "initiation": "`initiation`: initiation interval by op class", "l1": "`l1`: of one SM", "noc": "`noc`: between SMs and L2",
    "l2": "`l2`: the last-level cache", "dram": "`dram`",
    "dispatch": "`dispatch`: what it costs to launch a grid and to place its blocks",
    "power": "`power`: what the board may draw, and what draws it",
}  # fmt: skip
PARAMETERS = """### Parameters of models

A model can have parameters of its own, named `MODEL.NAME`. A description states them in a section with the model's name, and
`--set`, `overrides` and the axes of a study take them as any other key. `warpsight models show MODEL` lists them too.
"""


def pages() -> dict[str, str]:
    """Every page by its file name."""
    gpus = [load_gpu(name) for name in catalog_names()]
    return {"README.md": index_page(gpus, COMMAND)} | {f"{gpu.name}.md": gpu_page(gpu, COMMAND) for gpu in gpus}


def stale(folder: Path) -> list[str]:
    """The names of pages in `folder` that are missing, different or without a GPU."""
    current = pages()
    stored = {path.name: path.read_text("utf-8") for path in folder.glob("*.md")}
    return sorted(name for name in current.keys() | stored.keys() if current.get(name) != stored.get(name))


def reference_page(text: str) -> str:
    """The reference page `text` with its tables of keys as the code has them."""
    parts = [f"### {title}\n\n{_table(key for key in KEYS.values() if key.name.rpartition('.')[0] == section)}"
             for section, title in TITLES.items()]
    parts.append(f"{PARAMETERS}\n{_table(map(key_of, every_parameter()))}")
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + "\n".join(parts) + END + rest.partition(END)[2]


def _table(keys: Iterable[Key]) -> str:
    head = ["| key | kind | default | read by | meaning |", "|---|---|---|---|---|"]
    return "\n".join([*head, *map(_row, keys), ""])


def _row(key: Key) -> str:
    words = ("true", "false") if key.kind == FLAG else key.choices
    quoted = [f"`{word}`" for word in words]
    kind = " or ".join([", ".join(quoted[:-1]), quoted[-1]]) if len(quoted) > 1 else quoted[0] if key.kind == WORD else key.kind
    default = "required" if key.default is None else key.default.replace("=", "as ") or "none"
    read_by = f"{key.step}, order" if key.orders else key.step
    return f"| `{key.name}` | {kind} | {default} | {read_by} | {key.meaning} |"


def main() -> int:
    """Write or check the pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing, list the pages that would change")
    check = parser.parse_args().check
    changed = stale(FOLDER)
    text = REFERENCE.read_text("utf-8")
    if reference_page(text) != text:
        changed.append(REFERENCE.name)
    if check:
        print(f"out of date: {', '.join(changed)}: run {COMMAND}" if changed else "the pages are up to date")
        return 1 if changed else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    current = pages()
    for name in changed:
        if name == REFERENCE.name:
            REFERENCE.write_text(reference_page(text), "utf-8")
        elif name in current:
            (FOLDER / name).write_text(current[name], "utf-8")
        else:
            (FOLDER / name).unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
