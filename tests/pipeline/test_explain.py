"""Do the numbers beside the lines sum to the prediction, and stand beside the right lines?"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from explained import assert_sums_are_the_prediction, prediction_or_skip, traces
from hypothesis import given
from hypothesis import strategies as st
from small_programs import gpu, load, misses, op
from small_programs import trace as small_trace

import warpsight
from warpsight.analysis.explanation import explain_profiled, explain_views
from warpsight.analysis.explanation_rows import RULES, VIEWS, Evidence, divided
from warpsight.base.errors import UsageError, WarpsightError
from warpsight.gpu.loader import load_gpu
from warpsight.gpu.occupancy import Occupancy
from warpsight.intervals.algorithm import interval_spans, waiting_pcs
from warpsight.intervals.build import build_profile
from warpsight.intervals.usage import hit_rates
from warpsight.models.base import model_names
from warpsight.pipeline.evaluate import ProfiledTrace, profile_trace
from warpsight.pipeline.request import DEFAULT_METHOD
from warpsight.reports.explanation import explanation_text
from warpsight.reports.formats import plain
from warpsight.reports.terminal import Style
from warpsight.result.prediction import COMPONENT_PARTS, COMPONENTS
from warpsight.traces.schema import KernelTrace

pytestmark = pytest.mark.unit

GPUS = ("mdm-pascal", "gpumech")
NAMES = ("row_sum", "count", "odd_and_even")
PTX_VIEWS = ("line", "source", "block")


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, KernelTrace]:
    return traces(tmp_path_factory.mktemp("kernels"))


@pytest.fixture(scope="module")
def profiled(kernels: dict[str, KernelTrace]) -> dict[tuple[str, str], ProfiledTrace]:
    return {(name, gpu): profile_trace(kernels[name], load_gpu(gpu)) for name in NAMES for gpu in GPUS}


@pytest.mark.parametrize("view", PTX_VIEWS)
@pytest.mark.parametrize("model", model_names())
@pytest.mark.parametrize("gpu_name", GPUS)
@pytest.mark.parametrize("kernel", NAMES)
def test_sums_of_every_view_and_model_are_the_prediction_s(
    kernel: str, gpu_name: str, model: str, view: str, profiled: dict[tuple[str, str], ProfiledTrace]
) -> None:
    prediction = prediction_or_skip(profiled[kernel, gpu_name], load_gpu(gpu_name), model)
    explanation = explain_profiled(profiled[kernel, gpu_name], load_gpu(gpu_name), model, view)
    assert_sums_are_the_prediction(explanation)
    assert explanation.prediction == prediction


def test_views_hold_the_same_executions_and_requests(profiled: dict[tuple[str, str], ProfiledTrace]) -> None:
    by = {view: explain_profiled(profiled["count", "mdm-pascal"], load_gpu("mdm-pascal"), "mdm", view) for view in PTX_VIEWS}
    executed = {view: sum(row.executions for row in explanation.rows) for view, explanation in by.items()}
    assert set(executed.values()) == {profiled["count", "mdm-pascal"].trace.header.warp_instructions}
    assert sorted(pc for row in by["source"].rows for pc in row.pcs) == [row.pcs[0] for row in by["line"].rows]


def _hand_made() -> tuple[KernelTrace, ProfiledTrace]:
    """r0 = ..; r1 = load r0; r2 = r0 + ..; r3 = r1 + r2, alone on an SM: 3 waits for 1, 1 waits for 0."""
    program = (op(0, (0,)), load(1, (1,), (0,)), op(2, (2,), (0,)), op(3, (3,), (1, 2)), op(4, (), (3,), "branch"))
    made = small_trace(program, [0, 3, 5], [[(0, 1), (1, 1)]], [0, 0])
    found = misses(
        5, executions={1: 2}, slowest_l2={1: 2}, l1_reads={1: 8}, l1_misses={1: 8}, l2_reads={1: 8}, l2_read_hits={1: 8},
        sectors={1: 16},
    )  # fmt: skip
    profile = build_profile(made, found, gpu(), Occupancy(1, 1, 1 / 32, "threads"))
    return made, ProfiledTrace(made, Occupancy(1, 1, 1 / 32, "threads"), found, profile, DEFAULT_METHOD)


def test_tiny_kernel_s_waiting_instructions_and_stalls_are_those_worked_out_by_hand() -> None:
    _, profiled = _hand_made()
    rows = explain_profiled(profiled, gpu(), "mdm").rows
    waits = [[(wait.pc, wait.stall_cycles) for wait in row.waits_for] for row in rows]
    # the load issues 1 + 4 cycles after its address, 4 of them stalled; its user 1 + 120 after the load, with one issue between
    assert waits == [[], [(0, 4.0)], [], [(1, 119.0)], [(3, 4.0)]]
    assert [row.intervals for row in rows] == [(0, 0), (1, 1), (1, 1), (2, 2), (3, 3)]
    assert [row.block for row in rows] == [0, 0, 0, 1, 1]
    assert [row.text for row in rows[:4]] == ["add.s32 r0", "ld.global.f32 r1 <- r0", "add.s32 r2 <- r0", "add.s32 r3 <- r1 r2"]
    assert rows[3].cpi_stack["mem_data"] == pytest.approx(119 / 5)
    assert sum(row.cpi_stack["com_data"] for row in rows) == pytest.approx(8 / 5)
    assert rows[1].cpi_stack["com_data"] == rows[4].cpi_stack["com_data"] == pytest.approx(4 / 5)
    assert (rows[1].requests_per_execution, rows[1].sectors_per_request) == (4.0, 2.0)
    assert (rows[1].l1_hit_rate, rows[1].l2_hit_rate) == (0.0, 1.0)
    assert [rows[k].cause for k in (0, 2, 3, 4)] == ["base", "base", "mem_data", "com_data"]


def test_wait_across_the_turn_of_a_loop_is_charged_to_the_first_instruction_of_the_next_turn() -> None:
    # r0 = r0 + 1, three times over: each turn waits for the one before
    program = (op(0, (0,), (0,)), op(1, (1,)))
    made = small_trace(program, [0, 2], [[(0, 3)]], [0])
    profile = build_profile(made, misses(2), gpu(), Occupancy(1, 1, 1 / 32, "threads"))
    assert waiting_pcs(made, 0, profile.instructions).tolist() == [0, 0, -1]
    assert profile.pc.tolist() == [0, 0, -1]
    assert interval_spans(made, 0, profile.instructions).tolist() == [[0, 2], [0, 2]]


def test_intervals_of_another_path_are_refused() -> None:
    made, profiled = _hand_made()
    with pytest.raises(ValueError, match="path 0"):
        waiting_pcs(made, 0, profiled.profile.instructions[:-1])


def _evidence(**changes: Any) -> Evidence:
    made, profiled = _hand_made()
    times, waiting = np.full(5, 2), waiting_pcs(made, 0, profiled.profile.instructions)
    values = {"trace": made, "misses": profiled.misses, "profile": profiled.profile, "gpu": gpu(), "warps": np.array([2]),
              "times": times, "waiting": waiting}  # fmt: skip
    return Evidence(**{**values, **changes})


def test_component_without_a_cause_in_the_trace_is_left_over_and_not_spread() -> None:
    parts, rest = divided({"sync": 0.5, "idle": 0.25, "of_a_plug_in": 1.5, "base": 1.0}, _evidence())
    assert rest == {"sync": 0.5, "idle": 0.25, "of_a_plug_in": 1.5}
    assert parts["sync"].sum() == 0
    assert parts["base"].tolist() == [0.2] * 5


def test_every_component_but_idle_has_a_rule() -> None:
    assert set(RULES) | {"idle", "launch"} == {*COMPONENTS, *COMPONENT_PARTS}


def test_drain_is_charged_to_the_last_store_of_each_path() -> None:
    """Five warps store once at pc 0 and then compute, three store again at pc 2, and two store nothing."""
    store = {"op_class": "memory", "opcode": "st.global.f32", "space": "global", "access": "store", "access_bytes": 4}
    program = (op(0, (), (0,), **store), op(1, (0,)), op(2, (), (0,), **store), op(3, (0,)))
    paths = [[(0, 1), (1, 4)], [(0, 1), (1, 1), (2, 2), (1, 1)], [(1, 1)]]
    made = small_trace(program, [0, 1, 2, 4], paths, [0] * 5 + [1] * 3 + [2] * 2)
    evidence = _evidence(trace=made, times=np.array([8, 28, 6, 6]), warps=np.array([5, 3, 2]))
    parts, rest = divided({"drain": 16.0}, evidence)
    assert parts["drain"].tolist() == [10.0, 0.0, 6.0, 0.0]
    assert not rest


def test_units_are_charged_for_the_cycles_beyond_issue() -> None:
    slow = gpu(initiation_cycles={"int": 1, "sfu": 4, "fp32": 1, "fp64": 1, "shared": 1, "fp16": 1})
    made, _ = _hand_made()
    program = (op(0, (0,), op_class="sfu"), *made.instructions[1:])
    conflicted = misses(5, shared_executions={2: 2}, shared_passes={2: 8}, executions={1: 2}, l1_reads={1: 6})
    parts, rest = divided(
        {"com_struct": 16.0},
        _evidence(gpu=slow, misses=conflicted, trace=KernelTrace(made.header, program, made.block_start, made.paths, made.chunks)),
    )
    # two executions of 4 - 1 cycles, 6 requests of two loads, and 8 - 2 passes through the banks
    assert parts["com_struct"].tolist() == [6.0, 4.0, 6.0, 0.0, 0.0]
    assert not rest


def test_parts_of_the_units_are_charged_to_what_occupies_them() -> None:
    """pc 0 is a special function, pc 1 a load of 6 lines, pc 2 two accesses of 8 B a lane to shared memory in 8 passes, 4 of them
    due to conflicts."""
    slow = gpu(initiation_cycles={"int": 2, "sfu": 4, "fp32": 1, "fp64": 1, "shared": 1, "fp16": 1})
    made, _ = _hand_made()
    wide = op(2, (2,), (0,), "shared", opcode="ld.shared.f64", space="shared", access="load", access_bytes=8)
    program = (op(0, (0,), op_class="sfu"), made.instructions[1], wide, *made.instructions[3:])
    conflicted = misses(5, shared_executions={2: 2}, shared_passes={2: 8}, executions={1: 2}, l1_reads={1: 6})
    evidence = _evidence(
        gpu=slow, misses=conflicted, trace=KernelTrace(made.header, program, made.block_start, made.paths, made.chunks)
    )
    parts, rest = divided({"banks": 3.0, "lsu": 10.0, "xu": 2.0, "alu": 1.0, "tensor": 5.0}, evidence)
    assert parts["banks"].tolist() == [0, 0, 3, 0, 0]
    assert parts["lsu"].tolist() == [0, 6, 4, 0, 0]
    assert parts["xu"].tolist() == [2, 0, 0, 0, 0]
    assert parts["alu"].tolist() == [0, 0, 0, 1, 0]
    assert rest == {"tensor": 5.0}


def test_hit_rate_of_a_line_weighs_its_loads_by_their_sectors() -> None:
    """pc 1 reads 8 lines of 4 sectors, 6 of them hits; pc 2 reads 8 lines of 1 sector, none a hit; a store is left out."""
    program = (op(0, (0,)), load(1, (1,), (0,)), load(2, (2,), (0,)),
               op(3, (), (1,), "memory", opcode="st.global.f32", space="global", access="store", access_bytes=4))  # fmt: skip
    counts = misses(
        4, sectors={1: 32, 2: 8, 3: 8}, l1_reads={1: 8, 2: 8}, l1_hits={1: 6}, l1_misses={1: 2, 2: 6}, l1_merges={2: 2},
        l1_writes={3: 8}, l2_reads={1: 2, 2: 6}, l2_read_hits={1: 2, 2: 3},
    )  # fmt: skip
    assert hit_rates(program, counts, [0, 1, 2, 3]) == (6 * 4 / (8 * 4 + 8), (2 * 4 + 3) / (2 * 4 + 6))
    assert hit_rates(program, counts, [2]) == (0.0, 0.5)
    assert hit_rates(program, counts, [0, 3]) == (None, None)


def test_repeats_of_atomics_are_charged_with_the_network_that_they_hold_up() -> None:
    parts, _ = divided({"noc": 8.0}, _evidence(misses=misses(5, l1_misses={1: 4}, atomic_cycles={2: 12})))
    assert parts["noc"].tolist() == [0.0, 2.0, 6.0, 0.0, 0.0]


def test_units_that_are_held_for_one_cycle_are_charged_by_use() -> None:
    parts, rest = divided({"com_struct": 4.0}, _evidence(misses=misses(5)))
    assert parts["com_struct"].tolist() == [1.0, 1.0, 1.0, 1.0, 0.0]  # the branch uses no unit
    assert not rest


def test_traffic_is_charged_to_what_leaves_the_sm() -> None:
    found = misses(5, l1_misses={1: 30}, l1_writes={2: 10}, dram_reads={1: 3}, dram_writes={2: 1})
    parts, _ = divided({"mshr": 1.0, "noc": 4.0, "dram": 4.0}, _evidence(misses=found))
    assert parts["mshr"].tolist() == [0, 1, 0, 0, 0]
    assert parts["noc"].tolist() == [0, 3, 1, 0, 0]
    assert parts["dram"].tolist() == [0, 3, 1, 0, 0]


def test_divergent_branch_shows_in_the_active_lanes(profiled: dict[tuple[str, str], ProfiledTrace]) -> None:
    explanation = explain_profiled(profiled["odd_and_even", "mdm-pascal"], load_gpu("mdm-pascal"), "mdm", "source")
    lanes = {row.line: row.lanes for row in explanation.rows}
    text = explanation.sources[explanation.rows[0].file]
    loop = next(line for line, source in text.items() if "sqrtf" in source)
    assert lanes[loop] is not None
    assert lanes[loop] < 17  # 16, but for the turn of the loop's first test
    assert lanes[min(lanes)] == 32


def test_unknown_view_is_refused_with_the_nearest(kernels: dict[str, KernelTrace]) -> None:
    with pytest.raises(UsageError, match='did you mean "source"'):
        warpsight.explain(kernels["count"], by="sources")


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("view", PTX_VIEWS)
def test_text_is_aligned_and_as_wide_as_the_terminal(
    view: str, width: int, profiled: dict[tuple[str, str], ProfiledTrace]
) -> None:
    document = plain(explain_profiled(profiled["count", "mdm-pascal"], load_gpu("mdm-pascal"), "mdm", view).to_json())
    lines = explanation_text(document, width=width).splitlines()
    assert max(map(len, lines)) <= width
    coloured = explanation_text(document, Style(colour=True), width=width)
    assert re.sub(r"\x1b\[\d+m", "", coloured).splitlines() == lines
    assert all(line == line.rstrip() and line.isascii() for line in lines)
    assert json.loads(json.dumps(document)) == document


def test_source_that_is_gone_is_told_and_the_numbers_stay(kernels: dict[str, KernelTrace], tmp_path: Path) -> None:
    source = tmp_path / "gone.cu"
    source.write_text("__global__ void k(int* x) {\n  x[threadIdx.x] = 1;\n}\n")
    trace = warpsight.trace(source, grid=1, block=32, args=[np.zeros(32, np.int32)])
    source.unlink()
    explanation = warpsight.explain(trace, by="source")
    assert [Path(file).name for file in explanation.missing] == ["gone.cu"]
    assert_sums_are_the_prediction(explanation)
    assert "gone.cu was not found" in explanation_text(plain(explanation.to_json()))


@pytest.mark.property
@given(st.fixed_dictionaries({name: st.floats(0, 1e3) for name in COMPONENTS}))
def test_any_stack_is_divided_without_rest_but_what_is_named(stack: dict[str, float]) -> None:
    parts, rest = divided(stack, _evidence())
    for name, value in stack.items():
        assert parts[name].sum() + rest.get(name, 0.0) == pytest.approx(value, abs=1e-9)
        assert (parts[name] >= 0).all()


def test_sampled_blocks_are_explained_as_they_are_predicted(tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text("__global__ void k(float* x) {\n  x[blockIdx.x * 32 + threadIdx.x] *= 2.0f;\n}\n")
    trace = warpsight.trace(source, grid=64, block=32, args=[np.zeros(64 * 32, np.float32)], sample=16)
    explanation = warpsight.explain(trace)
    assert_sums_are_the_prediction(explanation)
    assert sum(row.executions for row in explanation.rows) == trace.header.sampled_instructions


# -- Machine code.

@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> KernelTrace:
    source = tmp_path_factory.mktemp("native") / "scaled.cu"
    source.write_text("""__global__ void scaled(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0.0f;
  for (int k = 0; k < 4; k++) sum += x[4 * i + k];
  if (i < n) y[i] = sum / 3.0f;
}
""")
    arguments = [np.ones(8192, np.float32), np.zeros(2048, np.float32), 2048]
    return warpsight.trace(source, grid=16, block=128, args=arguments, gpu="a100", level="sass")


def test_sums_of_every_view_of_machine_code_are_the_prediction_s(native: KernelTrace) -> None:
    gpu = load_gpu("a100")
    found = profile_trace(native, gpu)
    for model in model_names():
        try:
            by = dict(zip(VIEWS, explain_views(found, gpu, model, VIEWS), strict=True))
        except WarpsightError:
            continue  # a model that needs more than a profile
        for explanation in by.values():
            assert_sums_are_the_prediction(explanation)
            assert sum(row.executions for row in explanation.rows) == native.header.warp_instructions
            assert sorted(pc for row in explanation.rows for pc in row.pcs) == [*range(len(native.instructions))]


def test_rows_of_machine_code_are_its_listing_and_lines_those_of_the_ptx(native: KernelTrace) -> None:
    by = {view: warpsight.explain(native, "a100", by=view).rows for view in ("sass", "line")}
    words = [row.machine for row in by["sass"]]
    # the slow path of the division is a function behind the kernel, in its section
    assert len({word.section for word in words if word}) == 1
    addresses = [word.address for word in words if word]
    assert addresses == [16 * k for k in range(len(addresses))]
    assert any(row.text.startswith("CALL.REL") for row in by["sass"])
    loads = [row for row in by["sass"] if row.text.startswith("LDG")]
    barriers = {row.machine.write_barrier for row in loads if row.machine}
    assert barriers <= {barrier for word in words if word for barrier in word.waits}
    assert all(row.machine is None for row in by["line"])
    lines = [row.ptx_lines[0] for row in by["line"] if row.ptx_lines[0]]
    assert lines == sorted(set(lines))  # a row for each line, whatever the order of its instructions
    (quotient,) = (row for row in by["line"] if row.text.startswith("div.rn.f32"))
    assert len(quotient.pcs) > 5  # one instruction of PTX, many of machine code
    assert {native.instructions[pc].ptx_line for pc in quotient.pcs} == {quotient.ptx_lines[0]}


def test_text_of_machine_code_is_aligned_and_has_the_columns_of_its_listing(native: KernelTrace) -> None:
    for view in VIEWS:
        text = explanation_text(plain(warpsight.explain(native, "a100", by=view).to_json()))
        assert max(map(len, text.splitlines()[1:])) <= 120
    rows = warpsight.explain(native, "a100", by="sass")
    shown = explanation_text(plain(rows.to_json())).splitlines()
    heading = next(line for line in shown if "address" in line)
    assert heading.split() == [
        "share", "address", "instruction", "issue", "wait", "cause", "waits", "stall", "sets", "live", "line"
    ]  # fmt: skip
    load = next(line for line in shown if "LDG" in line)
    assert load.split()[2].startswith("0x000") and any(word.startswith("W") for word in load.split())


def test_machine_code_of_a_trace_without_any_is_refused(kernels: dict[str, KernelTrace]) -> None:
    with pytest.raises(UsageError, match="no listing of machine code") as refused:
        warpsight.explain(kernels["count"], by="sass")
    assert "level `sass`" in str(refused.value.remedy)
