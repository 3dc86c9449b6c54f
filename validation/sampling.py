"""Sampled waves compared with whole launches: the page validation/sampling.md.

Every kernel of the suite whose size is in its manifest, at its size and at 16 times its work, on a GPU of few SMs, so that the
launches are many waves. `python validation/sampling.py KERNEL ...` makes rows of these kernels, with `--times 16` only those at 16
times the work. A row is kept in a file of its own in `--keep FOLDER` and not made again: an interrupted run goes on where it was,
and several processes share the work, as each takes the rows that nobody else is at. `--write` writes the page from the rows that
are there and names those that are not. After a change of a model or of the emulator, begin with an empty folder.

`--few` is about launches of 10 to 30 waves instead (ADR 0067), on several GPUs, and `--rows` about grids a row of which is longer
than a wave: with one of them, KERNEL is one of its launches, and `--write` writes its table alone.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import process_time

from marked_page import put
from warpsight.gpu.loader import load_gpu
from warpsight.kernels.launch_file import LaunchSpec
from warpsight.pipeline.evaluate import predict_trace
from warpsight.pipeline.request import DEFAULT_METHOD, DEFAULT_MODEL, KernelRequest
from warpsight.pipeline.sampling import trace_to_predict
from warpsight.pipeline.suites import load_suite
from warpsight.pipeline.tracing import launch_of, obtain_trace

PAGE, COMMAND = Path(__file__).with_suffix(".md"), "python validation/sampling.py"
KEEP = Path(__file__).parents[1] / "build" / "sampling"
GPU = "gtx1650"
TIMES = 16

# What grows with the work: the axis of the grid, and the sizes among the arguments (rows, elements) with their values at 16 times.
GROWS: dict[str, tuple[int, dict[str, str]]] = {
    "attention_scores": (0, {"5376": "86016"}),
    "bilateral": (1, {"112": "1792"}),
    "bitonic_step": (0, {"1<<20": "1<<24"}),
    "block_scan": (0, {"208": "3328"}),
    "color_convert": (0, {"358400": "5734400"}),
    "conv2d_shared": (1, {"224": "3584", "228": "3588"}),
    "embedding_bag": (0, {"19712": "315392"}),
    "fft_radix8": (0, {"71680": "1146880"}),
    "fourier_features": (0, {"100000": "1600000"}),
    "gemv_rows": (0, {"14336": "229376"}),
    "group_by_sum": (0, {"114688": "1835008"}),
    "haar_rows": (1, {"840": "13440"}),
    "histogram_shared": (0, {"1<<19": "1<<23"}),
    "im2col": (2, {"8": "128"}),
    "integral_columns": (0, {"5376": "86016"}),
    "integral_rows": (0, {"8960": "143360"}),
    "kmeans_aos": (0, {"57344": "917504"}),
    "kmeans_soa": (0, {"56000": "896000"}),
    "knn_tile": (0, {"5376": "86016"}),
    "label_propagation": (0, {"114000": "1824000"}),
    "lattice_boltzmann": (1, {"200": "3200"}),
    "layernorm_rows": (0, {"448": "7168"}),
    "mandelbrot": (1, {"192": "3072"}),
    "mixture_assign": (0, {"28800": "460800"}),
    "nbody_tile": (0, {"1792": "28672"}),
    "softmax_rows": (0, {"1100": "17600"}),
    "spmv_csr_scalar": (0, {"32769": "524289", "700000": "11200000", "32768": "524288"}),
    "spmv_csr_vector": (0, {"7169": "114689", "420000": "6720000", "7168": "114688"}),
    "transpose_shared": (1, {"960": "15360"}),
}


REPOSITORY = Path(__file__).parents[1]
REFERENCE = REPOSITORY.parent / "shared" / "reference" / "kernels"


@dataclass(frozen=True)
class Chosen:
    """A launch chosen for its size. `source` is a kernel of the suite, or a file."""

    gpu: str
    source: str
    grid: str
    block: str
    args: tuple[str, ...]

    def request(self, name: str) -> KernelRequest:
        """The launch of kernel `name`."""
        path = self.source if "/" in self.source else load_suite("warpsight").kernel(self.source).launch_spec().source
        return KernelRequest(str(path), kernel=name, grid=self.grid, block=self.block, args=self.args)


# Chosen before any of them had been sampled: kernels with long loops, and sizes of which a wave has room in the L2.
_PRODUCTS, _REFERENCE = str(REPOSITORY / "examples" / "sgemm.cu"), str(REFERENCE / "kernels.cu")
FEW: dict[str, Chosen] = {
    "sgemm_naive": Chosen(
        "rtx2060", _PRODUCTS, "20,80", "32,8", ("640", "f32[640,640]:uniform", "f32[640,640]:uniform", "f32[640,640]:zeros")
    ),
    "matmul_naive": Chosen(
        "t4", _REFERENCE, "56,56", "16,16", ("f32[896,896]:uniform", "f32[896,896]:uniform", "f32[896,896]:zeros", "896")
    ),
    "syrk_naive": Chosen(
        "gtx1080", "syrk_naive", "24,96", "32,8",
        ("f32[768,512]:uniform(-1,1)", "f32[768,768]:uniform(-1,1)", "768", "512", "1.5", "0.5"),
    ),
    "nbody_tile": Chosen(
        "rtx2080-ti", "nbody_tile", "20000", "64", ("f32[1280000,4]:uniform", "f32[1280000,4]:zeros", "1024", "0.01")
    ),
    "knn_tile": Chosen(
        "rtx3060", "knn_tile", "11200", "64",
        ("f32[3,716800]:uniform", "f32[3,576]:uniform", "f32[4,716800]:zeros", "716800", "576"),
    ),
    "mixture_assign": Chosen(
        "rtx3070", "mixture_assign", "8832", "192",
        (
            "f32[1695744,6]:uniform", "f32[100,6]:uniform", "f32[100,6]:uniform(1,3)", "f32[100]:uniform(0.01,0.1)",
            "f32[1695744]:zeros", "1695744", "100",
        ),
    ),
    "kmeans_assign": Chosen(
        "t4", _REFERENCE, "2400", "256",
        ("f32[614400,16]:uniform", "f32[40,16]:uniform", "i32[614400]:zeros", "614400", "40", "16"),
    ),
    "trsm_fp64": Chosen(
        "gtx1080", "trsm_fp64", "3840", "128", ("f64[48,48]:uniform(1,2)", "f64[48,491520]:uniform(-1,1)", "48", "491520")
    ),
}  # fmt: skip

# Chosen before any of them had been sampled: kernels whose blocks share data with those in other rows of the grid.
ROWS: dict[str, Chosen] = {
    "attention_scores": Chosen(
        "gtx1650", "attention_scores", "448x48", "192",
        ("f32[48,64]:uniform(-1,1)", "f32[86016,64]:uniform(-1,1)", "f32[48,86016]:zeros", "86016", "0.125"),
    ),
    "gemm_tiled": Chosen(
        "gtx1650", "gemm_tiled", "64x64", "16x16",
        ("f32[1024,1024]:uniform(-1,1)", "f32[1024,1024]:uniform(-1,1)", "f32[1024,1024]:zeros", "1024"),
    ),
    "syrk_naive": Chosen(
        "gtx1650", "syrk_naive", "256x1024", "32x8",
        ("f32[8192,16]:uniform(-1,1)", "f32[8192,8192]:uniform(-1,1)", "8192", "16", "1.5", "0.5"),
    ),
    "conv2d_shared": Chosen(
        "gtx1650", "conv2d_shared", "256x128", "32x8",
        ("f32[1028,8196]:uniform", "f32[5,5]:uniform(-1,1)", "f32[1024,8192]:zeros", "8192", "1024"),
    ),
    "sgemm_naive": Chosen(
        "rtx2060", _PRODUCTS, "40,160", "32,8", ("1280", "f32[1280,1280]:uniform", "f32[1280,1280]:uniform", "f32[1280,1280]:zeros")
    ),
    "sgemm_tiled": Chosen(
        "rtx2060", _PRODUCTS, "48,48", "32,32", ("1536", "f32[1536,1536]:uniform", "f32[1536,1536]:uniform", "f32[1536,1536]:zeros")
    ),
}  # fmt: skip
CHOSEN, OPTIONS = {"few waves": FEW, "long rows": ROWS}, {"": "", "few waves": "--few ", "long rows": "--rows "}


@dataclass(frozen=True)
class Row:
    """One launch both ways: `executed` is the share of its blocks, 1 where it ran whole; seconds are those of the
    processor, of all threads, without compiling."""

    kernel: str
    times: int
    waves: float
    executed: float
    exact: float
    sampled: float
    half_width: float
    exact_seconds: float
    sampled_seconds: float

    @property
    def error(self) -> float:
        """Of the sampled cycles, relative to those of the whole launch."""
        return self.sampled / self.exact - 1

    @property
    def holds(self) -> bool:
        """Whether the interval has the cycles of the whole launch in it."""
        return abs(self.sampled - self.exact) <= self.half_width * self.sampled


def grown(spec: LaunchSpec, axis: int, sizes: dict[str, str]) -> LaunchSpec:
    """The launch at 16 times its work."""
    grid = [int(size) for size in re.split("[x,]", str(spec.grid))]
    grid[axis] *= TIMES
    pattern = re.compile(r"(?<![\w<.])(" + "|".join(map(re.escape, sizes)) + r")(?![\w<.])")
    args = tuple(pattern.sub(lambda match: sizes[match[0]], str(each)) for each in spec.args)
    return replace(spec, grid="x".join(map(str, grid)), args=args)


def of_suite(name: str, times: int) -> KernelRequest:
    """A kernel of the suite at its size, or at 16 times its work."""
    spec = load_suite("warpsight").kernel(name).launch_spec()
    spec = spec if times == 1 else grown(spec, *GROWS[name])
    return KernelRequest(
        str(spec.source), kernel=spec.kernel, grid=str(spec.grid), block=str(spec.block), shared=spec.shared or None,
        args=tuple(map(str, spec.args)), seed=spec.seed,
    )  # fmt: skip


def row(name: str, times: int, chosen: Mapping[str, Chosen]) -> Row:
    """A launch sampled and whole: of the suite at so many `times` its work, or if `times` is 0 the `chosen` one."""
    gpu = load_gpu(GPU if times else chosen[name].gpu)
    request = of_suite(name, times) if times else chosen[name].request(name)
    launch_of(request, gpu)  # compiles
    results = []
    for trace_of in (
        lambda: trace_to_predict(request, gpu, DEFAULT_MODEL, DEFAULT_METHOD, least_instructions=0),
        lambda: obtain_trace(request, gpu=gpu),
    ):
        started = process_time()
        trace = trace_of()
        (prediction,) = predict_trace(trace, gpu, [DEFAULT_MODEL])
        results.append((trace, prediction.cycles, process_time() - started))
    (trace, sampled, sampled_seconds), (_, exact, exact_seconds) = results
    found = trace.extra.get("sampling")
    if found is None:
        return Row(name, times, 0.0, 1.0, exact, sampled, 0.0, exact_seconds, sampled_seconds)
    share = found["executed_blocks"] / found["blocks"]
    return Row(name, times, found["of_waves"], share, exact, sampled, found["half_width"], exact_seconds, sampled_seconds)


def line(each: Row, chosen: Mapping[str, Chosen]) -> str:
    """A row of the table."""
    start = f"| {each.kernel} | {each.times or chosen[each.kernel].gpu} | {each.exact:,.0f} |"
    if each.executed == 1:
        return f"{start} whole | | | | |"
    return (
        f"{start} {100 * each.executed:.0f} % of {each.waves:.0f} waves | {100 * each.error:+.2f} % | "
        f"{100 * each.half_width:.2f} % | {'yes' if each.holds else 'no'} | {each.exact_seconds / each.sampled_seconds:.1f} |"
    )


def launches(chosen: Mapping[str, Chosen]) -> list[tuple[str, int]]:
    """The launches of a table, as `row` takes them."""
    return [(name, 0) for name in chosen] or [(name, times) for name in GROWS for times in (1, TIMES)]


def summary(rows: Sequence[Row], which: str = "") -> str:
    """Errors, coverage and speed-up of the launches that were sampled, and which of them were not run."""
    texts = []
    for times in sorted({each.times for each in rows}):
        here = [each for each in rows if each.times == times]
        sampled = [each for each in here if each.executed < 1]
        text = {0: f"Of {which}", 1: "At the suite's sizes"}.get(times, f"At {times} times the work")
        text += f" {len(sampled)} of {len(here)} launches were sampled."
        if sampled:
            errors, held = [abs(each.error) for each in sampled], sum(each.holds for each in sampled)
            exact, own = (sum(getattr(each, name) for each in sampled) for name in ("exact_seconds", "sampled_seconds"))
            text += (
                f" Error of the cycles: mean {100 * sum(errors) / len(errors):.2f} %, worst {100 * max(errors):.2f} %. The "
                f"interval holds the cycles of the whole launch in {held} of {len(sampled)}. All of them together take "
                f"{exact / own:.1f} times as many seconds of the processor whole as sampled."
            )
        texts.append(text)
    there = {(each.kernel, each.times) for each in rows}
    wanted = launches(CHOSEN.get(which, {}))
    missing = [f"{name} at {times}" if times else name for name, times in wanted if (name, times) not in there]
    what = "Not run" if which else "Not run (kernel and work)"
    return "\n\n".join([*texts, f"{what}: {', '.join(missing)}." if missing else "All were run."])


@contextmanager
def claimed(file: Path) -> Iterator[bool]:
    """Whether no other process is at this row; it is ours until the end, however this process ends."""
    with file.with_suffix(".lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def kept(folder: Path, name: str, times: int) -> Row | None:
    """A row that was made before."""
    file = folder / f"{name}-{times}.json"
    return Row(**json.loads(file.read_text())) if file.exists() else None


def make(folder: Path, name: str, times: int, chosen: Mapping[str, Chosen]) -> None:
    """Make a row and keep it, if it is not there and nobody is at it."""
    file = folder / f"{name}-{times}.json"
    with claimed(file) as ours:
        if ours and not file.exists():
            made = row(name, times, chosen)
            part = file.with_suffix(".part")
            part.write_text(json.dumps(asdict(made)))
            part.replace(file)
            print(line(made, chosen), flush=True)


def main() -> None:
    """Make rows, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", nargs="*", metavar="KERNEL", help="all if none is named")
    parser.add_argument("--times", type=int, choices=(1, TIMES), help="only rows at this work")
    parser.add_argument("--keep", type=Path, default=KEEP, metavar="FOLDER", help="where rows are kept")
    tables = parser.add_mutually_exclusive_group()
    tables.add_argument("--few", action="store_const", dest="table", const="few waves", default="", help="launches of few waves")
    tables.add_argument("--rows", action="store_const", dest="table", const="long rows", help="grids with long rows")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name} from the rows that are kept, and run nothing")
    arguments = parser.parse_args()
    which = arguments.table
    chosen = CHOSEN.get(which, {})
    known = list(chosen or GROWS)
    for unknown in set(arguments.kernels) - set(known):
        parser.error(f'no kernel "{unknown}": {", ".join(known)}')
    if chosen and arguments.times:
        parser.error(f"launches of {which} have one size: leave out --times")
    names, works = arguments.kernels or known, [0] if chosen else [arguments.times] if arguments.times else [1, TIMES]
    keep = arguments.keep / which.replace(" ", "-")
    keep.mkdir(parents=True, exist_ok=True)
    if not arguments.write:
        for times in works:
            for name in names:
                make(keep, name, times, chosen)
        return
    rows = [found for name, times in launches(chosen) if (found := kept(keep, name, times))]
    head = f"| kernel | {'GPU' if chosen else 'work'} | cycles, whole | executed | error | interval | holds | speed-up |"
    head += f"\n|---|---{'' if chosen else ':'}|---:|---:|---:|---:|---|---:|"
    command = f"{COMMAND} {OPTIONS[which]}--write"
    put(PAGE, command, {which or "launches": "\n".join([head, *(line(each, chosen) for each in rows), "", summary(rows, which)])})


if __name__ == "__main__":
    main()
