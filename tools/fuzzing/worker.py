"""The process in which cases run, so that its death, its growth and its silence are seen and the case that caused them is kept."""

from __future__ import annotations

import contextlib
import faulthandler
import hashlib
import multiprocessing
import os
import re
import resource
import signal
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from unittest import mock

from fuzzing import cases, coverage
from warpsight.base import diskcache

_CODE = ("warpsight.isa", "warpsight.emulator", "warpsight.kernels")
PACKAGES = dict.fromkeys(cases.TARGETS, _CODE) | {
    "trace": ("warpsight.traces", "warpsight.isa.sass", "warpsight.intervals"),
    "serve": ("warpsight.explorer", "warpsight.reports", "warpsight.analysis"),
}  # whose branches are seen
MEMORY_LIMIT = 8 << 30  # address space of the process
GROWTH_LIMIT_KIB = 2 << 20  # resident memory that one case may add
_CASES_PER_PROCESS = 2000


@dataclass(frozen=True)
class Outcome:
    """What a case did. `kind` is ok, refused, or a finding's: exception, unclear, memory, hang, death.

    `text` says more; `signature` is the same for findings with the same cause; `fresh` are features that no case before had.
    """

    kind: str
    text: str = ""
    signature: str = ""
    fresh: frozenset[int] = frozenset()

    @property
    def is_finding(self) -> bool:
        """Whether this must not happen."""
        return self.kind not in ("ok", "refused")


def _feature(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(errors="replace"), digest_size=6).digest(), "little") | 1 << 48


def _where(error: BaseException) -> str:
    """The deepest line of Warpsight in an exception's traceback."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "warpsight" in frame.filename]
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"


def _judge(run: Callable[[bytes], set[str]], case: bytes) -> tuple[Outcome, set[str]]:
    """Run a case; its outcome, and what it was like in words (forms of instructions, where an error was raised)."""
    from warpsight.base.errors import CompileError, WarpsightError

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        forms, outcome = run(case), Outcome("ok")
    except WarpsightError as error:
        kind = error.details.kind if error.details else ""
        forms, outcome = {f"{_where(error)} {kind}"}, Outcome("refused", str(error))
        lines = error.what.strip().splitlines()
        if not lines or (len(lines) > 1 and not isinstance(error, CompileError)) or not (error.place or error.remedy):
            outcome = Outcome("unclear", f"{type(error).__name__}: {error}", f"unclear {_where(error)}")
    except BaseException as error:
        signature = f"{type(error).__name__} {_where(error)}"
        forms, outcome = set(), Outcome("exception", "".join(traceback.format_exception(error, limit=-12)), signature)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    if grown > GROWTH_LIMIT_KIB and not outcome.is_finding:
        outcome = Outcome("memory", f"the process grew by {grown >> 10} MiB; {outcome.text}", f"memory {outcome.text[:40]}")
    return outcome, forms


def _serve(connection: Connection, target: str, known: set[int], log: str, limit: float) -> None:
    """Answer cases until the connection ends. Results on disk are kept only where every case has the same kernel, and Numba's."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    steps = coverage.install(PACKAGES[target])
    faulthandler.enable(2)
    with tempfile.TemporaryDirectory(prefix="warpsight-fuzz-") as folder, contextlib.suppress(EOFError):
        os.chdir(folder)
        _own_cache(Path(folder), (*_SAME_KERNEL, "numba") if target == "launch" else ("numba",))
        os.environ["WARPSIGHT_COMPILE_SECONDS"] = str(limit / 2)
        while True:
            case = connection.recv()
            faulthandler.dump_traceback_later(limit, file=2)
            steps.clear()
            outcome, forms = _judge(cases.TARGETS[target], case)
            faulthandler.cancel_dump_traceback_later()
            fresh = frozenset((steps | {_feature(form) for form in forms}) - known)
            known |= fresh
            connection.send((outcome, fresh))


_SAME_KERNEL = ("native", "ptx", "cubin", "listing")


def _own_cache(folder: Path, kept: tuple[str, ...]) -> None:
    """Keep these kinds in a cache folder of this process, Numba's in the user's, and nothing else."""
    put, compiled = diskcache.put, diskcache.own_folder() / "numba"
    with contextlib.suppress(OSError):
        compiled.mkdir(0o700, exist_ok=True)
    (folder / "cache").mkdir(0o700)
    (folder / "cache" / "numba").symlink_to(compiled.resolve())
    os.environ["WARPSIGHT_CACHE"] = str(folder / "cache")
    mock.patch.object(diskcache, "put", lambda kind, key, data: kind in kept and put(kind, key, data)).start()


class Worker:
    """Runs cases of one target in a child process, a new one after each that dies, hangs or grows."""

    def __init__(self, target: str, limit: float) -> None:
        self.target, self.limit = target, limit
        self.known: set[int] = set()
        self.executions = self.starts = 0
        self._process: multiprocessing.process.BaseProcess | None = None
        self._log = Path(tempfile.mkdtemp(prefix="warpsight-fuzz-log-")) / "stderr"

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._log.write_bytes(b"")
        arguments = (theirs, self.target, self.known, str(self._log), self.limit)
        self._process = context.Process(target=_serve, args=arguments, daemon=True)
        self._process.start()
        theirs.close()
        self._served, self._warm = 0, False
        self.starts += 1

    def run(self, case: bytes) -> Outcome:
        """The outcome of a case."""
        if self._process is None or self._served >= _CASES_PER_PROCESS:
            self.close()
            self._start()
        self.executions += 1
        self._served += 1
        # The first case of a process also imports Warpsight, whose own compiled parts may have to be made.
        allowed = self.limit + 2 if self._warm else self.limit + 120
        try:
            self._connection.send(case)
            if not self._connection.poll(allowed):
                return self._lost("hang")
            outcome, fresh = self._connection.recv()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return self._lost("death")
        self._warm = True
        self.known |= fresh
        return Outcome(outcome.kind, outcome.text, outcome.signature, fresh)

    def _lost(self, kind: str) -> Outcome:
        """The process is dead, or is ended because it does not answer: what it last said."""
        said = self._log.read_text(errors="replace")[-6000:]
        process, self._process = self._process, None
        if process is not None:
            process.join(5 if kind == "death" else 0)
            if process.is_alive():
                process.kill()
                process.join()
            said += f"\nexit code {process.exitcode}"
        frame = re.search(r'File ".*/warpsight/(\S+\.py)", line (\d+)', said)
        llvm = re.search(r"LLVM ERROR: (.{0,60})", said)
        return Outcome(kind, said, f"{kind} {f'{frame[1]}:{frame[2]}' if frame else '?'} {llvm[1] if llvm else ''}")

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._connection.close()
            self._process.join(5)
            if self._process.is_alive():
                self._process.kill()
                self._process.join()
            self._process = None
