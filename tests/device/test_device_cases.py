"""Does a case keep what is run and what came of it, and say where two implementations of PTX may differ?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import warpsight
from warpsight.base.errors import FormatError, UnsupportedError, UsageError
from warpsight.hardware.device.case import load_case, program_hash
from warpsight.hardware.device.measure import Settings, difference
from warpsight.hardware.device.prepare import case_identity, make_case, may_differ, prepare_cases
from warpsight.kernels.sources import load_source
from warpsight.pipeline.request import KernelRequest
from warpsight.pipeline.suites import Suite

pytestmark = pytest.mark.unit
Make = Callable[..., Suite]


def test_case_is_the_same_when_it_is_read_again(suite_of: Make, tmp_path: Path) -> None:
    case = make_case(suite_of("twice").kernel("twice").request(), "twice")
    case.save(tmp_path / "a.npz")
    again = load_case(tmp_path / "a.npz")
    told = {name: value for name, value in case.__dict__.items() if name != "parameters"}
    assert {name: getattr(again, name) for name in told} == told
    assert [p.data for p in again.parameters] == [None, None, None, (256).to_bytes(4, "little")]
    for ours, theirs in zip(case.parameters[:3], again.parameters[:3], strict=True):
        assert ours.expected.dtype == theirs.expected.dtype
        assert np.array_equal(ours.expected, theirs.expected)
    # x is only read; y and the count are written
    assert [p.after is None for p in again.parameters[:3]] == [True, False, False]
    x, y, _ = (p.expected for p in again.parameters[:3])
    assert np.array_equal(y, 2 * x)


def test_file_that_is_no_case_is_told(tmp_path: Path) -> None:
    (tmp_path / "text.npz").write_text("no archive")
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    np.savez(tmp_path / "schema.npz", case=np.frombuffer(b'{"schema": 99}', np.uint8))
    for name in ("text", "other", "schema"):
        with pytest.raises(FormatError, match=f"{name}.npz: is n"):
            load_case(tmp_path / f"{name}.npz")
    with pytest.raises(UsageError, match="cannot be read"):
        load_case(tmp_path / "missing.npz")


def test_damaged_case_is_told(suite_of: Make, tmp_path: Path) -> None:
    make_case(suite_of("twice").kernel("twice").request(), "twice").save(tmp_path / "a.npz")
    whole = (tmp_path / "a.npz").read_bytes()
    for end in range(0, len(whole), len(whole) // 40):
        (tmp_path / "b.npz").write_bytes(whole[:end])
        with pytest.raises((FormatError, UsageError)):
            load_case(tmp_path / "b.npz")


def test_program_hash_is_of_instructions_and_not_of_where_the_source_lies() -> None:
    ptx = '//\n// Compiler\n.version 9.0\n.file\t1 "/a/kernel.cu"\n.entry k()\n{\n.loc\t1 3 5\nret;\n}\n'
    moved = ptx.replace("/a/", "/home/b/").replace("1 3 5", "1 7 5")
    assert program_hash("k", ptx) == program_hash("k", moved)
    assert program_hash("k", ptx) != program_hash("k", ptx.replace("ret", "exit"))
    assert program_hash("k", ptx) != program_hash("l", ptx)


def test_identity_of_a_kernel_is_that_of_its_case(suite_of: Make) -> None:
    request = suite_of("twice").kernel("twice").request()
    assert case_identity(request) == make_case(request, "twice").program


def test_cases_are_made_side_by_side_and_reasons_are_kept(suite_of: Make, tmp_path: Path) -> None:
    suite = suite_of("twice", "tenth")
    requests = [(kernel.name, kernel.request()) for kernel in suite] + [("none", KernelRequest(path=str(tmp_path / "none.yaml")))]
    told: list[str] = []
    failed = prepare_cases(requests, tmp_path / "cases", processes=2, log=told.append)
    assert list(failed) == ["none"]
    assert "none.yaml" in failed["none"]
    assert sorted(path.stem for path in (tmp_path / "cases").iterdir()) == ["tenth", "twice"]
    assert sum("emulated" in line for line in told) == 2


def test_textures_and_cooperative_grids_are_refused() -> None:
    fetch = """__global__ void f(cudaTextureObject_t t, float* y) { y[threadIdx.x] = tex2D<float>(t, 0.f, 0.f); }"""
    texture = warpsight.Texture(np.zeros((4, 4), np.float32))
    request = KernelRequest(path=f"{fetch}\n", grid=1, block=32, args=(texture, np.zeros(32, np.float32)))
    with pytest.raises(UnsupportedError, match="has textures or surfaces"):
        make_case(request, "f")
    grid = """#include <cooperative_groups.h>
__global__ void g(int* y) { cooperative_groups::this_grid().sync(); y[0] = 1; }"""
    with pytest.raises(UnsupportedError, match="synchronizes its grid"):
        make_case(KernelRequest(path=f"{grid}\n", grid=1, block=32, args=(np.zeros(1, np.int32),)), "g")


def test_instructions_that_may_differ_are_named_by_why() -> None:
    text = """extern "C" __global__ void k(float* x, int* n) {
  float v = x[threadIdx.x];
  x[threadIdx.x] = __sinf(v) + __fmul_rn(v, v);
  atomicAdd(x, v);
  n[atomicAdd(n, 1)] = 1;
}
"""
    found = may_differ(load_source(text), "k")
    # the first atomic adds floats; a product that says how it is rounded is never part of a sum
    assert found == {"approximate": ["sin.approx.f32"], "order of atomics": ["atom.global.add.f32", "atom.global.add.u32"]}
    whole = 'extern "C" __global__ void k(int* n) { n[threadIdx.x] += 3; }\n'
    assert may_differ(load_source(whole), "k") == {}


PTX = """.version 8.0
.target sm_75
.address_size 64
.visible .entry k(.param .u64 p) {{
  .reg .f32 %f<4>;
  .reg .u64 %d<2>;
  .reg .u32 %r<4>;
  ld.param.u64 %d1, [p];
  ld.global.f32 %f1, [%d1];
  {product} %f2, %f1, %f1;
  {sum} %f3, %f2, %f1;
  atom.global.add.u32 %r1, [%d1+4], {added};
  st.global.f32 [%d1], %f3;
  ret;
}}
"""


@pytest.mark.parametrize(
    ("product", "total", "added", "expected"),
    [
        ("mul.f32", "add.f32", "1", {"may be fused": ["add.f32", "mul.f32"]}),
        ("mul.rn.f32", "add.f32", "1", {}),
        ("mul.f32", "sub.rn.f32", "1", {}),
        ("mul.rn.f32", "add.rn.f32", "%r1", {"order of atomics": ["atom.global.add.u32"]}),
    ],
)
def test_only_what_can_differ_is_named(product: str, total: str, added: str, expected: dict[str, list[str]]) -> None:
    assert may_differ(load_source(PTX.format(product=product, sum=total, added=added)), "k") == expected


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(UsageError, match="runs: 0 is out of range"):
        Settings(runs=0)
    with pytest.raises(UsageError, match="hold_microseconds: 5 is out of range"):
        Settings(hold_microseconds=5)


@pytest.mark.parametrize(
    ("dtype", "found", "expected", "ulp"),
    [
        ("f4", 1.0, np.nextafter(np.float32(1), np.float32(2)), 1),
        ("f4", 1.0, np.nextafter(np.float32(1), np.float32(0)), 1),
        ("f4", np.float32(2**-149), -np.float32(2**-149), 3),  # over +0 and -0
        ("f8", 1.0, 1.0 + 3 * 2.0**-52, 3),
        ("f2", 1.0, 1.0 + 2.0**-10, 1),
        ("f4", 0.0, -0.0, 1),
    ],
)
def test_distance_of_floats_is_in_units_of_the_last_place(dtype: str, found: float, expected: float, ulp: int) -> None:
    row = difference(np.array([5, found], dtype), np.array([5, expected], dtype))
    assert (row["elements"], row["differing"], row["largest_ulp"], row["first"]["index"]) == (2, 1, ulp, 1)


def test_nan_is_equal_to_its_own_bits_alone() -> None:
    quiet = np.array([0x7FC00000, 0x7FC00001], np.uint32).view(np.float32)
    assert difference(quiet, quiet.copy())["differing"] == 0
    row = difference(quiet, np.array([np.nan, 1.0], np.float32))
    assert (row["differing"], row["not_numbers"], row["largest_ulp"]) == (1, 1, None)


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=20), st.lists(st.integers(0, 2**32 - 1), min_size=20, max_size=20))
def test_differing_elements_are_those_of_other_bits(left: list[int], right: list[int]) -> None:
    right = right[: len(left)]
    row = difference(np.array(left, np.uint32).view(np.float32), np.array(right, np.uint32).view(np.float32))
    assert row["differing"] == sum(a != b for a, b in zip(left, right, strict=True))


def test_elements_that_are_no_numbers_are_compared_as_bytes() -> None:
    pair = np.dtype([("a", "i4"), ("b", "f4")])
    one, other = np.zeros(3, pair), np.zeros(3, pair)
    other["a"][1] = 256
    assert difference(one, other) | {"first": None} == {
        "elements": 24, "differing": 1, "largest_ulp": None, "not_numbers": 0, "first": None,
    }  # fmt: skip
