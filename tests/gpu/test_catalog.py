from __future__ import annotations

import pytest

from warpsight.gpu.catalog import catalog_names, catalog_path
from warpsight.gpu.describe import describe, list_gpus
from warpsight.gpu.keys import key_of
from warpsight.gpu.loader import check_gpu, load_gpu
from warpsight.gpu.spec import KEYS, OP_CLASSES

pytestmark = pytest.mark.paper


def test_catalog_lists_its_gpus_with_descriptions() -> None:
    listed = {gpu.name: gpu.description for gpu in list_gpus()}
    assert {"gpumech", "mdm-letter", "mdm-pascal"} <= set(listed)
    assert all(listed.values())
    assert list(catalog_names()) == sorted(listed)
    assert catalog_path("../catalog/gpumech") is None


@pytest.mark.parametrize("name", catalog_names())
def test_every_gpu_of_the_catalog_is_sound_and_every_number_has_a_source(name: str) -> None:
    assert check_gpu(name) == []
    gpu = load_gpu(name)
    assert gpu.name == name
    rows = {row.key: row for row in describe(gpu)}
    # a GPU has a kind of matrix multiply, or lacks it
    lacking = {f"latency.{kind}" for kind in set(OP_CLASSES) - set(gpu.latency_cycles)}
    lacking |= {f"initiation.{kind}" for kind in set(OP_CLASSES) - set(gpu.initiation_cycles)}
    assert list(rows) == [*(key for key in KEYS if key not in lacking), *gpu.parameters]
    assert all(".tensor" in key for key in lacking)
    assert [key for key, row in rows.items() if key_of(key).numeric and len(row.source) < len("estimated")] == []


def test_mdm_pascal_is_table_iii_of_mdm() -> None:
    gpu = load_gpu("mdm-pascal")
    assert (gpu.core_clock_hz, gpu.sm_count, gpu.sm.max_warps, gpu.sm.policy) == (1.4e9, 28, 64, "gto")
    assert (gpu.l1.size_bytes, gpu.l1.ways, gpu.l1.mshrs, gpu.l1.sets) == (48 * 1024, 6, 128, 64)
    assert (gpu.l2.size_bytes, gpu.l2.slices, gpu.l2.ways) == (24 * 128 * 1024, 24, 8)
    assert (gpu.l2.mshrs, gpu.l2.latency_cycles) == (128, 120)
    assert (gpu.noc.bandwidth_bytes_per_s, gpu.dram.bandwidth_bytes_per_s) == (1050e9, 480e9)
    assert (gpu.dram.channels, gpu.dram.latency_cycles) == (24, 220)


def test_mdm_letter_is_table_1_of_the_letter() -> None:
    gpu, base = load_gpu("mdm-letter"), load_gpu("mdm-pascal")
    assert (gpu.sm.schedulers, gpu.sm.issue_width, gpu.sm.policy, gpu.sm.max_warps) == (4, 2, "lrr", 64)
    assert gpu.l2.size_bytes // gpu.dram.channels == 128 * 1024
    assert (gpu.l1, gpu.l2, gpu.noc, gpu.dram, gpu.core_clock_hz) == (base.l1, base.l2, base.noc, base.dram, base.core_clock_hz)
    stated = ("core_clock", "sm_count", "sm.max_warps", "sm.schedulers", "l1.mshrs", "l2.size", "noc.bandwidth", "dram.latency")
    assert all("IEEE CAL 2019, Table 1" in gpu.sources[key] for key in stated)


def test_gpumech_is_table_i_of_gpumech_where_it_says_something() -> None:
    gpu = load_gpu("gpumech")
    assert (gpu.core_clock_hz, gpu.sm_count, gpu.sm.max_warps * 32, gpu.sm.issue_width) == (1e9, 16, 1024, 1)
    assert gpu.sm.shared_memory_bytes == 16 * 1024
    assert (gpu.l1.size_bytes, gpu.l1.line_bytes, gpu.l1.ways, gpu.l1.mshrs, gpu.l1.latency_cycles) == (32 * 1024, 128, 8, 32, 25)
    assert (gpu.l2.size_bytes, gpu.l2.line_bytes, gpu.l2.ways, gpu.l2.latency_cycles) == (768 * 1024, 128, 8, 120)
    assert (gpu.dram.bandwidth_bytes_per_s, gpu.dram.latency_cycles) == (192e9, 300)
    assert "25 cycles" in gpu.sources["latency.fp32"]


@pytest.mark.parametrize("name", ["mdm-pascal", "gpumech"])
def test_machines_of_the_reference_have_its_latencies_and_residency(name: str) -> None:
    gpu = load_gpu(name)
    assert [gpu.latency_cycles[op] for op in ("int", "fp32", "fp64", "sfu", "shared")] == [4, 4, 8, 20, 24]
    assert gpu.sm.register_unit == 128
    assert [gpu.initiation_cycles[op] for op in ("int", "fp32", "fp64", "sfu")] == [1, 1, 2, 4]
    assert (gpu.sm.registers, gpu.sm.max_blocks) == {"mdm-pascal": (65_536, 32), "gpumech": (32_768, 16)}[name]
    # dependent loads took 341 and 420 cycles to DRAM on the reference simulator
    assert gpu.l2.latency_cycles + gpu.dram.latency_cycles == pytest.approx({"mdm-pascal": 341, "gpumech": 420}[name], abs=1)


@pytest.mark.parametrize(
    ("name", "sms", "clock", "bandwidth", "latency", "uncoalesced", "rule"),
    [
        ("8800gtx", 16, 1.35e9, 86.4e9, 420, 10, "cc1.0"),
        ("fx5600", 16, 1.35e9, 76.8e9, 420, 10, "cc1.0"),
        ("8800gt", 14, 1.5e9, 57.6e9, 420, 10, "cc1.0"),
        ("gtx280", 30, 1.3e9, 141.7e9, 450, 40, "cc1.3"),
    ],
)
def test_gpus_of_mwp_cwp_are_tables_3_and_6_of_hong_and_kim(
    name: str, sms: int, clock: float, bandwidth: float, latency: int, uncoalesced: int, rule: str
) -> None:
    gpu = load_gpu(name)
    assert (gpu.sm_count, gpu.core_clock_hz, gpu.dram.bandwidth_bytes_per_s) == (sms, clock, bandwidth)
    assert gpu.parameters == {
        "mwp-cwp.memory_latency": latency, "mwp-cwp.departure_uncoalesced": uncoalesced, "mwp-cwp.departure_coalesced": 4,
        "mwp-cwp.issue_cycles": 4,
    }  # fmt: skip
    assert gpu.sm.coalescing == rule
    assert gpu.l2.latency_cycles + gpu.dram.latency_cycles == latency
    stated = ("core_clock", "sm_count", "dram.bandwidth", "mwp-cwp.memory_latency")
    assert all("Hong and Kim ISCA 2009" in gpu.sources[key] for key in stated)
