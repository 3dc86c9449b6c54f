"""Is every gain that of an explicit run with the change, are they ranked, and is nothing left out unsaid?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from explained import KERNELS, traces

import warpsight
from warpsight.analysis.advice import (
    divergence_rules,
    memory_rules,
    product_rules,
    redundancy_rules,
    resource_rules,
    reuse_rules,
    work_rules,
)
from warpsight.analysis.advice.advise import LEAST_GAIN, OURS, Advice, advise_trace, all_rules
from warpsight.analysis.advice.memory_rules import Atomics, BankConflicts, L1Hits, coalesced, combined, doubled_hits
from warpsight.analysis.advice.resource_rules import Balance, Fusion, LaunchOverhead, balanced
from warpsight.analysis.advice.rewriting import distinct
from warpsight.analysis.advice.rule import RULES, Case, WhatIf, place_of
from warpsight.analysis.explanation import explain_profiled
from warpsight.base.errors import LimitError, UsageError
from warpsight.base.units import percent
from warpsight.gpu.loader import load_gpu
from warpsight.gpu.occupancy import occupancy
from warpsight.intervals.build import build_profile
from warpsight.intervals.usage import without_conflicts
from warpsight.models.base import get_model
from warpsight.pipeline.evaluate import ProfiledTrace, profile_trace
from warpsight.reports.explanation import advice_text
from warpsight.reports.formats import plain
from warpsight.result.prediction import Prediction
from warpsight.traces.schema import KernelTrace, WaveSample

pytestmark = pytest.mark.unit

GPU = load_gpu("mdm-pascal", overrides=["sm_count=2", "sm.registers=32768", "l1.mshrs=32"])
NAMES = ("row_sum", "count", "odd_and_even")


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, KernelTrace]:
    return traces(tmp_path_factory.mktemp("advised"))


@pytest.fixture(scope="module")
def advice(kernels: dict[str, KernelTrace]) -> dict[str, Advice]:
    return {name: advise_trace(kernels[name], GPU, "mdm") for name in NAMES}


def _case(trace: KernelTrace, model: str = "mdm") -> Case:
    profiled = profile_trace(trace, GPU)
    explained = explain_profiled(profiled, GPU, model, "source")
    return Case(profiled, GPU, model, explained.prediction, explained.rows)


def _cycles(profiled: ProfiledTrace, **changes: object) -> float:
    """The prediction with other cache counts, made step by step."""
    misses = changes.get("misses", profiled.misses)
    profile = build_profile(profiled.trace, misses, GPU, profiled.occupancy)  # type: ignore[arg-type]
    return get_model("mdm").predict(profile, GPU).cycles


@pytest.mark.parametrize("name", NAMES)
def test_changes_are_ranked_and_those_without_gain_counted(
    name: str, advice: dict[str, Advice], kernels: dict[str, KernelTrace]
) -> None:
    found = advice[name]
    gains = [change.gain_cycles for change in found.changes]
    assert gains == sorted(gains, reverse=True)
    assert all(change.gain >= LEAST_GAIN for change in found.changes)
    proposed = sum(len(list(rule.propose(_case(kernels[name])))) for rule in all_rules())
    assert len(found.changes) + found.without_gain + len(found.refused) + len(found.left) == proposed
    for change in found.changes:
        assert change.gain_cycles == pytest.approx(found.prediction.cycles - change.prediction.cycles)
        assert change.gain == pytest.approx(change.gain_cycles / found.prediction.cycles)
        assert all((change.what_if.title, change.what_if.place, change.what_if.reason, change.what_if.cost))


@pytest.mark.parametrize("model", ["mdm", "gpumech"])
def test_gain_of_a_larger_resource_is_that_of_predict_with_the_setting(kernels: dict[str, KernelTrace], model: str) -> None:
    found = advise_trace(kernels["row_sum"], GPU, model)
    settings = {change.what_if.setting: change for change in found.changes if change.what_if.setting}
    assert "l1.mshrs=64" in settings
    for setting, change in settings.items():
        explicit = warpsight.predict(kernels["row_sum"], GPU, model, overrides=[setting])
        assert change.prediction.cycles == explicit.cycles
        assert change.gain_cycles == found.prediction.cycles - explicit.cycles


def test_gain_of_coalescing_is_that_of_the_rewritten_trace(kernels: dict[str, KernelTrace], advice: dict[str, Advice]) -> None:
    trace = kernels["row_sum"]
    (change,) = (change for change in advice["row_sum"].changes if change.rule == "coalescing")
    loads = [i.pc for i in trace.instructions if i.has_sectors and i.access == "load"]
    line = trace.instructions[loads[0]].line
    assert change.what_if.title == f"loads of line {line} coalesced"
    assert change.what_if.place == f"kernels.cu:{line}"
    assert change.prediction.cycles == warpsight.predict(coalesced(trace, loads, GPU.l1.line_bytes), GPU, "mdm").cycles
    assert change.gain > 0.5


def test_gain_of_occupancy_is_that_of_the_launch_with_fewer_registers(kernels: dict[str, KernelTrace]) -> None:
    trace = kernels["row_sum"]
    case = _case(trace)
    (change,) = next(rule for rule in all_rules() if rule.name == "occupancy").propose(case)
    now, registers = case.profiled.occupancy, trace.header.registers_per_thread
    assert now.limiter == "registers"
    fewer = next(n for n in range(registers, 0, -1) if occupancy(GPU, 128, n, 0).blocks_per_sm > now.blocks_per_sm)
    explicit = warpsight.predict(replace(trace, header=replace(trace.header, registers_per_thread=fewer)), GPU, "mdm")
    assert change.evaluate().cycles == explicit.cycles
    assert f"{fewer} registers per thread instead of {registers}" in change.title


def test_occupancy_bound_by_shared_memory_is_raised_by_taking_some_away(kernels: dict[str, KernelTrace]) -> None:
    trace = kernels["odd_and_even"]
    header = replace(trace.header, dynamic_shared_bytes=40_000, static_shared_bytes=1_000)
    (change,) = next(rule for rule in all_rules() if rule.name == "occupancy").propose(_case(replace(trace, header=header)))
    # 96 KiB hold two blocks of 41,000 bytes; three may have a third each, in units of 256 bytes
    assert "32,768 bytes of shared memory per block instead of 41,000" in change.title


def test_occupancy_bound_by_threads_has_no_next_step(kernels: dict[str, KernelTrace]) -> None:
    trace = kernels["odd_and_even"]
    header = replace(trace.header, registers_per_thread=1)
    assert not list(next(rule for rule in all_rules() if rule.name == "occupancy").propose(_case(replace(trace, header=header))))


def test_gains_from_cache_counts_are_those_of_the_changed_counts(kernels: dict[str, KernelTrace]) -> None:
    rules = {rule.name: rule for rule in all_rules()}
    case = _case(kernels["row_sum"])
    for change in rules["l1_hits"].propose(case):
        line = int(change.place.rpartition(":")[2])
        pcs = [i.pc for i in case.trace.instructions if i.line == line and case.profiled.misses.l1_hits[i.pc]]
        explicit = _cycles(case.profiled, misses=doubled_hits(case.profiled.misses, pcs))
        assert change.evaluate().cycles == explicit
    case = _case(kernels["count"])
    (change,) = rules["bank_conflicts"].propose(case)
    explicit = _cycles(case.profiled, misses=without_conflicts(case.trace.instructions, case.profiled.misses))
    assert change.evaluate().cycles == explicit


CONFLICTS = """__global__ void conflicts(const float4* in, float4* out) {
  __shared__ float4 wide[256];
  __shared__ float tile[32 * 32 * 2];
  wide[threadIdx.x] = in[threadIdx.x];
  tile[(threadIdx.x * 16) % 2048] = in[threadIdx.x].x;
  __syncthreads();
  float4 v = wide[threadIdx.x ^ 1];
  v.x += tile[(threadIdx.x * 32 + 7) % 2048];
  out[blockIdx.x * blockDim.x + threadIdx.x] = v;
}
"""


def test_bank_conflicts_of_all_lines_are_one_change_without_accesses_that_are_only_wide(tmp_path: Path) -> None:
    source = tmp_path / "conflicts.cu"
    source.write_text(CONFLICTS)
    arrays = [np.ones(1024, np.float32), np.zeros(16 * 1024, np.float32)]
    trace = warpsight.trace(source, grid=16, block=256, args=arrays)
    case = _case(trace, "warpsight")
    (change,) = BankConflicts().propose(case)
    assert change.title == "no bank conflicts in shared memory at lines 8 and 5"
    assert change.place == "conflicts.cu:8"
    assert "line 8: 32.0 instead of 1.00, line 5: 16.0 instead of 1.00" in change.reason
    without = change.evaluate()
    assert without.cpi_stack.get("banks", 0.0) == 0.0 < case.prediction.cpi_stack["banks"]
    assert without.cycles < case.prediction.cycles
    charged = {row.line: row.cpi_stack["banks"] for row in case.rows if row.cpi_stack["banks"]}
    assert set(charged) == {5, 8} and charged[8] == pytest.approx(31 / 15 * charged[5])


def test_l1_hit_rate_of_a_line_is_the_one_that_explain_shows(tmp_path: Path) -> None:
    """One load of the line always hits after its first use, another never does, and a third sometimes."""
    source = tmp_path / "reads.cu"
    source.write_text("""__global__ void reads(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0.0f;
  for (int k = 0; k < n; k++) sum += x[threadIdx.x] + x[4096 + k * 8192 + i] + x[(i * (k + 3)) % 999];
  y[i] = sum;
}
""")
    trace = warpsight.trace(source, grid=32, block=128, args=[np.ones(1 << 17, np.float32), np.zeros(4096, np.float32), 8])
    case = _case(trace)
    changes = list(L1Hits().propose(case))
    rates = {place_of(row): row.l1_hit_rate for row in case.rows}
    assert any(change.place == "reads.cu:4" for change in changes)
    for change in changes:
        rate = rates[change.place]
        assert rate is not None and f" from {percent(rate)} to " in change.title


def test_atomics_that_meet_at_an_address_are_advised_to_be_combined(kernels: dict[str, KernelTrace]) -> None:
    case = _case(kernels["count"], "warpsight")
    (change,) = Atomics().propose(case)
    (pc,) = case.profiled.misses.atomic_repeats.nonzero()[0]
    # 16 bins for the 32 lanes of a warp
    assert "2.00 lanes share an address" in change.reason
    assert change.place.endswith(f":{case.trace.instructions[pc].line}")
    assert combined(case.profiled.misses, [pc]).atomic_repeats.sum() == 0
    assert change.evaluate().cycles <= case.prediction.cycles


def test_doubled_hits_keep_the_sums_of_the_cache_counts(kernels: dict[str, KernelTrace]) -> None:
    misses = profile_trace(kernels["row_sum"], GPU).misses
    pcs = [pc for pc in range(len(misses.l1_hits)) if 0 < misses.l1_hits[pc] < misses.l1_reads[pc]]
    after = doubled_hits(misses, pcs)
    assert (after.l1_hits + after.l1_misses + after.l1_merges == misses.l1_reads).all()
    assert (after.l2_read_hits + after.l2_read_misses + after.l2_read_merges == after.l2_reads).all()
    for pc in pcs:
        wanted = min(2 * int(misses.l1_hits[pc]), int(misses.l1_reads[pc]))
        assert abs(int(after.l1_hits[pc]) - wanted) <= 1
    served = ("slowest_l1", "slowest_l2", "slowest_dram", "slowest_merged")
    assert sum(getattr(after, n) for n in served).tolist() == sum(getattr(misses, n) for n in served).tolist()


def test_balanced_launch_leaves_no_sm_idle(kernels: dict[str, KernelTrace]) -> None:
    profiled = profile_trace(kernels["row_sum"], load_gpu("mdm-pascal"))
    even = balanced(profiled.profile, 28)
    assert even.launch is not None
    assert even.launch.blocks == 56  # 32 blocks on 28 SMs: two on some
    prediction = get_model("mdm").predict(even, load_gpu("mdm-pascal"))
    assert prediction.cpi_stack["idle"] == 0
    found = advise_trace(kernels["row_sum"], load_gpu("mdm-pascal"), "mdm")
    (change,) = (change for change in found.changes if change.rule == "balance")
    assert change.prediction.cycles == prediction.cycles


@pytest.mark.parametrize(("component", "smaller_blocks_help"), [("mem_data", False), ("lsu", True)])
def test_smaller_blocks_are_advised_where_sms_do_not_wait_for_each_warp(
    kernels: dict[str, KernelTrace], component: str, smaller_blocks_help: bool
) -> None:
    gpu = load_gpu("mdm-pascal", overrides=["sm_count=64"])
    case = replace(_case(kernels["row_sum"], "warpsight"), gpu=gpu)
    stack = {"base": 1.0, component: 8.0, "idle": 9.0, "launch": 0.0}
    (change,) = Balance().propose(replace(case, prediction=replace(case.prediction, cpi=18.0, cpi_stack=stack)))
    assert "64 blocks instead of 32" in change.title
    assert change.cost.startswith("smaller blocks or tiles") == smaller_blocks_help
    assert ("smaller blocks alone do not help" in change.cost) == (not smaller_blocks_help)


def test_blocks_of_unequal_work_are_advised_to_share_it_equally(kernels: dict[str, KernelTrace]) -> None:
    profiled = profile_trace(kernels["row_sum"], load_gpu("mdm-pascal", overrides=["sm_count=16"]))
    assert profiled.profile.demands is not None
    demands = replace(profiled.profile.demands, work_imbalance=1.5, longest_warp=4.0)
    unequal = replace(profiled, profile=replace(profiled.profile, demands=demands))
    gpu = load_gpu("mdm-pascal", overrides=["sm_count=16"])
    prediction = get_model("warpsight").predict(unequal.profile, gpu)
    (change,) = Balance().propose(Case(unequal, gpu, "warpsight", prediction, ()))
    assert "equally over the 32 blocks" in change.title
    assert "1.50 times the mean work" in change.reason
    assert change.evaluate().cycles == pytest.approx(get_model("warpsight").predict(profiled.profile, gpu).cycles)


def test_launch_overhead_is_advised_to_be_shared_by_fewer_blocks_and_by_fusing(kernels: dict[str, KernelTrace]) -> None:
    costs = ["dispatch.grid=2000 cycles", "dispatch.block_interval=50 us"]
    gpu = load_gpu("mdm-pascal", overrides=["sm_count=2", "sm.max_blocks=4", *costs])
    profiled = profile_trace(kernels["row_sum"], gpu)
    prediction = get_model("warpsight").predict(profiled.profile, gpu)
    case = Case(profiled, gpu, "warpsight", prediction, ())  # without rows no other change has a line to name
    (fewer,), (fused,) = LaunchOverhead().propose(case), Fusion().propose(case)
    assert "8 blocks instead of 32" in fewer.title
    assert fewer.evaluate().cpi_stack["launch"] < prediction.cpi_stack["launch"]
    assert "2,000 of them to begin and end the grid" in fused.reason
    assert fused.evaluate().cycles == pytest.approx(prediction.cycles - 2000)
    longer = replace(prediction, cycles=prediction.cycles + 1e9, cpi=prediction.cpi * (1 + 1e9 / prediction.cycles))
    case = Case(profiled, gpu, "warpsight", longer, ())  # beside which launching is nothing
    assert not [*LaunchOverhead().propose(case), *Fusion().propose(case)]
    free = load_gpu("mdm-pascal", overrides=["sm_count=2", "sm.max_blocks=4"])
    case = Case(profiled, free, "mdm", get_model("mdm").predict(profiled.profile, free), ())
    assert not [*LaunchOverhead().propose(case), *Fusion().propose(case)]


def test_fusing_saves_the_read_of_parameters_of_a_kernel_that_uses_memory(kernels: dict[str, KernelTrace]) -> None:
    """One round trip to an L2 of 120 cycles; without accesses to memory there are no addresses among the parameters."""
    costs = ["dispatch.grid=2000 cycles", "dispatch.block_interval=50 us", "dispatch.parameter_reads=1"]
    gpu = load_gpu("mdm-pascal", overrides=["sm_count=2", "sm.max_blocks=4", *costs])
    uses = profile_trace(kernels["row_sum"], gpu)
    assert uses.profile.demands is not None
    silent = replace(uses.profile.demands, fetched_bytes=0.0, sent_bytes=0.0)
    for profiled, saved, reads in (
        (uses, 2120, " and to read its parameters"), (replace(uses, profile=replace(uses.profile, demands=silent)), 2000, ""),
    ):  # fmt: skip
        prediction = get_model("warpsight").predict(profiled.profile, gpu)
        (fused,) = Fusion().propose(Case(profiled, gpu, "warpsight", prediction, ()))
        assert fused.reason.endswith(f"{saved:,} of them to begin and end the grid{reads}")
        assert fused.evaluate().cycles == pytest.approx(prediction.cycles - saved)


def test_change_that_cannot_be_evaluated_is_told_with_its_reason(
    kernels: dict[str, KernelTrace], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Impossible:
        name = "impossible"

        def propose(self, case: Case) -> Iterator[WhatIf]:
            def evaluate() -> warpsight.Prediction:
                raise LimitError("there is no room")

            for number in range(15):
                yield WhatIf(f"change {number}", "here", "why", "cost", "programmer", evaluate)

    monkeypatch.setattr("warpsight.analysis.advice.advise.all_rules", lambda: [Impossible()])
    found = advise_trace(kernels["count"], GPU, "mdm")
    assert found.refused[0] == ("change 0", "there is no room")
    assert (len(found.refused), len(found.left), found.changes) == (12, 3, ())
    text = advice_text(plain(found.to_json()))
    assert "not possible: change 0: there is no room" in text
    assert " 3 not evaluated" in text


def test_text_is_narrow_and_says_what_was_left_out(advice: dict[str, Advice]) -> None:
    for found in advice.values():
        document = plain(found.to_json(2))
        lines = advice_text(document).splitlines()
        assert max(map(len, lines[1:])) <= 120
        assert len(document["advice"]) == min(2, len(found.changes))
        if len(found.changes) > 2:
            assert f" {len(found.changes) - 2} more with a smaller gain" in "\n".join(lines)
        assert f" {found.without_gain} more evaluated, each with a gain below 0.1 %" in lines
        assert json.loads(json.dumps(document)) == document


def test_every_rule_of_ours_is_registered_under_its_own_name() -> None:
    names = [rule.name for rule in OURS]
    assert [rule.name for rule in all_rules()][: len(names)] == names
    modules = (divergence_rules, memory_rules, product_rules, redundancy_rules, resource_rules, reuse_rules, work_rules)
    rules = {each.name for module in modules for each in vars(module).values() if hasattr(each, "propose")}
    assert rules == set(names)
    assert set(names) <= set(RULES.names())


def test_changes_of_machine_code_name_the_line_as_the_kernel_was_written(tmp_path: Path) -> None:
    source = tmp_path / "kernels.cu"
    source.write_text(KERNELS)
    x, y = np.ones(67584, np.float32), np.zeros(2048, np.float32)
    trace = warpsight.trace(source, kernel="odd_and_even", grid=16, block=128, args=[x, y, 8], gpu="a100", level="sass")
    branch = next(row for row in warpsight.explain(trace, "a100", by="sass").rows if "BRA" in row.text and row.executions)
    address = f"SASS {branch.machine.address:#07x}" if branch.machine else ""
    places: dict[str, list[WhatIf]] = {}
    for name, changes in (("cuda", {}), ("ptx", {"file": "", "line": 0}), ("neither", {"file": "", "line": 0, "ptx_line": 0})):
        instructions = tuple(replace(each, **changes) for each in trace.instructions)  # type: ignore[arg-type]
        found = advise_trace(replace(trace, instructions=instructions), load_gpu("a100"), "warpsight").changes
        places[name] = [each.what_if for each in found if each.what_if.owner == "programmer" and each.what_if.place != "launch"]
    for name, place in (("cuda", "kernels.cu:21"), ("ptx", f"PTX line {branch.ptx_lines[0]}"), ("neither", address)):
        (parted,) = (change for change in places[name] if change.title.startswith("no divergence"))
        assert parted.place == place
        assert address in parted.title


def test_other_code_is_not_predicted_from_sampled_waves(kernels: dict[str, KernelTrace]) -> None:
    """The caches see the blocks around the measured ones, too, and these were not rewritten."""
    trace, case = kernels["row_sum"], _case(kernels["row_sum"])
    waves = WaveSample(trace, np.ones(trace.header.blocks, np.int64), np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1))
    with pytest.raises(UsageError, match="sampled waves"):
        case.with_trace(replace(coalesced(trace, [0], 128), waves=waves))
    assert case.with_trace(trace).cycles == case.prediction.cycles


def test_a_change_is_evaluated_once_also_when_it_is_refused(kernels: dict[str, KernelTrace]) -> None:
    case, called = _case(kernels["row_sum"]), list[str]()

    def change(name: str, error: bool) -> WhatIf:
        def evaluate() -> Prediction:
            called.append(name)
            if error:
                raise UsageError("cannot be", place=name, remedy="leave it")
            return case.prediction

        return WhatIf(name, "here", "why", "cost", "programmer", evaluate)

    good, bad = change("good", False), change("bad", True)
    assert case.evaluated(good) is case.evaluated(good) is case.prediction
    for _ in range(2):
        with pytest.raises(UsageError, match="cannot be"):
            case.evaluated(bad)
    assert called == ["good", "bad"]


def test_distinct_integers_are_those_of_a_set_in_order() -> None:
    values = np.random.default_rng(1).integers(0, 50, 400).astype(np.int64) << 32
    assert distinct(values).tolist() == sorted(set(values.tolist()))
    assert distinct(np.zeros(0, np.uint32)).tolist() == []
