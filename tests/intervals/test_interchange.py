"""Does the JSON form of a profile keep everything, and refuse what is wrong by place?"""

from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np
import pytest

from warpsight.base.errors import FormatError
from warpsight.intervals.interchange import DEMAND_KEYS, profile_document, profile_from_document, read_profile, write_profile
from warpsight.intervals.interval_profile import LaunchShape

pytestmark = pytest.mark.unit

INTERVAL = {
    "instructions": 100, "stall_cycles": 279.05, "cause": "compute", "pc": 7, "memory_instructions": 1,
    "read_misses": 1.5, "write_misses": 0.25, "dram_reads": 0.5, "dram_writes": 0.125,
}
DOCUMENT: dict[str, Any] = {
    "schema": 1, "kernel": "spmv", "warps_per_sm": 64, "total_warp_instructions": 218880, "llc_miss_ratio": 0.5,
    "intervals": [INTERVAL, {**INTERVAL, "cause": "none", "pc": None, "stall_cycles": 0}], "nonoverlapped_instructions": None,
}
EXTRA: dict[str, Any] = {
    "dpki": 64.2,
    "launch": {"blocks": 512, "warps_per_block": 8, "blocks_per_sm": 8, "limiter": "threads", "occupancy": 1.0},
    "memory_stall_levels": {"l1": 0.25, "l2": 0.25, "dram": 0.5},
    "notes": ["by hand"],
}


def test_document_read_gives_each_number_its_place() -> None:
    profile = read_profile(json.dumps({**DOCUMENT, **EXTRA, "nonoverlapped_instructions": 2520}), origin="p.json")
    assert (profile.kernel, profile.warps_per_sm, profile.total_warp_instructions) == ("spmv", 64, 218880)
    assert profile.pc.tolist() == [7, -1]
    assert profile.cause.tolist() == [1, 0]
    assert (profile.read_misses[0], profile.write_misses[0]) == (1.5, 0.25)
    assert (profile.dram_reads[0], profile.dram_writes[0]) == (0.5, 0.125)
    assert profile.nonoverlapped_instructions == 2520
    assert profile.launch == LaunchShape(512, 8, 8, "threads", 1.0)
    assert profile.memory_stall_levels == (0.25, 0.25, 0.5)


@pytest.mark.parametrize("extra", [{}, EXTRA])
def test_profile_written_and_read_back_is_the_same(extra: dict[str, Any]) -> None:
    profile = profile_from_document({**DOCUMENT, **extra}, origin="p.json")
    again = read_profile(write_profile(profile), origin="q.json")
    for name, value in profile.__dict__.items():
        assert np.array_equal(value, getattr(again, name)) if isinstance(value, np.ndarray) else value == getattr(again, name), name


def test_demands_of_a_file_from_before_ways_were_measured_know_no_waits_for_them() -> None:
    demands = dict.fromkeys(DEMAND_KEYS, 0.5)
    before = profile_from_document({**DOCUMENT, "demands": demands}, origin="p.json")
    assert before.demands is not None
    assert before.demands.way_wait == 0
    now = profile_from_document({**DOCUMENT, "demands": {**demands, "way_wait": 0.25}}, origin="p.json")
    assert profile_document(now)["demands"]["way_wait"] == 0.25
    with pytest.raises(FormatError, match="is 2, above the maximum of 1"):
        profile_from_document({**DOCUMENT, "demands": {**demands, "way_wait": 2}}, origin="p.json")


def test_document_of_a_plain_profile_has_exactly_the_keys_of_the_schema() -> None:
    written = json.loads(write_profile(profile_from_document(DOCUMENT, origin="p.json")))
    assert written == DOCUMENT
    assert profile_document(profile_from_document(DOCUMENT, origin="p.json")) == DOCUMENT


def _with(path: str, value: Any) -> dict[str, Any]:
    document = copy.deepcopy({**DOCUMENT, **EXTRA})
    *parents, last = [int(part) if part.isdigit() else part for part in path.split("/")]
    inside: Any = document
    for part in parents:
        inside = inside[part]
    if value is KeyError:
        del inside[last]
    else:
        inside[last] = value
    return document


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("schema", 2, "p.json: schema: is 2; this version reads schema 1"),
        ("schema", KeyError, "p.json: schema: is missing"),
        ("warps_per_sm", KeyError, "p.json: warps_per_sm: is missing"),
        ("warps_per_sm", 0, "p.json: warps_per_sm: is 0, below the minimum"),
        ("warps_per_sm", 12, "p.json: warps_per_sm: is 12, and its launch puts whole blocks"),
        ("warps_per_sm", 128, "p.json: warps_per_sm: is 128, and its launch"),
        ("warps_per_sm", "64", "p.json: warps_per_sm: is text, but a whole number is expected"),
        ("warps_per_sm", True, "p.json: warps_per_sm: is true or false"),
        ("total_warp_instructions", 1.5, "p.json: total_warp_instructions: is a number, but a whole"),
        ("total_warp_instructions", 10**400, "p.json: total_warp_instructions: is beyond 64 bits, above the maximum"),
        ("total_warp_instructions", -(10**400), "p.json: total_warp_instructions: is beyond 64 bits, below the minimum"),
        ("llc_miss_ratio", 2.5, "p.json: llc_miss_ratio: is 2.5, above the maximum"),
        ("kernel", 3, "p.json: kernel: is a number, but text is expected"),
        ("intervals", [], "p.json: intervals: is empty"),
        ("intervals", {}, "p.json: intervals: is an object, but a list"),
        ("intervals/1", 4, r"p.json: intervals\[1\]: is a number, but an object"),
        ("intervals/1/stall_cycles", -1, r"p.json: intervals\[1\].stall_cycles: is -1, below the minimum"),
        ("intervals/1/stall_cycles", KeyError, r"p.json: intervals\[1\].stall_cycles: is missing"),
        ("intervals/0/instructions", 0, r"p.json: intervals\[0\].instructions: is 0, below the minimum"),
        ("intervals/0/cause", "memry", r'p.json: intervals\[0\].cause: is "memry"; did you mean "memory"'),
        ("intervals/0/read_miss", 1, r'p.json: intervals\[0\].read_miss: "read_miss" is not a key .*did you mean "read_misses"'),
        ("warps_per_sn", 4, 'p.json: warps_per_sn: .*did you mean "warps_per_sm"'),
        ("launch/block", 4, 'p.json: launch.block: .*did you mean "blocks"'),
        ("launch/blocks", 0, "p.json: launch.blocks: is 0"),
        ("memory_stall_levels/dram", 0.75, "p.json: memory_stall_levels: sums to 1.25"),
        ("nonoverlapped_instructions", -3, "p.json: nonoverlapped_instructions: is -3"),
        ("notes", "x", "p.json: notes: is not a list"),
    ],
)
def test_document_with_one_fault_is_refused_at_its_place(path: str, value: Any, message: str) -> None:
    with pytest.raises(FormatError, match="^" + message):
        profile_from_document(_with(path, value), origin="p.json")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "p.json:1:1: not JSON"),
        (json.dumps(DOCUMENT)[:-9], r"p.json:1:\d+: not JSON"),
        (json.dumps(DOCUMENT).replace("279.05", "NaN"), "p.json: NaN is not a number"),
        (json.dumps(DOCUMENT).replace("279.05", "1e999"), r"p.json: intervals\[0\].stall_cycles: is inf"),
        (json.dumps(DOCUMENT).replace('"kernel"', '"schema"'), 'p.json: the key "schema" is given twice'),
        ("[]", "p.json: is a list, but an object is expected"),
        ("[" * 100_000, "p.json: not JSON"),
        (b"\xff\xfe\xfa", "p.json: not JSON"),
    ],
)
def test_text_that_is_not_a_profile_is_refused(text: str | bytes, message: str) -> None:
    with pytest.raises(FormatError, match="^" + message):
        read_profile(text, origin="p.json")
