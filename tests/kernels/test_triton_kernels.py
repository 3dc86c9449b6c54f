"""Are Triton kernels compiled and launched as Triton's own launcher would, without its driver?"""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpsight
from warpsight.base.errors import CompileError, LaunchFault, UnsupportedError, UsageError
from warpsight.kernels.triton_driver import DeviceArray
from warpsight.kernels.triton_kernel import configurations
from warpsight.pipeline.kernel_input import prepare
from warpsight.pipeline.request import KernelRequest

samples = pytest.importorskip("triton_samples")
pytestmark = pytest.mark.unit
F32 = np.float32


def traced(kernel: Any, grid: Any, args: Any, **options: Any) -> Any:
    constants = {key: options.pop(key) for key in list(options) if key.isupper() or key.startswith("num_") or key == "maxnreg"}
    return warpsight.trace(kernel, grid=grid, args=args, constants=constants, **options)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int32, np.int64, np.uint8])
@pytest.mark.parametrize("n", [1000, 1024, 1])
def test_vectors_add_for_sizes_that_are_specialised_and_not(dtype: Any, n: int) -> None:
    rng = np.random.default_rng(n)
    x, y, out = rng.integers(0, 50, 1024).astype(dtype), rng.integers(0, 50, 1024).astype(dtype), np.zeros(1024, dtype)
    trace = traced(samples.add, (8,), [x, y, out, n, 2], BLOCK=128, num_warps=2)
    assert out.tolist() == np.where(np.arange(1024) < n, x * 2 + y, 0).astype(dtype).tolist()
    assert (trace.header.block, trace.header.kernel) == ((64, 1, 1), "add")


def test_compiled_kernels_go_without_a_complaint_where_triton_has_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr("sys.unraisablehook", lambda raised: said.append(repr(raised.exc_value)))
    out = np.zeros(32, np.int32)
    traced(samples.plain, 1, [out, 2], BLOCK=32)
    samples.plain.device_caches.clear()
    gc.collect()
    assert (out[1], said) == (3, [])


@pytest.mark.parametrize("scale", [1, 16, 3, -(2**31), 2**40, 1.5])
def test_scalars_have_the_type_that_their_value_asks_for(scale: float) -> None:
    kind = np.float32 if isinstance(scale, float) else np.int64
    x, y, out = np.arange(64).astype(kind), np.ones(64, kind), np.zeros(64, kind)
    traced(samples.add, 1, [x, y, out, 64, scale], BLOCK=64)
    assert out.tolist() == [k * scale + 1 for k in range(64)]


def test_reduction_uses_shared_memory_and_defaults_hold() -> None:
    x, out = np.random.default_rng(1).standard_normal((5, 300)).astype(F32), np.zeros(5, F32)
    trace = traced(samples.sums, 5, [x, out, 5, 300], BLOCK=512)
    np.testing.assert_allclose(out, x.sum(axis=1), rtol=1e-4, atol=1e-5)
    assert trace.header.dynamic_shared_bytes > 0
    traced(samples.sums, 5, [x, out, 5, 300], BLOCK=512, NEGATE=True)
    np.testing.assert_allclose(out, -x.sum(axis=1), rtol=1e-4, atol=1e-5)


def test_grid_as_a_function_sees_arguments_and_constants() -> None:
    x, y, out = np.ones(500, F32), np.ones(500, F32), np.zeros(500, F32)
    trace = traced(samples.add, lambda meta: (-(-meta["n"] // meta["BLOCK"]),), [x, y, out, 500, 1.0], BLOCK=64)
    assert trace.header.grid == (8, 1, 1)
    assert out.tolist() == [2.0] * 500


@pytest.mark.parametrize("n", [1, 16, 7])
def test_argument_that_is_not_specialised_is_passed(n: int) -> None:
    out = np.zeros(32, np.int32)
    traced(samples.plain, 1, [out, n], BLOCK=32)
    assert out.tolist() == [n + k for k in range(32)]


def test_heuristics_and_a_chosen_configuration_give_constants() -> None:
    x, out = np.arange(100, dtype=F32), np.zeros(100, F32)
    traced(samples.guided, 1, [x, out, 100])
    assert out.tolist() == (x * 2).tolist()
    numbers = np.zeros(128, np.int32)
    with pytest.raises(UsageError, match=r"2 configurations: 1 \(BLOCK=64, num_warps=2.*; 2 \(BLOCK=128"):
        prepare(KernelRequest(samples.tuned, grid=2, args=(numbers, 100)))
    traced(samples.tuned, 2, [numbers, 100], BLOCK=64, num_warps=2)
    assert numbers.tolist() == [k if k < 100 else 0 for k in range(128)]


@pytest.mark.parametrize("config", [1, "1", "BLOCK=64", "num_warps=2 , num_stages=3"])
def test_configuration_is_chosen_by_its_number_or_its_values(config: int | str) -> None:
    ready = prepare(KernelRequest(samples.tuned[(2,)], args=(np.zeros(128, np.int32), 100), config=config))
    assert (ready.launch.grid, ready.launch.block) == ((2, 1, 1), (64, 1, 1))


def test_kernel_and_launch_are_predicted_in_one_call() -> None:
    x, out = np.ones(64, F32), np.zeros(64, F32)
    found = warpsight.predict(samples.add[(2,)], "mdm-pascal", args=[x, x, out, 64, 1.0], constants={"BLOCK": 32, "num_warps": 1})
    trace = traced(samples.add, 2, [x, x, out, 64, 1.0], BLOCK=32, num_warps=1)
    assert found.cycles == warpsight.predict(trace, "mdm-pascal").cycles
    assert out.tolist() == [2.0] * 64


def test_choice_of_a_configuration_that_is_not_there_lists_them() -> None:
    args = (np.zeros(128, np.int32), 100)
    for kernel, config, words in (
        (samples.tuned, 3, r"no configuration 3; the kernel has 1 \(BLOCK=64.*; 2 \(BLOCK=128"),
        (samples.tuned, 0, "no configuration 0"),
        (samples.tuned, "num_warps=16", r"no configuration of the kernel has num_warps=16; it has 1 \(BLOCK=64"),
        (samples.tuned, "BLOCK", '"BLOCK" is not NAME=VALUE'),
        (samples.add, 1, "the kernel has no configurations"),
    ):
        with pytest.raises(UsageError, match=words):
            prepare(KernelRequest(kernel, grid=2, args=args, config=config))


def test_option_that_is_also_a_parameter_reaches_both() -> None:
    x, out = np.arange(128, dtype=F32), np.zeros(128, F32)
    traced(samples.staged, 2, [x, out, 32], BLOCK=32, num_stages=3, num_warps=1)
    assert out.tolist() == (x + 1).tolist()


def test_configurations_of_an_autotuned_kernel_are_those_that_its_pruning_leaves() -> None:
    out = np.zeros(64, np.int32)
    found = configurations(samples.pruned, [out, (1, 2), 64, 0])
    assert [each["BLOCK"] for each in found] == [32, 64]
    assert found[0] == {"BLOCK": 32, "num_warps": 1, "num_stages": 3, "num_ctas": 1, "maxnreg": 64}
    trace = traced(samples.pruned, lambda meta: (64 // meta["BLOCK"],), [out, (1, 2), 64, 0], **found[0])
    assert out.tolist() == [1 + 2 + 128 + 1] * 64
    assert (trace.header.grid, trace.header.block) == ((2, 1, 1), (32, 1, 1))
    assert configurations(samples.guided) == ()


@pytest.mark.parametrize("arch", ["80", "90"])
def test_tensor_descriptors_of_host_and_device_with_their_scratch(arch: str) -> None:
    descriptor = pytest.importorskip("triton.tools.tensor_descriptor").TensorDescriptor
    x, out = np.arange(256, dtype=F32).reshape(16, 16), np.zeros((16, 16), F32)
    host = descriptor(DeviceArray(x), [16, 16], [16, 1], [16, 16])
    traced(samples.transposed, 1, [host, out], N=16, num_warps=1, arch=arch)
    assert out.tolist() == x.T.tolist()


def test_clusters_are_launched_as_such() -> None:
    x, y, out = np.arange(512, dtype=F32), np.ones(512, F32), np.zeros(512, F32)
    trace = traced(samples.add, 2, [x, y, out, 512, 2], BLOCK=256, num_warps=2, num_ctas=2, arch="90")
    assert out.tolist() == (x * 2 + 1).tolist()
    assert trace.header.grid == (4, 1, 1)
    with pytest.raises(CompileError, match="num_ctas"):
        traced(samples.add, 2, [x, y, out, 512, 2], BLOCK=256, num_ctas=2, arch="80")


def test_arrays_with_the_same_memory_are_one_on_the_device() -> None:
    x = np.arange(64, dtype=F32)
    traced(samples.add, 1, [x, x, x, 64, 2], BLOCK=64, num_warps=1)
    assert x.tolist() == [3.0 * k for k in range(64)]


@pytest.mark.parametrize("arch", ["75", "80", "90"])
def test_kernel_is_compiled_for_the_architecture_asked_for(arch: str) -> None:
    x, out = np.ones((4, 64), F32), np.zeros(4, F32)
    trace = traced(samples.sums, 4, [x, out, 4, 64], BLOCK=64, arch=arch)
    assert out.tolist() == [64.0] * 4
    assert trace.header.target.startswith(f"sm_{arch}")


def test_array_by_rule_is_made() -> None:
    out = np.zeros(4, F32)
    traced(samples.sums, 4, ["f32[4,64]:ones", out, 4, 64], BLOCK=64)
    assert out.tolist() == [64.0] * 4


def test_access_past_an_array_names_the_source_line() -> None:
    with pytest.raises(LaunchFault, match="past the end of the array") as caught:
        traced(samples.sums, 4, [np.ones((3, 60), F32), np.zeros(4, F32), 4, 60], BLOCK=64)
    assert caught.value.details is not None
    assert caught.value.details.file.endswith("triton_samples.py")
    assert "total = tl.sum(tl.load(x" in Path(samples.__file__).read_text().splitlines()[caught.value.details.line - 1]


def test_what_cannot_be_passed_is_refused() -> None:
    out = np.zeros(4, F32)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"block": 32}, "fixes the threads"),
        ({"shared": 32}, "fixes the shared memory"),
        ({"OTHER": 1}, 'no parameter "OTHER"'),
        ({"args": [out]}, 'needs a value for "out"'),
        ({"args": [out] * 9}, "takes 5 argument"),
        ({"args": [object(), out, 4, 64]}, "cannot be passed"),
        ({"args": [out.astype(complex), out, 4, 64]}, "no arrays of complex"),
        ({"args": ["i32:4", out, 4, 64]}, "scalar given as text"),
        ({"grid": None}, "missing"),
    ]
    for change, words in cases:
        given = {"grid": 4, "args": [out, out, 4, 64], "BLOCK": 64, **change}
        with pytest.raises((UsageError, UnsupportedError), match=words):
            traced(samples.sums, given.pop("grid"), given.pop("args"), **given)


def test_kernel_that_triton_refuses_is_a_compile_error() -> None:
    with pytest.raises(CompileError, match="Triton cannot compile wrong") as caught:
        traced(samples.wrong, 1, [np.zeros(4, F32)])
    name, _, line = caught.value.place.rpartition(":")
    assert name.endswith("triton_samples.py")
    assert "no_such_thing" in Path(name).read_text().splitlines()[int(line) - 1]


def test_autotuned_kernel_is_launched_with_the_configuration_that_tune_ranks_first(tmp_path: Path) -> None:
    numbers = np.zeros(256, np.int32)
    grid = "cdiv(n, BLOCK)"
    found = warpsight.tune(samples.tuned, gpu="a100", grid=grid, args=[numbers, 200], level="ptx", results=tmp_path)
    assert [row["results"] for row in found.rows] == ["default", "same"] or found.rows[1]["default"]
    assert found.best is not None
    assert sorted(row["number"] for row in found.rows) == [1, 2]
    trace = warpsight.trace(samples.tuned, grid=grid, args=[numbers, 200], gpu="a100", level="ptx")
    assert list(trace.header.grid) == found.best["grid"]
    assert list(prepare(KernelRequest(samples.tuned, grid=grid, args=(numbers, 200), config=found.best["number"])).launch.grid) \
        == found.best["grid"]
    assert numbers.tolist() == [k if k < 200 else 0 for k in range(256)]


def test_launch_file_has_a_kernel_of_triton(tmp_path: Path) -> None:
    path = tmp_path / "launch.py"
    path.write_text(
        "import numpy as np\nfrom triton_samples import add as source\nx, grid = np.ones(64, np.float32), 'cdiv(n, BLOCK)'\n"
        "args, constants = [x, x, x.copy(), 64, 2.0], {'BLOCK': 16}\n"
    )
    assert warpsight.trace(path).header.grid == (4, 1, 1)
    assert warpsight.trace(path, constants=("BLOCK=32",)).header.grid == (2, 1, 1)  # type: ignore[arg-type]
    found = warpsight.tune(path, {"constant.BLOCK": [16, 32]}, "mdm-pascal", results=tmp_path / "kept")
    assert found.default["configuration"] == {"BLOCK": "16"}
