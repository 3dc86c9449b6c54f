"""What every instruction of a kind must have, so that no later step meets one without: predicates where PTX asks for them,
operands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from warpsight.base.errors import FormatError
from warpsight.isa.names import SINK
from warpsight.isa.program import Guard, Negated, Operand

_LEAST = {"ld": 2, "ldu": 2, "st": 2, "atom": 3, "red": 2, "mov": 2, "cvt": 2, "cvta": 2, "bra": 1, "brx": 2}
_NONE = frozenset({"ret", "exit", "trap", "brkpt"})


def check_instruction(
    opcode: str,
    operands: tuple[Operand | Negated, ...],
    guard: Guard | None,
    types: Mapping[str, str],
    fail: Callable[[str], FormatError],
) -> None:
    """Raise FormatError, made by `fail`, for too few operands, and for a guard or a `!` of what is no predicate.

    `types` are the declared types of registers.
    """
    count = len(operands)
    if count < _LEAST.get(opcode, 0):
        raise fail(f'"{opcode}" has {count} operands where PTX asks for {_LEAST[opcode]}')
    if count and opcode in _NONE:
        raise fail(f'"{opcode}" has operands, and PTX gives it none')
    tested = [operand.register.name for operand in operands if isinstance(operand, Negated)]
    if guard is not None:
        tested.append(guard.register.name)
    for name in tested:
        if types.get(name, "pred" if name != SINK else "") != "pred":
            raise fail(f'"{name}" is tested as a predicate, and is declared as .{types[name]}')
