"""The pages of the documentation site, as a hook of MkDocs: `mkdocs build` and `mkdocs serve` call it.

The site has the pages and pictures of the repository in the same folders, so that every link means the same in both. Three kinds of
pages are made here: the help of each command, the Python interface from its docstrings, and the notebooks with their stored output.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import warpsight
from warpsight.cli.main import COMMANDS, Command, main

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("*.md", "docs/**/*.md", "validation/**/*.md", "benchmarks/*.md", "suites/README.md", "docs/*.css")
LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)")


# -- What MkDocs calls.

def on_config(config: Any) -> Any:
    """Take the pages from a folder in which all of them lie, and write the list of pages out."""
    folder = Path(tempfile.mkdtemp(prefix="warpsight-site-"))
    collect(folder)
    config["docs_dir"] = str(folder)
    pages = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.md"))
    config["nav"] = written_out(config["nav"], pages)
    return config


def on_post_build(config: Any) -> None:
    """Remove that folder."""
    shutil.rmtree(config["docs_dir"])


# -- The pages.

def collect(folder: Path) -> None:
    """Write all pages, and what they link to, into `folder`."""
    texts = {path: path.read_text("utf-8") for pattern in PAGES for path in sorted(ROOT.glob(pattern))}
    for path in sorted(ROOT.glob("docs/notebooks/*.ipynb")):
        texts[path.with_suffix(".md")] = notebook_page(json.loads(path.read_text("utf-8")))
    for path, text in texts.items():
        _write(folder / path.relative_to(ROOT), text.replace(".ipynb)", ".md)"))
        for link in LINK.findall(text):
            target = (path.parent / link).resolve()
            if target.is_file() and target not in texts and ROOT in target.parents:
                _write(folder / target.relative_to(ROOT), target.read_bytes())
    for command in _with_parts(COMMANDS):
        _write(folder / f"docs/reference/commands/{command.replace(' ', '-')}.md", command_page(command))
    _write(folder / "docs/reference/python.md", python_page())


def _write(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def _with_parts(commands: Iterable[Command], before: str = "") -> Iterator[str]:
    for command in commands:
        yield f"{before}{command.name}"
        yield from _with_parts(command.parts.values(), f"{command.name} ")


def command_page(command: str) -> str:
    """The help of `command`, as it prints it."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
        main([*command.split(), "--help"])
    return f"# {command}\n\n```text\n{text.getvalue().rstrip()}\n```\n"


def python_page() -> str:
    """A directive for each public name of the package; mkdocstrings writes signature and docstring in its place."""
    public = sorted((name for name in warpsight.__all__ if name[0] != "_"), key=lambda name: (name[0].isupper(), name))
    named = "    options: {{heading: warpsight.{0}, toc_label: {0}}}\n"  # as users write it, not where it is defined
    parts = [f"::: {getattr(warpsight, name).__module__}.{name}\n{named.format(name)}" for name in public]
    return "\n".join(["# The Python interface\n\n`import warpsight` gives all of these names.\n", *parts])


def notebook_page(notebook: dict[str, Any]) -> str:
    """A notebook's text, code, and printed output."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            printed = "".join(output.get("text", data.get("text/plain", []))).rstrip()
            parts.append("".join(data["image/svg+xml"]) if "image/svg+xml" in data else f"```text\n{printed}\n```")
    return "\n\n".join(parts) + "\n"


# -- The list of pages.

def written_out(nav: list[Any], pages: list[str]) -> list[Any]:
    """`nav` with every pattern replaced by the pages that match it and that no other entry names."""
    taken = {name for name in names(nav) if "*" not in name}

    def entries(items: list[Any]) -> Iterator[Any]:
        for item in items:
            if isinstance(item, dict):
                ((title, inside),) = item.items()
                yield {title: list(entries(inside)) if isinstance(inside, list) else inside}
            elif "*" in item:
                folder = item.count(os.sep)
                found = [page for page in pages if fnmatch(page, item) and page.count(os.sep) == folder and page not in taken]
                taken.update(found)
                yield from found
            else:
                yield item

    return list(entries(nav))


def names(nav: Any) -> Iterator[str]:
    """The pages and patterns of `nav`, in order."""
    if isinstance(nav, str):
        yield nav
    else:
        for item in nav.values() if isinstance(nav, dict) else nav:
            yield from names(item)
