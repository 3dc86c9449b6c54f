"""How many bytes each lane moves, read from the opcode: what an instrumentation tool says about it can be wrong."""

from __future__ import annotations

import re

_BITS = re.compile(r"[US]?(\d+)")
_MATRICES = {"2": 2, "4": 4}
WORD_BYTES = 4


def access_bytes(opcode: str) -> int:
    """Bytes per lane: the first token after the opcode that is a number of bits, all digits or after U or S; else a word.

    ``LDG.E.128`` 16, ``STG.E.U8`` 1, ``LDS.64`` 8, ``RED.E.ADD.S32`` 4, ``ATOMG.E.ADD.F64`` 8. A matrix load or store (``LDSM``,
    ``STSM``) moves a
    word for each 8x8 matrix (``.M88.4``: 16).
    """
    tokens = opcode.split(".")
    if tokens[0] in ("LDSM", "STSM"):
        return WORD_BYTES * _MATRICES.get(tokens[-1], 1)
    for token in tokens[1:]:
        found = _BITS.fullmatch(token)
        bits = int(found[1]) if found else 64 if token == "F64" else 0
        if bits in (8, 16, 32, 64, 128, 256):
            return bits // 8
    return WORD_BYTES


def matrix_rows(opcode: str) -> int:
    """Lanes whose address counts in a matrix load or store: eight rows for each matrix; 0 for any other opcode."""
    return 2 * access_bytes(opcode) if opcode.split(".", maxsplit=1)[0] in ("LDSM", "STSM") else 0
