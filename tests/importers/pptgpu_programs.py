"""Random kernels for the writers of traces without masks: programs of basic blocks with loops, and walks of warps through them."""

from __future__ import annotations

from hypothesis import strategies as st
from pptgpu_writer import Op, Step, Written

_PLAIN = ["IMAD.WIDE", "FADD", "S2R", "ISETP.GE.AND", "LDS.64", "BAR.SYNC", "MOV"]
_RECORDED = [("LDG.E", 4), ("STG.E.64", 8), ("LDG.E.128", 16), ("LD.E.U8", 1), ("ATOMG.E.ADD", 4), ("RED.E.ADD", 4)]


@st.composite
def programs(draw: st.DrawFn) -> list[list[Op]]:
    """Straight pieces of code that each end with a branch, the last with EXIT; no two instructions have the same text."""
    pieces, place = [], 0
    for _ in range(draw(st.integers(1, 4))):
        piece = []
        for _ in range(draw(st.integers(1, 5))):
            operands = (f"R{place % 250}", f"R{2 + 2 * (place // 250)}", "R7")
            if draw(st.booleans()):
                opcode, width = draw(st.sampled_from(_RECORDED))
                piece.append(Op(place, opcode, operands, True, width))
            else:
                piece.append(Op(place, draw(st.sampled_from(_PLAIN)), operands))
            place += 1
        piece.append(Op(place, "BRA", (f"P{place % 7}", f"R{place % 250}")))
        place += 1
        pieces.append(piece)
    pieces.append([Op(place, "EXIT")])
    return pieces


@st.composite
def warps(draw: st.DrawFn, pieces: list[list[Op]], lanes: int) -> list[Step]:
    """A walk through the pieces, each entered at its beginning or behind it, with repetitions, and EXIT last."""
    steps: list[Step] = []
    for piece in pieces[:-1]:
        for _ in range(draw(st.integers(0, 3))):
            first = draw(st.integers(0, len(piece) - 1))
            steps += [Step(op, draw(_addresses(lanes)) if op.recorded else ()) for op in piece[first:]]
    return [*steps, Step(pieces[-1][0])]


@st.composite
def _addresses(draw: st.DrawFn, lanes: int) -> tuple[int, ...]:
    base = 0x7F0000000000 + 16 * draw(st.integers(0, 1 << 20))
    if draw(st.booleans()):
        stride = 16 * draw(st.integers(0, 9))
        return tuple(base + stride * k for k in range(draw(st.integers(0, lanes))))
    return tuple(base + 16 * draw(st.integers(0, 400)) for _ in range(draw(st.integers(0, lanes))))


@st.composite
def kernels(draw: st.DrawFn, *, own_streams: bool) -> Written:
    """A launch. Without `own_streams` all blocks execute what the first does, each with addresses of its own."""
    pieces = draw(programs())
    threads = draw(st.sampled_from([32, 48, 64, 96]))
    count, per_block = draw(st.integers(1, 4)), -(-threads // 32)
    lanes = [min(32, threads - 32 * w) for w in range(per_block)]
    blocks, turns = [], []
    for block in range(count):
        if own_streams or not block:
            blocks.append([draw(warps(pieces, lanes[w])) for w in range(per_block)])
            turns.append(draw(st.lists(st.integers(0, per_block - 1), min_size=1, max_size=6)))
        else:
            blocks.append([[Step(s.op, tuple(a + 4096 * block if a else 0 for a in s.addresses)) for s in w] for w in blocks[0]])
            turns.append(turns[0])
    return Written(threads, blocks, turns)
