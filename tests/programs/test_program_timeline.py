"""What the timeline says of the host: its calls, ranges of NVTX and asynchronous copies; and the tables of Nsight Systems."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from programs_build import build, needs_nvcc, run_json

from warpsight.analysis.report_data.program import program_report_data
from warpsight.cli.main import main
from warpsight.pipeline.timeline import spread, timeline_document, trace_events
from warpsight.programs.session import Span
from warpsight.programs.wire import Spent
from warpsight.reports.html.page import checked_page
from warpsight.reports.nsight_systems import tables
from warpsight.reports.prediction import program_text

LAUNCH, LINK, DRAM, MIB = 3.5e-6, 12e9, 1555e9, 1 << 20  # of the A100's description, and of the host's link


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    folder = tmp_path_factory.mktemp("ranges")
    options = ("--gpu", "a100", "--level", "ptx", "--tables", str(folder), "--timeline", str(folder / "timeline.json"))
    code, document, printed = run_json(build("ranges.cu"), options=options)
    assert (code, printed) == (0, "first 0\n")
    return document, folder


@pytest.mark.property
@needs_nvcc
def test_calls_have_the_times_of_waits_and_of_launches_that_are_issued(ran: tuple[dict[str, Any], Path]) -> None:
    """By hand: a copy of half a MiB after a fill of one; four launches; a graph of three is issued by one call."""
    document, folder = ran
    timeline = document["timeline"]
    calls = [(each["name"], each["to"] - each["from"]) for each in timeline["calls"]]
    copied = MIB / DRAM + MIB / 2 / LINK
    assert [name for name, _ in calls[:7]] == ["cudaMemset", "cudaMemcpy", *["cudaLaunchKernel"] * 4, "cudaStreamSynchronize"]
    assert [length for _, length in calls[:6]] == pytest.approx([0.0, copied, *[LAUNCH] * 4])
    assert calls[7][0] == "cudaGraphLaunch" and calls[7][1] == pytest.approx(LAUNCH)
    by_call = {each["call"]: each["name"] for each in timeline["calls"]}
    spans = [span for row in timeline["streams"] for span in row["spans"]]
    assert [by_call[span["call"]] for span in spans if span["what"] == "kernel"] == [
        *["cudaLaunchKernel"] * 4, *["cudaGraphLaunch"] * 3, "cudaLaunchKernel",
    ]  # fmt: skip
    counts = {each["name"]: each["calls"] for each in timeline["functions"]}
    assert (counts["cudaMalloc"], counts["cudaLaunchKernel"], counts["cudaMemcpyAsync"]) == (2, 8, 4)
    events = json.loads((folder / "timeline.json").read_text())["traceEvents"]
    arrows = {each["id"]: each for each in events if each["ph"] == "s"}
    kernels = [each for each in events if each["ph"] == "f"]
    assert len(arrows) == len(kernels) == 10, "a copy, five launches, three of a graph, and the copy that the host waits for"
    assert all(arrows[each["id"]]["ts"] <= each["ts"] for each in kernels)


@pytest.mark.property
@needs_nvcc
def test_ranges_of_nvtx_have_the_time_of_the_host_and_of_what_was_issued_in_them(ran: tuple[dict[str, Any], Path]) -> None:
    document, folder = ran
    timeline = document["timeline"]
    ranges = {(each["domain"], each["name"]): each for each in timeline["ranges"]}
    steps = [each for each in timeline["ranges"] if each["name"] == "step"]
    assert list(ranges) == [("", "upload"), ("", "whole"), ("", "steps"), ("library", "step"), ("", "graph"), ("", "début → fin")]
    assert [each["level"] for each in steps] == [1] * 4 and {each["domain"] for each in steps} == {"library"}
    assert [each["to"] - each["from"] for each in steps] == pytest.approx([LAUNCH] * 4)
    times = [row["seconds"] for row in document["launches"]]
    assert [each["kernel_seconds"] for each in steps] == pytest.approx(times[:4])
    whole, upload, graph = ranges["", "whole"], ranges["", "upload"], ranges["", "graph"]
    assert (whole["kind"], whole["gpu_operations"]) == ("start and end", 7)
    assert whole["kernel_seconds"] == pytest.approx(sum(times[:7]))
    assert (upload["gpu_operations"], upload["kernel_seconds"]) == (2, 0)
    assert graph["gpu_to"] - graph["gpu_from"] == pytest.approx(sum(times[4:7]))
    assert ranges["", "début → fin"]["gpu_operations"] == 0
    (mark,) = timeline["range_marks"]
    assert (mark["name"], mark["from"]) == ("all issued", steps[-1]["to"])
    rows = {row["Range"]: row for row in table((folder / "nvtx_sum.csv").read_text())}
    assert (rows["library:step"]["Instances"], rows["library:step"]["Total Time (ns)"]) == ("4", "14000")
    projected = {row["Range"]: row for row in table((folder / "nvtx_gpu_proj_sum.csv").read_text())}
    assert projected["library:step"]["Total Proj Time (ns)"] == f"{1e9 * sum(times[:4]):.0f}"
    assert "library:step: 4 times, 14.00 us of the host" in program_text(document)
    page = checked_page(program_report_data(document), "run.json")
    assert "library:step" in page and ">NVTX 2<" in page and ">calls<" in page


@pytest.mark.property
@needs_nvcc
def test_copies_of_page_locked_memory_overlap_unless_they_have_the_same_direction(ran: tuple[dict[str, Any], Path]) -> None:
    """By hand: after the graph two copies to the device come one after the other, one to the host and a kernel beside them; the
    host waits for the copy of pageable memory, which comes after both.
    """
    timeline = ran[0]["timeline"]
    second, third, fourth = timeline["streams"][-3:]
    (late,), (back,), (kernel, last) = second["spans"], third["spans"], fourth["spans"]
    early = timeline["streams"][-4]["spans"][-1]
    begin, length = early["from"], MIB / LINK
    assert [early["to"] - begin, late["from"] - begin, late["to"] - begin] == pytest.approx([length, length, 2 * length])
    assert [back["from"], kernel["from"]] == pytest.approx([begin, begin])
    assert last["from"] == pytest.approx(late["to"])
    waited = timeline["calls"][-1]
    assert (waited["name"], waited["call"]) == ("cudaMemcpyAsync", last["call"])
    assert [waited["from"] - begin, waited["to"]] == pytest.approx([LAUNCH, last["to"]])


@pytest.mark.unit
def test_spread_is_that_of_a_sample() -> None:
    assert spread([2.0, 4.0, 4.0, 10.0]) == pytest.approx(
        {"sum": 20, "mean": 5, "median": 4, "min": 2, "max": 10, "stddev": (36 / 3) ** 0.5}
    )
    assert spread([3.0])["stddev"] == 0


def a_document() -> dict[str, Any]:
    """Two launches of 2 and 4 us and a copy of 3 MB in 1 us on two streams, made by calls of 1 us; and a range left open."""
    start = 1.0
    spans = [
        Span(7, 0, start, start, Spent.RANGE_PUSHED, thread=8, name="outer"),
        Span(7, 3, start, start + 2e-6, Spent.LAUNCHED, 1, call=1, thread=8),
        Span(7, 0, start, start + 1e-6, Spent.CALLED, call=1, thread=8, name="cudaLaunchKernel"),
        Span(7, 0, start, start, Spent.RANGE_POPPED, thread=9),  # of a thread that has none
        Span(7, 3, start + 2e-6, start + 6e-6, Spent.LAUNCHED, 2, call=2, thread=8),
        Span(7, 0, start + 1e-6, start + 2e-6, Spent.CALLED, call=2, thread=8, name="cudaLaunchKernel"),
        Span(7, 4, start + 2e-6, start + 3e-6, Spent.TO_HOST, copied=3_000_000, call=3, thread=8),
        Span(7, 0, start + 2e-6, start + 3e-6, Spent.HOST_WAITED_FOR_DEVICE),  # after a fault: the call itself is refused
        Span(7, 0, start, start, Spent.COUNTED, copied=3, name="cudaLaunchKernel"),
        Span(7, 0, start, start, Spent.COUNTED, copied=2, name="cudaFree"),
    ]
    row = {"kernel": "k", "grid": [5, 1, 1], "block": [32, 2, 1], "registers_per_thread": 40, "shared_bytes": 2000,
           "static_shared_bytes": 1000}  # fmt: skip
    rows = [{**row, "number": number} for number in (1, 2)]
    return {"gpu": "a100", "launches": rows, "timeline": timeline_document(spans, rows)}


@pytest.mark.unit
def test_tables_have_the_columns_of_nsight_systems() -> None:
    made = {name: table(text) for name, text in tables(a_document()).items()}
    (kernels,) = made["cuda_gpu_kern_sum"]
    assert kernels == {
        "Time (%)": "100.0", "Total Time (ns)": "6000", "Instances": "2", "Avg (ns)": "3000.0", "Med (ns)": "3000.0",
        "Min (ns)": "2000", "Max (ns)": "4000", "StdDev (ns)": "1414.2", "Name": "k",
    }  # fmt: skip
    (size,) = made["cuda_gpu_mem_size_sum"]
    assert size == {
        "Total (MB)": "3.000", "Count": "1", "Avg (MB)": "3.000", "Med (MB)": "3.000", "Min (MB)": "3.000", "Max (MB)": "3.000",
        "StdDev (MB)": "0.000", "Operation": "[CUDA memcpy Device-to-Host]",
    }  # fmt: skip
    (time,) = made["cuda_gpu_mem_time_sum"]
    assert (time["Total Time (ns)"], time["Operation"]) == ("1000", "[CUDA memcpy Device-to-Host]")
    first, _, copy = sorted(made["cuda_gpu_trace"], key=lambda row: row["Name"], reverse=True)
    assert {key: value for key, value in first.items() if value} == {
        "Start (ns)": "0", "Duration (ns)": "2000", "CorrId": "1", "GrdX": "5", "GrdY": "1", "GrdZ": "1", "BlkX": "32", "BlkY": "2",
        "BlkZ": "1", "Reg/Trd": "40", "StcSMem (MB)": "0.001", "DymSMem (MB)": "0.002", "Device": "a100", "Strm": "3", "Name": "k",
    }  # fmt: skip
    assert (copy["Bytes (MB)"], copy["Throughput (MB/s)"], copy["SrcMemKd"]) == ("3.000", "3000000.000", "Device")
    launches, free = made["cuda_api_sum"]
    assert [launches[key] for key in ("Total Time (ns)", "Num Calls", "Avg (ns)")] == ["2000", "3", "1000.0"]
    assert free == dict.fromkeys(free, "") | {"Num Calls": "2", "Name": "cudaFree"}, "how long it takes is not known"
    assert [row["CorrID"] for row in made["cuda_api_trace"]] == ["1", "2"]


@pytest.mark.unit
def test_a_range_that_is_left_open_ends_with_the_program_and_arrows_lead_to_what_a_call_has_made() -> None:
    timeline = a_document()["timeline"]
    (outer,) = timeline["ranges"]
    assert (outer["name"], outer["from"], outer["gpu_operations"]) == ("outer", 0.0, 3)
    assert outer["to"] == pytest.approx(6e-6) == outer["gpu_to"]
    events = json.loads(trace_events(timeline))["traceEvents"]
    ends = {each["id"]: (each["tid"], each["ts"]) for each in events if each["ph"] == "f"}
    assert ends == {"7.1.0": (3, 0.0), "7.2.0": (3, pytest.approx(2.0))}
    rows = {each["name"]: each["tid"] for each in events if each["ph"] == "X"}
    assert rows["wait for device"] == rows["cudaLaunchKernel"]


@pytest.mark.unit
def test_a_folder_for_tables_that_cannot_be_made_is_wrong_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert main(["run", "--tables", str(tmp_path / "file" / "tables"), "--", "/bin/true"]) == 2
    assert "cannot be made" in capsys.readouterr().err
