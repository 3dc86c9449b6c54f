"""Imported by Python as it starts, in a process of `warpsight run`: `cuda.bindings.runtime` calls Warpsight's runtime library, and
for PyTorch of the CPU `cuda` means the CPU (`cpu_as_cuda.py`).

NVIDIA's runtime is part of the package's extension module, which is stripped, so that `static_runtime.c` cannot replace it. Cython
publishes the C functions of a module to other modules, by name (`__pyx_capi__`): here they become Warpsight's functions of these
names, before another module has read them.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

_FOLDER = os.path.dirname(os.path.abspath(__file__))
_LIBRARIES = os.environ.get("WARPSIGHT_LIBRARIES")
# The modules that the runtime is linked into, of several versions; `ptds`: for default streams per thread.
_MODULES = ("cuda.bindings._internal.runtime", "cuda.bindings._internal.runtime_ptds", "cuda.bindings._bindings.cyruntime")


class _Runtime(Loader):
    """Loads the module as it would be loaded, and replaces its functions."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        functions = getattr(module, "__pyx_capi__", {})
        version = getattr(sys.modules.get("cuda.bindings"), "__version__", "13").partition(".")[0]
        runtime = ctypes.CDLL(os.path.join(_LIBRARIES or "", f"libcudart.so.{version}"))
        name_of, make = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_New
        name_of.restype, name_of.argtypes = ctypes.c_void_p, [ctypes.py_object]
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
        for name, old in list(functions.items()):
            ours = getattr(runtime, name.removeprefix("_"), None) if name.startswith("_cuda") else None
            if ours is not None:  # the name of a capsule is the function's signature, and lasts as long as the module
                functions[name] = make(ctypes.cast(ours, ctypes.c_void_p), name_of(old), None)


class _Torch(_Runtime):
    """Loads PyTorch, and changes it where it is of the CPU."""

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        if module.version.cuda is None and module.version.hip is None:
            spec = importlib.util.spec_from_file_location("_warpsight_cpu_as_cuda", os.path.join(_FOLDER, "cpu_as_cuda.py"))
            if spec is not None and spec.loader is not None:
                changes = importlib.util.module_from_spec(spec)
                spec.loader.exec_module(changes)
                changes.install(module, _LIBRARIES)


class _Finder(MetaPathFinder):
    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        loader = _Torch if fullname == "torch" else _Runtime if fullname in _MODULES else None
        spec = PathFinder.find_spec(fullname, path, target) if loader else None
        if loader and spec is not None and spec.loader is not None:
            spec.loader = loader(spec.loader)
        return spec


def _import_hidden() -> None:
    """The `sitecustomize` that this one stands before, if there is one."""
    places = [place for place in sys.path if os.path.abspath(place) != _FOLDER]
    spec = PathFinder.find_spec("sitecustomize", places)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


if _LIBRARIES:
    sys.meta_path.insert(0, _Finder())
with contextlib.suppress(ImportError):
    _import_hidden()
