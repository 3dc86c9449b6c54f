"""Does `warpsight run` execute the Triton kernels of a Python script as it would on a GPU?"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from warpsight.cli.main import main

pytestmark = pytest.mark.unit
SCRIPT = """
import sys
import torch, triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.autotune(configs=[triton.Config({"BLOCK": size}, num_warps=1) for size in (32, 128)], key=["n"])
@triton.jit
def scaled(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)


@triton.jit
def through_addresses(addresses, n: tl.constexpr):
    x = tl.load(addresses).to(tl.pointer_type(tl.float32))
    y = tl.load(addresses + 1).to(tl.pointer_type(tl.float32))
    at = tl.arange(0, n)
    tl.store(y + at, tl.load(x + at) + 1)


device = triton.runtime.driver.active.get_active_torch_device()
x = torch.rand(100, device="cuda")
assert x.is_cuda and torch.cuda.get_device_capability() == (8, 0)
assert torch.empty(1, device=torch.cuda.current_device()).to(0).device.type == "cpu"
y = torch.zeros_like(x)[10:]
ms = triton.testing.do_bench(lambda: scaled[lambda meta: (triton.cdiv(90, meta["BLOCK"]),)](x, y, 90))
assert torch.equal(y, 2 * x[:90]) and 0 < ms < 1
z = torch.zeros(64, device=device)
through_addresses[(1,)](torch.tensor([x.data_ptr(), z.data_ptr()], device="cuda"), 64)
assert torch.equal(z, x[:64] + 1)
print("all equal", sys.argv[1:])
sys.exit(3)
"""


def test_a_script_that_is_not_there_and_one_without_triton_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(tmp_path / "none.py")]) == 2
    assert "no such script" in capsys.readouterr().err
    if importlib.util.find_spec("triton") is None:
        (tmp_path / "some.py").write_text("import triton\n")
        assert main(["run", str(tmp_path / "some.py")]) == 2
        assert "triton is not installed" in capsys.readouterr().err


def test_a_module_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    for words, place in ((["-m", "no_such_module.x", "-v"], "-m no_such_module.x: no such module"), (["-m"], "-m: no such module")):
        assert main(["run", *words]) == 2
        assert place in capsys.readouterr().err


def test_a_module_runs_with_its_arguments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("triton")
    (tmp_path / "shown").mkdir()
    (tmp_path / "shown" / "__main__.py").write_text("import sys\nprint(sys.argv[1:], __name__)\nsys.exit(4)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    assert main(["run", "--gpu", "a100", "--level", "ptx", "-m", "shown", "-k", "x"]) == 4
    assert "['-k', 'x'] __main__" in capsys.readouterr().out


def test_a_script_sees_a_gpu_and_its_kernels_are_predicted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    assert main(["run", "--json", "--gpu", "a100", "--level", "ptx", str(path), "--size", "1"]) == 3
    shown = capsys.readouterr()
    assert "all equal ['--size', '1']" in shown.err
    document = json.loads(shown.out)[0] if shown.out.startswith("[") else json.loads(shown.out)
    rows = document["launches"]
    assert [row["kernel"] for row in rows] == ["scaled"] * 3 + ["through_addresses"]
    assert rows[2]["block"] == [32, 1, 1]
    assert all(row["seconds"] > 0 for row in rows)


def test_checks_do_not_watch_scripts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "some.py").write_text("")
    assert main(["run", "--check", str(tmp_path / "some.py")]) == 2
    assert "checks do not watch scripts" in capsys.readouterr().err
