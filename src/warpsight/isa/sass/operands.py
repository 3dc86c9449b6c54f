"""Which operands of a native instruction are written, where a trace lists them in one row, as a disassembler does.

The order is that of NVIDIA's disassembler: results first, a predicate result before a register or behind it.
"""

from __future__ import annotations

from collections.abc import Sequence

from warpsight.isa.sass.table import STORE, SassOpcode

_ALL_READ = ("branch", "barrier", "control")
# Opcodes that compute and yet write nothing.
_NO_RESULT = ("RED", "REDG", "REDAS", "LDGSTS", "UTMALDG", "UTMASTG", "UTMAREDG", "UBLKCP", "UBLKRED", "LDGBULK", "SURED")
_WRITES_IN_BRANCHES = ("BMOV", "RPCMOV", "CALL")
# A predicate result in front of the register that is written too.
_PREDICATE_AND_REGISTER = ("LOP3", "SHFL", "ATOM", "ATOMG", "ATOMS", "MATCH", "LDG", "LD", "LDS", "SUATOM")


def split_operands(row: SassOpcode, opcode: str, names: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(written, read) of `names`, the registers and predicates of an instruction in the order of its operands.

    Stores, reductions, branches and barriers write nothing. Of all others the first is written, and so is a second predicate of a
    comparison (``ISETP P0, PT, ...``), the register behind a predicate (``LOP3 P0, R1, ...``), and a predicate behind a
    register (the carry of ``IADD3 R0, P0, ...``).
    """
    base = opcode.split(".", maxsplit=1)[0]
    if not names or row.access == STORE or base in _NO_RESULT or (row.op_class in _ALL_READ and base not in _WRITES_IN_BRANCHES):
        return (), tuple(names)
    count = 1
    if len(names) > 1:
        first, second = _is_predicate(names[0]), _is_predicate(names[1])
        pair = base.endswith("SETP") or base in ("PLOP3", "UPLOP3") if second else base in _PREDICATE_AND_REGISTER
        count += pair if first else second
    return tuple(names[:count]), tuple(names[count:])


def _is_predicate(name: str) -> bool:
    return name.startswith(("P", "UP"))
