from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import pytest

from warpsight.base.errors import FormatError, UsageError, WarpsightError
from warpsight.kernels.launch import KernelSource
from warpsight.kernels.mangling import display_name
from warpsight.kernels.sources import find_kernel, load_source

pytestmark = pytest.mark.unit


def _stdin(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_load_source_of_the_reference_kernels_finds_all_fifteen(reference: KernelSource) -> None:
    assert reference.target == "sm_75"
    assert len(reference.module.kernels) == 15
    assert find_kernel(reference, "spmv_csr") == "_Z8spmv_csrPKiS0_PKfS2_Pfi"


def test_load_source_keeps_the_source_lines(reference: KernelSource, shared: Path) -> None:
    kernel = reference.module.kernels[find_kernel(reference, "gather")]
    wanted = (shared / "reference" / "kernels" / "kernels.cu").read_text().splitlines().index(
        "  if (i < n) out[i] = in[index[i]];"
    ) + 1
    loads = [instruction for instruction in kernel.instructions if instruction.text.startswith("ld.global")]
    assert [load.line for load in loads] == [wanted, wanted]
    assert all(load.file.endswith("kernels.cu") for load in loads)


def test_load_source_of_ptx_equals_the_compiled_cuda_by_path_text_and_standard_input(
    small: KernelSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "small.ptx").write_text(small.ptx)
    _stdin(monkeypatch, small.ptx.encode() + b"\0")
    for source in (load_source(tmp_path / "small.ptx"), load_source(small.ptx), load_source("-")):
        assert list(source.module.kernels) == list(small.module.kernels)
    assert source.path == "<stdin>"


def test_load_source_of_cuda_on_standard_input_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    _stdin(monkeypatch, b"__global__ void one(int* p) { *p = 1; }\n")
    assert find_kernel(load_source("-", arch="sm_80")) == "_Z3onePi"


@pytest.mark.parametrize(
    ("name", "data", "kind", "complaint"),
    [
        ("empty.cu", b"", FormatError, "is empty"),
        ("blank.ptx", b" \n\n", FormatError, "is empty"),
        ("binary.cu", b"abc\0def", FormatError, "binary file"),
        ("a.cubin", b"\x7fELF\2\1\1", FormatError, "is damaged"),
        ("latin.cu", b"// caf\xe9\n", FormatError, "not UTF-8"),
        ("words.txt", b"hello there\n", FormatError, "neither PTX"),
    ],
)
def test_load_source_of_a_file_that_is_no_kernel_names_it(
    name: str, data: bytes, kind: type[WarpsightError], complaint: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(kind, match=complaint) as caught:
        load_source(tmp_path / name)
    assert name in caught.value.place
    assert caught.value.exit_code == 2


def test_load_source_of_ptx_cut_anywhere_is_one_error_and_no_crash(small: KernelSource) -> None:
    whole = load_source(small.ptx)
    for cut in range(40, len(small.ptx), 397):
        text = small.ptx[:cut] + "\n"
        try:
            kernels = load_source(text).module.kernels
        except WarpsightError as error:
            assert error.place
        else:
            # A cut between two kernels leaves a whole, smaller module.
            assert set(kernels) < set(whole.module.kernels)


def test_load_source_of_a_missing_file_suggests_its_neighbour(tmp_path: Path) -> None:
    (tmp_path / "stencil.cu").write_text("x")
    with pytest.raises(UsageError, match=r'no such file; did you mean "stencil\.cu"'):
        load_source(tmp_path / "stenci.cu")
    with pytest.raises(UsageError, match="is a folder"):
        load_source(tmp_path)


@pytest.mark.parametrize("options", [{"arch": 80}, {"defines": ["N=1"]}, {"include_dirs": ["."]}])
def test_load_source_of_ptx_refuses_options_of_the_compiler(small: KernelSource, options: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="compiled already"):
        load_source(small.ptx, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ("saxpy", "saxpy"),
        ("_Z5saxpyfPKfPfix", "saxpy"),
        ("ns::mixed", "ns::mixed"),
        ("mixed", "ns::mixed"),
        ("copy", "ns::copy<ns::V3>"),
        ("copy<ns::V3>", "ns::copy<ns::V3>"),
        ("scale<float,3>", "scale<float, 3>"),
        ("scale<unsigned int, 7>", "scale<unsigned int, 7>"),
    ],
)
def test_find_kernel_by_any_name_that_means_one(small: KernelSource, asked: str, shown: str) -> None:
    assert display_name(find_kernel(small, asked)) == shown


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        (None, "there are 6 kernels in it: "),
        ("scale", r"may mean 2 kernels: scale<float, 3>, scale<unsigned int, 7>"),
        ("saxpi", r'no kernel "saxpi"; did you mean "saxpy"'),
        ("zzz", 'no kernel "zzz"$'),
    ],
)
def test_find_kernel_that_is_unknown_or_ambiguous_lists_the_kernels(small: KernelSource, asked: str | None, complaint: str) -> None:
    with pytest.raises(UsageError) as caught:
        find_kernel(small, asked)
    assert re.search(complaint, caught.value.what)
    assert "scale<float, 3>" in str(caught.value)


def test_find_kernel_where_overloads_look_alike_lists_mangled_names() -> None:
    source = load_source("__global__ void f(int* p) { *p = 1; }\n__global__ void f(float* p) { *p = 1; }\n")
    with pytest.raises(UsageError, match=r"_Z1fPi, _Z1fPf|_Z1fPf, _Z1fPi"):
        find_kernel(source, "f")
    assert find_kernel(source, "_Z1fPf") == "_Z1fPf"


def test_templates_of_which_none_is_instantiated_are_named() -> None:
    with pytest.raises(UsageError, match="its kernels are templates, and none is instantiated: f") as raised:
        load_source("template <class T> __global__ void f(T* p) { *p = 1; }\n")
    assert "f<float>" in raised.value.remedy
