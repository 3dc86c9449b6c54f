"""What this installation can do, as documents: the instructions that are executed, and the tools and libraries that are found."""

from __future__ import annotations

import platform
import sys
from importlib import metadata
from typing import Any

_PACKAGES = ("llvmlite", "numba", "numpy", "pyarrow", "nvidia-cuda-nvrtc", "nvidia-cuda-runtime", "nvidia-nvjitlink")


def instruction_table() -> list[dict[str, Any]]:
    """A row for each PTX opcode, from the opcode table and the emulator's table of handlers.

    Keys: `opcode`, `op_class` (the class, or the rule that gives it), `access` (load, store, atomic or empty), `executed`, `what`,
    and `why_not` (empty if executed).
    """
    from warpsight.emulator.operations import CONTROL_OPCODES, HANDLERS
    from warpsight.isa.opcodes import OPCODES
    from warpsight.isa.refused import REFUSED

    rows = []
    for name, row in OPCODES.items():
        executed = name in HANDLERS or name in CONTROL_OPCODES
        rows.append(_row(name, row.rule, row.access, row.what, "" if executed else "not executed yet"))
    rows += [_row(name, "", "", why, "refused") for name, why in REFUSED.items()]
    return sorted(rows, key=lambda row: row["opcode"])


def native_table() -> list[dict[str, Any]]:
    """A row for each native opcode (SASS) of imported traces: `opcode`, `op_class`, `space`, `access`, `what`."""
    from warpsight.isa.sass.table import TABLE

    rows = [
        {"opcode": row.name, "op_class": row.op_class, "space": row.space, "access": row.access, "what": row.what}
        for row in TABLE.values()
    ]
    return sorted(rows, key=lambda row: row["opcode"])


def _row(opcode: str, op_class: str, access: str, what: str, why_not: str) -> dict[str, Any]:
    return {
        "opcode": opcode,
        "op_class": op_class,
        "access": access,
        "executed": not why_not,
        "what": what,
        "why_not": why_not,
    }


def environment() -> dict[str, Any]:
    """This machine and its tools: `python`, `machine`, `packages` (name to version or None), `tools` and `cache`."""
    import llvmlite.binding as llvm

    from warpsight._version import __version__
    from warpsight.base import diskcache
    from warpsight.workload.nvcc import find_nvcc

    features = llvm.get_host_cpu_features()
    vectors = next((name for name in ("avx512f", "avx2", "avx", "sse2", "neon") if features.get(name)), "none")
    folder = diskcache.folder()
    files = [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
    return {
        "warpsight": __version__,
        "python": sys.version.split()[0],
        "machine": f"{platform.system()} {platform.machine()}, {llvm.get_host_cpu_name()}, vectors: {vectors}",
        "packages": {name: _version(name) for name in _PACKAGES},
        "tools": {"nvcc": find_nvcc(), "C compiler": _c_compiler()},
        "cache": {"folder": str(folder), "files": len(files), "bytes": sum(path.stat().st_size for path in files)},
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _c_compiler() -> str | None:
    import shutil

    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
