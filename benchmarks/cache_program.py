"""How fast the reuse-distance model is beside the program published with the paper, on the same access lists, in one run.

    python benchmarks/cache_program.py PROGRAM            # prints a table
    python benchmarks/cache_program.py PROGRAM --write    # also rewrites it in benchmarks/README.md

PROGRAM is `cachemodel`, built with its own options (-O3) from github.com/tue-es/gpu-cache-model. It reads a list, and models it
four times: as it is, fully associative, without latency, and with unlimited miss registers.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "validation"))

from marked_page import put  # noqa: E402  found by the line above

COMMAND = "python benchmarks/cache_program.py PROGRAM --write"
BASE, OTHER = 0x10000000, 0x11000000
REPEATS = 3
# the cache that both model: HPCA 2014's 16 KB
CONFIGURATION = "LINE_SIZE 128\nCACHE_BYTES 16384\nCACHE_WAYS 4\nNUM_MSHR 64\nMEM_LATENCY 100\nMEM_LATENCY_STDDEV 5\n"
Load = tuple[int, int]  # thread, address


def column_copy(threads: int = 256, width: int = 1024) -> Iterator[Load]:
    """Each thread reads a row of floats (HPCA 2014, Fig. 3)."""
    return ((t, BASE + 4 * (t * width + i)) for i in range(width) for t in range(threads))


def gather(threads: int = 1024, each: int = 64, span: int = 65536) -> Iterator[Load]:
    """Random elements."""
    draw = random.Random(1)
    return ((t, BASE + 4 * draw.randrange(span)) for _ in range(each) for t in range(threads))


def matmul(blocks: int = 8, size: int = 256) -> Iterator[Load]:
    """Naive matrix multiplication in blocks of 16 x 16 threads."""
    for b in range(blocks):
        for k in range(size):
            for t in range(256):
                yield b * 256 + t, BASE + 4 * ((b // 16 * 16 + t // 16) * size + k)
                yield b * 256 + t, OTHER + 4 * (k * size + b % 16 * 16 + t % 16)


def stencil(blocks: int = 128, width: int = 1024) -> Iterator[Load]:
    """Five points around each."""
    for step in (0, -1, 1, -width, width):
        for t in range(256 * blocks):
            yield t, BASE + 4 * (width + t + step)


KINDS: dict[str, Callable[[], Iterator[Load]]] = {
    "column-major copy": column_copy, "random gather": gather, "matrix multiplication": matmul, "stencil": stencil,
}


def _write_list(path: Path, loads: Iterator[Load]) -> int:
    """Write a list in blocks of 256 threads; gives how many accesses it has."""
    lines = [f"{thread} 0 {address} 4\n" for thread, address in loads]
    path.write_text("".join(["blocksize: 256 1 1\n", *lines]))
    return len(lines)


def _best(take: Callable[[], object], repeats: int = REPEATS) -> float:
    """Seconds of the fastest of some runs."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        take()
        times.append(time.perf_counter() - start)
    return min(times)


def _row(name: str, folder: Path, program: str) -> str:
    """One list by both, as a line of the table."""
    from warpsight.caches.reuse.access_list import of_list, read_access_list
    from warpsight.caches.reuse.model import Placement, analyse
    from warpsight.caches.reuse.settings import settings_of
    from warpsight.gpu.loader import load_gpu

    place = folder / "output" / "list"
    place.mkdir(parents=True, exist_ok=True)
    path = place / "list_00.trc"
    accesses = _write_list(path, KINDS[name]())
    theirs = _best(lambda: subprocess.run([program, "list"], cwd=folder, check=True, stdout=subprocess.DEVNULL))
    settings = settings_of(load_gpu("gtx470-16k").l1)

    def model(given: object) -> None:
        analyse(settings, of_list(given, settings.line_bytes), Placement(1, 6))  # type: ignore[arg-type]

    given = read_access_list(path)
    model(given)  # compiles
    alone, read_too = _best(lambda: model(given)), _best(lambda: model(read_access_list(path)))
    words = [sys.executable, "-m", "warpsight", "cache", str(path), "--gpu", "gtx470-16k", "--json"]
    command = _best(lambda: subprocess.run(words, check=True, stdout=subprocess.DEVNULL))
    print(f"{name}: {theirs:.3f} s, {alone:.4f} s, {read_too:.4f} s, {command:.3f} s", file=sys.stderr)
    ratios = " | ".join(f"{ours:.3f} s ({theirs / ours:.3g}x)" for ours in (alone, read_too, command))
    return f"| {name} | {accesses:,} | {theirs:.2f} s | {ratios} |"


def table(program: str) -> str:
    """All kinds of lists as Markdown."""
    lines = [
        "| list | loads | their program | ours, without reading | with reading | the whole command |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "configurations").mkdir()
        (folder / "configurations" / "current.conf").write_text(CONFIGURATION)
        lines += [_row(kind, folder, program) for kind in KINDS]
    return "\n".join(lines)


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="the program's path")
    parser.add_argument("--write", action="store_true", help="rewrite the table in benchmarks/README.md")
    options = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    text = table(str(Path(options.program).resolve()))
    print(text)
    if options.write:
        put(HERE / "README.md", COMMAND, {"program": text})


if __name__ == "__main__":
    main()
