"""What a case does: PTX is parsed, compiled and run on a small launch, as PTX or as machine code; a launch is read, checked and
run on a fixed kernel; machine code is decoded and run from its listing or its file; a trace is predicted; the server is asked.

A case is a file's bytes. A PTX case may say how it is launched in a comment, `// launch: {"grid": [2], "block": [64]}`, with the
keys grid, block, shared, check, threads, heap and stack. A launch case is a launch file in YAML, or, where it begins with `{`,
keyword arguments of `warpsight.trace` in JSON, in which `{"array": "f4", "shape": [8]}` and its like stand for Python objects
(see `_object`). A case of `listing` names a PTX file and an architecture in its first line, one of `cubin` is any file of machine
code, and those of `trace` and `serve` are bundles of files.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import json
import re
import shutil
import socket
import threading
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

from fuzzing.bundle import unpack

MAX_INSTRUCTIONS = 20_000
MOST_ELEMENTS = 1 << 20
_LAUNCH = re.compile(rb"^// launch: (\{.*\})", re.MULTILINE)
_RUNNING = ("max_instructions", "output")
SEEDS = Path(__file__).parent / "seeds"
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


def argument_for(parameter: Any) -> Any:
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
    arguments = [argument_for(parameter) for parameter in source.module.kernels[kernel].parameters] if kernel else []
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


# -- Machine code: its listing, and cubins, fat binaries and programs.


@functools.cache
def assembled(seed: str, architecture: int) -> Any:
    """The machine code of a PTX file of the seeds."""
    from warpsight.kernels.machine_code import machine_code
    from warpsight.kernels.sources import load_source
    from warpsight.kernels.toolkit import Architecture

    return machine_code(load_source(SEEDS / "ptx" / seed), Architecture(architecture))


def listing_of(seed: str, architecture: int) -> bytes:
    """A case of `listing`: of which seed and architecture it is, then the disassembler's text without that of the PTX."""
    text: str = assembled(seed, architecture).text
    return f"// {seed} {architecture}\n".encode() + text.partition(".section\t.nv_debug_ptx_txt")[0].encode()


def run_listing(case: bytes) -> set[str]:
    """Decode a listing, compile and run it, as if the disassembler had printed it for the seed that the first line names."""
    from warpsight.emulator.run import launch as emulator
    from warpsight.kernels import machine_code
    from warpsight.kernels.launch import RunOptions
    from warpsight.kernels.launch_check import make_launch
    from warpsight.kernels.registers import RegisterUse

    head, _, text = case.decode("latin-1").partition("\n")
    found = re.fullmatch(r"// ([\w-]+\.ptx) (\d+)", head)
    seed = found[1] if found and (SEEDS / "ptx" / found[1]).is_file() else "add-s32.ptx"
    number = int(found[2]) if found and int(found[2]) in ARCHITECTURES else ARCHITECTURES[0]
    code = replace(assembled(seed, number), text=text)
    source, kernel = code.source, next(iter(code.source.module.kernels))
    arguments = [argument_for(parameter) for parameter in source.module.kernels[kernel].parameters]
    launch = make_launch(source, kernel, 2, 64, arguments)
    with mock.patch.object(emulator, machine_code.machine_code.__name__, lambda *_: code):
        prepared = emulator.prepare_kernel(source, launch.kernel, architecture=code.architecture)
    options = RunOptions(1 << 16, io.StringIO(), stack_bytes=1024)
    use = RegisterUse(32, "estimate", 0)
    emulator.emulate(source, launch, registers=use, max_instructions=MAX_INSTRUCTIONS, options=options, prepared=prepared)
    return forms_of(prepared.function)


def run_cubin(case: bytes) -> set[str]:
    """Read a cubin, fat binary or program, and run its first kernel as machine code."""
    from warpsight.kernels.sources import load_source, own_architecture
    from warpsight.pipeline.kernel_input import prepare
    from warpsight.pipeline.request import KernelRequest
    from warpsight.pipeline.tracing import run_ready

    Path("case.cubin").write_bytes(case)
    architecture = own_architecture("case.cubin")
    source = load_source("case.cubin", native=architecture)
    kernel = next(iter(source.module.kernels), None)
    arguments = tuple(argument_for(parameter) for parameter in source.module.kernels[kernel].parameters) if kernel else ()
    request = KernelRequest(
        path="case.cubin", kernel=kernel, grid=2, block=64, args=arguments, level="sass", arch=architecture.real,
        max_instructions=MAX_INSTRUCTIONS, output=io.StringIO(),
    )  # fmt: skip
    run_ready(prepare(request))
    return set()


# -- Bundles of files (`bundle.py`): traces, and requests to the server.

TRACE = "trace"  # the folder of a trace's files


def _write(files: dict[str, bytes], folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, data in files.items():
        with contextlib.suppress(OSError):  # a name may be that of a file and of a folder
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)


def _repaired(files: dict[str, bytes]) -> None:
    """Give a damaged trace of our own the check sums that it should have, so that what is behind them is reached too."""
    from warpsight.traces import store_format

    try:
        header = json.loads(files[store_format.HEADER])
        for name, pieces in header["files"].items():
            pieces[-1][0] += len(files[name]) - sum(size for size, _ in pieces)
            at = 0
            for piece in pieces:
                piece[1] = zlib.crc32(files[name][at : at + piece[0]])
                at += piece[0]
        header["crc32"] = store_format._checksum(header)
        files[store_format.HEADER] = json.dumps(header).encode()
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
        pass  # it stays as it is


def run_trace(case: bytes) -> set[str]:
    """Read a trace of any format and predict it; one of our own in most cases with its check sums made right."""
    import warpsight
    from warpsight.traces.store_format import HEADER

    files = unpack(case)
    if HEADER in files and zlib.crc32(case) % 8:
        _repaired(files)
    _write(files, Path(TRACE))
    only = [name for name in files if "/" not in name]
    path = f"{TRACE}/{only[0]}" if len(files) == 1 and only else TRACE
    warpsight.predict(path, "rtx2060", caches_before="cold")
    return set()


class _Listening:
    """The explorer of the folder `results`, and the path of the report of its file `result.json`."""

    def __init__(self) -> None:
        import uvicorn

        from warpsight.explorer.project import Project
        from warpsight.explorer.results import Results
        from warpsight.explorer.runs import Runs
        from warpsight.explorer.server import Api, application
        from warpsight.explorer.worker import Limits

        Path(RESULTS).mkdir(exist_ok=True)
        folder = Path(RESULTS).resolve()
        listening = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = listening.getsockname()[1]
        project = Project(folder)
        api = Api(Results(folder), project, Runs(project, Limits()), "token")
        self.page = api.path_of("results", hashlib.sha256(b"result.json").hexdigest()[:16])
        config = uvicorn.Config(application(api, frozenset({f"localhost:{self.port}"})), log_level="critical", timeout_keep_alive=0)
        threading.Thread(target=uvicorn.Server(config).run, kwargs={"sockets": [listening]}, daemon=True).start()

    def ask(self, request: bytes, patience_s: float) -> bytes:
        """All that is answered to the bytes of a client that then says no more; what it has begun may never be answered."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=15) as connection:
            pieces = []
            with contextlib.suppress(OSError):
                connection.sendall(request.replace(b"PORT", str(self.port).encode()))
                connection.settimeout(patience_s)
                while piece := connection.recv(1 << 16):
                    pieces.append(piece)
        return b"".join(pieces)


RESULTS = "results"
_LISTENING: list[_Listening] = []  # one of a process
_UNFINISHED_S, _FINISHED_S = 0.3, 15.0


def run_serve(case: bytes) -> set[str]:
    """Send a request in bytes to the explorer of the other files, then ask for one of them; the status of each answer."""
    if not _LISTENING:
        _LISTENING.append(_Listening())
    files = unpack(case)
    request = files.pop("request", b"")
    _write(files, Path(RESULTS))
    asked = _LISTENING[0].ask(request, _UNFINISHED_S)
    shown = _LISTENING[0].ask(f"GET /{_LISTENING[0].page} HTTP/1.0\r\nHost: localhost:PORT\r\n\r\n".encode(), _FINISHED_S)
    statuses = [int(each) for each in re.findall(rb"^HTTP/1\.[01] (\d{3}) ", asked + b"\n" + shown, re.MULTILINE)]
    assert all(status < 500 for status in statuses), f"answered with {statuses}"
    assert re.match(rb"HTTP/1\.[01] (200|422) ", shown), f"the result is not shown: {shown[:200]!r}"
    return {f"status {status}" for status in statuses}


TARGETS = {
    "ptx": run_ptx, "sass": run_sass, "launch": run_launch, "listing": run_listing, "cubin": run_cubin, "trace": run_trace,
    "serve": run_serve,
}  # fmt: skip
MOST_BYTES = dict.fromkeys(TARGETS, 30_000) | dict.fromkeys(("listing", "cubin", "trace", "serve"), 200_000)
