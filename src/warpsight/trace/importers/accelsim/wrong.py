"""What the compiled parser found wrong, in words, with file and line."""

from __future__ import annotations

from warpsight.base.errors import FormatError, LimitError, WarpsightError
from warpsight.trace.importers.accelsim.layout import ADDRESS_LIMIT, MOST_SECTORS, Answer
from warpsight.trace.importers.launch import REMEDY

_WHAT = {
    Answer.NO_LINE: "no line of a trace",
    Answer.NO_MASK: "the active mask is no hexadecimal number of 32 bits",
    Answer.FIELDS: "the fields after the mask are not registers, opcode, registers and memory width",
    Answer.MODE: "the form of the addresses is none of 0 (list), 1 (base and stride) and 2 (base and deltas)",
    Answer.ADDRESS: f"too few addresses for the active lanes, or one that is no number below {ADDRESS_LIMIT:#x}",
    Answer.TAIL: "what follows the memory fields are not numbers, Val or NoVal",
    Answer.NUMBER: "a number is missing after =",
    Answer.NESTED: "a block begins before the last one has ended",
    Answer.NOT_IN_BLOCK: "this stands outside of #BEGIN_TB and #END_TB",
    Answer.NO_BLOCK_NUMBER: "the line thread block = x,y,z is missing before it",
    Answer.OUTSIDE_GRID: "the block is not in the grid",
    Answer.NOT_IN_WARP: "an instruction, or insts =, that belongs to no warp",
    Answer.NO_SUCH_WARP: "a block of this launch has no warp of that number",
    Answer.TWICE: "the block is there twice",
    Answer.LOCAL_WINDOW: "a local address is in no window of local memory",
    Answer.NO_COUNT: "the line insts = of the warp is missing before it",
    Answer.PREFIX: "the line begins with another block or warp than the one that it stands in",
    Answer.STRIDE: "a base and a stride for lanes that do not follow each other",
    Answer.BULK: "the fields of a bulk copy are not barrier, multicast, bytes, mode 3 or 4, and addresses",
    Answer.SECTOR_COUNT: f"one access touches more than {MOST_SECTORS} sectors",
}
_LIMITS = {
    Answer.REGIONS: "the kernel's addresses lie in more than 255 regions of 256 MiB, more than a trace can number",
    Answer.TOO_MANY_FRAGMENTS: "the kernel has more than 16 million distinct runs of instructions",
}


def refusal(answer: int, place: str, text: str, got: int, declared: int, warp: int) -> WarpsightError:
    """The error for `answer` at `place`, with the line's `text`; `got` of `declared` lines of `warp` had come."""
    kind = Answer(answer)
    if kind in _LIMITS:
        return LimitError(_LIMITS[kind], place=place, remedy="trace fewer instructions or a smaller launch")
    if kind is Answer.MISCOUNT:
        what = f"warp {warp} has {got:,} instructions, and insts = says {declared:,}"
        return FormatError(what, place=place, remedy=f"the trace is cut or damaged here: {REMEDY}")
    shown = text if len(text) <= 70 else f"{text[:67]}..."
    return FormatError(f"{_WHAT[kind]}: {shown!r}", place=place, remedy=f"the trace is cut or damaged here: {REMEDY}")
