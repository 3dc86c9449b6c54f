"""Is each line of the code in the page, escaped, with its costs, its place among the hot ones and its counterparts?"""

from __future__ import annotations

import copy
import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from warpsight.reports.html.code import COLUMNS, HOT, code, language
from warpsight.reports.html.page import embedded, page, render

pytestmark = pytest.mark.unit

NASTY = '<script>alert(1)</script>&"'
STACK = {"base": 0.5, "mem_data": 1.5}


def row(pc: int, share: float, **changes: Any) -> dict[str, Any]:
    """A row of an explanation by instruction; the kernel has a CPI of 2."""
    cpi = 2 * share
    return {
        "pcs": [pc], "block": pc // 4, "file": "k.cu", "line": 10 + pc // 2, "ptx_lines": [pc + 30, pc + 30],
        "text": f"add.s32 %r{pc}, {NASTY};", "executions": 1000 + pc, "lanes": 31.5,
        "cpi_stack": {"base": cpi / 4, "mem_data": 3 * cpi / 4}, "cpi": cpi, "share": share, "issue_cycles": 25 * cpi,
        "wait_cycles": 75 * cpi, "cause": "mem_data",
        "requests_per_execution": None, "sectors_per_request": None, "l1_hit_rate": None, "l2_hit_rate": None, "intervals": None,
        "waits_for": [], **changes,
    }  # fmt: skip


def view(by: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {"kernel": NASTY, "gpu": "g", "model": "mdm", "by": by, "cycles": 200.0, "cpi": 2.0, "cpi_stack": STACK, "rows": rows,
            "rest": [{"component": "idle", "cpi": 0.2, "share": 0.1, "wait_cycles": 20.0}],
            "totals": {"issue_cycles": 50.0, "wait_cycles": 150.0}}  # fmt: skip


SHARES = [0.01, 0.3, 0.0, 0.2, 0.0001, 0.1, 0.25, 0.04]


@pytest.fixture
def document() -> dict[str, Any]:
    """Eight instructions of four source lines of one file; the second is a load."""
    rows = [row(pc, share) for pc, share in enumerate(SHARES)]
    rows[1] |= {"sectors_per_request": 1.25, "requests_per_execution": 8.0, "l1_hit_rate": 0.0, "l2_hit_rate": 0.5}
    rows[1]["intervals"] = (3, 9)
    rows[3]["waits_for"] = [{"pc": 1, "opcode": "ld", "file": "k.cu", "line": 10, "ptx_line": 31, "stall_cycles": 420.0}]
    lines = [row(pc, SHARES[pc] + SHARES[pc + 1], pcs=[pc, pc + 1], block=-1, text="") for pc in (0, 2, 4, 6)]
    source = view("source", lines) | {
        "sources": {"k.cu": {str(line): f"  line {line} {NASTY}" for line in range(9, 14)}}, "missing_sources": [],
    }  # fmt: skip
    entry = {"pc": 1, "opcode": f"ld.global{NASTY}", "space": "global", "access": "load", "access_bytes": 4, "file": "k.cu",
             "line": 10, "ptx_line": 31, "executions": 100, "sectors": [[8, 90], [32, 10]], "passes": [],
             "levels": {"L1": {"hit": 100, "miss": 300}},
             "patterns": [{"kind": "typical", "executions": 90, "warp": 3, "before": 0, "sectors": [*range(8)], "lines": 2,
                           "lanes": [8 * lane for lane in range(32)], "bytes_asked": 128}],
             "reuse": {"capacities": [1, 4, 384], "hit_shares": [0.0, 0.25, 0.25], "requests": 400, "first_uses": 300}}  # fmt: skip
    return {"code": {"source": source, "line": view("line", rows)}, "loads": [entry],
            "loads_about": {"line_bytes": 128, "l1_lines": 384, "drawn": 1, "lanes_unknown": "", "reuse_note": ""}}  # fmt: skip


class Rows(HTMLParser):
    """Rows of tables by id: their attributes and the texts of their cells."""

    def __init__(self) -> None:
        super().__init__()
        self.attributes: dict[str, dict[str, str | None]] = {}
        self.cells: dict[str, list[str]] = {}
        self._row = ""
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A row with an id begins, or a cell of it."""
        found = dict(attrs)
        if tag == "tr":
            self._row = found.get("id") or ""
            if self._row:
                assert self._row not in self.cells, "an id twice"
                self.attributes[self._row], self.cells[self._row] = found, []
        elif tag in ("td", "th") and self._row:
            self.cells[self._row].append("")
            self._inside = True

    def handle_endtag(self, tag: str) -> None:
        """A cell, or a table, ends."""
        self._inside = self._inside and tag not in ("td", "th", "tr")
        self._row = "" if tag == "table" else self._row

    def handle_data(self, data: str) -> None:
        """Text of a cell."""
        if self._inside:
            self.cells[self._row][-1] += data


def html(document: dict[str, Any]) -> str:
    context = code(document)
    assert context is not None
    return str(render("code.jinja", **context))


def rows_of(document: dict[str, Any]) -> Rows:
    parser = Rows()
    parser.feed(html(document))
    return parser


def test_every_instruction_and_source_line_has_a_row_with_its_text(document: dict[str, Any]) -> None:
    found = rows_of(document)
    for pc in range(8):
        cells = found.cells[f"pc-{pc}"]
        assert cells[0] == str(pc + 30)
        assert cells[-1] == f"add.s32 %r{pc}, {NASTY};"
    for line in range(9, 14):
        assert found.cells[f"src-0-{line}"][-1] == f"  line {line} {NASTY}"
    assert found.attributes["src-0-11"]["data-pcs"] == "2 3"
    assert "data-pcs" not in found.attributes["src-0-9"]  # has no instruction
    assert {len(cells) for cells in found.cells.values()} == {3 + len(COLUMNS)}


def test_no_text_of_the_kernel_is_markup(document: dict[str, Any]) -> None:
    text = html(document)
    assert "<script" not in text
    assert text.count("alert(1)") == text.count("&lt;script&gt;alert(1)&lt;/script&gt;")


def test_columns_say_what_explain_says(document: dict[str, Any]) -> None:
    cells = rows_of(document).cells["pc-1"]
    by_name = dict(zip([name for name, *_ in COLUMNS], cells[2:-1], strict=True))
    assert cells[1] == "30.0 %"
    assert by_name == {"wait": "45", "cause": "mem_data", "executions": "1,001", "requests": "8.00", "sectors": "1.25",
                       "l1": "0.0 %", "l2": "50.0 %", "lanes": "31.5", "interval": "3-9"}  # fmt: skip
    other = dict(zip(by_name, rows_of(document).cells["pc-2"][2:-1], strict=True))
    assert [other[name] for name in ("requests", "sectors", "l1", "l2", "interval", "wait")] == [""] * 6


def test_hot_lines_are_numbered_by_share(document: dict[str, Any]) -> None:
    found = rows_of(document)
    ranked = {ident: int(a["data-rank"] or 0) for ident, a in found.attributes.items() if "data-rank" in a}
    # the others have less than a twentieth of the hottest
    assert sorted(ranked, key=lambda ident: ranked[ident]) == [f"pc-{pc}" for pc in (1, 6, 3, 5, 7)]
    assert all("hot" in (found.attributes[ident]["class"] or "").split() for ident in ranked)
    many = [row(pc, 0.01) for pc in range(50)]
    document["code"] = {"line": view("line", many)}
    assert sum("data-rank" in a for a in rows_of(document).attributes.values()) == HOT


def test_memory_instructions_have_a_panel(document: dict[str, Any]) -> None:
    text = html(document)
    assert "mem" in (rows_of(document).attributes["pc-1"]["class"] or "").split()
    assert text.count('<article class="load"') == 1
    assert 'id="load-1"' in text
    assert "90 of 100 executions (90.0 %) have this many sectors; here 32 active lanes request 128 B of 256 B" in text
    assert "hit 100 (25.0 %)" in text
    assert "in an LRU cache of the same size (384 lines) 25.0 % hit" in text


def test_source_that_is_not_at_hand_is_told(document: dict[str, Any]) -> None:
    document["code"]["source"] |= {"sources": {}, "missing_sources": ["k.cu"]}
    text = html(document)
    assert "k.cu: file not found, so its lines have no text" in text
    assert rows_of(document).cells["src-0-10"][-1] == ""


def test_kernel_without_source_lines_shows_instructions_alone(document: dict[str, Any]) -> None:
    del document["code"]["source"]
    text = html(document)
    assert "pane-source" not in text
    assert "pane-ptx" in text
    assert "src-0" not in text


def test_instructions_without_a_source_line_stand_in_a_row_of_their_own(document: dict[str, Any]) -> None:
    document["code"]["source"]["rows"][3]["file"] = ""
    found = rows_of(document)
    assert found.attributes["src-none"]["data-pcs"] == "6 7"


@pytest.mark.parametrize(
    ("texts", "name"),
    [(["", "@%p1 bra $L1;"], "PTX"), (["/*0050*/ @!P0 EXIT"], "SASS"), (["LDG.E R0, R2"], "SASS"), ([], "PTX"),
     (["ld.global.f32 %f1, [%rd1];"], "PTX")],
)  # fmt: skip
def test_instructions_are_called_by_their_language(texts: list[str], name: str) -> None:
    assert language([{"text": text} for text in texts]) == name


def test_document_without_code_has_no_section() -> None:
    assert code({"predictions": []}) is None


def test_rows_in_the_page_are_those_of_the_document(document: dict[str, Any]) -> None:
    before = copy.deepcopy(document)
    short = embedded(document)
    assert document == before
    table = short["loads"]
    loads = [dict(zip(table["columns"], values, strict=False)) | table["same"] for values in table["values"]]
    left_out = {key for key, value in before["loads"][0].items() if value in (None, "")}
    assert [set(before["loads"][0]) - set(entry) - left_out for entry in loads] == [{"file", "line", "ptx_line"}]
    for name in ("line", "source"):
        table = json.loads(json.dumps(short["code"][name]["rows"]))
        assert len(table["values"]) == len(document["code"][name]["rows"])
        for values, wanted in zip(table["values"], document["code"][name]["rows"], strict=True):
            found = dict(zip(table["columns"], values, strict=False)) | table["same"]
            assert found.get("pcs", wanted["pcs"]) == wanted["pcs"]
            stack = dict(zip(short["code"][name]["cpi_stack"], found["cpi_stack"], strict=False))
            there = {component: part for component, part in stack.items() if part}
            assert {k: v for k, v in wanted["cpi_stack"].items() if v} == pytest.approx(there, rel=1e-4)
            assert found.get("l1_hit_rate") == wanted["l1_hit_rate"]
    lines = short["code"]["line"]["rows"]
    waits = lines["columns"].index("waits_for")
    assert lines["values"][3][waits] == [[1, 420]]


def test_long_code_is_in_a_page_of_a_megabyte() -> None:
    rows = [row(pc, 1 / 2000, text=f"fma.rn.f32 %f{pc}, %f{pc - 1}, %f{pc - 2}, 0f3F800000;") for pc in range(2000)]
    lines = [row(pc, 1 / 400, pcs=[*range(pc, pc + 5)], line=pc // 5, text="") for pc in range(0, 2000, 5)]
    sources = {"k.cu": {str(line): f"    x{line} = x{line} * 1.5f + y[{line}];" for line in range(400)}}
    long = {"source": view("source", lines) | {"sources": sources, "missing_sources": []}, "line": view("line", rows)}
    prediction = {"kernel": "k", "gpu": "g", "model": "mdm", "cycles": 200.0, "seconds": 1e-6, "cpi": 2.0, "cpi_stack": STACK,
                  "ipc_sm_warp": 0.5, "bound_by": "b", "class": "c", "dpki": None, "warp_instructions": 100,
                  "provenance": {}}  # fmt: skip
    head = {"schema": 1, "kind": "kernel", "tool": "t", "title": "k", "model": "mdm"}
    text = page(head | {"predictions": [prediction], "code": long})
    assert len(text) < 900_000
    parser = Rows()
    parser.feed(text)
    assert len([ident for ident in parser.cells if ident.startswith("pc-")]) == 2000
    assert {len(parser.cells[f"pc-{pc}"]) for pc in range(2000)} == {3 + sum(always for *_, always in COLUMNS)}
    data = json.loads(re.search(r'id="document">(.*?)</script>', text, re.DOTALL)[1])  # type: ignore[index]
    table = data["code"]["line"]["rows"]
    assert "text" not in table["columns"] and "cpi_stack" in table["same"] and table["stacks"] == [[0.00025, 0.00075]]


# -- Machine code beside PTX and source.

def word(pc: int, **changes: Any) -> dict[str, Any]:
    return {"section": ".text.k", "address": 16 * pc, "stall": pc % 15, "yields": pc % 2 == 1, "write_barrier": 2 if pc == 1 else 7,
            "read_barrier": 7, "waits": [0, 3] if pc == 3 else [], "live_registers": 10 + pc, **changes}  # fmt: skip


@pytest.fixture
def native(document: dict[str, Any]) -> dict[str, Any]:
    """The eight instructions as machine code, made from four lines of PTX; between them stands one without any."""
    code_views = document["code"]
    rows = code_views["line"]["rows"]
    code_views["sass"] = view("sass", [{**each, "text": f"FADD R{pc}, R1, {NASTY}", "machine": word(pc)}
                                       for pc, each in enumerate(rows)])  # fmt: skip
    for pc, each in enumerate(code_views["sass"]["rows"]):
        each["ptx_lines"] = [30 + 2 * (pc // 2), 30 + 2 * (pc // 2)]
    lines = [row(pc, SHARES[pc] + SHARES[pc + 1], pcs=[pc, pc + 1], block=-1, ptx_lines=[30 + pc, 30 + pc]) for pc in (0, 2, 4, 6)]
    code_views["line"] = view("line", lines) | {"unused": {"33": f"cvta.to.global.u64 %rd1, {NASTY};"}}
    return document


def test_machine_code_has_its_control_words_and_links_to_ptx_and_source(native: dict[str, Any]) -> None:
    found = rows_of(native)
    # address, share, waits, stall, sets, live, then the columns of all tables, and the text
    assert found.cells["pc-3"][:6] == ["0x00030", "20.0 %", "0--3--", "3y", "", "13"]
    assert found.cells["pc-1"][4] == "W2--"
    assert found.cells["pc-3"][-1] == f"FADD R3, R1, {NASTY}"
    assert {len(found.cells[f"pc-{pc}"]) for pc in range(8)} == {3 + 4 + len(COLUMNS)}
    assert found.attributes["ptx-32"]["data-pcs"] == "2 3"
    assert "data-pcs" not in found.attributes["ptx-33"]
    assert found.cells["ptx-33"][-1].startswith("cvta.to.global")
    assert [found.cells[f"ptx-{line}"][1] for line in (30, 32)] == ["31.0 %", "20.0 %"]
    assert "SASS 0x00010" in html(native)  # in the panel of the load
    assert "<script" not in html(native)


@pytest.mark.parametrize("without", [("source",), ("line",), ("source", "line")])
def test_machine_code_is_shown_with_the_panes_that_there_are(native: dict[str, Any], without: tuple[str, ...]) -> None:
    for name in without:
        del native["code"][name]
    text = html(native)
    panes = re.findall(r'id="pane-(\w+)"', text)
    assert panes == [pane for pane, name in (("source", "source"), ("ptx", "line"), ("sass", "sass")) if name not in without]
    assert ("code-shown" in text) == (len(panes) > 1)
    assert embedded(native)["code"].keys() == native["code"].keys()


def test_another_section_of_machine_code_begins_with_its_name(native: dict[str, Any]) -> None:
    for pc in (6, 7):
        native["code"]["sass"]["rows"][pc]["machine"] = word(pc - 6, section=".text.divide")
    text = html(native)
    assert text.count('<tr class="part">') == 1
    assert text.index("pc-5") < text.index(".text.divide") < text.index("pc-6")


def test_long_machine_code_is_in_a_page_of_a_megabyte_without_its_ptx(native: dict[str, Any]) -> None:
    text = "FFMA R{0}, R{1}, c[0x0][0x164], R{1}"
    rows = [row(pc, 1 / 2000, text=text.format(pc % 99, pc % 77), machine=word(pc)) for pc in range(2000)]
    lines = [row(pc, 1 / 2000, pcs=[pc]) for pc in range(2000)]
    sources = [row(pc, 1 / 400, pcs=[*range(pc, pc + 5)], line=pc // 5, text="") for pc in range(0, 2000, 5)]
    views = {"source": view("source", sources) | {"sources": {}, "missing_sources": []}, "line": view("line", lines),
             "sass": view("sass", rows)}  # fmt: skip
    native |= {"code": views, "loads": []}
    shown = html(native)
    assert "pane-ptx" not in shown and "its PTX is not shown" in shown
    data = json.dumps(embedded(native)["code"], separators=(",", ":"))
    assert len(shown) + len(data) < 550_000  # of a megabyte, the grid of designs, drawings and the rest take the other half
    for view_ in views.values():
        del view_["rows"][900:]
    views["source"]["rows"] = sources[:180]
    assert "pane-ptx" in html(native)
