"""Are Accel-Sim's and GPGPU-Sim's logs read: a launch at a time, what adds up taken apart, options, what is cut off?"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsight.base.errors import FormatError, WarpsightError
from warpsight.hardware.measurements.launch import Measurements
from warpsight.hardware.references import measurements_of, read_measurements

pytestmark = pytest.mark.unit

OPTIONS = """\
-gpgpu_coalesce_arch                   75 # Coalescing arch (GT200 = 13, Fermi = 20)
-gpgpu_n_mem_per_ctrlr                    1 # number of memory chips per memory controller
-gpgpu_dram_buswidth                    2 # default = 4 bytes (8 bytes per cycle at DDR)
-gpgpu_dram_burst_length                   16 # Burst length of each DRAM request (default = 4 data bus cycle)
-gpgpu_clock_domains 1365:1365:1365:3500.5 # Clock Domain Frequencies in MhZ
-gpgpu_kernel_launch_latency                 5000 # Kernel launch latency in cycles. Default: 0
"""


def launch(name: str, uid: int, grid: str = "8,1,1", block: str = "512,1,1") -> str:
    return f"""\
Processing kernel t/kernel-{uid}.traceg
-kernel name = {name}
-kernel id = {uid}
-grid dim = ({grid})
-block dim = ({block})
-shmem = 0
Header info loaded for kernel command : t/kernel-{uid}.traceg
launching kernel name: {name} uid: {uid} cuda_stream_id: 0
"""


def statistics(
    name: str, uid: int, cycles: int, instructions: int, warps: int, loads: tuple[int, ...], dram: int, stream: int = 0
) -> str:
    """`loads` of the L1: HIT, HIT_RESERVED, MISS, RESERVATION_FAIL, SECTOR_MISS, MSHR_HIT."""
    names = ("HIT", "HIT_RESERVED", "MISS", "RESERVATION_FAIL", "SECTOR_MISS", "MSHR_HIT")
    lines = [
        f"kernel_name = {name} ",
        f"kernel_launch_uid = {uid} ",
        f"kernel_stream_id = {stream}",
        f"gpu_sim_cycle = {cycles}",
        f"gpu_sim_insn = {instructions}",
        "gpu_ipc =     100.6858",
        f"gpu_tot_sim_cycle = {cycles}",
        *[f"\tTotal_core_cache_stats_breakdown[GLOBAL_ACC_R][{key}] = {n}" for key, n in zip(names, loads, strict=True)],
        "\tTotal_core_cache_stats_breakdown[GLOBAL_ACC_W][MISS] = 10",
        "\tTotal_core_cache_stats_breakdown[GLOBAL_ACC_W][SECTOR_MISS] = 30",
        f"gpgpu_n_tot_w_icount = {warps}",
        f"total dram reads = {dram}",
        "total dram writes = 4",
        "\tL2_cache_stats_breakdown[GLOBAL_ACC_R][HIT] = 25",
        "\tL2_cache_stats_breakdown[GLOBAL_ACC_R][MISS] = 75",
    ]
    return "\n".join(lines) + "\n"


def read(text: str) -> Measurements:
    found = measurements_of(text, "run.log")
    assert found is not None
    return found


def values(found: Measurements, number: int) -> dict[str, float]:
    return {name: measure.value for name, measure in found.launches[number].measures.items()}


ONE = OPTIONS + launch("_Z3fooi", 1) + statistics("_Z3fooi", 1, 7956, 3200, 100, (20, 5, 15, 900, 60, 7), 50)


def test_launch_has_its_size_its_counts_and_its_hit_rates() -> None:
    found = read(ONE)
    one = found.launches[0]
    assert (one.kernel, one.number, one.grid, one.block) == ("_Z3fooi", "1", (8, 1, 1), (512, 1, 1))
    got = values(found, 0)
    assert got["cycles"] == 2956  # 5,000 of the launch
    assert (got["thread_instructions"], got["warp_instructions"], got["sm_clock"]) == (3200, 100, 1365e6)
    # a lookup that found no room comes again, and MSHR_HIT is one of SECTOR_MISS: 20 + 5 + 15 + 60
    assert (got["l1_load_sectors"], got["l1_store_sectors"], got["l1_load_hit_rate"]) == (100, 40, 0.2)
    assert got["l1_hit_rate"] == pytest.approx(20 / 140)
    assert (got["l2_lookup_hit_rate"], got["l2_read_sectors"]) == (0.25, 100)
    # an access of DRAM is of 16 beats of 2 bytes
    assert (got["dram_read_bytes"], got["dram_write_bytes"], got["dram_bytes"]) == (1600, 128, 1728)
    assert any("5,000 cycles" in note for note in found.notes)


def test_counts_that_add_up_are_taken_apart_and_cycles_are_not() -> None:
    again = launch("_Z3bari", 2, "2,2,1", "64,1,1") + statistics("_Z3bari", 2, 6000, 640, 120, (30, 5, 25, 900, 100, 7), 90)
    found = read(ONE + again)
    got = values(found, 1)
    assert found.launches[1].grid == (2, 2, 1)
    assert (got["cycles"], got["thread_instructions"], got["warp_instructions"]) == (1000, 640, 20)
    assert (got["l1_load_sectors"], got["l1_load_hit_rate"], got["dram_read_bytes"]) == (60, pytest.approx(1 / 6), 40 * 32)
    assert got["l1_store_sectors"] == 0


def test_caches_are_counted_for_each_stream_apart() -> None:
    again = launch("_Z3fooi", 2) + statistics("_Z3fooi", 2, 6000, 640, 120, (10, 0, 10, 0, 20, 0), 90, stream=7)
    assert values(read(ONE + again), 1)["l1_load_sectors"] == 40


def test_a_kernel_run_from_ptx_has_the_size_that_it_was_pushed_with() -> None:
    pushed = "GPGPU-Sim PTX: pushing kernel '_Z3fooi' to stream 0, gridDim= (28,2,1) blockDim = (256,1,1) \n"
    one = read(OPTIONS + pushed + statistics("_Z3fooi", 1, 7956, 3200, 100, (20, 5, 15, 900, 60, 7), 50)).launches[0]
    assert (one.grid, one.block) == ((28, 2, 1), (256, 1, 1))


def test_without_options_there_are_no_sectors_no_bytes_and_whole_cycles() -> None:
    found = read(ONE.removeprefix(OPTIONS))
    got = values(found, 0)
    assert got["cycles"] == 7956
    assert not {"l1_load_sectors", "dram_bytes", "sm_clock"} & set(got)
    assert not found.notes


def test_launch_that_takes_less_than_the_latency_keeps_its_cycles() -> None:
    text = OPTIONS + launch("k", 1) + statistics("k", 1, 4000, 1, 1, (0, 0, 0, 0, 0, 0), 0)
    measure = read(text).launches[0].measures["cycles"]
    assert (measure.value, measure.metric) == (4000, "gpu_sim_cycle")


def test_log_that_was_cut_says_how_many_launches_it_lacks() -> None:
    assert "the log ends before the statistics of 1 launch" in read(ONE + launch("_Z3bari", 2)).notes


def test_statistics_of_kernels_at_once_are_passed_over() -> None:
    launches = launch("_Z3bari", 2) + launch("_Z3bazi", 3)
    found = read(ONE + launches + statistics("_Z3bari _Z3bazi", 2, 6000, 640, 120, (30, 5, 25, 900, 100, 7), 90))
    assert len(found.launches) == 1
    assert any("several kernels" in note for note in found.notes)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("gpu_sim_insn = 3200", "gpu_sim_insn = 32e2", r'run.log:19: gpu_sim_insn is "32e2"'),
        ("-grid dim = (8,1,1)", "-grid dim = (8,1)", r"run.log:10: a size"),
        ("kernel_name = _Z3fooi ", "kernel = _Z3fooi", r"run.log:16: kernel_launch_uid comes before any kernel_name"),
        ("-gpgpu_dram_buswidth                    2", "-gpgpu_dram_buswidth  x", "run.log:3: -gpgpu_dram_buswidth"),
        ("-gpgpu_clock_domains 1365", "-gpgpu_clock_domains fast", "run.log:5: -gpgpu_clock_domains"),
        ("_latency                 5000", "_latency -1", "run.log:6: -gpgpu_kernel_launch_latency"),
    ],
)
def test_what_is_wrong_is_refused_with_its_line(old: str, new: str, says: str) -> None:
    assert old in ONE
    with pytest.raises(FormatError, match=says):
        read(ONE.replace(old, new))


def test_two_runs_in_one_file_are_refused() -> None:
    with pytest.raises(FormatError, match="less than after the kernel before"):
        read(ONE + launch("_Z3bari", 2) + statistics("_Z3bari", 2, 6000, 640, 20, (30, 5, 25, 900, 100, 7), 90))


def test_file_with_a_log_is_read_as_one(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text("Accel-Sim [build x]\n" + ONE)
    assert read_measurements(str(tmp_path / "run.log")).tool == "accelsim"


@settings(max_examples=60, deadline=None)
@given(st.integers(0, len(ONE)), st.text(st.sampled_from("[]=-0x \n_ACC"), max_size=8))
def test_damaged_log_ends_in_launches_or_a_located_error(at: int, noise: str) -> None:
    try:
        measurements_of(ONE[:at] + noise + ONE[at + len(noise) :], "run.log")
    except WarpsightError as error:
        assert "run.log" in str(error)
