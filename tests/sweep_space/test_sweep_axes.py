"""Axes from text: the numbers that `--set` would give, in order, and nothing that is not asked for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsight.base.errors import UsageError, WarpsightError
from warpsight.gpu.document import Text, parse_value
from warpsight.gpu.spec import KEYS
from warpsight.sweeps.axes import MOST_VALUES, axis_of_list, parse_axis
from warpsight.sweeps.study import Axis

pytestmark = pytest.mark.unit


def axis(text: str) -> Axis:
    return parse_axis(text, f"--set {text}")


def refusal(text: str) -> str:
    with pytest.raises(WarpsightError) as caught:
        axis(text)
    assert caught.value.place == f"--set {text}"
    assert caught.value.remedy
    return caught.value.what


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("sm_count=15:30:5", (15, 20, 25, 30)),
        ("sm_count = 28", (28,)),
        ("sm_count=5:5:5", (5,)),
        ("noc.bandwidth=525GB/s, 1050 GB/s", (525e9, 1.05e12)),
        ("noc.bandwidth=500:700:100 GB/s", (5e11, 6e11, 7e11)),
        ("noc.bandwidth=0.5 TB/s:700 GB/s:100 GB/s", (5e11, 6e11, 7e11)),
        ("core_clock=1.1:1.4:0.1 GHz", (1.1e9, 1.2e9, 1.3e9, 1.4e9)),
        ("l1.mshrs=128,32,64", (128, 32, 64)),
        ("l1.size=16KiB:64KiB:*2", (16384, 32768, 65536)),
        ("l1.size=16:64:*2 KiB", (16384, 32768, 65536)),
        ("l1.mshrs=4:9:*1.5", (4, 6, 9)),
        ("l1.mshrs=8:27:*1.5", (8, 12, 18, 27)),
        ("dram.latency=0:300:100 cycles", (0, 100, 200, 300)),
        ("sm.policy=lrr,gto", ("lrr", "gto")),
        ("sm.coalescing=cc1.0,cc1.3", ("cc1.0", "cc1.3")),
        ("l1.write_allocate=true,false", (True, False)),
        ("launch.block=128,256", ("128", "256")),
        ("launch.block=32x8,(16,16),64x1x1", ("32x8", "16x16", "64")),
        ("launch.block=32:128:32", ("32", "64", "96", "128")),
        ("launch.grid=1:8:*2", ("1", "2", "4", "8")),
        ("launch.shared=0,1Ki,48*1024", (0, 1024, 49152)),
        ("launch.registers=16:64:*2", (16, 32, 64)),
        ("launch.arg.3=1024,i32:2048", ("1024", "i32:2048")),
        ("launch.arg.3=1024:3072:1Ki", ("1024", "2048", "3072")),
        ("launch.arg.indices=i32[8]:randint(0,4),i32[8]:zeros,data.npy", ("i32[8]:randint(0,4)", "i32[8]:zeros", "data.npy")),
        ("method.caches=exact,reuse-distance", ("exact", "reuse-distance")),
        ("method.representative=kmeans,max", ("kmeans", "max")),
    ],
)
def test_values_are_those_written_in_base_units_and_in_order(text: str, values: tuple[object, ...]) -> None:
    found = axis(text)
    assert (found.key, found.values, found.continuous) == (text.partition("=")[0].strip(), values, False)
    assert [type(value) for value in found.values] == [type(value) for value in values]


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("core_clock=1GHz..2GHz", (1e9, 2e9)),
        ("core_clock=1..2 GHz", (1e9, 2e9)),
        ("core_clock=0.8 .. 1.9 GHz", (8e8, 1.9e9)),
        ("sm_count=10..80", (10, 80)),
        ("l2.size=1..8 MiB", (2**20, 2**23)),
        ("launch.shared=0..4096", (0, 4096)),
    ],
)
def test_two_dots_make_a_continuous_range(text: str, ends: tuple[float, ...]) -> None:
    found = axis(text)
    assert (found.values, found.continuous) == (ends, True)
    assert [type(value) for value in found.values] == [type(value) for value in ends]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sm_count", "is not key=values"),
        ("=3", "is not key=values"),
        ("sm_count=", "has no values"),
        ("sm_count=15,,20", "empty value"),
        ("sm_cout=15", 'did you mean "sm_count"?'),
        ("launch.blocks=15", 'did you mean "launch.block"?'),
        ("launch.arg.0=3", "is not an argument"),
        ("launch.arg.=3", "is not an argument"),
        ("sm_count=15:78:5", "does not reach its last value: it gives 75 and then 80"),
        ("l1.size=16KiB:100KiB:*2", "does not reach its last value: it gives 64 KiB and then 128 KiB"),
        ("sm_count=80:15:5", ": the first value is above the last"),
        ("sm_count=1:5", "is not a range"),
        ("sm_count=1:5:", "is not a range"),
        ("sm_count=1:2:3:4", "is not a range"),
        ("sm_count=1:5:0", "has a step of 0"),
        ("sm_count=1:5:-1", "is negative"),
        ("sm_count=1:5:0.5", "not a whole number"),
        ("sm_count=0:5:1", "must be at least 1"),
        ("sm_count=1:100000:1", "must be at most 65536"),
        ("sm_count=28,28", "has the value 28 twice"),
        ("core_clock=1GHz,1000MHz", "twice"),
        ("launch.block=128,128x1", "twice"),
        ("noc.bandwidth=500:1500:100", "has no unit"),
        ("noc.bandwidth=525,1050 GB/s", "has no unit"),
        ("l1.size=16KiB:64KiB:*2 KiB", "has a unit"),
        ("l1.size=16KiB:64KiB:*1", "never grows"),
        ("l1.size=16KiB:64KiB:*1e9999", "never grows"),
        ("dram.latency=0:100:*2 cycles", "never grows"),
        ("l1.mshrs=4:27:*1.5", "does not reach its last value: it gives 20.25 and then 30.375"),
        ("l1.mshrs=1:2.25:*1.5", "not a whole number"),
        ("l1.mshrs=2:9:*1.5", "does not reach its last value"),
        ("core_clock=1GHz:2GHz:1Hz", "1,000,000,001 values"),
        ("core_clock=2GHz..1GHz", "first value is not below its last"),
        ("sm_count=..5", "is not a range"),
        ("launch.block=1..5", "no continuous range"),
        ("sm.policy=gtoo", 'did you mean "gto"?'),
        ("sm.policy=lrr:gto:1", "is not known"),
        ("l1.write_allocate=yes", "is not true or false"),
        ("method.caches=exactly", 'did you mean "exact"?'),
        ("launch.block=0", "exceeds the launch limits"),
        ("launch.block=2048", "exceeds the launch limits"),
        ("launch.block=64x64", "4,096 threads, above CUDA's limit"),
        ("launch.block=1x2x3x4", "4 dimensions"),
        ("launch.block=TILE,ROWS", '"TILE" is an expression'),
        ("launch.grid=1x65536", "exceeds the launch limits"),
        ("launch.registers=256", "must be 1 to 255"),
        ("launch.shared=-1", "must be 0 to"),
        ("l1.size=48 KB", "is ambiguous"),
        ("core_clock=nan", "not finite"),
    ],
)
def test_axis_that_cannot_be_meant_is_refused(text: str, words: str) -> None:
    assert words in refusal(text)


def test_values_of_a_list_have_each_its_own_place() -> None:
    with pytest.raises(WarpsightError) as caught:
        axis_of_list("l1.mshrs", [("32", "study.yaml:4"), ("many", "study.yaml:5")], "study.yaml:3")
    assert caught.value.place == "study.yaml:5"


def test_an_axis_holds_as_many_values_as_are_allowed_and_no_more() -> None:
    assert len(axis(f"l1.mshrs=1:{MOST_VALUES}:1").values) == MOST_VALUES
    with pytest.raises(UsageError, match="1,048,577 values"):
        axis(f"launch.shared=0:{MOST_VALUES}:1")


@pytest.mark.property
@given(st.integers(1, 400), st.integers(1, 50), st.integers(1, 40))
def test_range_of_steps_has_the_values_that_set_would_give_one_by_one(first: int, step: int, count: int) -> None:
    last = first + step * (count - 1)
    for key, unit, scale in (("core_clock", "GHz", 100), ("noc.bandwidth", "GiB/s", 10), ("l2.latency", "cycles", 1)):
        first_text, last_text, step_text = (_decimal(number, scale) for number in (first, last, step))
        found = axis(f"{key}={first_text}:{last_text}:{step_text} {unit}").values
        one_by_one = [parse_value(KEYS[key], Text(f"{_decimal(first + i * step, scale)} {unit}", "")) for i in range(count)]
        assert list(found) == one_by_one


def _decimal(number: int, scale: int) -> str:
    whole, rest = divmod(number, scale)
    digits = len(str(scale)) - 1
    return f"{whole}.{rest:0{digits}d}" if digits else str(number)


@pytest.mark.property
@given(st.text(alphabet="0123456789.:,*xKiGBHz/s()=- ekmln_", max_size=30), st.sampled_from(["sm_count", "l1.size", "core_clock",
       "launch.block", "launch.shared", "launch.arg.1", "sm.policy", "l1.write_allocate"]))
def test_any_text_of_values_gives_an_axis_or_a_refusal(text: str, key: str) -> None:
    try:
        found = parse_axis(f"{key}={text}", "here")
    except WarpsightError as error:
        assert error.place == "here"
    else:
        assert len(set(found.values)) == len(found.values) > 0
