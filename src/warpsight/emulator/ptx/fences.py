"""Fences and cache hints. Memory here is always in order and has no caches, so they change nothing that the kernel computes.

A cache policy is opaque in PTX; here it is always 0. `discard` leaves memory as it is (PTX: indeterminate), but is checked as the
write that it replaces.
"""

from __future__ import annotations

from warpsight.emulator.codegen.access import check_global
from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.lanes import I64, splat_constant
from warpsight.emulator.ptx.common import allow, operands
from warpsight.isa.ptx.program import Address, Instruction

_FENCE_WORDS = (
    "sc", "acq_rel", "acquire", "release", "cta", "cluster", "gpu", "gl", "sys", "proxy", "alias", "async", "async::generic",
    "tensormap", "tensormap::generic", "mbarrier_init", "global", "shared::cta", "shared::cluster",
    "sync_restrict::shared::cta", "sync_restrict::shared::cluster",
)  # fmt: skip
_PRIORITIES = ("L2::evict_last", "L2::evict_normal", "L2::evict_first", "L2::evict_unchanged")
_LINE = 128  # bytes that `discard` and `applypriority` work on: PTX has no other size


def fence(emitter: Emitter, instruction: Instruction) -> None:
    """`membar` and `fence`."""
    allow(emitter, instruction, *_FENCE_WORDS)
    proxied = "tensormap::generic" in instruction.modifiers and len(instruction.operands) == 2
    if instruction.operands and not (proxied and isinstance(instruction.operands[0], Address)):
        raise emitter.unsupported("a fence has no such operands")


def griddepcontrol(emitter: Emitter, instruction: Instruction) -> None:
    """`griddepcontrol.wait` and `.launch_dependents`: a launch begins here when those before it have ended."""
    operands(emitter, instruction, 0, 0)
    if instruction.modifiers not in (("wait",), ("launch_dependents",)):
        raise emitter.unsupported("needs .wait or .launch_dependents")


def prefetch(emitter: Emitter, instruction: Instruction) -> None:
    """A hint: also with an address that is not mapped it does nothing."""
    allow(emitter, instruction, "global", "local", "L1", "L2", "L2::evict_last", "L2::evict_normal", "tensormap", "param", "const")
    (address,) = operands(emitter, instruction, 1)
    emitter.effective_address(address)


def _line_address(emitter: Emitter, instruction: Instruction, *known: str) -> object:
    allow(emitter, instruction, "global", *known)
    address, size = operands(emitter, instruction, 2)
    if emitter.immediate_value(size) != _LINE:
        raise emitter.unsupported(f"its size is not {_LINE}")
    return emitter.effective_address(address)


def discard(emitter: Emitter, instruction: Instruction) -> None:
    """`discard`: checked as a write of a whole line."""
    addresses = _line_address(emitter, instruction, "L2")
    check_global(emitter, addresses, _LINE, True, I64(emitter.kernel.next_site()))


def applypriority(emitter: Emitter, instruction: Instruction) -> None:
    """`applypriority`: a hint."""
    _line_address(emitter, instruction, "L2::evict_normal")


def createpolicy(emitter: Emitter, instruction: Instruction) -> None:
    """`createpolicy.fractional`, `.range` and `.cvt`."""
    allow(emitter, instruction, "fractional", "range", "global", "cvt", "L2", *_PRIORITIES)
    modifiers = instruction.modifiers
    if "range" in modifiers:
        d, address, primary, total = operands(emitter, instruction, 4)
        emitter.effective_address(address)
        emitter.read(primary, "u32")
        emitter.read(total, "u32")
    elif "cvt" in modifiers:
        d, access_property = operands(emitter, instruction, 2)
        emitter.read(access_property, "b64")
    elif "fractional" in modifiers:
        d, *fraction = operands(emitter, instruction, 1, 2)
        for part in fraction:
            emitter.read(part, "f32")
    else:
        raise emitter.unsupported("it needs .fractional, .range or .cvt")
    emitter.write(d, splat_constant(I64, 0), "b64")
