"""The reports that the browser opens, each made once and only when it is asked for."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import warpsight
from warpsight.analysis.report_data.comparison import comparison_report_data
from warpsight.analysis.report_data.kernel import Parts, advised_report_data, kernel_report_data, predictions_report_data
from warpsight.analysis.report_data.study import study_report_data
from warpsight.gpu.loader import load_gpu
from warpsight.pipeline.evaluate import predict_trace
from warpsight.pipeline.request import KernelRequest
from warpsight.pipeline.tracing import obtain_trace, trace_kernel
from warpsight.reports.html.page import page
from warpsight.traces.schema import KernelTrace

# What a name may be: markup, ends of attributes and sections, an address that runs, text that turns round.
HOSTILE = "<script>document.broken=1;alert(1)</script>"
WORSE = (
    "\" onmouseover=\"document.broken=1\" ']]></script><img src=x onerror=document.broken=1> javascript:alert(1) \u202eabc "
    f"{HOSTILE}"
)
LONG_LINES = 2000


def request_of(stride: int) -> KernelRequest:
    """The demonstration's loop: stride 1 coalesces, with stride 32 each thread has a line of its own."""
    return KernelRequest(Path(str(files("warpsight.pipeline.demo"))) / f"stride{stride}.yaml")


def strided(stride: int) -> KernelTrace:
    """Its trace."""
    return obtain_trace(request_of(stride))


def hostile() -> dict[str, Any]:
    """A kernel, its file, its PTX and its GPU, all with names that want to be run."""
    trace, gpu = strided(32), dataclasses.replace(load_gpu("mdm-pascal"), name=f"gpu {WORSE}")
    instructions = tuple(dataclasses.replace(each, file=f"src/{WORSE}.cu") if each.file else each for each in trace.instructions)
    header = dataclasses.replace(trace.header, kernel=f"kernel {WORSE}")
    extra = {**trace.extra, "ptx": {line: f"{text} // {WORSE}" for line, text in trace.extra["ptx"].items()}}
    renamed = dataclasses.replace(trace, header=header, instructions=type(trace.instructions)(instructions), extra=extra)
    return advised_report_data(renamed, gpu, "mdm", parts=Parts(simulator=True))


def long_ptx(lines: int) -> str:
    """A kernel with so many lines of PTX: a load every tenth, arithmetic that depends on it between."""
    body = []
    for number in range(lines):
        if number % 10 == 0:
            body.append(f"    ld.global.f32 %f{number % 50 + 1}, [%rd3+{4 * number}];")
        else:
            body.append(f"    fma.rn.f32 %f{number % 50 + 1}, %f{(number - 1) % 50 + 1}, %f60, %f{(number - 7) % 50 + 1};")
    return "\n".join([
        ".version 8.0", ".target sm_70", ".address_size 64", ".visible .entry long_kernel(.param .u64 data)", "{",
        "    .reg .f32 %f<64>;", "    .reg .b32 %r<4>;", "    .reg .b64 %rd<8>;", "    ld.param.u64 %rd1, [data];",
        "    mov.u32 %r1, %tid.x;", "    mul.wide.u32 %rd2, %r1, 16;", "    add.s64 %rd3, %rd1, %rd2;",
        "    mov.f32 %f60, 0f3F800000;", *(f"    mov.f32 %f{k + 1}, 0f00000000;" for k in range(50)), *body,
        "    st.global.f32 [%rd3], %f1;", "    ret;", "}", "",
    ])  # fmt: skip


@cache
def _long() -> dict[str, Any]:
    request = KernelRequest(long_ptx(LONG_LINES), grid=4, block=64, args=(f"f32[{4 * LONG_LINES}]:uniform",))
    return advised_report_data(trace_kernel(request), load_gpu("mdm-pascal"), "mdm")


def _native() -> dict[str, Any]:
    """A loop of loads executed as machine code: source, PTX and SASS."""
    request, gpu = dataclasses.replace(request_of(32), level="sass"), load_gpu("a100")
    return advised_report_data(trace_kernel(request, gpu=gpu), gpu, "warpsight", parts=Parts(what_if="none"), request=request)


def _results() -> dict[str, Any]:
    found = predict_trace(strided(1), load_gpu("mdm-pascal"), ["mdm", "gpumech"])
    return predictions_report_data([each.to_json() for each in found])


def _study() -> dict[str, Any]:
    """Both strides on 24 designs."""
    axes = {"sm_count": [14, 28, 56], "l1.mshrs": [32, 64, 128, 256], "noc.bandwidth": ["525 GB/s", "1050 GB/s"]}
    kernels = {"stride 1": strided(1), f"stride 32 {HOSTILE}": strided(32)}
    with TemporaryDirectory() as folder:
        return study_report_data(warpsight.sweep(kernels, axes=axes, models=["mdm", "mt"], results=folder))


def _comparison() -> dict[str, Any]:
    sides = [kernel_report_data(strided(stride), load_gpu("mdm-pascal"), "mdm", beside=["mt"]) for stride in (32, 1)]
    return comparison_report_data(sides[0], sides[1], ["stride 32", "stride 1"])


DOCUMENTS: dict[str, Callable[[], dict[str, Any]]] = {
    "divergent": lambda: advised_report_data(
        strided(32), load_gpu("mdm-pascal"), "mdm", parts=Parts(simulator=True), request=request_of(32)
    ),
    "coalesced": lambda: advised_report_data(strided(1), load_gpu("mdm-pascal"), "warpsight"),
    "native": _native,
    "results": _results,
    "hostile": hostile,
    "long": _long,
    "study": _study,
    "comparison": _comparison,
}


def write(name: str, path: Path) -> None:
    """The report of that name as a file."""
    path.write_text(page(DOCUMENTS[name]()), "utf-8")
