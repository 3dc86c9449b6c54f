"""Do the quicker forms of Numba's analysis find what Numba's own find?"""

from __future__ import annotations

import operator
from itertools import product
from typing import Any

import numba
import pytest
from numba.core import ir, registry, targetconfig, types
from numba.core.compiler import Flags, run_frontend

from warpsight.base import kept_code
from warpsight.base.compiled import compiled

pytestmark = pytest.mark.unit

OPERATORS = (operator.add, operator.floordiv, operator.lt, operator.eq, operator.lshift, operator.getitem, operator.truediv)
KINDS = (
    types.int64, types.uint32, types.float64, types.boolean, types.literal(3), types.unicode_type, types.Array(types.int32, 1, "C"),
)  # fmt: skip


@compiled
def total(values: Any, scale: Any) -> Any:
    found = values[0] * scale
    for k in range(1, len(values)):
        found += values[k] * scale
    return found


def test_functions_of_one_text_have_the_types_of_each_call() -> None:
    assert total((1, 2, 3), 2) == 12
    assert isinstance(total((1, 2, 3), 2), int)
    assert total((1.5, 2.5), 2) == 8.0
    assert total((1, 2), 0.5) == 1.5
    assert total((True, True), 3) == 6


@pytest.mark.parametrize("function", OPERATORS, ids=lambda function: function.__name__)
def test_a_call_is_typed_as_numba_types_it_the_first_and_the_second_time(function: Any) -> None:
    total((1, 2), 1)  # Numba has its operators
    context = registry.cpu_target.typing_context
    kind = context.resolve_value_type(function)
    typed = 0
    for pair in product(KINDS, repeat=2):
        try:
            wanted = kept_code._numbas_own_call_type(kind, context, pair, {})
        except numba.TypingError:
            for _ in range(2):
                with pytest.raises(numba.TypingError):
                    kept_code._call_type(kind, context, pair, {})
            continue
        assert [kept_code._call_type(kind, context, pair, {}) for _ in range(2)] == [wanted, wanted], pair
        typed += 1
    assert typed


def test_options_are_equal_where_all_their_values_are() -> None:
    class Others(targetconfig.TargetConfig):  # type: ignore[misc, unused-ignore]
        pass

    first, second = Flags(), Flags()
    assert first == second and hash(first) == hash(second)
    second.nrt = False  # the value that it has where it is not set
    assert first == second and hash(first) == hash(second)
    second.nrt = True
    assert first != second and first != Others() and first != 1


def names(instruction: Any) -> list[str]:
    """The variables of an instruction by Numba's rule: those in its fields, in order, however deep they lie in containers."""

    def within(value: Any) -> list[str]:
        if isinstance(value, ir.Var):
            return [value.name]
        if isinstance(value, ir.Inst):
            return names(value)
        parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
        return [name for part in parts for name in within(part)]

    return within(instruction._kws if isinstance(instruction, ir.Expr) else instruction.__dict__)


def test_variables_of_instructions_are_those_in_their_fields() -> None:
    total((1, 2), 1)

    def function(a: Any, b: Any) -> Any:
        table = {"first": a, "all": [a, b, (b, 1)]}
        for k in range(3):
            a[k : k + 1] = max(a[k], b, key=None)
        return (table, *a) if a else f"{b}"

    found = [statement for block in run_frontend(function).blocks.values() for statement in block.body]
    assert len(found) > 40
    for statement in found:
        assert [variable.name for variable in statement.list_vars()] == names(statement), statement
