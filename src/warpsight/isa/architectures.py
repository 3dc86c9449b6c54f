"""Which architectures have an instruction, where not all do that are modelled: PTX ISA, "Target ISA Notes" of each instruction.

An architecture whose name ends in `a` or `f` has instructions that no other has, not even a later one. At level `ptx` these are
refused in PTX for another target; the assembler, which is asked at level `sass`, refuses all that its target lacks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from warpsight.base.errors import UnsupportedError
from warpsight.isa.ptx.program import Function


@dataclass(frozen=True)
class Need:
    """Architectures: from a number on, or these alone. `gpu` is one of the catalogue that has the instruction."""

    gpu: str
    first: int = 0
    only: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " or ".join(self.only) if self.only else f"sm_{self.first} or later"

    def is_met(self, target: str) -> bool:
        """Whether `target` (`sm_90a`) has the instruction."""
        return target in self.only if self.only else _number(target) >= self.first


_HOPPER_ALONE = Need("h100-sxm", only=("sm_90a",))
_TENSOR_MEMORY = Need("b200", only=("sm_100a", "sm_100f", "sm_101a", "sm_101f", "sm_103a", "sm_103f", "sm_110a", "sm_110f"))
_REGISTERS = Need("h100-sxm", only=("sm_90a", *_TENSOR_MEMORY.only, "sm_120a", "sm_120f", "sm_121a", "sm_121f"))
_AMPERE, _ADA, _HOPPER, _BLACKWELL = Need("a100", 80), Need("l4", 89), Need("h100-sxm", 90), Need("b200", 100)

# By the beginning of the instruction; the longest that fits counts.
NEEDS = {
    "wgmma": _HOPPER_ALONE, "setmaxnreg": _REGISTERS, "tcgen05": _TENSOR_MEMORY, "tensormap.replace": _REGISTERS,
    "cp.async": _AMPERE, "mbarrier": _AMPERE, "redux": _AMPERE, "mma.sp": _AMPERE, "createpolicy": _AMPERE, "discard": _AMPERE,
    "applypriority": _AMPERE, "mbarrier.try_wait": _HOPPER, "mbarrier.expect_tx": _HOPPER, "mbarrier.complete_tx": _HOPPER,
    "cp.async.bulk": _HOPPER, "cp.reduce.async.bulk": _HOPPER, "barrier.cluster": _HOPPER, "mapa": _HOPPER, "getctarank": _HOPPER,
    "griddepcontrol": _HOPPER, "elect": _HOPPER, "stmatrix": _HOPPER, "st.async": _HOPPER, "red.async": _HOPPER,
    "multimem": _HOPPER, "fence.proxy.async": _HOPPER, "fence.proxy.tensormap": _HOPPER, "fence.mbarrier_init": _HOPPER,
    "prefetch.tensormap": _HOPPER, "clusterlaunchcontrol": _BLACKWELL, "st.bulk": _BLACKWELL, "%cluster": _HOPPER,
    "%is_explicit_cluster": _HOPPER, ".e4m3x2": _ADA, ".e5m2x2": _ADA,
}  # fmt: skip


def _number(target: str) -> int:
    """90 of `sm_90a, texmode_independent`; 0 of what is no such name."""
    number = re.match(r"sm_(\d+)", target)
    return int(number[1]) if number is not None else 0


def shared_memory_unit(target: str) -> int:
    """Bytes of whose multiples the hardware allocates a block's shared memory (PTX ISA, "%total_smem_size")."""
    return 256 if 30 <= _number(target) < 80 else 128


def system_shared_bytes(target: str) -> int:
    """Bytes of shared memory that the system takes beside those of a block (CUDA C++ Programming Guide, compute capability 8.x)."""
    return 1024 if _number(target) >= 80 else 0


def need_of(text: str) -> Need | None:
    """What an instruction needs (`wgmma.fence.sync.aligned`), or a special register; None where every architecture has it."""
    fitting = [name for name in NEEDS if text == name or text.startswith(f"{name}_" if name[0] == "%" else f"{name}.")]
    return NEEDS[max(fitting, key=len)] if fitting else None


def refuse_missing(function: Function, target: str, path: str) -> None:
    """Raise UnsupportedError for the first instruction that neither `target` nor an architecture after it has."""
    for instruction in function.instructions:
        need = need_of(instruction.text)
        if need is not None and need.only and not need.is_met(target):
            source = f" ({instruction.file}:{instruction.line})" if instruction.file else ""
            what = f'"{instruction.text}"{source} is not an instruction of {target}: it needs {need}'
            raise UnsupportedError(what, place=f"{path}:{instruction.ptx_line}", remedy=remedy_for(need))


def remedy_for(need: Need) -> str:
    """What to do about an instruction that the architecture lacks."""
    number = need.only[0].removeprefix("sm_") if need.only else str(need.first)
    return f"choose a GPU that has it (`--gpu {need.gpu}`), and compile for it (`--arch compute_{number}`)"
