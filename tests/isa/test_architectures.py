"""Does an instruction that the target lacks say which architectures have it, at both levels?"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import warpsight
from warpsight.base.errors import WarpsightError
from warpsight.gpu.loader import load_gpu
from warpsight.isa.architectures import NEEDS, need_of
from warpsight.kernels.toolkit import parse_architecture

pytestmark = pytest.mark.unit
PTX = """
.version 8.0
.target {target}
.address_size 64
.visible .entry k(.param .u64 x)
{{
    {instruction};
    ret;
}}
"""


@pytest.mark.parametrize(
    ("level", "target", "instruction", "said"),
    [
        ("ptx", "sm_80", "wgmma.fence.sync.aligned", '"wgmma.fence.sync.aligned" is not an instruction of sm_80: it needs sm_90a'),
        ("ptx", "sm_90", "setmaxnreg.inc.sync.aligned.u32 64", "is not an instruction of sm_90: it needs sm_90a or sm_100a"),
        ("sass", "sm_80", "wgmma.fence.sync.aligned", r'"wgmma.fence" \(PTX line 7\) is not an instruction of sm_80: it needs'),
        ("sass", "sm_75", "cp.async.wait_all", "is not an instruction of sm_75: it needs sm_80 or later"),
    ],
)
def test_missing_instruction_is_refused_with_the_architectures_that_have_it(
    level: str, target: str, instruction: str, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(PTX.format(target=target, instruction=instruction))
    gpu = "t4" if target == "sm_75" else "a100"
    with pytest.raises(WarpsightError, match=said) as refusal:
        warpsight.trace(path, "k", grid=1, block=128, args=[np.zeros(128, np.int32)], gpu=gpu, level=level)
    assert "--gpu" in str(refusal.value)


def test_longest_name_counts() -> None:
    assert str(need_of("cp.async.bulk.wait_group 0")) == "sm_90 or later" and str(need_of("cp.async.wait_all")) == "sm_80 or later"
    assert need_of("mbarrier_of_mine") is None and need_of("add.s32") is None and need_of("elected") is None
    assert str(need_of("%cluster_ctarank")) == "sm_90 or later"


def test_gpu_that_is_named_has_the_instruction() -> None:
    for need in NEEDS.values():
        capability = parse_architecture(load_gpu(need.gpu).compute_capability)
        assert need.is_met(f"sm_{capability.number}a") and not need.is_met("sm_75")
