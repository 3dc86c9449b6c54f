"""Does the report of a program show its streams, with short launches together, and refuse what is no result of `run`?"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from warpsight.analysis.report_data.files import report_data_of_file
from warpsight.base.errors import FormatError
from warpsight.reports.html.page import checked_page

pytestmark = pytest.mark.unit
SHORT, LONG = 20e-9, 60e-6


def result() -> dict[str, Any]:
    """4,000 short launches of two kernels in turn, a long one of another stream at the same time, and a copy."""
    spans: list[dict[str, Any]] = [
        {"what": "kernel", "launch": n + 1, "kernel": ("even", "odd")[n % 2], "from": n * 25e-9,
         "to": n * 25e-9 + SHORT * (1 + n % 2 / 9)} for n in range(4000)
    ]  # fmt: skip
    long = {"what": "kernel", "launch": 4001, "kernel": "<long>", "from": 10e-6, "to": 10e-6 + LONG}
    copy = {"what": "copy to host", "bytes": 4096, "from": 100e-6, "to": 120e-6}
    kernels = [
        {"kernel": name, "launches": count, "warp_instructions": 10 * count, "cycles": 1.0, "seconds": seconds, "scaled": False,
         "bound_by": "memory latency"}
        for name, count, seconds in (("<long>", 1, LONG), ("odd", 2000, 2000 * SHORT), ("even", 2000, 2000 * SHORT))
    ]  # fmt: skip
    totals = {"launches": 4001, "predicted": 4000, "scaled": 1, "scaled_error": 0.0123, "failed": 0, "seconds": 140e-6}
    streams = [{"process": 9, "stream": 1, "spans": [*spans, copy]}, {"process": 9, "stream": 7, "spans": [long]}]
    return {
        "tool": "warpsight", "command": ["./program", "4000"], "gpu": "a100", "model": "warpsight", "level": "sass",
        "target": "sm_80",
        "caches_before": "program", "launches": [], "kernels": kernels, "totals": totals,
        "timeline": {"seconds": 120e-6, "kernel_seconds": 90e-6, "copy_seconds": 20e-6, "idle_seconds": 10e-6, "streams": streams},
    }  # fmt: skip


def test_streams_are_drawn_with_short_launches_together(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps(result()))
    document = report_data_of_file(str(path))
    first, second = document["program"]["timeline"]["streams"]
    assert sum(span["many"] for span in first["spans"]) == 4001
    assert len(first["spans"]) < 1201
    assert {span["what"] for span in first["spans"]} == {"odd", "copy to host"}, "odd launches take a little longer"
    assert all(before["to"] <= after["from"] for before, after in zip(first["spans"], first["spans"][1:], strict=False))
    assert second["spans"] == [{"what": "<long>", "from": 10e-6, "to": 10e-6 + LONG, "many": 1}]
    page = checked_page(document, str(path))
    assert len(page) < 1 << 20
    drawing = page[page.index("<svg") : page.index("</svg>")]
    tips = re.findall(r"<title>(.*?)</title>", drawing)
    assert len(tips) == len(first["spans"]) + 1
    assert "&lt;long&gt;: 60.00 us from 10.00 us" in tips
    assert tips[0].startswith("odd and others, ")
    assert all(f">{word}<" in drawing for word in ("stream 1", "stream 7", "time (us)", "copy to host"))
    assert "kernels 75.0 %, copies and fills 16.7 %, neither 8.3 %" in page
    assert checked_page(json.loads(json.dumps(document)), "again") == page


@pytest.mark.parametrize("key", ["totals", "kernels", "timeline", "gpu"])
def test_what_is_no_result_of_run_is_refused(key: str, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps(result() | {key: [3]} if key != "gpu" else {k: v for k, v in result().items() if k != key}))
    with pytest.raises(FormatError, match=r"run\.json"):
        checked_page(report_data_of_file(str(path)), str(path))
