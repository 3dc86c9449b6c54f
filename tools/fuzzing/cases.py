"""What a case does: PTX is parsed, compiled and run on a small launch, as PTX or as machine code; a launch is read, checked and
run on a fixed kernel.

A case is a file's bytes. A PTX case may say how it is launched in a comment, `// launch: {"grid": [2], "block": [64]}`, with the
keys grid, block, shared, check, threads, heap and stack. A launch case is a launch file in YAML, or, where it begins with `{`,
keyword arguments of `warpsight.trace` in JSON, in which `{"array": "f4", "shape": [8]}` and its like stand for Python objects
(see `_object`).
"""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

MAX_INSTRUCTIONS = 20_000
MAX_PTX_BYTES = 30_000
MOST_ELEMENTS = 1 << 20
_LAUNCH = re.compile(rb"^// launch: (\{.*\})", re.MULTILINE)
_RUNNING = ("max_instructions", "output")
KERNELS = "kernels.ptx"  # what launch cases launch, beside this module and beside the case while it runs


def forms_of(function: Any) -> set[str]:
    """The instructions of a function as written without their operands: what a case exercises beyond branches."""
    return {f"{each.text} {' '.join(type(operand).__name__ for operand in each.operands)}" for each in function.instructions}


def _launch_options(case: bytes) -> dict[str, Any]:
    found = _LAUNCH.search(case)
    try:
        given = json.loads(found[1]) if found else {}
    except ValueError:
        given = {}
    options = {"grid": 2, "block": 64, "shared": 0, "check": False, "threads": 1, "heap": 1 << 16, "stack": 1024}
    return options | {key: value for key, value in given.items() if key in options}


def _argument(parameter: Any) -> Any:
    """Something that a parameter takes, by its name and type."""
    import numpy as np

    from warpsight.kernels.arguments import takes_array
    from warpsight.kernels.images import Surface, Texture

    if takes_array(parameter):
        if parameter.name.startswith("tex"):
            return Texture(np.arange(64, dtype=np.float32).reshape(8, 8))
        if parameter.name.startswith("surf"):
            return Surface(np.arange(64, dtype=np.uint32).reshape(8, 8))
        return np.arange(1024, dtype=np.uint32)
    return bytes(k + 1 if k == 0 else 0 for k in range(parameter.size))


ARCHITECTURES = (75, 80, 86, 89, 90)


def run_sass(case: bytes) -> set[str]:
    """Assemble the first kernel of a PTX file for one of the architectures, and run it; its forms. Raises as `run_ptx`."""
    return run_ptx(case, ARCHITECTURES[len(case) % len(ARCHITECTURES)])


def run_ptx(case: bytes, architecture: int = 0) -> set[str]:
    """Parse, compile and run the first kernel of a PTX file; its forms. Raises WarpsightError for what cannot be.

    With an `architecture` it is assembled for that.
    """
    from warpsight.base.findings import WATCHING
    from warpsight.emulator.run.launch import emulate, prepare_kernel
    from warpsight.isa.ptx.inlining import inline_calls
    from warpsight.kernels.launch import RunOptions
    from warpsight.kernels.launch_check import make_launch
    from warpsight.kernels.registers import RegisterUse, declared_shared_bytes, estimate_registers
    from warpsight.kernels.sources import load_source
    from warpsight.kernels.toolkit import Architecture

    Path("case.ptx").write_bytes(case)
    given = _launch_options(case)
    source = load_source("case.ptx")
    kernel = next(iter(source.module.kernels), None)
    arguments = [_argument(parameter) for parameter in source.module.kernels[kernel].parameters] if kernel else []
    launch = make_launch(source, kernel, given["grid"], given["block"], arguments, shared=given["shared"])
    expanded = inline_calls(source.module, source.module.kernels[launch.kernel])
    use = RegisterUse(estimate_registers(expanded), "estimate", declared_shared_bytes(source.module, expanded))
    options = RunOptions(given["heap"], io.StringIO(), WATCHING if given["check"] else frozenset(), stack_bytes=given["stack"])
    wanted = Architecture(architecture) if architecture else None
    prepared = prepare_kernel(source, launch.kernel, architecture=wanted, checks=options.check)
    threads = 2 if given["threads"] == 2 else 1
    emulate(
        source, launch, registers=use, max_instructions=MAX_INSTRUCTIONS, threads=threads, options=options, prepared=prepared
    )
    return forms_of(prepared.function)


def _object(value: Any) -> Any:
    """Python's value for what JSON cannot say: arrays, NumPy scalars, bytes, textures, surfaces, files of arrays."""
    import numpy as np

    from warpsight.kernels.images import Surface, Texture

    if isinstance(value, list):
        return [_object(each) for each in value]
    if not isinstance(value, dict):
        return value
    try:
        if "array" in value:
            if np.prod(value["shape"], dtype=object) > MOST_ELEMENTS:
                return value
            array = np.zeros(value["shape"], np.dtype(value["array"]), order=value.get("order", "C"))
            array.flags.writeable = not value.get("readonly")
            return array
        if "scalar" in value:
            return np.dtype(value["scalar"]).type(value["value"])
        if "bytes" in value:
            return bytes.fromhex(value["bytes"])
        if "npy" in value:
            Path("array.npy").write_bytes(bytes.fromhex(value["npy"]))
            return "@array.npy"
    except (ValueError, TypeError, KeyError, OverflowError, MemoryError, SyntaxError, RecursionError):
        return value  # not an object of Python's either
    for name, kind in (("texture", Texture), ("surface", Surface)):
        if name in value and all(isinstance(key, str) for key in value):
            rest = {key: _object(each) for key, each in value.items() if key != name}
            known = {key: each for key, each in rest.items() if key in kind.__dataclass_fields__}
            return kind(_object(value[name]), **known)
    return value


def run_launch(case: bytes) -> set[str]:
    """Read a launch file, or take a launch from Python's side, and run it. Raises WarpsightError for what cannot be."""
    from warpsight.pipeline.kernel_input import prepare
    from warpsight.pipeline.request import KernelRequest
    from warpsight.pipeline.tracing import run_ready

    Path(KERNELS).write_bytes((Path(__file__).parent / KERNELS).read_bytes())
    given: dict[str, Any] = {"path": "case.yaml"}
    Path("case.yaml").write_bytes(case)
    if case.lstrip().startswith(b"{"):
        try:
            keys = json.loads(case)
        except ValueError:
            keys = {}
        known = [key for key in keys if key in KernelRequest.__dataclass_fields__ and key not in _RUNNING]
        given = {"path": KERNELS, "registers": 32} | {key: _object(keys[key]) for key in known}
        arguments: Any = given.get("args")
        given["args"] = tuple(arguments) if isinstance(arguments, list) else arguments
    ready = prepare(KernelRequest(**given, max_instructions=MAX_INSTRUCTIONS, output=io.StringIO()))
    run_ready(ready)
    return set()


TARGETS = {"ptx": run_ptx, "sass": run_sass, "launch": run_launch}
