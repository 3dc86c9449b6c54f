"""Does the driver in Triton's place give what each version of Triton asks for? Triton itself is not needed."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from warpsight.kernels.triton_driver import _ptx_backend, _Utilities

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("newest", [False, True])
def test_loading_a_kernel_gives_as_many_values_as_triton_unpacks(newest: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def older(self: Any) -> None:
        self.n_regs = 0

    def newer(self: Any) -> None:
        self.n_regs, self.n_max_threads = 0, 0

    module = ModuleType("triton.compiler.compiler")
    module.CompiledKernel = type("CompiledKernel", (), {"_init_handles": newer if newest else older})  # type: ignore[attr-defined]
    for name in ("triton", "triton.compiler"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    device: Any = SimpleNamespace(registers=lambda ptx, name: 24)
    assert _Utilities(device).load_binary("k", b"ptx", 0, 0) == ("ptx", "ptx", 24, 0, *((1024,) if newest else ()))


def test_options_are_read_by_the_module_of_the_backend_whatever_its_name() -> None:
    """Triton 3.3 loads its backend as a module `nvidia`, which packages of NVIDIA are called, too."""

    @dataclass(frozen=True)
    class Options:
        ptx_version: int

    names: dict[str, Any] = {"__name__": "nvidia", "Options": Options}
    exec(
        "def get_ptx_version_from_options(options, arch): return 10 * arch\n"
        "class Backend:\n"
        "    target = type('Target', (), {'arch': 7})\n"
        "    def parse_options(self, given): return Options(0)\n"
        "    def hash(self): return 'h'\n",
        names,
    )
    backend = _ptx_backend(names["Backend"])()
    assert backend.parse_options({}).ptx_version == 70
    assert backend.hash() == "warpsight-h"
