from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from warpsight.base.errors import UsageError, WarpsightError
from warpsight.kernels.launch import ArrayArgument
from warpsight.kernels.launch_file import prepare, read_launch_file
from warpsight.kernels.launch_template import can_be_elements

pytestmark = pytest.mark.unit

KERNEL = "__global__ void fill(float* p, const int* q, int n) { int i = threadIdx.x; if (i < n) p[i] = N + q[i]; }\n"
YAML = """\
# a launch
kernel: fill
source: k/fill.cu
grid: 4x2
block: [16, 8]
shared: 1Ki
args:
  - f32[1<<10]:uniform(-1,1)
  - "@q.npy"
  - 1024
arch: 80
defines: [N=3]
registers: 40
seed: 9
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "k").mkdir()
    (tmp_path / "k" / "fill.cu").write_text(KERNEL)
    np.save(tmp_path / "q.npy", np.arange(1024, dtype=np.int32))
    return tmp_path


def _write(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text)
    return folder / name


def test_yaml_launch_becomes_a_launch_with_all_its_keys(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = read_launch_file(_write(folder, "launch.yaml", YAML))
    assert (spec.kernel, spec.arch, spec.registers, spec.seed, spec.defines) == ("fill", "80", 40, 9, ("N=3",))
    monkeypatch.chdir("/")
    source, launch = prepare(spec)
    assert source.target == "sm_80"
    assert (launch.grid, launch.block, launch.shared_bytes) == ((4, 2, 1), (16, 8, 1), 1024)
    values, indices, _ = launch.arguments
    assert isinstance(values, ArrayArgument) and isinstance(indices, ArrayArgument)
    expected = np.random.default_rng((9, 0)).uniform(-1, 1, 1024).astype(np.float32)
    np.testing.assert_array_equal(values.array, expected)
    np.testing.assert_array_equal(indices.array, np.arange(1024))


@pytest.mark.parametrize(
    ("change", "line", "complaint"),
    [
        (("grid:", "gird:"), 4, 'gird is not a known key; did you mean "grid"'),
        (("seed: 9", "grid: 5"), 14, "grid is given twice, first in line 4"),
        (("registers: 40", "registers: forty"), 13, "not a whole number"),
        (("defines: [N=3]", "defines: N=3"), 12, "defines is not a list"),
        (("arch: 80", "arch: {a: 1}"), 11, "a mapping is not expected"),
        (("arch: 80", "arch: [80"), 12, "not YAML"),
        (("source: k/fill.cu", "source: [a, b]"), 3, "source is"),
    ],
)
def test_yaml_with_a_fault_names_its_line(folder: Path, change: tuple[str, str], line: int, complaint: str) -> None:
    path = _write(folder, "launch.yaml", YAML.replace(*change))
    with pytest.raises(WarpsightError, match=complaint) as caught:
        read_launch_file(path)
    assert caught.value.place == f"{path}:{line}"
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("change", "place", "complaint"),
    [
        (("grid: 4x2", "grid: 0"), "4: grid", "nothing would run"),
        (("grid: 4x2", "grid: 4,b"), "4: grid", "b is not known"),
        (("block: [16, 8]", "block: [64, 32]"), "5: block", "2,048 threads"),
        (("shared: 1Ki", "shared: -1"), "6: shared", "is negative"),
        (("f32[1<<10]:uniform", "f32[1<<10]:uniforn"), "7: argument 1 (f32[1<<10]:uniforn(-1,1))", 'did you mean "uniform"'),
        (("f32[1<<10]", "f64[1<<10]"), "7: argument 1 (f64[1<<10]:uniform(-1,1))", r"are f64, and the kernel declares float\* p"),
        (("  - 1024\n", ""), "7: arguments", "takes 3 argument"),
    ],
)
def test_launch_that_cannot_be_names_the_line_and_the_key(
    folder: Path, change: tuple[str, str], place: str, complaint: str
) -> None:
    path = _write(folder, "launch.yaml", YAML.replace(*change))
    with pytest.raises(UsageError, match=complaint) as caught:
        prepare(read_launch_file(path))
    assert caught.value.place == f"{path}:{place}"


# Sizes and kinds as in the CUDA C++ Programming Guide ("Built-in Vector Types"): float4 is four floats, a half has 16 bits.
@pytest.mark.parametrize(
    ("elements", "declared", "fit"),
    [
        ("float32", "const float*", True), ("float64", "float*", False), ("int32", "float*", False), ("float32", "int*", False),
        ("uint32", "int*", True), ("int64", "int*", False), ("float32", "float4*", True), ("float64", "float4*", False),
        ("complex64", "float2*", True), ("uint16", "__half*", True), ("float16", "__half*", True), ("float32", "__half*", False),
        ("uint8", "double*", True), ("float64", "void*", True), ("float64", "unsigned char*", True), ("float64", "real*", False),
        ("float32", "real*", True), ("float64", "body*", True), ("uint64", "float**", True), ("float64", "int", True),
    ],
)  # fmt: skip
def test_elements_of_an_array_are_of_the_declared_type(elements: str, declared: str, fit: bool) -> None:
    assert can_be_elements(np.dtype(elements), declared, "typedef float real;\nstruct body { double mass; };\n") == fit


@pytest.mark.parametrize(
    ("text", "complaint"),
    [("", "is empty"), ("- a\n", "is not a mapping of keys"), ("grid: 1\nblock: 1\n", "source is missing"),
     ("grid:\n", "source is missing")],
)
def test_yaml_that_is_no_launch_is_refused(folder: Path, text: str, complaint: str) -> None:
    with pytest.raises(WarpsightError, match=complaint):
        read_launch_file(_write(folder, "launch.yaml", text))


def test_python_file_with_names_at_its_top_level_is_a_launch(folder: Path) -> None:
    text = (
        "import numpy as np\nsource = 'k/fill.cu'\nn = 64\ngrid, block = 1, (n, 1)\ndefines = ['N=1']\n"
        "args = [np.zeros(n, np.float32), np.arange(n, dtype=np.int32), n]\n"
    )
    _, launch = prepare(read_launch_file(_write(folder, "launch.py", text)))
    assert launch.block == (64, 1, 1)
    assert launch.kernel == "_Z4fillPfPKii"


def test_python_file_imports_what_lies_beside_it_and_changes_no_path(folder: Path) -> None:
    (folder / "sizes_of_mine.py").write_text("BLOCKS = 7\n")
    (folder / "l.py").write_text("from sizes_of_mine import BLOCKS\nsource, grid, block, args = 'k.cu', BLOCKS, 32, [1]\n")
    before = list(sys.path)
    assert read_launch_file(folder / "l.py").grid == 7
    assert sys.path == before


def test_python_file_with_a_function_is_a_launch(folder: Path) -> None:
    text = (
        "def launch():\n    args = ['f32[64]:zeros', '@q.npy', 64]\n"
        "    return dict(source='k/fill.cu', grid=2, block=32, args=args, defines=['N=1'])\n"
    )
    _, launch = prepare(read_launch_file(_write(folder, "launch.py", text)))
    assert launch.grid == (2, 1, 1)


@pytest.mark.parametrize(
    ("text", "line", "complaint"),
    [
        ("x = 1\ny = 1 / 0\n", ":2", "ZeroDivisionError"),
        ("grid = (\n", ":1", "SyntaxError"),
        ("def launch():\n    return undefined\n", ":2", "NameError"),
        ("def launch():\n    return 5\n", "", "returned a int"),
        ("def launch():\n    return dict(source='a', grid=1, blok=1)\n", "", 'blok is not a known key; did you mean "block"'),
        ("source = 'k/fill.cu'\ngird = 1\nblock = 1\n", "", 'nor grid is defined; did you mean "gird"'),
        ("import sys\nsys.exit(3)\n", ":2", "SystemExit"),
        ("import no_such_package.part\n", ":1", "pip install no_such_package`"),
        ("source, grid, block, args = 'a', 1, 1, 'f32'\n", ": args", "args is not a list"),
    ],
)
def test_python_file_with_a_fault_is_one_error(folder: Path, text: str, line: str, complaint: str) -> None:
    path = _write(folder, "launch.py", text)
    with pytest.raises(UsageError, match=complaint) as caught:
        read_launch_file(path)
    assert caught.value.place == f"{path}{line}"


def test_launch_file_that_is_not_there_or_of_another_kind_is_refused(folder: Path) -> None:
    with pytest.raises(UsageError, match="no such launch file"):
        read_launch_file(folder / "none.yaml")
    with pytest.raises(UsageError, match="is not a launch file"):
        read_launch_file(_write(folder, "launch.toml", "x"))
