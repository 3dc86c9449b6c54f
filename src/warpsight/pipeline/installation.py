"""What this installation can do, as documents: instructions, tools and libraries, performance models."""

from __future__ import annotations

import inspect
import platform
import shutil
import sys
from contextlib import suppress
from importlib import metadata
from typing import Any

import llvmlite.binding as llvm

from warpsight._version import __version__
from warpsight.base import diskcache
from warpsight.emulator.sass.instruction_set import is_executed
from warpsight.gpu.keys import parameters_of
from warpsight.isa.ptx.opcodes import OPCODES, REFUSED
from warpsight.isa.sass.decode import pipe_class
from warpsight.isa.sass.opcodes import TABLE
from warpsight.kernels.cuda import find_nvcc
from warpsight.models.base import components_of, get_model, model_names

_PACKAGES = (
    "llvmlite", "numba", "numpy", "pyarrow", "nvidia-cuda-nvrtc", "nvidia-cuda-runtime", "nvidia-cuda-nvcc",
    "nvidia-nvjitlink", "nvidia-cuda-nvdisasm",
)


def instruction_table() -> list[dict[str, Any]]:
    """A row for each PTX opcode, from the table of opcodes.

    Keys: `opcode`, `op_class` (the class, or the rule that gives it), `access` (load, store, atomic or empty), `executed`, `what`,
    and `why_not` (empty if executed).
    """
    rows = [_row(name, row.rule, row.access, row.what, "" if row.handler else "not executed yet") for name, row in OPCODES.items()]
    rows += [_row(name, "", "", why, "refused") for name, why in REFUSED.items()]
    return sorted(rows, key=lambda row: row["opcode"])


def native_table() -> list[dict[str, Any]]:
    """A row for each native opcode (SASS): `opcode`, `op_class`, `space`, `access`, `executed`, `what`.

    An opcode that is not executed is known in imported traces. The op class of one that is executed follows the pipe of Volta and
    later.
    """
    table = []
    for row in sorted(TABLE.values(), key=lambda row: row.name):
        base = row.name.partition(".")[0]
        executed = is_executed(base)
        op_class = pipe_class(base, row) if executed else row.op_class
        table.append({
            "opcode": row.name, "op_class": op_class, "space": row.space, "access": row.access, "executed": executed,
            "what": row.what,
        })  # fmt: skip
    return table


def _row(opcode: str, op_class: str, access: str, what: str, why_not: str) -> dict[str, Any]:
    return {"opcode": opcode, "op_class": op_class, "access": access, "executed": not why_not, "what": what, "why_not": why_not}


def environment() -> dict[str, Any]:
    """This machine and its tools: `python`, `machine`, `packages` (name to version or None), `tools` and `cache`."""
    features = llvm.get_host_cpu_features()
    vectors = next((name for name in ("avx512f", "avx2", "avx", "sse2", "neon") if features.get(name)), "none")
    folder = diskcache.folder()
    sizes = []
    for path in folder.rglob("*") if folder.is_dir() else ():
        with suppress(OSError):  # another process has removed it meanwhile
            if path.is_file():
                sizes.append(path.stat().st_size)
    return {
        "warpsight": __version__,
        "python": sys.version.split()[0],
        "machine": f"{platform.system()} {platform.machine()}, {llvm.get_host_cpu_name()}, vectors: {vectors}",
        "packages": {name: _version(name) for name in _PACKAGES},
        "tools": {"nvcc": find_nvcc(), "C compiler": shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")},
        "cache": {"folder": str(folder), "files": len(sizes), "bytes": sum(sizes)},
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def list_models() -> list[dict[str, Any]]:
    """Every model by name. Raises `UsageError` if a plug-in cannot be loaded."""
    return [describe_model(name) for name in model_names()]


def own_models() -> list[dict[str, Any]]:
    """The models that come with Warpsight, by name."""
    return [describe_model(name) for name in model_names() if type(get_model(name)).__module__.startswith("warpsight.models.")]


def describe_model(name: str) -> dict[str, Any]:
    """What a reader must know of a model: title, source, equations, needs, assumptions, where it fails, its stack, the citation.

    `stack` names the components of the CPI stack that can be other than zero; `meanings` and `by_component` give the meaning and
    the equation of each. Raises `UsageError` for an unknown name.
    """
    model = get_model(name)
    about, components = model.about, components_of(model)
    description = about.description or inspect.cleandoc(type(model).__doc__ or "")
    return {
        "name": name, "title": model.title, "source": model.source, "description": " ".join(description.split()),
        "equations": list(about.equations), "needs": sorted(model.needs),
        "parameters": [
            {"name": key.name, "kind": key.kind, "default": key.default, "meaning": key.meaning}
            for key in parameters_of(name).values()
        ],
        "assumptions": list(about.assumptions), "fails": list(about.fails), "stack": list(about.stack),
        "meanings": {component: components[component].meaning for component in about.stack},
        "by_component": dict(about.by_component), "citation": about.citation,
    }
