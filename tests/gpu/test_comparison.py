"""Are GPUs side by side what their descriptions say?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import assert_one_error, run

from warpsight.gpu.comparison import compared
from warpsight.gpu.loader import load_gpu


def _figures(*names: str) -> dict[str, list[float | None]]:
    return {row["figure"]: row["values"] for row in compared([load_gpu(name) for name in names])["figures"]}


def test_figures_are_those_of_the_data_sheets() -> None:
    figures = _figures("a100", "h200", "gtx470-16k")
    # NVIDIA's data sheets of the A100 and the H200; the H200's tensor cores at the clock of the other units, 8 % above their own
    assert figures["peak fp32"][:2] == pytest.approx([19.5, 66.9], rel=0.01)
    assert figures["peak fp64"][:2] == pytest.approx([9.7, 33.5], rel=0.01)
    assert figures["peak fp16"][:2] == pytest.approx([78, 134], rel=0.01)
    assert figures["peak fp16 of tensor cores"] == [pytest.approx(312, rel=0.01), pytest.approx(989 * 1980 / 1830, rel=0.01), None]
    assert (figures["DRAM"][:2], figures["L2"][:2]) == ([1555, 4800], [40, 50])
    assert (figures["threads of an SM"], figures["threads of the GPU"][0]) == ([2048, 2048, 1536], 108 * 2048)
    # 192 KB together less the step that holds the system's 1 KB of each of two blocks
    assert figures["L1 of an SM, at most"][0] == 192 - 8
    assert figures["DRAM access"][0] == pytest.approx((208 + 341) / 1.41)


def test_keys_are_those_that_differ_with_ratios_to_the_first() -> None:
    first, second = load_gpu("v100"), load_gpu("titan-v")
    rows = {row["key"]: row for row in compared([first, second])["keys"]}
    assert set(rows) == {
        "core_clock", "noc.bandwidth", "l2.size", "l2.slices", "dram.bandwidth", "dram.channels", "dram.turnaround",
        "dispatch.block_interval",
    }  # fmt: skip
    assert rows["l2.size"]["values"] == ["6 MiB", "4608 KiB"]
    assert rows["l2.size"]["ratios"] == [1, 0.75]
    words = {row["key"]: row for row in compared([first, load_gpu("mdm-pascal")])["keys"]}
    assert (words["sm.policy"]["values"], words["sm.policy"]["ratios"]) == (["lrr", "gto"], [None, None])
    assert words["latency.tensor"]["values"] == ["27 cycles", None]
    assert compared([first, first])["keys"] == []


def test_command_takes_files_prints_every_gpu_and_refuses_unknown_names(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text("like: v100\nname: half\nsm_count: 40\nsources: {sm_count: estimated by the owner}\n")
    document = json.loads(run(capsys, "gpus", "compare", "v100", mine, "--json").out)
    assert [gpu["name"] for gpu in document["gpus"]] == ["v100", "half"]
    assert [(row["key"], row["values"], row["ratios"]) for row in document["keys"]] == [("sm_count", ["80", "40"], [1, 0.5])]
    many = ["a100", "h100-pcie", "h100-sxm", "h200", "b200", "rtx4090", "rtx5090", "l40s", "v100", "t4"]
    text = run(capsys, "gpus", "compare", *many).out
    assert max(map(len, text.splitlines())) <= 132
    heads = [line.split() for line in text.splitlines() if line.startswith(" figure")]
    assert [name for head in heads for name in head if name in many[1:]] == many[1:]
    assert all(head[1] == "a100" for head in heads)
    assert_one_error(run(capsys, "gpus", "compare", "a100"), 2, "two GPUs")
    assert_one_error(run(capsys, "gpus", "compare", "a100", "8800"), 2, '"8800"', "did you mean")
