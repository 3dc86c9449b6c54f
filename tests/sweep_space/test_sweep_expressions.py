"""Expressions of a study: the same numbers as Python's own arithmetic, and nothing but arithmetic."""

from __future__ import annotations

import itertools
import math
import operator
import pickle
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from warpsight.base.errors import UsageError
from warpsight.sweeps.expressions import parse_expression
from warpsight.sweeps.names import NUMBER

pytestmark = pytest.mark.unit

PLACE = "study.yaml:7"
# four designs
COLUMNS: dict[str, Any] = {
    "sm_count": np.array([15.0, 28.0, 0.0, 80.0]),
    "l1.ways": np.array([4.0, 6.0, 8.0, 3.0]),
    "noc.bandwidth": 1.05e12,
    "sm.policy": np.array(["gto", "lrr", "gto", "lrr"], dtype=object),
    "l1.write_allocate": np.array(["true", "false", "false", "true"], dtype=object),
    "l2.write_allocate": True,
    "launch.block": np.array(["128", "32x8", "16x4x2", "1"], dtype=object),
    "launch.arg.2": np.array(["1024", "i32:2048", "-3", "f32:0.5"], dtype=object),
}


def value(text: str) -> list[Any]:
    return parse_expression(text, PLACE).evaluate(COLUMNS).tolist()


def refusal(text: str) -> str:
    with pytest.raises(UsageError) as caught:
        parse_expression(text, PLACE).evaluate(COLUMNS)
    assert caught.value.place == PLACE
    assert caught.value.remedy
    return caught.value.what


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sm_count * 2 + 1", [31, 57, 1, 161]),
        ("2 ** 3 ** 2 - -1", [513] * 4),
        ("7 // 2 * l1.ways % 5", [2, 3, 4, 4]),
        ("525*GB/s", [525e9] * 4),
        ("noc.bandwidth / (GB/s)", [1050] * 4),
        ("3 * MiB + 2*kB + 1*B", [3 * 2**20 + 2001] * 4),
        ("1.4*GHz / MHz + 0*cycles", [1400] * 4),
        ("min(sm_count, 20, l1.ways * 4)", [15, 20, 0, 12]),
        ("max(abs(-3), sqrt(l1.ways * 0 + 16))", [4] * 4),
        ("ceil(2.1) + floor(-2.1) + round(2.5) + round(3.5)", [3 - 3 + 2 + 4] * 4),
        ("log2(8) + log(exp(2))", [5] * 4),
        ("10 < sm_count <= 28", [True, True, False, False]),
        ("sm.policy == 'gto' and sm_count > 0 or l1.ways == 3", [True, False, False, True]),
        ('not sm.policy != "lrr"', [False, True, False, True]),
        ("sm.policy", ["gto", "lrr", "gto", "lrr"]),
        ("'gto' if sm_count > 20 else 'lrr'", ["lrr", "gto", "lrr", "gto"]),
        ("l1.write_allocate", [True, False, False, True]),
        ("l1.write_allocate == true and l2.write_allocate", [True, False, False, True]),
        ("launch.block", [128, 256, 128, 1]),
        ("launch.arg.2 / 2", [512, 1024, -1.5, 0.25]),
        ("1\n + 2", [3] * 4),
    ],
)
def test_expression_has_the_value_that_a_hand_calculation_gives(text: str, expected: list[Any]) -> None:
    assert value(text) == expected


def test_names_are_the_keys_that_it_reads_and_no_units() -> None:
    text = "noc.bandwidth / (GB/s) if latency.int > 4 else launch.arg.2 * min(sm_count, launch.arg.n)"
    expression = parse_expression(text, PLACE)
    assert expression.names == {"noc.bandwidth", "latency.int", "launch.arg.2", "sm_count", "launch.arg.n"}
    assert expression.text == text


def test_expression_is_hashable_and_picklable_and_its_place_takes_no_part_in_comparing() -> None:
    one, two = parse_expression("sm_count > 4", "a:1"), parse_expression("sm_count > 4", "b:2")
    assert one == two and hash(one) == hash(two)
    assert pickle.loads(pickle.dumps(one)).evaluate(COLUMNS).tolist() == [True, True, False, True]


def test_one_value_for_all_designs_is_still_a_value_for_each() -> None:
    assert parse_expression("noc.bandwidth * 2", PLACE).evaluate(COLUMNS).tolist() == [2.1e12] * 4
    assert parse_expression("noc.bandwidth * 2", PLACE).evaluate({"noc.bandwidth": 3.0}).tolist() == 6.0


def test_columns_of_results_can_be_read_where_they_are_named() -> None:
    expression = parse_expression("ipc / sm_count", PLACE, {"ipc": NUMBER})
    assert expression.evaluate({"ipc": np.array([2.0, 3.0]), "sm_count": 4}).tolist() == [0.5, 0.75]


@pytest.mark.parametrize(
    ("text", "design"),
    [
        ("1 / sm_count", "division by zero on design 2 (sm_count = 0)"),
        ("1 // sm_count", "division by zero on design 2"),
        ("5 % sm_count", "division by zero on design 2"),
        ("sm_count ** -1", "division by zero on design 2"),
        ("sqrt(sm_count - 15)", "square root of a negative number on design 2"),
        ("log(sm_count)", "logarithm of zero or less on design 2"),
        ("(sm_count - 20) ** 0.5", "root of a negative number on design 0"),
        ("exp(sm_count * 10)", "exp gives too large a number on design 3 (sm_count = 80)"),
        ("1e308 * sm_count", "* gives too large a number on design 0"),
        ("10 ** 10 ** 10", "** gives too large a number on every design"),
        ("1 / 0 if sm_count > 20 else 1", "division by zero on design 1"),
    ],
)
def test_arithmetic_that_has_no_answer_names_the_first_design(text: str, design: str) -> None:
    assert f'"{text}": {design}' in refusal(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("60 / sm_count if sm_count > 0 else -1", [4, 60 / 28, -1, 0.75]),
        ("sm_count > 0 and 60 / sm_count > 2", [True, True, False, False]),
        ("sm_count == 0 or 60 / sm_count > 2", [True, True, True, False]),
        ("0 < sm_count < 1000 / sm_count", [True, True, False, False]),
        ("sm_count if sm_count > 0 else 1 / sm_count if sm.policy == 'lrr' else 7", [15, 28, 7, 80]),
    ],
)
def test_part_that_a_design_does_not_take_cannot_fail_there(text: str, expected: list[Any]) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("noc.bandwith * 2", 'noc.bandwith is not a known key; did you mean "noc.bandwidth"?'),
        ("min2(1, 2)", 'min2 is not a known function; did you mean "min"?'),
        ("525 GB/s", "is not a valid expression"),
        ("sm.policy == 'gtoo'", 'sm.policy is never "gtoo"; did you mean "gto"?'),
        ("sm.policy == gto", "gto is not a known key"),
        ("sm.policy < 'gto'", "orders two words"),
        ("sm.policy == 3", "compares a word with a number"),
        ("sm_count and true", "is a number, but true or false is needed"),
        ("sm.policy + 1", "is a word, but a number is needed"),
        ("(sm_count > 3) * 2", "is true or false, but a number is needed"),
        ("1 if sm_count > 3 else 'gto'", "is a number or a word"),
        ("min(sm_count)", "min takes two numbers or more"),
        ("sqrt(1, 2)", "sqrt takes one number"),
        ("round(1.5, ndigits=1)", "round takes one number"),
        ("l1.size + l2.size", "reads l1.size, which these designs do not have"),
        ("launch.arg.7", "reads launch.arg.7"),
        ("1e400", "is too large a number"),
        ("9" * 400, "is too large a number"),
        ("1 # one", "has a #"),
        ("1 + " * 120 + "1", "more than 100 deep"),
        ("1 + " * 600 + "1", "has 2,401 characters"),
    ],
)
def test_slip_is_refused_with_what_was_meant(text: str, words: str) -> None:
    assert words in refusal(text)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')", "().__class__.__bases__", "sm_count.__class__", "l1.ways.real", "(1).real", "'a'.join",
        "[1, 2]", "{1: 2}", "(1, 2)", "lambda: 1", "[x for x in 'ab']", "x := 3", "f'{sm_count}'", "sm_count[0]", "open('a')",
        "1; 2",
        "import os", "1j", "None", "...", "b'a'", "sm_count is 3", "sm_count in l1.ways", "1 @ 2", "~1", "1 << 2", "1 & 2",
        "await 1",
        "eval('1')", "(" * 1900, "-" * 1990 + "1", "not " * 400 + "true", "sm_count" + ".a" * 900, "\0", "sm_count \x00 1", "'",
        "1 if",
        "*sm_count", "max(*sm_count)", "sqrt(**1)", "min(sm_count, l1.ways)()", "9" * 1999,
    ],
)
def test_what_is_no_arithmetic_is_refused_and_never_run(text: str) -> None:
    refusal(text)


def test_launch_argument_that_is_no_number_is_refused_where_it_is_read() -> None:
    expression = parse_expression("launch.arg.1 * 2", PLACE)
    with pytest.raises(UsageError, match="is not a number"):
        expression.evaluate({"launch.arg.1": np.array(["f32[16]:zeros"], dtype=object)})


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(UsageError, match="2 lengths"):
        parse_expression("sm_count", PLACE).evaluate({"sm_count": np.ones(2), "l1.ways": np.ones(3)})


def test_column_with_a_value_that_is_no_number_is_refused_and_not_compared() -> None:
    with pytest.raises(UsageError, match="sm_count is not a number on design 1"):
        parse_expression("sm_count > 3", PLACE).evaluate({"sm_count": np.array([1.0, np.nan])})


# Every operation here is rounded alike by C and Python, so that floor and comparisons of the results are alike too.
_NUMBERS = st.one_of(
    st.sampled_from(["sm_count", "l1.ways", "noc.bandwidth"]),
    st.floats(-1e6, 1e6, allow_nan=False).map(lambda number: f"{abs(number)!r}"),
)


def _numbers(children: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    relation = st.tuples(children, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), children).map(" ".join)
    chain = st.tuples(relation, st.sampled_from(["<", ">="]), children).map(" ".join)
    link = st.tuples(relation, st.sampled_from([" and ", " or "]), chain).map("".join)
    condition = st.one_of(relation, chain, link, link.map("not ({})".format))
    return st.one_of(
        st.tuples(children, st.sampled_from(["+", "-", "*", "/", "//", "%"]), children).map("({0[0]} {0[1]} {0[2]})".format),
        children.map("(-{})".format),
        st.tuples(st.sampled_from(["min", "max"]), children, children).map("{0[0]}({0[1]}, {0[2]})".format),
        st.tuples(st.sampled_from(["abs", "ceil", "floor", "round", "sqrt"]), children).map("{0[0]}({0[1]})".format),
        st.tuples(children, condition, children).map("({0[0]} if {0[1]} else {0[2]})".format),
    )


def _by_python(text: str, design: int) -> float:
    def at(key: str) -> float:
        return float(np.broadcast_to(COLUMNS[key], (4,))[design])

    names = {
        "sm_count": at("sm_count"), "l1": SimpleNamespace(ways=at("l1.ways")),
        "noc": SimpleNamespace(bandwidth=at("noc.bandwidth")),
        "sqrt": math.sqrt, "ceil": lambda x: float(math.ceil(x)), "floor": lambda x: float(math.floor(x)),
        "round": lambda x: float(round(x)), "min": min, "max": max, "abs": abs,
    }
    return float(eval(text, {"__builtins__": {}}, names))


@pytest.mark.property
@settings(max_examples=300)
@given(st.recursive(_NUMBERS, _numbers, max_leaves=12))
def test_random_expression_equals_pythons_own_arithmetic(text: str) -> None:
    assume(len(text) < 2000)
    try:
        expected = [_by_python(text, design) for design in range(4)]
    except (ZeroDivisionError, ValueError, OverflowError):
        refusal(text)
        return
    try:
        found = value(text)
    except UsageError as error:
        assert "too large" in error.what
        return
    assert found == expected


@pytest.mark.property
@given(st.floats(0.01, 1e3), st.floats(-30, 30))
def test_powers_and_logarithms_equal_pythons(base: float, exponent: float) -> None:
    columns = {"core_clock": np.array([base, base]), "noc.bandwidth": exponent}
    for text, expected in (
        ("core_clock ** noc.bandwidth", base**exponent),
        ("exp(noc.bandwidth)", math.exp(exponent)),
        ("log(core_clock)", math.log(base)),
        ("log2(core_clock)", math.log2(base)),
    ):
        assert parse_expression(text, PLACE).evaluate(columns).tolist() == pytest.approx([expected] * 2, rel=1e-13, abs=1e-15)


_TOKENS = ["sm_count", "l1.ways", "sm.policy", "'gto'", "(", ")", "+", "-", "**", "9", "1e99", ".", ",", "and", "not", "if", "else",
           "==", "<", "min", "sqrt", "[", "]", "lambda", ":", "__class__", "=", "\n", "\\", '"', "{", "}", "é", "0x1", "GB/s",
           "true", "in"]


@pytest.mark.property
@settings(max_examples=300)
@given(st.one_of(st.lists(st.sampled_from(_TOKENS), max_size=12).map(" ".join), st.text(max_size=40)))
def test_any_text_gives_an_answer_or_a_refusal(text: str) -> None:
    try:
        found = parse_expression(text, PLACE).evaluate(COLUMNS)
    except UsageError as error:
        assert error.place == PLACE
    else:
        assert found.shape == (4,)


def test_comparison_chain_equals_the_pairs_that_it_stands_for() -> None:
    relations = {"<": operator.lt, "<=": operator.le, "==": operator.eq, ">=": operator.ge}
    for first, second in itertools.product(relations, repeat=2):
        expected = [relations[first](10, sms) and relations[second](sms, 28) for sms in (15, 28, 0, 80)]
        assert value(f"10 {first} sm_count {second} 28") == expected
