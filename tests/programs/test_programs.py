"""Whole programs, built by nvcc, under `warpsight run`. What they print is checked by themselves, or is what CUDA documents."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from programs_build import PTX, build, needs_nvcc, run, run_json

from warpsight.analysis.report_data.program import program_report_data
from warpsight.gpu.loader import load_gpu
from warpsight.pipeline.program_run import predict_program
from warpsight.pipeline.timeline import trace_events
from warpsight.programs import session
from warpsight.reports.html.page import checked_page
from warpsight.reports.prediction import program_text
from warpsight.traces.store import open_trace

pytestmark = [pytest.mark.property, needs_nvcc]


def run_here(gpu: str, folder: Path, *command: Path | str) -> tuple[dict[str, Any], str]:
    """Result document and output of a program under `warpsight run`, in this process: starting another takes longer."""
    printed = folder / "printed"
    with printed.open("w") as out:
        document = predict_program([str(word) for word in command], load_gpu(gpu), level="ptx", threads=1, stdout=out)
    return document, printed.read_text()


def test_program_with_memory_of_every_kind_verifies_itself() -> None:
    code, document, printed = run_json(build("memory.cu"))
    checks = re.findall(r"^(\w+) (good|BAD)$", printed, re.MULTILINE)
    assert [name for name, _ in checks] == [
        "vector", "symbol", "managed", "pinned", "registered", "pitched", "volume", "released", "reused",
    ]  # fmt: skip
    assert {state for _, state in checks} == {"good"}
    assert code == 0
    assert [row["kernel"] for row in document["launches"]] == ["add", "count", "total", "twice", "twice", "rows"]
    assert all(row["time"] == "predicted" and row["seconds"] > 0 for row in document["launches"])
    assert document["launches"][0]["grid"] == [4, 1, 1]
    assert document["totals"]["warp_instructions"] == sum(row["warp_instructions"] for row in document["launches"])


def test_launches_find_in_the_l2_what_launches_copies_and_fills_have_left() -> None:
    # without the cost of a launch, and without the other partition, where other arrays have more of their lines
    gpu = ("--gpu", "a100", "--set", "dispatch.grid=0 cycles", "--set", "l2.far_latency=0 cycles")
    code, document, printed = run_json(build("relay.cu"), options=gpu)
    assert (code, printed.strip(), document["caches_before"]) == (0, "0", "program")
    cycles = [row["cycles"] for row in document["launches"]]
    _, after_write, again, after_fill, filled, copied, read = cycles
    assert after_write == again == filled == copied == read
    assert after_fill > 1.3 * again
    assert all(row["prediction"]["provenance"]["method"]["caches_before"] == "program" for row in document["launches"])
    cold = run_json(build("relay.cu"), options=(*gpu, "--caches-before", "cold"))[1]
    (alone,) = {row["cycles"] for row in cold["launches"][1:]}
    assert alone <= after_fill < 1.1 * alone, "the lines of the fill are dirty: some are written back when their place is needed"


@pytest.mark.parametrize("mode", ["none", "speed", "size"])
def test_program_with_compressed_ptx_runs(mode: str) -> None:
    program = build("first.cu", "second.cu", options=(f"-compress-mode={mode}", PTX))
    code, output, _ = run(program)
    # Two modules, each with a static variable and kernel of the same name: 10 + 31 + 5, and 1000 + 31.
    assert (code, output.splitlines()[0]) == (0, "46 1031")


def test_program_with_streams_and_events_sees_predicted_times() -> None:
    code, document, printed = run_json(build("streams.cu"), options=("--gpu", "mdm-pascal"))
    assert code == 7, "the program's own exit code"
    lines = printed.splitlines()
    assert lines[:3] == ["times 1", "called 111", "query 0 0"]
    assert lines[3] == "occupancy 8, potential 1"  # 2,048 threads on an SM of 64 warps
    assert lines[4] == "device 1: mdm-pascal (warpsight), 28 SMs, warp 32, block 1024, L2 3145728"
    assert lines[5] == "attributes 1 1024"
    assert document["exit_code"] == 7


def test_timeline_shows_what_was_on_each_stream(tmp_path: Path) -> None:
    """Two kernels on one stream, and on another a copy to the host that waits for them. A launch takes the host 3.5 us."""
    made = tmp_path / "streams.json"
    _, document, _ = run_json(build("streams.cu"), options=("--gpu", "a100", "--level", "ptx", "--timeline", str(made)))
    timeline, rows = document["timeline"], document["launches"]
    (fill, first, second), (copy,) = (row["spans"] for row in timeline["streams"])
    assert [(each["what"], each.get("launch"), each.get("bytes")) for each in (fill, first, second, copy)] == [
        ("fill", None, 16384), ("kernel", 1, None), ("kernel", 2, None), ("copy to host", None, 16384),
    ]  # fmt: skip
    assert [each["to"] - each["from"] for each in (first, second)] == pytest.approx([row["seconds"] for row in rows])
    assert (second["from"], copy["from"]) == pytest.approx((3.5e-6, 7e-6), rel=1e-6)
    assert copy["to"] - copy["from"] == pytest.approx(16384 / 12e9)
    busy = timeline["kernel_seconds"] + timeline["copy_seconds"]
    assert timeline["seconds"] == pytest.approx(copy["to"]) == pytest.approx(busy + timeline["idle_seconds"])
    events = json.loads(made.read_text())["traceEvents"]
    on_streams = [each["name"] for each in events if each["ph"] == "X" and each["tid"] in (3, 4)]
    assert on_streams == [fill["what"], "work", "work", copy["what"], "wait for event 3"]
    shown = program_text(document)
    assert "|####" in shown and "1 copy of 16,384 bytes" in shown


def test_timeline_shows_events_calls_of_the_host_graphs_and_barriers_of_the_grid(tmp_path: Path) -> None:
    """By hand: the second stream begins when the event of the first is recorded, which is when its launch ends; the host issues the
    graph when the second stream is done.
    """
    document, printed = run_here("a100", tmp_path, build("launches.cu"))
    assert printed == "calls 1\n"
    timeline = document["timeline"]
    first, second = timeline["streams"]
    work, *graphed = first["spans"]
    (halves,) = second["spans"]
    (recorded,) = first["marks"]
    waited, called = second["marks"]
    assert (recorded["what"], recorded["from"], recorded["to"]) == ("event recorded", work["to"], work["to"])
    assert (waited["what"], waited["event"], waited["to"]) == ("wait for event", recorded["event"], work["to"])
    assert (called["what"], called["from"]) == ("host function", work["to"])
    assert halves["grid_barriers"] and halves["from"] == pytest.approx(work["to"])
    assert "grid_barriers" not in work and [row["cooperative"] for row in document["launches"]] == [False, True] + 4 * [False]
    of_stream, of_device = timeline["host"]
    assert of_stream["what"] == "wait for stream" and of_stream["to"] == pytest.approx(halves["to"])
    assert (of_device["what"], of_device["to"]) == ("wait for device", pytest.approx(timeline["seconds"]))
    assert [span.get("graph") for span in graphed] == [1, 1, 2, 2] and "graph" not in work
    launches = [(each["call"], each["to"] - each["from"]) for each in timeline["calls"] if each["name"] == "cudaGraphLaunch"]
    assert [number for number, _ in launches] == [graphed[0]["call"], graphed[2]["call"]], "a graph is issued by one call"
    assert [length for _, length in launches] == pytest.approx([3.5e-6] * 2)
    once, again = timeline["graphs"]
    assert (once["from"], again["to"]) == (pytest.approx(halves["to"]), graphed[-1]["to"])
    events = json.loads(trace_events(timeline))["traceEvents"]
    names, event = {(each["ph"], each["name"]) for each in events}, recorded["event"]
    assert names > {
        ("X", f"wait for event {event}"), ("i", f"event recorded {event}"), ("i", "host function"), ("X", "launch 2 of a graph"),
    }  # fmt: skip
    assert {each["args"]["name"].partition(",")[0] for each in events if each["ph"] == "M"} == {"host", "stream 3", "stream 4"}
    shown = program_text(document)
    assert re.search(r"3 \|#.*\| 5 kernels, 1 event recorded", shown)
    assert re.search(r"4 \|.*\| 1 kernel, 1 with barriers of the grid, 1 wait for events, .*, 1 host function", shown)
    assert re.search(r"host \|[ .]+\| 2 waits, ", shown) and "2 graph launches" in shown
    page = checked_page(program_report_data(document), "run.json")
    assert "1 recorded event, 1 stream wait, 1 host function, 2 graph launches, 1 cooperative launch" in page
    assert ">host<" in page and "wait for stream" in page


def test_short_launches_back_to_back_show_the_rate_at_which_the_host_issues_them() -> None:
    """21 launches, of which the first of each kernel alone is predicted; the others scale without the cost of the grid."""
    program, options = build("back_to_back.cu"), ("--gpu", "titan-v", "--level", "ptx", "--launches", "1:1")
    code, document, printed = run_json(program, options=options)
    row, totals = document["launches"][0], document["totals"]
    assert code == 0
    assert row["bound_by"] == "launch overhead"
    assert 2200 + 193 < row["cycles"] < 3200, "the grid, the first read from the L2, and a little work"
    assert [each["seconds"] for each in document["launches"]] == pytest.approx([row["seconds"]] * 21)
    once, many = map(float, printed.split()[:2])
    assert many == pytest.approx(20 * 3.5)
    assert once == pytest.approx(3.5)
    assert totals["seconds"] == pytest.approx(21 * row["seconds"])
    assert totals["back_to_back_seconds"] == pytest.approx(20 * 3.5e-6 + row["seconds"])
    slow = run_json(program, options=(*options, "--set", "dispatch.launch_interval=1 us"))[2].split()
    assert float(slow[1]) == pytest.approx(20e6 * row["seconds"], abs=1e-3)


def test_launches_that_repeat_are_sampled_and_the_total_is_as_if_all_were_predicted() -> None:
    """A loop of four kernels that swaps its arrays; the results are those of the program, which executes all of it."""
    program, on = build("time_loop.cu"), ("--gpu", "mdm-pascal")
    (_, sampled, printed), (_, exact, same) = (run_json(program, "60", "4096", options=(*on, *more)) for more in ((), ("--exact",)))
    assert printed.splitlines()[0] == same.splitlines()[0]
    sums = {name: (each["totals"]["predicted"], each["totals"]["scaled"]) for name, each in (("some", sampled), ("all", exact))}
    assert sums["all"] == (300, 0) and sum(sums["some"]) == 300 and sums["some"][1] > 150
    assert sampled["totals"]["cycles"] == pytest.approx(exact["totals"]["cycles"], rel=5e-3)
    assert sampled["totals"]["scaled_error"] < 0.02 and exact["totals"]["scaled_error"] is None
    assert [each["warp_instructions"] for each in sampled["launches"]] == [each["warp_instructions"] for each in exact["launches"]]


def test_launches_whose_counts_drift_with_the_data_are_recorded_again_and_steady_ones_are_not(tmp_path: Path) -> None:
    """128 launches of one kernel with one shape. Memory says how many rounds a thread makes: in the first half always 100, in the
    second as many more with each launch, so that its time grows and no sample from before tells it.
    """
    document, printed = run_here("mdm-pascal", tmp_path, build("launches.cu"), "drift")
    rows = document["launches"]
    assert printed == "rounds 740\n" and len({(tuple(row["grid"]), tuple(row["block"])) for row in rows}) == 1
    steady, drifting = rows[:64], rows[64:]
    assert len({row["warp_instructions"] for row in steady}) == 1
    assert all(late["warp_instructions"] > early["warp_instructions"] for early, late in pairwise(drifting))
    recorded = [[row["number"] for row in half if row["time"] == "predicted"] for half in (steady, drifting)]
    assert len(recorded[0]) < 32 and recorded[0][:2] == [1, 2]
    assert len(recorded[1]) > 48 and max(recorded[1]) > 120
    work = [drifting[-1][key] / steady[0][key] for key in ("seconds", "warp_instructions")]
    assert work[0] == pytest.approx(work[1], rel=0.1), "a launch takes as much longer as it has more rounds, but for its two ends"


def test_long_launches_are_predicted_from_sampled_waves_and_all_of_their_blocks_have_results() -> None:
    (code, waves, printed), (_, exact, _) = (
        run_json(build("waves.cu"), options=("--gpu", "gtx1650", *how)) for how in (("--accuracy", "1%"), ("--exact",))
    )
    assert code == 0 and "right" in printed
    totals = waves["totals"]
    assert totals["from_waves"] == 1 and exact["totals"]["from_waves"] == 0
    assert totals["half_width"] <= 0.01
    assert totals["warp_instructions"] == exact["totals"]["warp_instructions"]
    (long_one, reverse), (whole, after_whole) = (document["launches"] for document in (waves, exact))
    sampling = long_one["prediction"]["provenance"]["sampling"]
    assert sampling["executed_blocks"] < sampling["blocks"] == 8192
    assert long_one["cycles"] == pytest.approx(whole["cycles"], rel=0.01)
    assert reverse["cycles"] == pytest.approx(after_whole["cycles"], rel=0.05)  # it finds what the long one has left


def test_program_with_wrong_calls_gets_the_codes_of_cuda() -> None:
    code, output, errors = run(build("errors.cu"), "0")
    found = re.findall(r"^(\w+) (\d+) (\w+): (.*)$", output, re.MULTILINE)
    assert [(name, int(number)) for name, number, _, _ in found] == [
        ("malloc", 0), ("threads", 9), ("again", 0), ("grid", 9), ("shared", 1), ("copy", 1), ("kind", 21), ("free", 1),
        ("memory", 2), ("device", 101), ("launch", 0), ("wait", 0), ("then", 0),
    ]  # fmt: skip
    assert ("threads", "9", "cudaErrorInvalidConfiguration", "invalid configuration argument") in found
    assert code == 0
    assert not errors


@pytest.mark.parametrize("gpu", ["mdm-pascal", "a100"])  # PTX, and machine code
def test_accesses_just_past_an_array_are_let_through_when_asked_for(gpu: str) -> None:
    program = build("outside.cu")
    code, document, printed = run_json(program, options=("--out-of-bounds", "ignore", "--gpu", gpu))
    assert code == 0
    lines = [line for line in printed.splitlines() if re.match(r"[a-z]+ \d", line)]
    assert lines == ["shift 163 0 0", "in 100 163", "spill 0 3", "count 3 0 0", "far 700"]
    places = {row["kernel"].partition("(")[0]: row["accesses"] for row in document["out_of_bounds"]["places"]}
    assert places == {"shift": 2 * 4, "spill": 61, "count": 63}
    assert document["totals"]["failed"] == 1, "16 million elements further nothing is mapped"


def test_each_place_out_of_bounds_is_reported_once() -> None:
    program = build("outside.cu")
    _, output, errors = run(program, options=("--out-of-bounds", "warn"))
    warnings = re.findall(r"^warning: (.*)$", errors, re.MULTILINE)
    assert [re.search(r"kernel (\w+)", text)[1] for text in warnings] == ["shift", "spill", "count"]  # type: ignore[index]
    assert "thread (60,0,0)" in warnings[0]
    assert "0 bytes past the end" in warnings[0]
    assert "note: 132 accesses out of bounds at 3 places read zeros or wrote nothing" in output
    _, output, errors = run(program)
    assert errors.startswith("error:")
    assert "far 700" in output, "without the option the first is an error, and stays one"


@pytest.mark.parametrize(
    ("which", "number", "name", "message"),
    [
        ("1", 700, "cudaErrorIllegalAddress", r"out of bounds.*thread \(64,0,0\).*0 bytes past the end"),
        ("2", 716, "cudaErrorMisalignedAddress", "misaligned access"),
        ("3", 719, "cudaErrorLaunchFailure", "trap"),
        ("4", 702, "cudaErrorLaunchTimeout", "passed 100,000 warp instructions"),
        ("5", 702, "cudaErrorLaunchTimeout", "every running thread of block .* waits"),
    ],
)
def test_program_whose_kernel_faults_finds_out_when_it_waits(which: str, number: int, name: str, message: str) -> None:
    code, output, errors = run(build("errors.cu"), which, options=("--max-instructions", "100,000"))
    found = {line.split()[0]: line.split()[1:3] for line in output.splitlines() if re.match(r"\w+ \d+ cuda", line)}
    assert found["launch"] == ["0", "cudaSuccess:"], "a launch is asynchronous"
    assert found["wait"] == found["then"] == [str(number), f"{name}:"]
    assert code == 4
    assert len(re.findall("^error:", errors, re.MULTILINE)) == 1
    assert re.search(message, errors), errors


def test_messages_have_the_beginnings_of_the_long_names_of_kernels() -> None:
    name, mangled = "gemm<" + "A<1>, " * 50 + "B>", "_Z4gemm" + "1A" * 60
    shown = session._with_short_names(f"app: {mangled}+0x10: kernel {name}: access of s_{'x' * 90}", name)
    assert shown == f"app: {mangled[:100]}...+0x10: kernel {name[:100]}...: access of s_{'x' * 90}"


def test_program_launches_chosen_are_traced_and_the_rest_scaled(tmp_path: Path) -> None:
    options = ("--kernels", "twice|add", "--launches", "1:1", "-o", str(tmp_path / "traces"))
    code, document, _ = run_json(build("memory.cu"), options=options)
    assert code == 0
    assert [row["time"] for row in document["launches"]] == ["predicted", "unknown", "unknown", "predicted", "scaled", "unknown"]
    first, second = (row for row in document["launches"] if row["kernel"] == "twice")
    assert second["seconds"] / first["seconds"] == pytest.approx(second["warp_instructions"] / first["warp_instructions"])
    assert sorted(folder.name for folder in (tmp_path / "traces").iterdir()) == ["0001-add", "0004-twice"]
    trace = open_trace(tmp_path / "traces" / "0001-add")
    assert any("ld.global" in text for text in trace.extra["ptx"].values()), "stored with the text of its instructions"


def test_program_that_never_uses_cuda_is_told_apart() -> None:
    code, output, _ = run("/bin/echo", "hello")
    assert code == 0
    assert output.startswith("hello\n")
    assert "did not call CUDA" in output


def test_program_that_is_not_there_is_wrong_use() -> None:
    code, _, errors = run("/no/such/program")
    assert code == 2
    assert errors.startswith("error: /no/such/program: no such program")


MACHINE_CODE = "-gencode=arch=compute_75,code=sm_75"


def test_program_with_machine_code_only_runs_on_its_gpu() -> None:
    program = build("first.cu", "second.cu", options=(MACHINE_CODE,))
    code, document, printed = run_json(program, options=("--gpu", "rtx2060"))
    assert (code, printed.splitlines()[0]) == (0, "46 1031")
    assert (document["level"], document["target"]) == ("sass", "sm_75")


@pytest.mark.parametrize(
    ("gpu", "complaint"),
    [("mdm-pascal", r"only machine code is embedded in it \(sm_75\), no PTX\n.*level `sass`.*arch=compute_75,code=compute_75"),
     ("a100", r"has machine code for sm_75, which does not run on sm_80\n.*code=sm_80")],
)  # fmt: skip
def test_program_with_machine_code_only_is_refused_on_other_gpus(gpu: str, complaint: str) -> None:
    code, output, errors = run(build("first.cu", "second.cu", options=(MACHINE_CODE,)), options=("--gpu", gpu))
    assert re.search(complaint, errors), errors
    assert code == 3
    assert output.splitlines()[0] != "46 1031"


def test_program_with_memory_of_every_kind_verifies_itself_as_machine_code() -> None:
    code, document, printed = run_json(build("memory.cu", options=(MACHINE_CODE,)), options=("--gpu", "rtx2060"))
    assert (code, document["totals"]["failed"], document["totals"]["predicted"]) == (0, 0, 6)
    assert len(re.findall(r" good$", printed, re.MULTILINE)) == 9 and "BAD" not in printed


def test_program_whose_kernels_allocate_and_wait_for_the_grid_does_so_as_machine_code() -> None:
    code, output, errors = run(build("heap.cu"), options=("--gpu", "a100", "--level", "sass"))
    assert (code, output.splitlines()[:3], errors) == (0, ["heap good", "limit good", "grid 30"], "")


def test_program_is_told_the_compute_capability_whose_machine_code_is_executed() -> None:
    code, output, errors = run(build("capability.cu"), options=("--gpu", "rtx2060"))
    assert (code, output.splitlines()[0], errors) == (0, "7.5, code 75, constants 40: 7 8", "")


def test_program_with_texture_and_surface_objects_reads_and_writes_texels() -> None:
    code, output, errors = run(build("textures.cu"), options=("--launches", "1:1"))
    lines = output.splitlines()[:7]
    assert lines == [f"{what} good" for what in ("made", "array", "surface", "destroyed", "pitched", "linear", "view refused")]
    assert code == 0
    assert "cudaResourceViewDesc is not supported" in errors


def test_program_whose_kernels_allocate_and_wait_for_the_grid_finds_its_memory_in_the_next_launch() -> None:
    code, output, errors = run(build("heap.cu"))
    assert (code, output.splitlines()[:3], errors) == (0, ["heap good", "limit good", "grid 30"], "")


HOPPER = "-gencode=arch=compute_90,code=[compute_90,sm_90]"


@pytest.mark.parametrize("level", ["ptx", "sass"])
def test_program_launches_thread_block_clusters_that_share_their_memory(level: str) -> None:
    code, output, errors = run(build("clusters.cu", options=(HOPPER,)), options=("--gpu", "h100-sxm", "--level", level))
    assert (code, errors) == (0, "")
    assert output.splitlines()[:10] == [
        "clusters of 1: cudaSuccess, good, 2112 active", "clusters of 4: cudaSuccess, good, 528 active",
        "16 blocks: cudaErrorInvalidClusterSize", "clusters of 16: cudaSuccess, good, 132 active",
        "15 blocks in clusters of 4: cudaErrorInvalidClusterSize", "ranks: cudaSuccess", "400 1401 400 1401 2410 3411 2410 3411",
        "supported 1, compiled for 2 x 2 x 1",
        # one block on an SM, and GPCs of 18 and of 16 SMs
        "large clusters of 4: cudaSuccess, 32 active, at most 16 blocks",
        "large clusters of 16: cudaSuccess, 8 active, at most 16 blocks",
    ]  # fmt: skip


@pytest.mark.parametrize("level", ["ptx", "sass"])
def test_program_makes_tensor_maps_through_the_drivers_entry_points(level: str) -> None:
    code, output, errors = run(build("tensor_maps.cu", options=(HOPPER,)), options=("--gpu", "h100-sxm", "--level", level))
    assert (code, errors) == (0, "")
    assert output.splitlines()[:4] == [
        "major 9, entry 0, missing 1 1", "swizzle 0: cudaSuccess good", "swizzle 3: cudaSuccess good", "row of 12 bytes: 1",
    ]  # fmt: skip


def test_memory_pools_count_what_programs_take_from_them() -> None:
    code, document, printed = run_json(build("pools.cu"))
    assert (code, document["totals"]["launches"]) == (0, 1)
    lines = [line for line in printed.splitlines() if not line.startswith("warpsight:")]
    assert lines == [
        "supported 1, threshold kept 1",
        "last 48",
        f"default: used 100, most {(3 << 20) + 100}, reserved {2 << 20}",  # pages of 2 MiB
        "create 0",
        f"own: used {1 << 19}, most {1 << 19}, reserved {2 << 20}",
        "current 1, past its limit: cudaErrorMemoryAllocation",
        "access 3, destroy 0",
        "default again 1, its own memory 0, destroyed cudaErrorInvalidValue",
        f"default: used 0, most {(3 << 20) + 100}, reserved 0",
        "by place 1, set 0 1 1, other cudaErrorInvalidDevice, host cudaErrorNotSupported",
        "shared cudaErrorNotSupported",
    ]
    assert "a memory pool with handles for other processes is not supported" in printed


@pytest.mark.parametrize("level", ["ptx", "sass"])
def test_variables_that_kernels_declare_are_their_own_and_keep_their_values(level: str) -> None:
    code, output, errors = run(build("own_variables.cu"), options=("--gpu", "a100", "--level", level, "--kernels", "none"))
    assert code == 0, errors
    # `first` adds 3 to its own count, from 40 on, and 7 to what it shows; `second` 1 to its own, from 1000 on; `third` 1, from 5 on
    assert output.splitlines()[:6] == ["first 50", "third 6", "second 1001", "first 53", "second 1002", "third 7"]
