"""Speed and memory of sweeps: whole commands on two cores, and what a design costs."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

WARPSIGHT = [sys.executable, "-m", "warpsight"]
MODELS = "mdm,gpumech,warpsight"
KERNELS = 20
# 1,000 designs over SM count, network and memory bandwidth, MSHRs and clock
PLAIN = ("sm_count=14,28,42,56,80", "noc.bandwidth=525GB/s,700GB/s,1050GB/s,2100GB/s",
         "dram.bandwidth=240GB/s,480GB/s,720GB/s,960GB/s,1440GB/s", "l1.mshrs=32,64,128,192,256",
         "core_clock=1GHz,1.4GHz")  # fmt: skip
# 1,000 designs of 25 cache geometries and eight SM counts
GEOMETRIES = ("l1.size=24KiB,48KiB,96KiB,192KiB,384KiB", "l2.ways=4,8,16,32,64", "sm_count=14,21,28,35,42,56,70,80",
              "noc.bandwidth=525GB/s,700GB/s,1050GB/s,1400GB/s,2100GB/s")  # fmt: skip
# 10^6 designs without geometry
MILLION = ("noc.bandwidth=200GB/s:2100GB/s:100GB/s", "dram.bandwidth=100GB/s:2000GB/s:100GB/s", "l1.mshrs=16:160:16",
           "core_clock=0.5GHz:2.9GHz:100MHz", "noc.queue=0,4,8,16,32,64,128,256,512,1024")  # fmt: skip
_SAMPLE_SECONDS = 0.02


def kernels() -> list[str]:
    """Manifests of kernels of the suite's development half."""
    from warpsight.pipeline.suites import load_suite

    return [kernel.path for kernel in load_suite("warpsight").development[:KERNELS]]


def sweep_seconds(axes: tuple[str, ...], paths: list[str]) -> tuple[float, float, int]:
    """Seconds of `warpsight sweep` on `axes` with the traces at hand and nothing else, of the same again, and its peak in bytes.

    The peak is of all its processes together, looked at fifty times a second.
    """
    with tempfile.TemporaryDirectory() as name:
        places = ["--results", f"{name}/kept", "--out", f"{name}/out", "--jobs", "2"]
        _ran([*WARPSIGHT, "sweep", *paths, "--set", "sm_count=99", "--set", "noc.queue=1,2", "--model", "mdm", *places])
        words = [word for axis in axes for word in ("--set", axis)]
        command = [*WARPSIGHT, "sweep", *paths, *words, "--model", MODELS, *places]
        first, peak = _ran(command)
        again, _ = _ran(command)
    return first, again, peak


def _ran(command: list[str]) -> tuple[float, int]:
    """Wall seconds, and peak bytes of the process and its children."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
    peak = [0]
    watcher = threading.Thread(target=_watch, args=(process.pid, peak))
    watcher.start()
    code = process.wait()
    seconds = time.perf_counter() - start
    watcher.join()
    if code:
        raise SystemExit(f"{' '.join(command)} ended with {code}")
    return seconds, peak[0]


def _watch(session: int, peak: list[int]) -> None:
    """The most resident memory of all processes of a session, until they have ended."""
    page = os.sysconf("SC_PAGE_SIZE")
    while True:
        resident, found = 0, False
        for place in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = place.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == session and fields[0] != "Z":
                found, resident = True, resident + int(fields[21]) * page
        peak[0] = max(peak[0], resident)
        if not found:
            return
        time.sleep(_SAMPLE_SECONDS)


def recurring() -> tuple[float, float]:
    """Milliseconds a design and kernel cost, mean over the reference kernels on mdm-pascal: with a new cache geometry, and without.

    With: cache simulation, interval profile and the three models on one design. Without: the models, on 1,000 designs at once.
    """
    import numpy as np

    import warpsight
    from reference_kernels import SOURCE, make_launch, reference_rows
    from warpsight.gpu.design import Design
    from warpsight.gpu.loader import load_gpu
    from warpsight.models.base import get_model
    from warpsight.pipeline.evaluate import profile_trace

    gpu = load_gpu("mdm-pascal")
    random = np.random.default_rng(0)
    noc, dram = random.uniform(2e11, 2e12, 1000), random.uniform(1e11, 2e12, 1000)
    many = Design.of(gpu).varied(noc_bandwidth_bytes_per_s=noc, dram_bandwidth_bytes_per_s=dram)
    models = [get_model(name) for name in MODELS.split(",")]
    costs = []
    for row in reference_rows():
        if row.gpu != "mdm-pascal":
            continue
        launch = make_launch(row.kernel, row.size)
        trace = warpsight.trace(str(SOURCE), kernel=launch.kernel, grid=launch.grid, block=launch.block, args=launch.args)
        best = [float("inf"), float("inf")]
        for _ in range(3):
            start = time.perf_counter()
            profile = profile_trace(trace, gpu).profile
            one = Design.of(gpu)
            for model in models:
                model.evaluate(profile, one)
            middle = time.perf_counter()
            for model in models:
                model.evaluate(profile, many)
            best = [min(best[0], middle - start), min(best[1], (time.perf_counter() - middle) / len(many))]
        print(f"{row.kernel:16s} {1e3 * best[0]:8.1f} ms with a new geometry, {1e3 * best[1]:.4f} ms without", file=sys.stderr)
        costs.append(best)
    new, known = np.array(costs).mean(axis=0) * 1e3
    return float(new), float(known)


def growth(designs: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000)) -> dict[str, list[tuple[int, float]]]:
    """Seconds of a study of one kernel without geometry over the number of its designs, by model."""
    from warpsight.jobs.executor import make_executor
    from warpsight.pipeline.suites import load_suite
    from warpsight.sweeps.run import run_sweep
    from warpsight.sweeps.study import RANDOM, Sampling, StudyKernel
    from warpsight.sweeps.study_arguments import study_of_options

    kernel = load_suite("warpsight").kernel("spmv_csr_vector")
    seconds: dict[str, list[tuple[int, float]]] = {}
    with tempfile.TemporaryDirectory() as kept:
        for model in ("all three", *MODELS.split(",")):
            for count in designs:
                axes = ["noc.bandwidth=200GB/s..2100GB/s", "dram.bandwidth=100GB/s..2000GB/s", "core_clock=0.5GHz..2.9GHz"]
                study: Any = study_of_options(
                    [StudyKernel(kernel.name, kernel.request())], settings=axes, sampling=Sampling(RANDOM, count, count),
                    models=MODELS.split(",") if model == "all three" else [model],
                )  # fmt: skip
                start = time.perf_counter()
                run_sweep(study, make_executor("inline"), results=kept)
                seconds.setdefault(model, []).append((count, time.perf_counter() - start))
    return seconds
