"""A scheduler and workers of Dask as processes of their own, to be killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

HERE = Path(__file__).resolve().parent
SOURCES = HERE.parents[1] / "src"


def environment(sources: Path = SOURCES) -> dict[str, str]:
    """For a process that imports `warpsight` from `sources`, and the work of these tests."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(sources), str(HERE), os.environ.get("PYTHONPATH", "")])}


class TestCluster:
    """A context: a scheduler at `address`, and `workers` without nannies, as many as are started."""

    __test__ = False

    def __init__(self, folder: Path, sources: Path = SOURCES) -> None:
        self._folder, self._sources, self.address = folder, sources, ""
        self.workers: list[subprocess.Popen[bytes]] = []
        self.scheduler: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> TestCluster:
        file = self._folder / "scheduler.json"
        words = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--no-show", "--scheduler-file", str(file)]
        self.scheduler = self._start("dask_scheduler", words, self._sources)
        until = time.monotonic() + 120
        while not self.address and time.monotonic() < until:
            time.sleep(0.02)
            if file.exists() and (text := file.read_text()).endswith("}"):
                self.address = json.loads(text)["address"]
        return self

    def add(self, *words: str, sources: Path = SOURCES) -> subprocess.Popen[bytes]:
        """One more worker, of the installation in `sources`."""
        more = [self.address, "--no-nanny", "--nthreads", "1", "--no-dashboard", *words]
        self.workers.append(self._start("dask_worker", more, sources))
        return self.workers[-1]

    def _start(self, module: str, words: list[str], sources: Path) -> subprocess.Popen[bytes]:
        with open(self._folder / f"{module}.log", "ab") as log:
            command = [sys.executable, "-m", f"distributed.cli.{module}", *words]
            return subprocess.Popen(command, env=environment(sources), stdout=log, stderr=log, cwd=self._folder)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for process in [*self.workers, self.scheduler]:
            if process is not None:
                process.send_signal(signal.SIGKILL)
                process.wait(120)
