"""Names of a study: the keys that it may vary, derive and read, and the columns of its results."""

from __future__ import annotations

import re

from warpsight.base.errors import UsageError, suggestion
from warpsight.base.units import COUNT, CYCLES, SIZE
from warpsight.gpu.key import FLAG, WORD, Key
from warpsight.gpu.keys import every_parameter, find_key
from warpsight.gpu.spec import KEYS
from warpsight.gpu.steps import ORDERS
from warpsight.kernels.launch_check import MOST_CLUSTER_BLOCKS
from warpsight.pipeline.request import CACHES, CACHES_BEFORE, INTERLEAVINGS, REPRESENTATIVES

NUMBER, TRUTH = "number", "true or false"  # what an expression can be, besides WORD

DIMENSIONS, ARGUMENT = "dimensions", "argument"
WHOLE = (COUNT, SIZE, CYCLES)
TEXTS = (DIMENSIONS, ARGUMENT)

# CUDA C++ Programming Guide, "Technical Specifications per Compute Capability": threads of a block, blocks in x, registers
MOST_THREADS, MOST_BLOCKS, MOST_REGISTERS = 1024, 2**31 - 1, 255
_MOST_ARGUMENT = 2**63 - 1

LAUNCH: dict[str, Key] = {
    key.name: key
    for key in (
        Key("launch.grid", DIMENSIONS, "blocks of the grid; in expressions their number", most=MOST_BLOCKS),
        Key("launch.block", DIMENSIONS, "threads of a block; in expressions their number", most=MOST_THREADS),
        Key("launch.cluster", DIMENSIONS, "blocks of a cluster; in expressions their number", most=MOST_CLUSTER_BLOCKS),
        Key("launch.shared", COUNT, "bytes of dynamic shared memory of a block", 0, 2**40),
        Key("launch.registers", COUNT, "registers of a thread, instead of the assembler's count", 1, MOST_REGISTERS),
        Key("launch.maxrregcount", COUNT, "the most registers of a thread that the assembler takes", 16, MOST_REGISTERS),
        Key("launch.opt_level", COUNT, "how far the assembler optimizes", 0, 3),
    )
}
METHOD: dict[str, Key] = {
    key.name: key
    for key in (
        Key("method.caches", WORD, "exact caches or the reuse-distance model", choices=CACHES),
        Key("method.interleaving", WORD, "order of accesses in exact caches", choices=INTERLEAVINGS),
        Key("method.representative", WORD, "choice of the representative warp", choices=REPRESENTATIVES),
        Key("method.caches_before", WORD, "L2 when the launch begins: empty, or as a launch before left it", choices=CACHES_BEFORE),
        Key("method.order", WORD, "timing that orders accesses: of the GPU that the design is like, or its own", choices=ORDERS),
    )
}
GPU = "gpu"
_GPU = Key(GPU, WORD, "the GPU that a design is a change of: a name of the catalogue, or a description file")
ARGUMENT_PREFIX, DEFINE_PREFIX, CONSTANT_PREFIX = "launch.arg.", "launch.define.", "launch.constant."
_ARGUMENT = re.compile(r"launch\.arg\.(?:[1-9][0-9]{0,3}|[A-Za-z_][A-Za-z_0-9]*)")
_COMPILED = re.compile(r"launch\.(?:define|constant)\.[A-Za-z_]\w*")
_ALL = {**KEYS, **LAUNCH, **METHOD, GPU: _GPU}


def study_key(name: str, place: str) -> Key:
    """What is known of a key. Raises UsageError at `place` with the nearest key when there is none of that name."""
    known = _ALL.get(name) or find_key(name)
    if known is not None:
        return known
    if _ARGUMENT.fullmatch(name):
        return Key(name, ARGUMENT, "an argument of the kernel", 0, _MOST_ARGUMENT)
    if _COMPILED.fullmatch(name):
        return Key(name, ARGUMENT, "a macro, or a compile-time value of a Triton kernel", 0, _MOST_ARGUMENT)
    if name.startswith(ARGUMENT_PREFIX):
        what = f"{name} is not an argument of a kernel"
        raise UsageError(what, place=place, remedy="write launch.arg.1 for the first argument, or launch.arg.NAME")
    what = f"{name} is not a known key{suggestion(name, [*_ALL, *every_parameter(), ARGUMENT_PREFIX + '1'])}"
    others = [*LAUNCH, f"{ARGUMENT_PREFIX}N", f"{DEFINE_PREFIX}NAME", f"{CONSTANT_PREFIX}NAME", *METHOD, GPU]
    remedy = f"`warpsight gpus show mdm-pascal` lists the GPU's keys; others: {', '.join(others)}"
    raise UsageError(what, place=place, remedy=remedy)


def is_known(name: str) -> bool:
    """Whether `study_key` has an answer."""
    return name in _ALL or find_key(name) is not None or bool(_ARGUMENT.fullmatch(name) or _COMPILED.fullmatch(name))


def known_names() -> list[str]:
    """Every key but the kernels' own arguments."""
    return list(_ALL)


def sort_of_key(key: Key) -> str:
    """What a key is in an expression: `NUMBER`, `WORD` or `TRUTH`."""
    return {WORD: WORD, FLAG: TRUTH}.get(key.kind, NUMBER)


def in_column(key: Key) -> str:
    """What a column of the key holds: `NUMBER` (float64), or `WORD` (texts, `true` and `false` for flags)."""
    return WORD if key.kind in (WORD, FLAG, *TEXTS) else NUMBER


# -- The columns of a study's results: one row for each design, kernel and model (or the simulator).

DESIGN, KERNEL, MODEL, FAILED, HALF_WIDTH = "design", "kernel", "model", "failed", "half_width"
SIMULATOR = "simulator"  # in the column of models
"""`design` int64, then a column for each axis and derived key under the key's name (float64 in base units, or text), then `kernel`
(text), then those of `pipeline/rows.py`."""
