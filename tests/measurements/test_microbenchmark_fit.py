"""Does the fit find the numbers of a GPU that is known, from our micro-benchmarks run on it, and refuse what they do not tell?

The GPU is Warpsight's own cycle-level simulation of a description; what is expected are that description's numbers.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from command_line import assert_one_error, run
from hypothesis import given, settings
from hypothesis import strategies as st
from simulator_timings import SimulatorTimings

from warpsight.base.errors import FormatError, WarpsightError
from warpsight.gpu.loader import load_gpu
from warpsight.hardware.microbenchmarks.fit import fit
from warpsight.hardware.microbenchmarks.run import PROGRAM, save
from warpsight.hardware.microbenchmarks.timings import HEADER, is_timings, read_timings

Capture = pytest.CaptureFixture[str]

HEAD = ",".join(HEADER)


def _fit(csv: str, gpu: str, *overrides: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Fitted values and reasons of refusals, by key."""
    document = fit(read_timings(csv, "timings.csv"), load_gpu(gpu, overrides=overrides))
    return {row["key"]: row["value"] for row in document["fitted"]}, {row["key"]: row["reason"] for row in document["refused"]}


@pytest.fixture(scope="module")
def pascal() -> str:
    simulator = SimulatorTimings(load_gpu("mdm-pascal"))
    simulator.everything()
    return simulator.csv()


@pytest.fixture(scope="module")
def fermi() -> str:
    simulator = SimulatorTimings(load_gpu("gpumech"))
    simulator.everything()
    return simulator.csv()


@pytest.mark.oracle
def test_all_keys_of_mdm_pascal_are_recovered(pascal: str) -> None:
    fitted, refused = _fit(pascal, "mdm-pascal")
    assert refused == {}
    assert fitted.pop("l1.index") == "modulo"
    bandwidths = {key: fitted.pop(key) for key in ("dram.bandwidth", "noc.bandwidth")}
    assert bandwidths == {"dram.bandwidth": pytest.approx(480e9, rel=0.03), "noc.bandwidth": pytest.approx(1050e9, rel=0.03)}
    assert fitted == {
        "l1.latency": 25, "l2.latency": 120, "dram.latency": 220, "l1.mshrs": 128, "l1.size": 48 * 1024, "l1.ways": 6,
    }  # fmt: skip


@pytest.mark.oracle
def test_keys_of_gpumech_are_recovered_and_bandwidths_behind_32_misses_are_refused(fermi: str) -> None:
    """16 SMs x 32 lines of 128 B in flight over 420 cycles are 156 B a cycle, fewer than the 192 B of DRAM."""
    fitted, refused = _fit(fermi, "gpumech")
    assert fitted == {
        "l1.latency": 25, "l2.latency": 120, "dram.latency": 300, "l1.mshrs": 32, "l1.size": 32 * 1024, "l1.ways": 8,
        "l1.index": "modulo",
    }  # fmt: skip
    assert set(refused) == {"dram.bandwidth", "noc.bandwidth"}
    assert all("32 misses in flight" in reason for reason in refused.values())
    assert "156 GB/s" in refused["dram.bandwidth"]


@pytest.mark.oracle
def test_bandwidth_of_gpumech_is_seen_with_more_miss_registers() -> None:
    simulator = SimulatorTimings(load_gpu("gpumech", overrides=["l1.mshrs=128"]))
    for rounds in (4, 8, 12):
        simulator.stream(16, 256, rounds)
        simulator.stream(32, 256, rounds)
    fitted, _ = _fit(simulator.csv(), "gpumech", "l1.mshrs=128")
    assert fitted == {"dram.bandwidth": pytest.approx(192e9, rel=0.03)}


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("overrides", "size", "ways", "index"),
    [
        (("l1.index=xor", "l1.size=64KiB", "l1.ways=8"), 65536, 8, "xor"),
        (("l1.index=fermi",), 49152, 6, "fermi"),
        (("l1.size=16KiB", "l1.ways=4"), 16384, 4, "modulo"),
    ],
)
def test_set_index_is_told_by_the_conflict_search(overrides: tuple[str, ...], size: int, ways: int, index: str) -> None:
    simulator = SimulatorTimings(load_gpu("mdm-pascal", overrides=list(overrides)))
    simulator.rings()
    fitted, _ = _fit(simulator.csv(), "mdm-pascal", *overrides)
    assert (fitted["l1.size"], fitted["l1.ways"], fitted["l1.index"]) == (size, ways, index)


@pytest.mark.oracle
def test_unknown_sizes_are_found_from_a_gpu_that_is_only_about_like_it(pascal: str) -> None:
    """The description that is inherited from has an L1 of 24 KiB with 3 ways, and a slower memory."""
    fitted, _ = _fit(pascal, "mdm-pascal", "l1.size=24KiB", "l1.ways=3", "l1.latency=60 cycles", "dram.bandwidth=100GB/s")
    assert (fitted["l1.size"], fitted["l1.ways"], fitted["l1.latency"]) == (49152, 6, 25)
    assert fitted["dram.bandwidth"] == pytest.approx(480e9, rel=0.03)


@pytest.mark.unit
def test_bandwidth_that_a_stream_reached_has_no_efficiency_beside_it(root: Path, tmp_path: Path, capsys: Capture) -> None:
    """The V100's description has 0.962 of a peak."""
    mine = tmp_path / "mine.yaml"
    assert run(capsys, "calibrate", root / "examples/microbenchmarks/mdm-pascal.csv", "--like", "v100", "-o", mine).code == 0
    dram = load_gpu(mine).dram
    assert (dram.bandwidth_bytes_per_s, dram.efficiency) == (pytest.approx(480e9, rel=0.03), 1.0)


@pytest.mark.unit
def test_example_gives_the_numbers_of_the_gpu_that_it_was_timed_on(root: Path, capsys: Capture) -> None:
    outcome = run(capsys, "calibrate", root / "examples/microbenchmarks/mdm-pascal.csv", "--like", "gpumech", "--json")
    document = json.loads(outcome.out)
    assert {row["key"]: row["text"] for row in document["fitted"]} == {
        "l1.latency": "25 cycles", "l2.latency": "120 cycles", "dram.latency": "220 cycles", "l1.mshrs": "128", "l1.size": "48 KiB",
        "l1.ways": "6", "l1.index": "modulo", "dram.bandwidth": "479.7 GB/s", "noc.bandwidth": "1.05 TB/s",
    }  # fmt: skip
    assert document["refused"] == []


def _without(csv: str, *parts: str) -> str:
    return "\n".join(line for line in csv.splitlines() if not any(part in line for part in parts)) + "\n"


@pytest.mark.unit
def test_what_the_timings_do_not_tell_is_refused_with_its_reason(pascal: str) -> None:
    keys = {"l1.latency", "l2.latency", "dram.latency", "l1.mshrs", "l1.size", "l1.ways", "l1.index"}
    fitted, refused = _fit(_without(pascal, "chase"), "mdm-pascal")
    assert set(fitted) == {"dram.bandwidth", "noc.bandwidth"}
    assert set(refused) == keys
    assert "0 chases" in refused["l1.latency"]
    assert "requires l1.latency" in refused["l1.mshrs"]

    # the counts beside the jump are not both there
    _, refused = _fit(_without(pascal, "misses,16384,"), "mdm-pascal")
    assert "between 127 and 128" in refused["l1.mshrs"]
    # as the L1s of newer GPUs, which no number of misses blocks
    _, refused = _fit(_without(pascal, *(f"misses,{128 * count}," for count in range(129, 140))), "mdm-pascal")
    assert "up to 128 misses in flight delay no hit" in refused["l1.mshrs"]
    # only lines side by side: any number of ways explains them
    others = [line for line in pascal.splitlines() if line.startswith("chase") and line.split(",")[2] != "128"]
    fitted, refused = _fit(_without(pascal, *others), "mdm-pascal")
    assert fitted["l1.size"] == 49152
    assert all("do not distinguish" in refused[key] for key in ("l1.ways", "l1.index"))


@pytest.mark.unit
def test_replacement_that_is_not_lru_is_no_geometry(pascal: str) -> None:
    """Where a set has more lines than ways LRU misses all of them; here every other load of such rings hits."""
    lines = []
    for line in pascal.splitlines():
        cells = line.split(",")
        if cells[0] == "chase" and cells[2] != "128" and float(cells[6]) / int(cells[3]) > 60:
            cells[6] = str(round(float(cells[6]) * 0.6))
        lines.append(",".join(cells))
    _, refused = _fit("\n".join(lines) + "\n", "mdm-pascal")
    assert {"l1.size", "l1.ways", "l1.index"} <= set(refused)


@pytest.mark.unit
def test_quickest_of_several_runs_counts() -> None:
    timings = read_timings(f"{HEAD}\nchase,128,128,8,1,32,200,\nchase,128,128,8,1,32,160,\nchase,128,128,8,1,32,900,\n", "t.csv")
    (row,) = timings.rows
    assert (row.time, row.each, row.runs, row.place) == (160, 20, 3, "t.csv:3")


@pytest.mark.unit
@pytest.mark.parametrize(
    ("line", "place", "part"),
    [
        ("chase,128,128,8,1,32,200", "t.csv:3", "has 7 cells"),
        ("chase,128,128,8,1,32,,20", "t.csv:3", 'cycles is ""'),
        ("stream,128,16,1,1,32,200,", "t.csv:3", 'nanoseconds is ""'),
        ("chase,128,128,0,1,32,200,", "t.csv:3", "count is"),
        ("chase,12.5,128,8,1,32,200,", "t.csv:3", "whole number"),
        ("chase,128,128,8,1,32,nan,", "t.csv:3", "nan"),
        ("chsae,128,128,8,1,32,200,", "t.csv:3", 'did you mean "chase"'),
    ],
)
def test_broken_line_is_refused_with_its_place(line: str, place: str, part: str) -> None:
    with pytest.raises(FormatError) as found:
        read_timings(f"# device: x\n{HEAD}\n{line}\n", "t.csv")
    assert found.value.place == place
    assert part in found.value.what


@pytest.mark.property
@settings(max_examples=150, deadline=None)
@given(st.data())
def test_damaged_timings_end_in_an_answer_or_an_error(data: st.DataObject) -> None:
    rows = ["chase,2048,128,16,1,32,400,", "chase,4096,128,32,1,32,810,", "misses,128,128,1,1,32,50,",
            "stream,4096,16,1,28,256,,20", "stream,8192,16,1,28,256,,30", "resident,8192,16,2,28,512,,30"]  # fmt: skip
    text = "\n".join([HEAD, *data.draw(st.lists(st.sampled_from(rows), max_size=12))]) + "\n"
    for _ in range(data.draw(st.integers(0, 4))):
        place = data.draw(st.integers(0, len(text)))
        damage = data.draw(st.sampled_from(["", ",", "\n", "0", "9" * 30, "-", '"', "é", "\x00"]))
        text = text[:place] + damage + text[place + 1 :]
    try:
        fit(read_timings(text, "t.csv"), load_gpu("mdm-pascal"))
    except WarpsightError as error:
        assert error.place.startswith("t.csv")


@pytest.mark.unit
def test_description_that_is_written_says_where_its_numbers_come_from(pascal: str, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "timings.csv").write_text(pascal)
    outcome = run(capsys, "calibrate", tmp_path / "timings.csv", "--like", "mdm-pascal", "-o", tmp_path / "mine.yaml")
    assert outcome.code == 0, outcome.err
    assert "128 misses" in outcome.out or "129 misses" in outcome.out
    assert outcome.out.rstrip().splitlines()[-1].startswith("next: warpsight gpus show")
    gpu = load_gpu(tmp_path / "mine.yaml")
    assert (gpu.name, gpu.l1.mshrs, gpu.l1.latency_cycles, gpu.sm_count) == ("mine", 128, 25, 28)
    assert gpu.sources["l1.mshrs"].startswith("calibrated: timings.csv; ")
    assert gpu.sources["sm_count"] == load_gpu("mdm-pascal").sources["sm_count"]


@pytest.mark.unit
def test_micro_benchmarks_need_a_gpu_that_is_named(pascal: str, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "timings.csv").write_text(pascal)
    assert_one_error(run(capsys, "calibrate", tmp_path / "timings.csv"), 2, "do not tell the number of SMs", "--like")
    assert_one_error(run(capsys, "calibrate"), 2, "--kernels DIR")
    assert_one_error(run(capsys, "calibrate", "x.csv", "--kernels", "y"), 2, "needs either timings to fit, or --kernels DIR")


@pytest.mark.unit
def test_sources_are_written_and_never_over_a_file_of_another(tmp_path: Path, capsys: Capture) -> None:
    outcome = run(capsys, "calibrate", "--kernels", tmp_path / "mb", "--json")
    assert [Path(path).name for path in json.loads(outcome.out)["files"]] == ["microbenchmarks.cu", "kernels.cuh"]
    assert run(capsys, "calibrate", "--kernels", tmp_path / "mb").code == 0
    (tmp_path / "mb" / "kernels.cuh").write_text("mine")
    assert_one_error(run(capsys, "calibrate", "--kernels", tmp_path / "mb"), 2, "kernels.cuh", "exists with other content")


@pytest.mark.oracle
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on this machine")
def test_host_program_compiles_and_prints_the_header_that_is_read(tmp_path: Path) -> None:
    save(tmp_path)
    words = ["nvcc", "-arch=sm_80", "-o", str(tmp_path / "program"), str(tmp_path / PROGRAM)]
    built = subprocess.run(words, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    assert f'printf("{HEAD}\\n")' in (tmp_path / PROGRAM).read_text()
    assert is_timings(f"# device: x\n{HEAD}\n")
