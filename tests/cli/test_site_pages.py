"""Is every page in the list of the site, and does every link of a page lead somewhere? Needs no MkDocs."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def site(root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_pages", root / "tools" / "site.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_page_is_listed_once(site: ModuleType, root: Path) -> None:
    # as YAML without the tags of Python objects that MkDocs gives to its extensions
    listed = re.search(r"^nav:\n(.*)", (root / "mkdocs.yml").read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert listed is not None
    patterns = re.findall(r"[\w./*-]+\.md", listed[1])
    pages = sorted(str(path.relative_to(root)) for pattern in site.PAGES for path in root.glob(pattern) if path.suffix == ".md")
    listed_pages = list(site.names(site.written_out(patterns, pages)))
    assert sorted(set(pages) - set(listed_pages)) == []
    assert len(listed_pages) == len(set(listed_pages)) > 150


def _headings(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site make them."""
    titles = re.findall(r"^#+ (.*?) *$", re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE), re.MULTILINE)
    words = (re.sub(r"\[(.*?)\]\(.*?\)", r"\1", title).lower() for title in titles)
    return {re.sub(r"[^\w\- ]", "", each).replace(" ", "-") for each in words}


def test_links_between_pages_lead_to_files_and_headings(site: ModuleType, root: Path) -> None:
    pages = [path for pattern in site.PAGES for path in root.glob(pattern) if path.suffix == ".md"]
    texts = {path: path.read_text("utf-8") for path in pages}
    headings = {path: _headings(text) for path, text in texts.items()}
    dead, anchors = [], 0
    for path, text in texts.items():
        plain = re.sub(r"^```.*?^```$|`[^`]*`", "", text, flags=re.DOTALL | re.MULTILINE)
        for link in re.findall(r"\]\((?!\w+:)([^)\s]+)", plain):
            name, _, anchor = link.partition("#")
            target = (path.parent / name).resolve() if name else path
            anchors += bool(anchor)
            if not target.exists() or (anchor and target.suffix == ".md" and anchor not in headings[target]):
                dead.append(f"{path.relative_to(root)}: {link}")
    assert dead == []
    assert anchors > 80


def test_pages_of_commands_and_notebooks_have_their_text(site: ModuleType) -> None:
    assert "usage: warpsight sweep pareto" in site.command_page("sweep pareto")
    notebook = {"cells": [{"cell_type": "code", "source": ["1 + 1"], "outputs": [{"data": {"text/plain": ["2"]}}]}]}
    assert site.notebook_page(notebook) == "```python\n1 + 1\n```\n\n```text\n2\n```\n"
    assert "::: warpsight.api.predict\n    options: {heading: warpsight.predict, toc_label: predict}\n" in site.python_page()
