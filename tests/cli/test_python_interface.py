"""Is the Python interface the same machine as the command line?"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from command_line import run

import warpsight
from warpsight.base.errors import UsageError
from warpsight.kernels.sources import load_source
from warpsight.pipeline.kernel_input import ptx_of

pytestmark = pytest.mark.unit


def test_trace_writes_numpy_arrays_back_as_a_gpu_would(saxpy: Path) -> None:
    x, y = np.arange(2000, dtype=np.float32), np.ones(2000, dtype=np.float32)
    trace = warpsight.trace(saxpy, kernel="saxpy", grid=(8,), block=(256,), args=[2.0, x, y, 2000])
    np.testing.assert_array_equal(y, 2 * np.arange(2000, dtype=np.float32) + 1)
    assert trace.header.kernel == "saxpy"
    assert trace.header.warps == 64


def test_predict_of_a_trace_is_what_the_command_prints(launch_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ours = warpsight.predict(warpsight.trace(launch_file), gpu="gpumech", model="gpumech", overrides=["sm_count=8"])
    printed = run(capsys, "predict", launch_file, "--gpu", "gpumech", "--model", "gpumech", "--set", "sm_count=8", "--json")
    document = json.loads(printed.out)
    assert document.pop("summary")["place"]["line"] > 0
    assert document == json.loads(json.dumps(ours.to_json()))


def test_trace_kept_in_a_folder_predicts_as_the_one_in_memory(launch_file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    warpsight.trace(launch_file, out=folder)
    in_memory = warpsight.predict(warpsight.trace(launch_file))
    for given in (folder, str(folder), warpsight.load_trace(folder)):
        assert warpsight.predict(given).cpi_stack == in_memory.cpi_stack


def test_profile_of_a_spec_object_is_that_of_its_name(launch_file: Path) -> None:
    trace = warpsight.trace(launch_file)
    by_name, by_spec = warpsight.profile(trace, "mdm-pascal"), warpsight.profile(trace, warpsight.load_gpu("mdm-pascal"))
    np.testing.assert_array_equal(by_name.stall_cycles, by_spec.stall_cycles)


def test_packages_trace_and_profile_stay_importable_and_callable() -> None:
    code = (
        "import warpsight.traces.schema as schema, warpsight\n"
        "from warpsight.intervals.interval_profile import CAUSES\n"
        "assert callable(warpsight.trace) and callable(warpsight.profile)\n"
        "assert warpsight.traces.schema is schema and CAUSES\n"
        "from warpsight import trace; assert trace is warpsight.trace\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_name_that_the_package_lacks_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="simulat"):
        warpsight.simulat  # noqa: B018


def test_every_public_name_is_there() -> None:
    assert all(hasattr(warpsight, name) for name in warpsight.__all__)


def test_compiled_kernels_of_python_compilers_give_their_ptx(saxpy: Path) -> None:
    ptx = load_source(saxpy).ptx
    numba = SimpleNamespace(inspect_asm=lambda: {("float32",): ptx})
    for compiled in (SimpleNamespace(asm={"ptx": ptx, "cubin": b""}), numba, (ptx, None)):
        assert ptx_of(compiled) == ptx
        x, y = np.ones(32, np.float32), np.zeros(32, np.float32)
        warpsight.trace(compiled, kernel="saxpy", grid=1, block=32, args=[3.0, x, y, 32])
        np.testing.assert_array_equal(y, np.full(32, 3, np.float32))


def test_object_without_ptx_is_refused() -> None:
    with pytest.raises(UsageError, match="an object of type dict contains no PTX"):
        warpsight.trace({}, grid=1, block=1)
    with pytest.raises(UsageError, match="not compiled for any signature"):
        warpsight.trace(SimpleNamespace(inspect_asm=dict), grid=1, block=1)
