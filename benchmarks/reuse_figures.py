"""Figures of the reuse-distance cache model for `measure.py`; each function runs in a process of its own.

Times are those of the process, not of the clock: a ratio of two runs then does not say what else the machine did in one of them.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

BLOCK = 256


def _lists() -> Iterator[tuple[str, Any]]:
    """Access lists by name: HPCA 2014, Fig. 3, and what coalesces, does not, diverges and is random."""
    from warpsight.caches.reuse.access_list import AccessList

    def made(block: int, thread: Any, address: Any, size: int = 4) -> AccessList:
        zeros = np.zeros_like(thread)
        return AccessList((block, 1, 1), thread, zeros, address, zeros + size)

    for threads in (128, 1024):
        column, thread = np.divmod(np.arange(threads * 1024), threads)
        yield f"column-major copy, {threads} threads", made(threads, thread, 4 * (thread * 1024 + column))
    turn, thread = np.divmod(np.arange(2048 * 64), 2048)
    yield "coalesced", made(BLOCK, thread, 4 * (turn * 2048 + thread))
    yield "16 B, eight windows", made(BLOCK, thread, (16 * thread + 4096 * turn) % 65536, 16)
    random = np.random.default_rng(1)
    for lines in (128, 2048, 65536):
        yield f"gather from {lines} lines", made(BLOCK, thread, 4 * random.integers(0, 32 * lines, len(thread)))
    turn, thread = np.divmod(np.arange(2048 * 32), 2048)
    keep = turn < 32 - thread % 32
    yield "triangle, divergent", made(BLOCK, thread[keep], 4 * (thread * 64 + turn)[keep])


def _kernels() -> Iterator[tuple[str, Any, Any]]:
    """Reference kernels with irregular and divergent loads, by name: the accesses of a launch for 128 B lines, and its options."""
    import warpsight
    from reference_kernels import SOURCE, make_launch
    from warpsight.gpu.loader import load_gpu
    from warpsight.pipeline.cache_model import Accesses, CacheOptions

    for kernel in ("gather", "bfs_level", "spmv_csr", "row_sum"):
        launch = make_launch(kernel)
        trace = warpsight.trace(str(SOURCE), kernel=kernel, grid=launch.grid, block=launch.block, args=launch.args)
        yield kernel, Accesses(trace, load_gpu("gtx470-16k"), CacheOptions())


def _cases() -> Iterator[tuple[str, Callable[[], Any], Any, Any]]:
    """Name, what coalesces the accesses, placement and settings of each list and kernel."""
    from warpsight.gpu.loader import load_gpu
    from warpsight.pipeline.cache_model import Accesses, CacheOptions

    gpu = load_gpu("gtx470-16k")
    given = [(name, Accesses(accesses, gpu, CacheOptions())) for name, accesses in _lists()]
    for name, accesses in [*given, *_kernels()]:
        yield name, lambda accesses=accesses: accesses.stream(128), accesses.placement(), accesses.settings()


def _best(action: Callable[[], Any], rounds: int = 5) -> float:
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        action()
        best = min(best, time.process_time() - start)
    return best


def _reported(found: dict[str, float]) -> dict[str, float]:
    """The figures, which are also printed to stderr."""
    for name, value in found.items():
        print(f"  {name}: {value:.2f}", file=sys.stderr)
    return found


def slowest() -> float:
    """Million thread accesses a second of the whole analysis, all extensions on, from arrays in memory, where that is least."""
    from warpsight.caches.reuse.model import analyse

    found = {}
    for name, coalesce, placement, settings in _cases():
        stream = coalesce()
        for issue in ("access", "request"):
            changed = replace(settings, issue=issue)
            seconds = _best(coalesce) + _best(lambda changed=changed, s=stream, p=placement: analyse(changed, s, p))
            found[f"{name}, by {issue}"] = stream.loads / seconds / 1e6
    return min(_reported(found).values())


def reading() -> float:
    """Million lines a second of an access list that is compressed text."""
    import gzip

    from warpsight.caches.reuse.access_list import read_access_list

    given = next(accesses for name, accesses in _lists() if "1024" in name)
    rows = np.stack([given.thread, given.store, given.address, given.size], axis=1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "list.trc.gz"
        text = "blocksize: 1024 1 1\n" + "".join(f"{a} {b} {c} {d}\n" for a, b, c, d in rows.tolist())
        path.write_bytes(gzip.compress(text.encode()))
        return len(rows) / _best(lambda: read_access_list(path)) / 1e6


def sweep_ratio() -> float:
    """Times one point that 64 sizes and ways take without latencies, coalescing in both, where that is most."""
    from warpsight.caches.reuse.one_pass import all_sizes_and_ways

    kib = 1024
    grids = [
        [(size * kib, ways) for size in (16, 32, 64, 128, 256, 512, 1024, 2048) for ways in (1, 2, 4, 8, 16, 32, 64, 128)],
        [(4 * k * kib, 4) for k in range(1, 65)],
    ]
    found = {}
    for name, coalesce, placement, settings in _cases():
        changed = replace(settings, index="modulo").off("latency")

        def seconds(points: Any, changed: Any = changed, coalesce: Any = coalesce, placement: Any = placement) -> float:
            stream = coalesce()
            return _best(lambda: all_sizes_and_ways(changed, stream, placement, points)) + _best(coalesce)

        one = seconds([(16 * kib, 4)])
        for grid in grids:
            found[f"{name}, {len(dict.fromkeys(size // ways for size, ways in grid))} numbers of sets"] = seconds(grid) / one
    return max(_reported(found).values())
