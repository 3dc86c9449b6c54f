"""Random kernels for the tests of traces: programs, warps' streams through them, addresses."""

from __future__ import annotations

from accelsim_writer import LOCAL_BASE, SHARED_BASE, Kernel, Op, Step
from hypothesis import strategies as st

ACCESSES = [
    ("LDG.E", "global", "load", 4), ("LDG.E.64", "global", "load", 8), ("LDG.E.128.CONSTANT", "global", "load", 16),
    ("LDG.E.U8", "global", "load", 1), ("STG.E", "global", "store", 4), ("STG.E.U16", "global", "store", 2),
    ("LDS", "shared", "load", 4), ("LDS.64", "shared", "load", 8), ("LDS.128", "shared", "load", 16),
    ("STS.U8", "shared", "store", 1),
    ("ATOMS.ADD", "shared", "atomic", 4), ("ATOMG.E.ADD", "global", "atomic", 4), ("LD.E", "generic", "load", 4),
    ("ST.E.64", "generic", "store", 8), ("ATOM.E.ADD.64", "generic", "atomic", 8), ("LDL", "local", "load", 4),
    ("STL.64", "local", "store", 8),
]  # fmt: skip
PLAIN = ["IADD3", "IMAD.WIDE", "FFMA", "ISETP.GE.AND", "S2R", "BRA", "BSYNC", "BAR.SYNC", "MUFU.RCP", "HFMA2.MMA"]
BASES = {"global": [0x7FB0FC430E00, 0x7F1269C00000, 0x700000000000], "shared": [0, 256], "local": [0xFFC000, 0x400]}


@st.composite
def ops(draw: st.DrawFn, newer: bool) -> list[Op]:
    """A program: pcs 16 apart. Uniform and predicate registers only where the tracer writes them (`newer`)."""
    registers = st.sampled_from([f"R{k}" for k in (0, 1, 2, 7, 24, 255)] + (["UR4", "UR63", "P0", "UP2"] if newer else []))
    found = []
    for k in range(draw(st.integers(2, 9))):
        if draw(st.booleans()):
            opcode, space, access, width = draw(st.sampled_from(ACCESSES))
            destinations = () if access == "store" else (draw(registers),)
            sources = ("R2",) if access == "load" else ("R2", draw(registers))
            found.append(Op(16 * k, opcode, destinations, sources, space, access, width, line=draw(st.integers(0, 40))))
        else:
            read = tuple(draw(st.lists(registers, max_size=3)))
            found.append(
                Op(
                    16 * k,
                    draw(st.sampled_from(PLAIN)),
                    tuple(draw(st.lists(registers, max_size=1))),
                    read,
                    line=draw(st.integers(0, 40)),
                )
            )
    return [*found, Op(16 * len(found), "EXIT")]


@st.composite
def steps(draw: st.DrawFn, program: list[Op]) -> list[Step]:
    """A warp's stream: stretches of the program, jumping anywhere after any instruction, as predication and skipped calls do."""
    stream = []
    for _ in range(draw(st.integers(0, 4))):
        first = draw(st.integers(0, len(program) - 1))
        last = draw(st.integers(first, len(program) - 1))
        for op in program[first : last + 1]:
            mask = draw(st.sampled_from([0, 1, 0xFFFFFFFF, 0x0000FFFF, 0xF0F0F0F0, 0x80000001]))
            stream.append(Step(op, mask, draw(addresses(op, mask))))
    return stream


@st.composite
def addresses(draw: st.DrawFn, op: Op, mask: int) -> tuple[int, ...]:
    """Aligned addresses of the active lanes: a stride, or anywhere in a few kilobytes."""
    count = bin(mask).count("1") if op.width else 0
    space = draw(st.sampled_from(["global", "shared", "local"])) if op.space == "generic" else op.space
    if not count:
        return ()
    base = draw(st.sampled_from(BASES[space]))
    if op.space == "generic":
        base += {"global": 0, "shared": SHARED_BASE, "local": LOCAL_BASE}[space]
    base -= base % op.width
    if draw(st.booleans()):
        stride = draw(st.sampled_from([0, 1, 2, 3, 8, 33])) * op.width
        return tuple(base + k * stride for k in range(count))
    return tuple(base + op.width * n for n in draw(st.lists(st.integers(0, 90), min_size=count, max_size=count)))


@st.composite
def kernels(draw: st.DrawFn, newer: bool = False) -> Kernel:
    """A launch of a few blocks, some of them possibly missing."""
    grid = draw(st.sampled_from([(1, 1, 1), (3, 1, 1), (2, 2, 1), (1, 1, 2)]))
    block = draw(st.sampled_from([(32, 1, 1), (48, 1, 1), (8, 4, 2)]))
    program = draw(ops(newer))
    warps = -(-block[0] * block[1] * block[2] // 32)
    streams = [
        None if draw(st.integers(0, 9)) == 0 else [draw(steps(program)) for _ in range(warps)]
        for _ in range(grid[0] * grid[1] * grid[2])
    ]
    first = [Step(program[-1], 0xFFFFFFFF)]
    return Kernel(grid, block, [[first] * warps, *streams[1:]])
