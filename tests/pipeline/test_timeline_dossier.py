"""Does the window of a timeline say in what state each warp slot is at each cycle?"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
from trace_by_hand import Warp, build_trace

from warpsight.analysis.report_data import timeline as report_timeline
from warpsight.analysis.report_data.kernel import references, simulated_prediction
from warpsight.analysis.report_data.timeline import Window, timeline_part, window_of
from warpsight.base.errors import UsageError
from warpsight.gpu.loader import load_gpu
from warpsight.hardware.references import Reference
from warpsight.pipeline.evaluate import trace_occupancy
from warpsight.pipeline.simulation import simulate_trace
from warpsight.simulator.simulate import Simulation, Timeline
from warpsight.traces.schema import KernelTrace

pytestmark = pytest.mark.unit
START, ARITHMETIC, MEMORY, BARRIER, FETCH = range(5)

# issued, slot, warp, pc, ready, cause. Warp 5 waits in slot 0 for memory until cycle 8 and is issued at 10; warp 6 leaves slot 1
# after cycle 4, warp 9 comes there, and waits a cycle at a barrier.
RECORDS = [
    (2, 0, 5, 0, 2, START), (3, 0, 5, 1, 3, ARITHMETIC), (4, 1, 6, 0, 3, START), (9, 1, 9, 0, 9, START), (10, 0, 5, 2, 8, MEMORY),
    (11, 1, 9, 1, 11, BARRIER),
]  # fmt: skip


def kernel() -> KernelTrace:
    trace = build_trace(["load.global.4 r1 <- r0\nint r2 <- r1\nbarrier"], [Warp(((0, 32, 1),), [[0]])] * 8, 4)
    header = dataclasses.replace(trace.header, warp_instructions=24, thread_instructions=24 * 32)
    return dataclasses.replace(trace, header=header)


def simulation(truncated: bool = False, cycles: int = 12) -> Simulation:
    columns = np.array(RECORDS, np.int64).T
    issued, slot, warp, pc, ready, cause = columns
    watched = Timeline(0, issued, slot, warp, pc, ready, cause, truncated)
    return Simulation(cycles, 6, np.zeros((3, 9)), {}, {}, (), watched)


def test_states_of_a_timeline_by_hand_are_those_at_each_cycle() -> None:
    part = timeline_part(kernel(), simulation(), Window())
    assert part["cycles"] == [0, 12]
    assert part["rows"] == [
        {"slot": 0, "runs": "-2I2M4E2I-", "pcs": [0, 1, 2], "warps": [[0, 5]]},
        {"slot": 1, "runs": "-3EI-4IBI", "pcs": [0, 0, 1], "warps": [[0, 6], [1, 9]]},
    ]
    counted = {state["letter"]: state["warp_cycles"] for state in part["states"]}
    assert counted == {"I": 6, "A": 0, "M": 4, "B": 1, "F": 0, "E": 3, "-": 10}
    assert (part["issued"], part["issued_of"], part["simulated_cycles"], part["truncated"]) == (6, 6, 12, False)
    assert set(part["instructions"]) == {"0", "1", "2"}


@pytest.mark.parametrize(
    ("begin", "end", "runs", "pcs"),
    [
        (5, 9, ["M3E", "-4"], [[2], []]),  # between two instructions: what is waited for is known
        (4, 6, ["M2", "I-"], [[2], [0]]),
        (10, 12, ["I-", "BI"], [[2], [1]]),
        (9, None, ["EI-", "IBI"], [[2], [0, 1]]),
    ],
)
def test_window_shows_the_same_states_as_the_whole(begin: int, end: int | None, runs: list[str], pcs: list[list[int]]) -> None:
    part = timeline_part(kernel(), simulation(), Window(0, begin, end))
    assert [row["runs"] for row in part["rows"]] == runs
    assert [row["pcs"] for row in part["rows"]] == pcs


def test_window_ends_where_a_page_holds_no_more_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_timeline, "MOST", 3)
    part = timeline_part(kernel(), simulation(), Window(0, 0))
    assert part["cycles"] == [0, 9]  # the fourth is issued at cycle 9
    assert (part["issued"], part["issued_of"]) == (3, 6)
    assert timeline_part(kernel(), simulation(), Window(0, 0, 4))["cycles"] == [0, 4]


def test_map_of_the_launch_has_the_warp_cycles_of_each_state_in_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    found = timeline_part(kernel(), simulation(), Window(0, 9))["map"]  # of all cycles, whichever window is shown
    # slot 0: --IIMMMMEEI-, slot 1: ---EI----IBI
    assert found["step"] == 1
    assert {letter: "".join(map(str, counts)) for letter, counts in found["warp_cycles"].items()} == {
        "I": "001110000111", "M": "000011110000", "B": "000000000010", "E": "000100001100"
    }
    monkeypatch.setattr(report_timeline, "MAP_STEPS", 3)
    coarse = timeline_part(kernel(), simulation(cycles=14), Window())["map"]
    assert coarse["step"] == 5
    assert coarse["warp_cycles"] == {"I": [3, 1, 2], "M": [1, 3, 0], "B": [0, 0, 1], "E": [1, 2, 0]}


def test_window_without_a_begin_is_where_the_slots_are_full_for_the_longest_time(monkeypatch: pytest.MonkeyPatch) -> None:
    part = timeline_part(kernel(), simulation(), Window())
    # both slots have a warp at cycles 3 and 4, and at 9 and 10
    assert part["map"]["steady"] == 4
    monkeypatch.setattr(report_timeline, "MOST", 2)
    around = timeline_part(kernel(), simulation(), Window())
    assert (around["cycles"], around["issued"]) == ([3, 9], 2)


def test_timeline_of_an_sm_without_a_block_has_no_rows() -> None:
    nothing = np.zeros(0, np.int64)
    idle = dataclasses.replace(simulation(), timeline=Timeline(1, *[nothing] * 6, False))
    part = timeline_part(kernel(), idle, Window(1))
    assert (part["cycles"], part["rows"], part["map"]["warp_cycles"]) == ([0, 12], [], {})


def test_timeline_that_was_cut_is_known_up_to_its_last_instruction() -> None:
    cut = simulation(truncated=True, cycles=5000)
    part = timeline_part(kernel(), cut, Window())
    assert (part["cycles"], part["simulated_cycles"], part["truncated"]) == ([0, 12], 5000, True)
    with pytest.raises(UsageError, match="cycle 12 is after the 12 recorded cycles"):
        timeline_part(kernel(), cut, Window(0, 12))


@pytest.mark.parametrize("text", ["", "5", ":5", "7:7", "9:3", "-1:4", "a:b", "1:2:3", "\uff11:\uff12"])
def test_window_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a range of cycles"):
        window_of(text, None)


def test_window_is_read_as_it_is_written() -> None:
    assert window_of("10:250", 3) == Window(3, 10, 250)
    assert window_of("10:", None) == Window(0, 10, None)
    assert window_of(None, None) == Window(0, None, None)


def test_states_of_a_simulation_fill_the_window_and_hold_each_instruction(tmp_path: Path) -> None:
    trace, gpu = kernel(), load_gpu("mdm-pascal")
    file = tmp_path / "all.json"
    prediction, part = simulated_prediction(trace, gpu, trace_occupancy(trace, gpu), Window(), str(file), None)
    begin, end = part["cycles"]
    for row in part["rows"]:
        runs = [(letter, int(count or 1)) for letter, count in re.findall(r"([-A-Z])(\d*)", row["runs"])]
        assert sum(count for _, count in runs) == end - begin
        assert sum(count for letter, count in runs if letter == "I") == len(row["pcs"])
    watched = simulate_trace(trace, gpu, watch_sm=0).simulation.timeline
    assert watched is not None
    assert part["issued"] == len(watched.issued)
    assert file.stat().st_size > 0
    assert "simulation_seconds" not in prediction.provenance["model"]


def test_errors_are_signed_and_relative_to_the_simulator() -> None:
    cycles = {"mdm": 120.0, "simulator": 100.0, "mt": 75.0}
    documents = [{"model": model, "cycles": each, "seconds": each / 1e9} for model, each in cycles.items()]
    (found,) = references(documents)
    assert (found["name"], found["kind"], found["cycles"], found["by"]) == ("simulator", "simulation", 100.0, "cycles")
    assert found["errors"] == {"mdm": pytest.approx(0.2), "mt": -0.25}
    assert references(documents[:1]) == []


def test_measured_time_is_held_against_where_cycles_were_not_measured() -> None:
    documents = [{"model": "mdm", "cycles": 120.0, "seconds": 3e-6}, {"model": "simulator", "cycles": 100.0, "seconds": 2.5e-6}]
    row = Reference("", "k", "", None, None, None, {}, "ncu.csv:3", 2e-6)
    measured, simulator = references(documents, row)
    assert (measured["by"], measured["cycles"], measured["place"]) == ("seconds", None, "ncu.csv:3")
    assert measured["errors"] == {"mdm": pytest.approx(0.5), "simulator": pytest.approx(0.25)}
    assert simulator["errors"] == {"mdm": pytest.approx(0.2)}
    nothing = references(documents, Reference("", "k", "", None, None, None, {}, "ncu.csv:3"))[0]
    assert nothing["errors"] == {}
