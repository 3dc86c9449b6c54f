"""The results of the folder: the output of `--json` commands and studies, but for the versions; their reports, and two compared."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from warpsight.analysis.report_data.files import ResultFile, ResultFolder
from warpsight.base.errors import UsageError
from warpsight.explorer.project import VERSIONS
from warpsight.reports.formats import plain
from warpsight.reports.html.page import checked_page

_KEPT = 32
_BETWEEN = "+"


class Results:
    """The results below `folder`, which are only read. Raises UsageError if it is not a folder."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = ResultFolder(folder)
        self._pages = lru_cache(_KEPT)(self._page)

    def rows(self) -> list[dict[str, Any]]:
        """A row for each result, the newest first."""
        return [
            {"ident": each.item.ident, "name": each.item.name, "stamp": each.item.stamp, "changed": each.changed,
             "kernel": each.kernel, "gpu": each.gpu, "model": each.model, "seconds": each.seconds, "bound_by": each.bound_by,
             "comparable": each.comparable}
            for each in self._folder.listing()[0] if _is_own(each.item)
        ]  # fmt: skip

    def others(self) -> list[dict[str, str]]:
        """The JSON files that are not results, each with the reason."""
        return [{"name": item.name, "why": why} for item, why in self._folder.listing()[1] if _is_own(item)]

    def page(self, idents: str) -> str:
        """The report of a result, or that of two, `IDENT+IDENT`, compared. Idents are looked up, so that no path reaches the disk.

        Raises UsageError for other idents, and as `ResultFolder.report_data`.
        """
        asked = idents.split(_BETWEEN)
        items = [item for ident in asked if (item := self._folder.item(ident))]
        if len(items) != len(asked) or len(items) > 2:
            remedy = "choose one of the list, or two to compare"
            raise UsageError("there is no such result (any more)", place="results", remedy=remedy)
        return self._pages(*items)

    def _page(self, *items: ResultFile) -> str:
        """The current page; items change with their files: a kept page is never out of date."""
        document = self._folder.report_data(*items) if len(items) == 1 else self._folder.comparison(items)
        return checked_page(plain(document), " or ".join(item.name for item in items))


def _is_own(item: ResultFile) -> bool:
    return not item.name.startswith(f"{VERSIONS}/")
