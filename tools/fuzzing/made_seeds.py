"""Seeds that are made when a search begins, from those that are PTX: machine code in its forms, traces, results to be served."""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from fuzzing.bundle import pack
from fuzzing.cases import ARCHITECTURES, SEEDS, argument_for, assembled, listing_of, run_trace
from warpsight.base.errors import WarpsightError

_TESTS = Path(__file__).resolve().parents[2] / "tests"
_CODE = ("calls.ptx", "textures.ptx", "runtime.ptx", "kernel-5.ptx", "kernel-9.ptx", "bar-sync.ptx", "brx-idx.ptx", "atomics.ptx")
_TRACED = ("kernel-5.ptx", "bar-sync.ptx", "atomics.ptx", "ld-global-nc-u32.ptx")
_REQUESTS = (
    b"GET / HTTP/1.1\r\nHost: localhost:PORT\r\n\r\n", b"HEAD / HTTP/1.0\r\nHost: 127.0.0.1:PORT\r\n\r\n", b"GET /\r\n",
    b"GET / HTTP/1.0\r\n\r\n",
    b"GET /api/results HTTP/1.1\r\nHost: localhost:PORT\r\nAuthorization: Bearer token\r\nConnection: keep-alive\r\n\r\n",
    b"GET /api/results/c9571d90d0c1dda4 HTTP/1.1\r\nHost: LOCALHOST:PORT\r\nAuthorization: Bearer token\r\n\r\n"
    b"GET /pages/x/results/c9571d90d0c1dda4 HTTP/1.1\r\nHost: localhost:PORT\r\n\r\n",
    b"POST /api/runs HTTP/1.1\r\nHost: localhost:PORT\r\nAuthorization: Bearer token\r\nContent-Length: 5\r\n\r\nhello",
)  # fmt: skip


def made(target: str) -> Iterator[bytes]:
    """The cases that a target begins with besides the files of its folder."""
    if target == "listing":
        for number, path in enumerate(sorted((SEEDS / "ptx").iterdir())):
            yield from _possible(listing_of, path.name, ARCHITECTURES[number % len(ARCHITECTURES)])
    elif target == "cubin":
        yield from _binaries()
    elif target == "trace":
        yield from _traces()
    elif target == "serve":
        yield from _served()


def _possible(make: Any, *arguments: Any) -> Iterator[Any]:
    """What is made, unless the assembler refuses the seed for that architecture."""
    try:
        yield make(*arguments)
    except WarpsightError:
        return


def _binaries() -> Iterator[bytes]:
    sys.path.append(str(_TESTS / "by_hand"))
    by_hand: Any = import_module("fatbin_by_hand")
    for number, name in enumerate(_CODE):
        architecture = ARCHITECTURES[number % len(ARCHITECTURES)]
        for code in _possible(assembled, name, architecture):
            yield code.cubin
            ptx = code.source.ptx.encode()
            small = by_hand.compressed(ptx, "lz4_raw", by_hand.LZ4, architecture)
            whole = by_hand.container(by_hand.entry(2, architecture, code.cubin), small)
            other = by_hand.container(by_hand.compressed(ptx, "zstd", by_hand.ZSTD, architecture))
            yield (whole, by_hand.program(whole), other)[number % 3]


def _traced(name: str, level: str) -> Any:
    import warpsight
    from warpsight.kernels.sources import load_source

    path = SEEDS / "ptx" / name
    kernel = next(iter(load_source(path).module.kernels.values()))
    arguments = [argument_for(parameter) for parameter in kernel.parameters]
    return warpsight.trace(path, kernel.name, grid=2, block=64, args=arguments, level=level, gpu="rtx2060", max_instructions=5000)


def _bundle(folder: Path) -> bytes:
    return pack({path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()})


def _traces() -> Iterator[bytes]:
    """A few launches in our own format and in that of Accel-Sim, and a small one as MDM's and PPT-GPU's tools write it."""
    from warpsight.traces.exporters.accelsim.writer import export_accelsim
    from warpsight.traces.store import save_trace

    sys.path += [str(_TESTS / "by_hand"), str(_TESTS / "importers")]
    rowsum_example: Any = import_module("rowsum_example")
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        folder = Path(name)
        for number, seed in enumerate(_TRACED):
            for trace in _possible(_traced, seed, ("ptx", "sass")[number % 2]):
                save_trace(trace, folder / f"own{number}")
                yield _bundle(folder / f"own{number}")
                export_accelsim(trace, folder / f"accelsim{number}")
                yield _ready(_bundle(folder / f"accelsim{number}"))
        rowsum_example.make(folder, blocks=2)
        rowsum_example.make(folder / "amali", blocks=2, amali=True)
        for each in ("rowsum.ppt", "rowsum.mdm", "amali/rowsum.ppt"):
            yield _ready(_bundle(folder / each))


def _ready(case: bytes) -> bytes:
    """The case, after it was run here: its reader is compiled now, which takes longer than a case may."""
    with contextlib.suppress(WarpsightError):
        run_trace(case)
    return case


def _served() -> Iterator[bytes]:
    import warpsight
    from warpsight.analysis.report_data.kernel import kernel_report_data
    from warpsight.gpu.loader import load_gpu
    from warpsight.reports.formats import plain

    trace = _traced("kernel-5.ptx", "ptx")
    prediction = json.dumps([plain(warpsight.predict(trace, "rtx2060").to_json())]).encode()
    report = json.dumps(plain(kernel_report_data(trace, load_gpu("rtx2060"), "warpsight"))).encode()
    for number, request in enumerate(_REQUESTS):
        yield pack({"request": request, "result.json": report if number % 3 == 0 else prediction})
