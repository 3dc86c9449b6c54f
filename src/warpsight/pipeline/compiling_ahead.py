"""The simulators are compiled in a process of their own while the first blocks of a launch are executed.

    python -m warpsight.pipeline.compiling_ahead

Most of what Numba compiles is needed when blocks have run, and most of its work holds the interpreter's lock, so that a thread
would slow them down. The process predicts a small launch in the same way as a long one. What it compiles is kept in the cache
folder, where each function is compiled by one process: another one that needs it waits (`diskcache.take_turn`).
"""

from __future__ import annotations

import atexit
import subprocess
import sys
from contextlib import suppress
from functools import cache
from importlib.metadata import version

from warpsight._version import __version__
from warpsight.base import diskcache
from warpsight.base.compiled import source_hash
from warpsight.caches.exact.simulate import compile_engine
from warpsight.gpu.loader import load_gpu
from warpsight.pipeline.evaluate import predict_profiled, profile_trace
from warpsight.pipeline.kernel_input import threads_of
from warpsight.pipeline.request import DEFAULT_MODEL, PAPERS_MODELS, WARM, KernelRequest, Method
from warpsight.pipeline.sampling import trace_to_predict

_SOURCES = ("base", "addressing", "traces", "caches", "emulator/run", "intervals", "equations", "models", "pipeline")

# A product of matrices: eight blocks in a row read all of `b`, 2 MB, which is more than the L2 holds, and one row of `a`.
_KERNEL = """
.version 6.4
.target sm_61
.address_size 64
.visible .entry product(.param .u64 a, .param .u64 b, .param .u64 c)
{
    .reg .pred %p<2>;
    .reg .f32 %f<4>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<10>;
    ld.param.u64 %rd1, [a];
    ld.param.u64 %rd2, [b];
    ld.param.u64 %rd3, [c];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %tid.x;
    and.b32 %r3, %r1, 7;
    shl.b32 %r3, %r3, 6;
    add.s32 %r3, %r3, %r2;
    shr.u32 %r4, %r1, 3;
    mul.wide.u32 %rd4, %r3, 4;
    add.s64 %rd5, %rd2, %rd4;
    mul.wide.u32 %rd6, %r4, 4096;
    add.s64 %rd7, %rd1, %rd6;
    mov.f32 %f1, 0f00000000;
    mov.u32 %r5, 0;
LOOP:
    ld.global.f32 %f2, [%rd5];
    ld.global.f32 %f3, [%rd7];
    fma.rn.f32 %f1, %f2, %f3, %f1;
    add.s64 %rd5, %rd5, 2048;
    add.s64 %rd7, %rd7, 4;
    add.s32 %r5, %r5, 1;
    setp.ne.s32 %p1, %r5, 1024;
    @%p1 bra LOOP;
    mul.wide.u32 %rd8, %r4, 2048;
    add.s64 %rd9, %rd8, %rd4;
    add.s64 %rd9, %rd9, %rd3;
    st.global.f32 [%rd9], %f1;
    ret;
}
"""
_BLOCKS, _THREADS = 512, 64
_ARGUMENTS = ("f32[64*1024]:zeros", "f32[1024*512]:zeros", "f32[64*512]:zeros")
# The L2 forgets what waves read, which are sampled; and it keeps what the whole launch reads.
_GPU, _FORGETS, _KEEPS = "mdm-pascal", ("sm_count=2", "sm.max_blocks=4", "l2.size=528 KiB"), ("l2.size=8448 KiB",)


def compile_ahead(threads: int | None) -> None:
    """Begin to compile what predictions need in another process, unless it has been compiled, or `threads` (None: as many as
    there are cores) says that this process shall use one core. It ends with this process.
    """
    if threads_of(threads) > 1 and diskcache.get(diskcache.SIMULATORS, _stamp()) is None:
        _start()


@cache
def _start() -> None:
    """Once in a process."""
    nothing = subprocess.DEVNULL
    with suppress(OSError):  # where no process can be started, this one compiles
        command = [sys.executable, "-m", __name__]
        atexit.register(_end, subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing))


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def _stamp() -> str:
    """The key under which is kept that everything has been compiled."""
    return diskcache.content_key(__version__, sys.version, version("numba"), source_hash(_SOURCES))


def main() -> None:
    """Compile what is needed, what takes longest first."""
    if not diskcache.put(diskcache.SIMULATORS, diskcache.content_key("begun"), b""):
        return  # nothing would be kept
    compile_engine()
    predict_small_launch()
    diskcache.put(diskcache.SIMULATORS, _stamp(), b"")


def predict_small_launch() -> None:
    """Predictions that take together all the steps of one of a long launch: from sampled waves, and from a whole launch."""
    request, method = KernelRequest(_KERNEL, grid=_BLOCKS, block=_THREADS, args=_ARGUMENTS, threads=2), Method(caches_before=WARM)
    for changed, least_instructions in ((_FORGETS, 0), (_KEEPS, None)):
        gpu = load_gpu(_GPU, overrides=changed)
        trace = trace_to_predict(request, gpu, DEFAULT_MODEL, method, 0.1, least_instructions=least_instructions)
        predict_profiled(profile_trace(trace, gpu, method), gpu, (DEFAULT_MODEL, *PAPERS_MODELS))


if __name__ == "__main__":
    main()
