"""Are Numba kernels run as Numba would run them, with arguments passed as it passes them?"""

from __future__ import annotations

import io
import warnings
from typing import Any

import numpy as np
import pytest

import warpsight
from warpsight.base.errors import CompileError, LaunchFault, UnsupportedError, UsageError

numba_samples = pytest.importorskip("numba_samples")
pytestmark = [pytest.mark.unit, pytest.mark.skipif(not numba_samples.compiles(), reason="Numba has no NVVM here")]
F32 = np.float32


def traced(kernel: Any, grid: Any, block: Any, *args: Any, **options: Any) -> Any:
    return warpsight.trace(kernel, grid=grid, block=block, args=args, **options)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, np.uint8])
def test_arrays_of_both_orders_scalars_and_tuples_arrive(order: Any, dtype: Any) -> None:
    a = np.asarray(np.arange(35).reshape(5, 7), dtype=dtype, order=order)
    out = np.zeros((5, 7), np.float64, order=order)
    for flag in (True, False):
        traced(numba_samples.mixes, (1, 1), (8, 8), a, np.int32(3), flag, 2 + 3j, (1.5, (np.int8(-4),)), out)
        value = a.astype(np.float64) * 3 + 1.5 + 4
        np.testing.assert_array_equal(out, value + 6 if flag else -value)


def test_three_dimensions_have_their_strides_and_read_only_arrays_stay() -> None:
    for order in ("C", "F"):
        a = np.asarray(np.arange(60).reshape(3, 4, 5), dtype=np.int64, order=order)  # type: ignore[call-overload]
        a.flags.writeable = False
        out = np.zeros(3, np.int64)
        traced(numba_samples.strides, 1, 32, a, out)
        weights = (np.arange(4) + 1)[:, None] * (np.arange(5) + 2)
        assert out.tolist() == (a * weights).sum(axis=(1, 2)).tolist()


def test_mathematical_functions_equal_numpy() -> None:
    x, out = np.linspace(-3, 3, 100), np.zeros(100)
    traced(numba_samples.computes, 4, 32, x, out)
    np.testing.assert_allclose(out, np.sin(x) + np.exp(x) ** 0.5 + np.sqrt(abs(x)), rtol=1e-12)


def test_launch_configuration_gives_grid_block_and_shared_memory() -> None:
    values, counts = np.random.default_rng(0).integers(0, 16, 1000).astype(np.int32), np.zeros(16, np.int32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        configured = numba_samples.histogram[3, 64, 0, 64]
    trace = warpsight.trace(configured, args=[values, counts])
    assert counts.tolist() == np.bincount(values, minlength=16).tolist()
    assert (trace.header.grid, trace.header.block, trace.header.dynamic_shared_bytes) == ((3, 1, 1), (64, 1, 1), 64)


def test_trace_names_the_kernel_and_its_source_lines() -> None:
    trace = traced(numba_samples.fills, 2, 32, np.zeros(50, F32))
    assert (trace.header.kernel, trace.header.source, trace.header.target) == ("fills", "fills (Numba)", "sm_75")
    assert any(row.file.endswith("numba_samples.py") and row.line > 0 for row in trace.instructions)
    assert traced(numba_samples.fills, 2, 32, np.zeros(50, F32), arch="sm_80").header.target == "sm_80"


def test_array_by_rule_has_its_type_and_shape() -> None:
    out = np.zeros((4, 6), np.float64)
    traced(numba_samples.mixes, 1, (4, 6), "f32[4,6]:ones", 2, True, 0j, (0.0, (0.0,)), out)
    assert out.tolist() == np.full((4, 6), 2.0).tolist()


def test_print_in_a_kernel_reaches_the_stream() -> None:
    output = io.StringIO()
    traced(numba_samples.prints, 1, 5, np.arange(5) * 0.5, output=output)
    assert [line.split()[:3] for line in output.getvalue().splitlines()] == [["thread", "1", "has"], ["thread", "3", "has"]]
    assert [float(line.split()[3]) for line in output.getvalue().splitlines()] == [0.5, 1.5]


def test_fields_of_record_arrays_are_read() -> None:
    points = np.zeros(40, np.dtype([("x", np.float32), ("n", np.int32)], align=True))
    points["x"], points["n"] = np.arange(40) / 4, np.arange(40)
    out = np.zeros(40, F32)
    traced(numba_samples.records, 2, 32, points, out)
    assert out.tolist() == (points["x"] + points["n"]).tolist()


def test_access_past_an_array_names_the_python_parameter_and_line() -> None:
    x, out = np.zeros(100, F32), np.zeros(100, F32)
    with pytest.raises(LaunchFault, match='0 bytes past the end of the array of parameter "past_the_end_x"') as caught:
        traced(numba_samples.past_the_end, 1, 100, x, out)
    details = caught.value.details
    assert details is not None
    assert details.file.endswith("numba_samples.py")
    assert details.thread == (99, 0, 0)


def test_arguments_that_do_not_fit_are_refused() -> None:
    out = np.zeros(8, F32)
    for args, words in (((), "takes 1 argument"), ((out, out), "takes 1 argument"), ((out[::2],), "contiguous"),
                        (("i32:5",), "scalar given as text")):  # fmt: skip
        with pytest.raises(UsageError, match=words):
            traced(numba_samples.fills, 1, 32, *args)
    for bad in (object(), "f32[4]:ones", {"a": 1}):
        with pytest.raises((CompileError, UnsupportedError, UsageError)):
            traced(numba_samples.strides, 1, 32, bad, out)
    with pytest.raises(UsageError, match="not compiled from CUDA"):
        traced(numba_samples.fills, 1, 32, out, defines=["A=1"])
    with pytest.raises(UsageError, match="only a Triton kernel"):
        traced(numba_samples.fills, 1, 32, out, constants={"A": 1})
    with pytest.raises(UsageError, match="missing: how many"):
        warpsight.trace(numba_samples.fills, args=[out])


def test_kernel_that_numba_refuses_is_a_compile_error_in_its_words() -> None:
    with pytest.raises(CompileError, match="no_such_thing") as caught:
        traced(numba_samples.wrong, 1, 32, np.zeros(8, F32))
    assert "numba_samples.py:" in caught.value.place
