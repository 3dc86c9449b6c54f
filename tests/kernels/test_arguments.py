from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from warpsight.base.errors import FormatError, UsageError, WarpsightError
from warpsight.isa.ptx.program import Variable
from warpsight.kernels.arguments import parse_argument
from warpsight.kernels.launch import ArrayArgument, ScalarArgument

pytestmark = pytest.mark.unit


def _parameter(kind: str, size: int) -> Variable:
    return Variable("p", "param", kind, size, size)


def _scalar(text: str, parameter: Variable | None = None) -> bytes:
    argument = parse_argument(text, parameter)
    assert isinstance(argument, ScalarArgument)
    return argument.data


def _array(text: str, seed: int = 0, position: int = 0) -> np.ndarray:
    argument = parse_argument(text, None, seed, position=position)
    assert isinstance(argument, ArrayArgument)
    assert argument.array.flags.c_contiguous
    return argument.array


@pytest.mark.parametrize(
    ("text", "layout", "value"),
    [
        ("i32:1024", "<i", 1024),
        ("i32:-1", "<i", -1),
        ("u32:4294967295", "<I", 2**32 - 1),
        ("i8:-128", "<b", -128),
        ("u8:255", "<B", 255),
        ("i16:-2", "<h", -2),
        ("u16:7", "<H", 7),
        ("i64:-1<<40", "<q", -(1 << 40)),
        ("u64:1Mi", "<Q", 1 << 20),
        ("f32:0.5", "<f", 0.5),
        ("f64:1e-3", "<d", 1e-3),
        ("f16:1.5", "<e", 1.5),
        ("bool:true", "<?", True),
        ("bool:0", "<?", False),
        ("f32:inf", "<f", float("inf")),
    ],
)
def test_typed_scalar_becomes_its_little_endian_bytes(text: str, layout: str, value: object) -> None:
    assert _scalar(text) == struct.pack(layout, value)


@pytest.mark.parametrize(
    ("text", "kind", "size", "expected"),
    [
        ("5", "u32", 4, struct.pack("<I", 5)),
        ("-1", "u32", 4, struct.pack("<i", -1)),
        ("2", "f32", 4, struct.pack("<f", 2.0)),
        ("1e3", "f64", 8, struct.pack("<d", 1000.0)),
        ("7", "b32", 4, struct.pack("<I", 7)),
        ("0x10", "u64", 8, struct.pack("<Q", 16)),
        ("true", "u8", 1, b"\1"),
        ("nan", "f32", 4, struct.pack("<f", float("nan"))),
        ("hex:00ff", "b8", 2, b"\0\xff"),
    ],
)
def test_bare_number_takes_the_type_of_its_parameter(text: str, kind: str, size: int, expected: bytes) -> None:
    assert _scalar(text, _parameter(kind, size)) == expected


@pytest.mark.parametrize(
    ("text", "kind", "size", "complaint"),
    [
        ("4294967296", "u32", 4, "does not fit in u32"),
        ("1.5", "u32", 4, "not a whole number"),
        ("1.5", "b32", 4, "no type"),
        ("f32:1", "u32", 4, "f32 is given, and the parameter is u32"),
        ("i32:1", "f32", 4, "i32 is given"),
        ("i64:1", "u32", 4, "has 8 bytes"),
        ("f32[4]:zeros", "u32", 4, "holds no address"),
        ("3", "b8", 12, "no type"),
        ("hex:00", "b8", 12, "1 bytes are given"),
    ],
)
def test_argument_that_is_not_what_the_parameter_is_names_position(text: str, kind: str, size: int, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint) as caught:
        parse_argument(text, _parameter(kind, size), position=2)
    assert caught.value.place.startswith("argument 3 ")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "i32",
        "q32:1",
        "i32:",
        "i32:one",
        "i32:1.5",
        "u8:256",
        "i8:-129",
        "f16:1e6",
        "bool:2",
        "hex:0",
        "f32[]:zeros",
        "f32[4]",
        "f32[0]:zeros",
        "f32[-4]:zeros",
        "f32[4]:ones(1)",
        "f32[4]:unifrm",
        "i32[4]:uniform",
        "i8[1000]:arange",
        "i32[4]:randint(5,5)",
        "i32[4]:randint",
        "u8[4]:randint(0,300)",
        "f32[4]:uniform(1)",
        "f32[4]:uniform(2,1)",
        "f32[4]:uniform(a,b)",
        "i32[4]:full(0.5)",
        "f32[4]:uniform(sed=1)",
        "f32[1<<60]:zeros",
        "i32[4]:offsets(3,3)",
        "float[3]:zeros",
        "f32[4,x]:zeros",
        "f32[4]:normal(0,-1)",
        "5",
    ],
)
def test_text_that_is_no_argument_is_refused_with_a_remedy(text: str) -> None:
    with pytest.raises(WarpsightError) as caught:
        parse_argument(text)
    assert caught.value.place.startswith("argument 1")
    assert caught.value.remedy
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i32[4]:zeros", np.zeros(4, np.int32)),
        ("f64[2,3]:ones", np.ones((2, 3))),
        ("u8[3]:full(7)", np.array([7, 7, 7], np.uint8)),
        ("f16[2]:constant(0.5)", np.array([0.5, 0.5], np.float16)),
        ("i64[4]:arange(10,-3)", np.array([10, 7, 4, 1])),
        ("f32[3]:arange(0.5)", np.array([0.5, 1.5, 2.5], np.float32)),
        ("u16[1<<2]:arange", np.arange(4, dtype=np.uint16)),
    ],
)
def test_array_by_a_fixed_rule_has_its_values_and_type(text: str, expected: np.ndarray) -> None:
    made = _array(text)
    assert made.dtype == expected.dtype
    np.testing.assert_array_equal(made, expected)


def test_random_rules_stay_within_their_bounds() -> None:
    uniform, integers = _array("f32[10000]:uniform(-2,3)"), _array("i32[10000]:randint(5,9)")
    assert uniform.dtype == np.float32
    assert -2 <= uniform.min() < -1.99 and 2.99 < uniform.max() <= 3
    assert set(np.unique(integers)) == {5, 6, 7, 8}
    assert set(np.unique(_array("u8[5000]:randint(4)"))) == {0, 1, 2, 3}
    normal = _array("f64[20000]:normal(3,2)")
    assert abs(normal.mean() - 3) < 0.1 and abs(normal.std() - 2) < 0.1
    np.testing.assert_array_equal(np.sort(_array("i32[1000]:permutation")), np.arange(1000))


def test_offsets_are_row_pointers() -> None:
    pointers = _array("i32[1001]:offsets(1,17)")
    steps = np.diff(pointers)
    assert pointers[0] == 0
    assert set(np.unique(steps)) == set(range(1, 17))


def test_random_array_depends_on_seed_and_position_only() -> None:
    first = _array("f32[64]:uniform", seed=1, position=0)
    np.testing.assert_array_equal(first, _array("f32[64]:uniform", seed=1, position=0))
    assert not np.array_equal(first, _array("f32[64]:uniform", seed=2, position=0))
    assert not np.array_equal(first, _array("f32[64]:uniform", seed=1, position=1))
    own = _array("f32[64]:uniform(seed=7)", seed=1, position=0)
    np.testing.assert_array_equal(own, _array("f32[64]:uniform(0,1,seed=7)", seed=5, position=3))


@pytest.mark.parametrize("form", ["@{}", "{}"])
def test_npy_file_is_read_as_it_is(form: str, tmp_path: Path) -> None:
    array = np.arange(12, dtype=np.int16).reshape(3, 4)
    np.save(tmp_path / "a.npy", array)
    np.testing.assert_array_equal(_array(form.format(tmp_path / "a.npy")), array)


def test_npy_file_that_cannot_be_used_says_why(tmp_path: Path) -> None:
    good = tmp_path / "good.npy"
    np.save(good, np.arange(100.0))
    (tmp_path / "cut.npy").write_bytes(good.read_bytes()[:200])
    (tmp_path / "empty.npy").write_bytes(b"")
    (tmp_path / "text.npy").write_text("hello")
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    for name in ("cut", "empty", "text", "objects"):
        with pytest.raises(FormatError, match=r"not a readable .npy"):
            parse_argument(f"@{tmp_path / name}.npy")
    with pytest.raises(FormatError, match=r'did you mean "good.npy"'):
        parse_argument(f"@{tmp_path}/god.npy")
    np.save(tmp_path / "fortran.npy", np.asfortranarray(np.ones((3, 4))))
    with pytest.raises(UsageError, match=r"not C-contiguous"):
        parse_argument(f"@{tmp_path}/fortran.npy")
