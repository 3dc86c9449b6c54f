"""Do sampled waves give the whole launch's time, and does a launch run whole where they cannot?"""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpsight
from warpsight.base.errors import UsageError
from warpsight.caches.exact.between import aged
from warpsight.caches.exact.simulate import CacheSimulation
from warpsight.caches.exact.waves import wave_misses
from warpsight.caches.miss_profile import COUNTS
from warpsight.cli.main import main
from warpsight.emulator.run.sampled import Dependent, SampledRun
from warpsight.gpu.loader import load_gpu
from warpsight.pipeline.evaluate import predict_trace, trace_occupancy
from warpsight.pipeline.request import DEFAULT_METHOD, KernelRequest
from warpsight.pipeline.sampling import NotSampled, Plan, Sampler, _Designs, _student, half_widths, trace_to_predict
from warpsight.pipeline.tracing import launch_of, obtain_trace
from warpsight.traces.schema import KernelTrace, WaveSample
from warpsight.traces.store import save_trace
from warpsight.traces.waves import labelled, part_of

pytestmark = pytest.mark.unit

SOURCE = """
extern "C" __global__ void scale(const float* in, float* out, int* rare)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (blockIdx.x == 333) rare[0] = 1;
    out[i] += 2 * in[i];
}
extern "C" __global__ void longer(float* out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < blockIdx.x; k++) sum = sum * 0.5f + k;
    out[i] = sum;
}
extern "C" __global__ void late(float* state, float* out, int readers)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = blockIdx.x >= gridDim.x - readers ? state[threadIdx.x] : 1;
    if (blockIdx.x == gridDim.x - 1) state[threadIdx.x] = 2;
}
extern "C" __global__ void chain(float* out)
{
    out[blockIdx.x * 32] = blockIdx.x ? out[blockIdx.x * 32 - 32] : 1;
}
extern "C" __global__ void columns(const float* in, float* out)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x, width = gridDim.x * blockDim.x;
    float sum = 0;
    for (int k = 0; k < 32; k++) sum += in[k * width + column];
    out[blockIdx.y * width + column] = sum;
}
extern "C" __global__ void columns_in_one_row(const float* in, float* out, int row)
{
    int column = blockIdx.x % row * blockDim.x + threadIdx.x, width = row * blockDim.x;
    float sum = 0;
    for (int k = 0; k < 32; k++) sum += in[k * width + column];
    out[blockIdx.x / row * width + column] = sum;
}
extern "C" __global__ void scattered(const int* from, const float* in, float* out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[from[i]];
}
extern "C" __global__ void queue(int* next, int* out) { out[atomicAdd(next, 1) % 1024] = blockIdx.x; }
extern "C" __global__ void count(const int* in, int* bins) { atomicAdd(&bins[in[blockIdx.x * blockDim.x + threadIdx.x]], 1); }
"""
BLOCKS, THREADS = 640, 64
GPU = load_gpu("mdm-pascal", overrides=["sm_count=2", "sm.max_blocks=8"])
FLOATS = f"f32[{BLOCKS * THREADS}]:zeros"
INTS = f"i32[{BLOCKS * THREADS}]:randint(64)"


def request(kernel: str, *args: Any, blocks: int = BLOCKS) -> KernelRequest:
    return KernelRequest(SOURCE, kernel=kernel, grid=blocks, block=THREADS, args=args, threads=1)


def sampled(asked: KernelRequest, accuracy: float = 0.02) -> KernelTrace:
    return trace_to_predict(asked, GPU, "warpsight", DEFAULT_METHOD, accuracy, least_instructions=0)


def run_blocks(kernel: str, *args: Any, ranges: tuple[tuple[int, int], ...] = ((0, 16), (304, 336))) -> KernelTrace:
    ready, prepared = launch_of(request(kernel, *args), GPU)
    with SampledRun(prepared, ready.launch, registers=ready.registers, max_instructions=10**9) as run:
        run.execute(ranges)
        return run.trace()


@pytest.fixture(scope="module")
def scaled() -> KernelTrace:
    return sampled(request("scale", FLOATS, FLOATS, INTS))


def cycles(trace: KernelTrace) -> float:
    return predict_trace(trace, GPU, ["warpsight"])[0].cycles


def test_waves_of_equal_blocks_give_the_time_of_the_launch(scaled: KernelTrace) -> None:
    document = scaled.extra["sampling"]
    assert document["executed_blocks"] < BLOCKS / 2
    assert scaled.header.sampled_blocks == document["measured_blocks"] < document["executed_blocks"]
    whole = obtain_trace(request("scale", FLOATS, FLOATS, INTS), gpu=GPU)
    assert scaled.header.warp_instructions == pytest.approx(whole.header.warp_instructions, rel=0.001)
    assert cycles(scaled) == pytest.approx(cycles(whole), rel=0.03)
    assert document["half_width"] <= 0.02


def test_prediction_says_what_was_sampled(scaled: KernelTrace) -> None:
    (prediction,) = predict_trace(scaled, GPU, ["warpsight"])
    assert prediction.provenance["sampling"] == scaled.extra["sampling"]
    assert any("95 % confidence interval" in note for note in prediction.provenance["notes"])


def test_trend_along_the_launch_widens_the_interval_until_all_blocks_run() -> None:
    trace = sampled(request("longer", FLOATS), 0.001)
    assert trace.waves is None and trace.header.sampled_blocks == 0
    assert sampled(request("longer", FLOATS), 0.9).extra["sampling"]["half_width"] > 0.001


@pytest.mark.parametrize("kernel", ["columns", "columns_in_one_row"])
@pytest.mark.parametrize("row", [40, 80])
def test_blocks_that_share_data_may_be_farther_apart_than_a_wave(row: int, kernel: str) -> None:
    """Of 16 blocks: blocks read the same columns 2.5 or 5 waves later; some waves share them, others do not."""
    gpu = load_gpu("mdm-pascal", overrides=["sm_count=2", "sm.max_blocks=8", "l2.size=144KiB"])
    width, rows = row * THREADS, 2560 // row
    args: tuple[Any, ...] = (f"f32[32,{width}]:zeros", f"f32[{rows},{width}]:zeros")
    grid, args = (f"{row},{rows}", args) if kernel == "columns" else (str(2560), (*args, row))
    asked = KernelRequest(SOURCE, kernel=kernel, grid=grid, block=THREADS, args=args, threads=1)
    trace = trace_to_predict(asked, gpu, "warpsight", DEFAULT_METHOD, least_instructions=0)
    assert trace.extra["sampling"]["executed_blocks"] < 2560 / 2
    whole, own = (predict_trace(each, gpu, ["warpsight"])[0].cycles for each in (obtain_trace(asked, gpu=gpu), trace))
    assert own == pytest.approx(whole, rel=trace.extra["sampling"]["half_width"])


def test_blocks_that_share_data_at_random_all_run() -> None:
    gpu = load_gpu("mdm-pascal", overrides=["sm_count=2", "sm.max_blocks=8", "l2.size=144KiB"])
    asked = request("scattered", f"i32[{BLOCKS * THREADS}]:randint({1 << 17})", f"f32[{1 << 17}]:zeros", FLOATS)
    with pytest.raises(NotSampled, match="share data at random"), Sampler(*launch_of(asked, gpu)) as sampler:
        sampler.grown(gpu, ["warpsight"], DEFAULT_METHOD, 0.02, least_instructions=0)


@pytest.mark.parametrize(("times", "share"), [(1, 0.9), (4, 0.15)])  # no more than half of a launch is executed, nor than the limit
def test_launch_that_is_longer_than_its_limit_has_the_interval_that_its_waves_give(times: int, share: float) -> None:
    whole_request = request("longer", f"f32[{times * BLOCKS * THREADS}]:zeros", blocks=times * BLOCKS)
    whole = obtain_trace(whole_request, gpu=GPU)
    trace = sampled(replace(whole_request, max_instructions=int(whole.header.warp_instructions * share)), 0.001)
    half_width = trace.extra["sampling"]["half_width"]
    assert half_width > 0.001
    assert cycles(trace) == pytest.approx(cycles(whole), rel=half_width)
    (note,) = (each for each in predict_trace(trace, GPU, ["warpsight"])[0].provenance["notes"] if each.startswith("sampled"))
    assert ", not 0.1 %: the whole launch is longer than --max-instructions" in note


@pytest.mark.parametrize(("kernel", "args"), [("chain", (FLOATS,)), ("queue", (INTS, INTS))])
def test_blocks_that_depend_on_each_other_all_run(kernel: str, args: tuple[str, ...]) -> None:
    with pytest.raises(Dependent, match=r"other blocks may write|uses the result"):
        run_blocks(kernel, *args)
    assert sampled(request(kernel, *args)).header.sampled_blocks == 0


def test_store_that_no_sampled_block_executes_counts_for_its_array() -> None:
    elsewhere = ((0, 16), (400, 432))  # without block 333, which writes to `rare`
    assert run_blocks("scale", FLOATS, FLOATS, INTS, ranges=elsewhere).header.sampled_blocks == 48
    shared = np.zeros(BLOCKS * THREADS, np.float32)
    with pytest.raises(Dependent, match="other blocks may write"):
        run_blocks("scale", shared, np.zeros_like(shared), shared.view(np.int32), ranges=elsewhere)


def test_array_that_only_the_last_block_writes_may_be_read_by_it_alone() -> None:
    """Who reads `state` is not noted until it is written, and then again from the beginning."""
    ends = ((0, 16), (BLOCKS - 16, BLOCKS))
    assert run_blocks("late", FLOATS, FLOATS, 1, ranges=ends).header.sampled_blocks == 32
    for readers in (2, BLOCKS):
        with pytest.raises(Dependent, match="reads an array that other blocks may write"):
            run_blocks("late", FLOATS, FLOATS, readers, ranges=ends)


def test_atomics_without_results_leave_blocks_independent() -> None:
    assert run_blocks("count", INTS, INTS).header.sampled_blocks == 48


def test_arrays_of_the_caller_are_written() -> None:
    out = np.zeros(BLOCKS * THREADS, np.float32)
    trace = sampled(request("longer", out))
    assert trace.header.sampled_blocks == 0 and out.any()


def test_short_launches_run_whole() -> None:
    ready, _ = launch_of(request("longer", FLOATS, blocks=100), GPU)
    with pytest.raises(NotSampled, match="waves"):
        Plan.of(ready, GPU)
    asked = request("scale", FLOATS, FLOATS, INTS)
    assert trace_to_predict(asked, GPU, "warpsight", DEFAULT_METHOD).header == replace(
        obtain_trace(asked, gpu=GPU).header, emulation_seconds=pytest.approx(0, abs=100)
    )


def test_ten_waves_suffice_where_they_are_simulated_apart_and_thirty_in_sequence() -> None:
    """Of 16 blocks: 2 + 4 x 3/4 waves are less than half of ten, 3 + 4 x 3 less than half of thirty."""

    def plan(blocks: int, apart: bool) -> Plan:
        ready, _ = launch_of(request("longer", FLOATS, blocks=blocks), GPU)
        return Plan.of(ready, GPU, apart=apart)

    for waves, apart in ((10, True), (30, False)):
        assert plan(16 * waves, apart).simulated(4) == 8 * waves
        with pytest.raises(NotSampled, match="the launch is"):
            plan(16 * waves - 1, apart)


def test_doubled_plans_keep_their_waves_and_blocks_run_once() -> None:
    ready, _ = launch_of(request("longer", FLOATS), GPU)
    first = replace(Plan.of(ready, GPU), blocks=20_000)
    apart = (replace(part, low=part.low * 30, high=part.high * 30, wave=part.wave * 30) for part in first.parts)
    plan = replace(first, parts=tuple(apart))
    for _ in range(3):
        doubled = plan.doubled()
        assert set(plan.waves) <= set(doubled.waves) and len(doubled.parts) == 2 * len(plan.parts)
        plan = doubled
        ranges = plan.ranges
        for wave in plan.waves[1:-1]:  # blocks before it warm up, those of a wave behind it take their share of the misses
            assert (wave - plan.before, wave + 2 * plan.wave) in ranges
        assert all(end <= following for (_, end), (following, _) in pairwise(ranges))
        assert ranges[0][0] == 0 and ranges[-1][1] == plan.blocks
        assert len(plan.labels()) == plan.executed == sum(end - start for start, end in ranges)


# -- The caches under sampled waves.

def sample_of(trace: KernelTrace) -> WaveSample:
    assert trace.waves is not None
    return trace.waves


def test_instructions_of_their_own_count_each_wave_and_change_nothing(scaled: KernelTrace) -> None:
    sample, resident = sample_of(scaled), trace_occupancy(scaled, GPU).blocks_per_sm
    together, _ = CacheSimulation(sample.executed, GPU, resident).run()
    apart, _ = CacheSimulation(labelled(sample.executed, sample.label), GPU, resident).run()
    for name in COUNTS:
        assert (np.sum(np.split(getattr(apart, name), sample.measured + 1), axis=0) == getattr(together, name)).all(), name
    assert [getattr(apart, f.name) for f in fields(apart) if f.name not in COUNTS] == [
        getattr(together, f.name) for f in fields(together) if f.name not in COUNTS
    ]


@pytest.mark.parametrize("warm", [False, True])
def test_each_wave_has_the_accesses_of_its_blocks(scaled: KernelTrace, warm: bool) -> None:
    sample, resident = sample_of(scaled), trace_occupancy(scaled, GPU).blocks_per_sm
    waves = wave_misses(sample, GPU, resident, interleaving="clocked", warm=warm).waves
    assert len(waves) == sample.measured
    for number, wave in enumerate(waves, 1):
        blocks = int((sample.label == number).sum())
        assert wave.executions.sum() == blocks * (THREADS // 32) * 3 + (sample.label[333] == number if blocks > 333 else 0)


def test_wave_that_is_left_out_takes_its_counts_and_its_traffic_with_it(scaled: KernelTrace) -> None:
    sample, resident = sample_of(scaled), trace_occupancy(scaled, GPU).blocks_per_sm
    found = wave_misses(sample, GPU, resident, interleaving="clocked", warm=False)
    assert found.traffic.shape == (sample.measured, 2, 5, 2) and not found.traffic[0].any()
    even, uneven = np.array([[[[60, 60]] * 5, [[0, 0]] * 5], [[[60, 180]] * 5, [[0, 0]] * 5]])
    found = replace(found, traffic=np.array([even, uneven, *[even] * (sample.measured - 2)]))
    rest = [number for number in range(1, sample.measured + 1) if number != 2]
    every, without = found.together(), found.together(rest, rest)
    assert every.l2_reads.sum() - without.l2_reads.sum() == found.waves[1].l2_reads.sum() > 0
    assert every.reply_share == sample.measured / (sample.measured + 2) and without.reply_share == 1


def test_blocks_between_leave_lines_that_nobody_finds_and_that_have_to_be_written(scaled: KernelTrace) -> None:
    sample, resident = sample_of(scaled), trace_occupancy(scaled, GPU).blocks_per_sm
    _, left = CacheSimulation(sample.executed, GPU, resident).run()
    there = (left["valid"] != 0) | (left["dirty"] != 0)
    full = aged(left, GPU, len(left))
    assert (full[there] == left[there]).all() and (full["valid"] != 0).all()
    share = (left["dirty"] != 0).sum() / there.sum()
    assert (full["dirty"] != 0).mean() == pytest.approx(share, abs=0.05)
    assert full["tag"][~there].min() > left["tag"].max()
    assert (aged(left, GPU, 0) == left).all()


def test_part_of_a_trace_stands_for_the_launch(scaled: KernelTrace) -> None:
    executed = sample_of(scaled).executed
    kept = np.arange(executed.header.sampled_blocks) % 3 == 0
    part = part_of(executed, kept)
    assert sum(len(chunk.path) for chunk in part.chunks) == part.header.warps == int(kept.sum()) * THREADS // 32
    assert part.header.warp_instructions == pytest.approx(scaled.header.warp_instructions, rel=0.01)


# -- The interval, and what the user says.

@pytest.mark.parametrize(("degrees", "quantile"), [(2, 4.3027), (3, 3.1824), (7, 2.3646), (30, 2.0423)])
def test_quantiles_of_students_t(degrees: int, quantile: float) -> None:
    assert _student(degrees) == pytest.approx(quantile, rel=0.035)


def designs(*models: str) -> _Designs:
    return _Designs(GPU, models, DEFAULT_METHOD)


def half_width_of(trace: KernelTrace, plan: Plan) -> float:
    return float(half_widths(trace, plan, designs("warpsight"))[0][0, 0])


def test_interval_has_the_uncertainty_of_the_load_of_slices_and_channels(scaled: KernelTrace) -> None:
    ready, _ = launch_of(request("scale", FLOATS, FLOATS, INTS), GPU)
    sample, plan = sample_of(scaled), Plan.of(ready, GPU)
    assert sample.measured == len(plan.waves)

    def half_width(*busiest: int) -> float:
        """With a load of 60 at all ports, and `busiest` times ports at the busiest one, in each stretch."""
        (key, found), *_ = sample.kept.items()
        traffic = np.zeros((len(busiest), 2, 5, 2), np.int64)
        for stretch, each in enumerate(busiest):
            traffic[stretch, int(stretch >= 3)] = [[60, each]] * 4 + [[0, 60]]
        waves = replace(sample, kept={key: replace(found, traffic=traffic)})
        return half_width_of(replace(scaled, waves=waves), plan)

    even, some, all_uneven = half_width(*[60] * 6), half_width(60, 60, 60, 6000, 60, 60), half_width(*[6000] * 6)
    assert some > 2 * even and some > 2 * all_uneven
    in_step_at_first = half_width(6000, 6000, 6000, 60, 60, 60)
    assert in_step_at_first > all_uneven + 0.05  # which has what misses of the waves differ by


@pytest.mark.parametrize("edge", [0, -1])
def test_interval_has_the_choice_of_the_few_blocks_of_the_first_and_the_last_wave(scaled: KernelTrace, edge: int) -> None:
    """Its blocks alone read more and more: no wave between is unlike the others."""
    ready, _ = launch_of(request("scale", FLOATS, FLOATS, INTS), GPU)
    sample, plan = sample_of(scaled), Plan.of(ready, GPU)
    (key, found), *_ = sample.kept.items()

    def half_width(times: int) -> float:
        waves = list(found.waves)
        waves[edge] = replace(waves[edge], **{name: getattr(waves[edge], name) * times for name in COUNTS})
        return half_width_of(replace(scaled, waves=replace(sample, kept={key: replace(found, waves=waves)})), plan)

    assert half_width(40) > half_width(20) + 0.02 > half_width(1) + 0.04


def test_interval_has_the_waves_that_may_be_in_step_where_others_are_measured(scaled: KernelTrace) -> None:
    """Four waves of the launch may be as its first one, which alone misses more."""
    ready, _ = launch_of(request("scale", FLOATS, FLOATS, INTS), GPU)
    sample, plan = sample_of(scaled), Plan.of(ready, GPU)
    (key, found), *_ = sample.kept.items()
    first = replace(found.waves[0], **{name: getattr(found.waves[0], name) * 3 for name in COUNTS})

    def parts(apart: bool) -> tuple[float, float]:
        waves, traffic = [first, *found.waves[1:]], np.repeat(found.traffic.sum(axis=1, keepdims=True), 2, axis=1)
        misses = replace(found, waves=waves, traffic=traffic, halves=[(each, each) for each in waves] if apart else None)
        wide, fixed = half_widths(replace(scaled, waves=replace(sample, kept={key: misses})), plan, designs("warpsight"))
        return float(wide[0, 0]), float(fixed[0, 0])

    (whole, none), (wider, in_step) = parts(False), parts(True)
    assert none == 0 and 0.004 < in_step < 4 * plan.wave / plan.blocks * 3
    assert wider == pytest.approx(whole + in_step)  # both halves of the traffic are alike


def test_interval_has_the_difference_of_the_halves_in_which_waves_are_counted(scaled: KernelTrace) -> None:
    """Waves that were still changing while they were counted: in their later half everything is twice as much."""
    ready, _ = launch_of(request("scale", FLOATS, FLOATS, INTS), GPU)
    sample, plan = sample_of(scaled), Plan.of(ready, GPU)
    (key, found), *_ = sample.kept.items()

    def half_width(times: int) -> float:
        later = [replace(each, **{name: getattr(each, name) * times for name in COUNTS}) for each in found.waves]
        misses = replace(found, halves=list(zip(found.waves, later, strict=True)))
        return half_width_of(replace(scaled, waves=replace(sample, kept={key: misses})), plan)

    assert half_width(2) > half_width(1) + 0.01


def test_accuracy_that_is_no_share_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match="not a share"):
        sampled(request("longer", FLOATS), 1.0)
    assert main(["predict", "none.cu", "--accuracy", "much"]) == 2
    assert "is not a share" in capsys.readouterr().err
    assert main(["predict", "none.cu", "--accuracy", "1%", "--exact"]) == 2
    assert "cannot be combined with --exact" in capsys.readouterr().err


def test_python_samples_a_long_launch_unless_it_is_told_to_run_all_blocks() -> None:
    spin = """extern "C" __global__ void spin(int* out) {
        int sum = 0;
        #pragma unroll 1
        for (int k = 0; k < 400; k++) sum = sum * 3 + k;
        out[blockIdx.x * 64 + threadIdx.x] = sum; }"""
    launch: dict[str, Any] = {"grid": 16384, "block": 64, "args": [f"i32[{16384 * 64}]:zeros"], "gpu": GPU}
    waves = warpsight.predict(spin, **launch, accuracy=0.05)
    found = waves.provenance["sampling"]
    assert found["executed_blocks"] < found["blocks"] / 4 and found["half_width"] <= 0.05
    assert "confidence interval" in " ".join(waves.provenance["notes"])
    whole = warpsight.predict(spin, **launch, exact=True)
    assert "sampling" not in whole.provenance and waves.cycles == pytest.approx(whole.cycles, rel=0.01)
    own = np.zeros(64, np.int32)
    assert "sampling" not in warpsight.predict(spin, grid=1, block=64, args=[own], gpu=GPU).provenance and own.any()


def test_accuracy_of_a_trace_is_refused(scaled: KernelTrace, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "trace"
    save_trace(replace(scaled, waves=None), folder)
    for option in (["--accuracy", "1%"], ["--exact"]):
        assert main(["predict", str(folder), *option]) == 2
        assert f"{option[0]}: applies to a kernel" in capsys.readouterr().err
    with pytest.raises(UsageError, match="this is a trace"):
        warpsight.predict(folder, exact=True)


def test_python_refuses_accuracy_where_nothing_can_be_sampled(scaled: KernelTrace) -> None:
    with pytest.raises(UsageError, match="cannot be combined with exact"):
        warpsight.predict(SOURCE, kernel="longer", grid=1, block=THREADS, args=[FLOATS], accuracy=0.1, exact=True)
    with pytest.raises(UsageError, match="this is a trace") as refused:
        warpsight.predict(scaled, GPU, accuracy=0.1)
    assert refused.value.place == "accuracy"
    with pytest.raises(UsageError, match="not a share"):
        warpsight.predict(SOURCE, kernel="longer", grid=1, block=THREADS, args=[FLOATS], accuracy=2)
