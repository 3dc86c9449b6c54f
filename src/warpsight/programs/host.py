"""Runs a CUDA program with the runtime library in front of it, and serves it until it ends."""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from warpsight.base.errors import UsageError
from warpsight.gpu.spec import GpuSpec
from warpsight.programs.device import MEMORY_BYTES
from warpsight.programs.library import library_folder
from warpsight.programs.session import Observer, Session
from warpsight.programs.wire import MEMORY_VARIABLE, SOCKET_VARIABLE, Closed, Wire

_GRACE_SECONDS = 5.0


@dataclass(frozen=True)
class Outcome:
    """How the program ended. `exit_code` as a shell gives it (128 + signal); `connected` if it used CUDA at all."""

    exit_code: int
    connected: bool
    launches: int


def run_program(
    command: Sequence[str],
    gpu: GpuSpec,
    observer: Observer,
    *,
    max_instructions: int,
    stdout: IO[Any] | None = None,
) -> Outcome:
    """Run `command` and execute its kernels. Its output goes where this process's goes, or to `stdout`.

    Raises UsageError where the program cannot be started or the runtime library cannot be built.
    """
    library = library_folder()
    with tempfile.TemporaryDirectory(prefix="warpsight-") as scratch:
        path = str(Path(scratch) / "socket")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(path)
            listener.listen()
            child = _start(command, _environment(library, path), stdout)
            host = _Host(listener, child, gpu, observer, Path(command[0]).name, max_instructions)
            try:
                code = host.serve()
            finally:
                _stop(child)
    return Outcome(code, host.connected, host.counter[0])


def _environment(library: Path, path: str) -> dict[str, str]:
    """The program's environment: the runtime library before every other."""
    environment = dict(os.environ)
    others = [part for part in environment.get("LD_LIBRARY_PATH", "").split(":") if part]
    environment["LD_LIBRARY_PATH"] = ":".join([str(library), *others])
    environment[SOCKET_VARIABLE] = path
    environment[MEMORY_VARIABLE] = str(MEMORY_BYTES)
    return environment


def _start(command: Sequence[str], environment: dict[str, str], stdout: IO[Any] | None) -> subprocess.Popen[bytes]:
    found = shutil.which(command[0])
    if found is None:
        what = "is not an executable file" if Path(command[0]).exists() else "no such program"
        raise UsageError(what, place=command[0], remedy="give the program as you would start it: ./program")
    sys.stdout.flush()
    try:
        return subprocess.Popen([command[0], *command[1:]], executable=found, env=environment, stdout=stdout)
    except OSError as error:
        what, remedy = f"cannot be started: {error.strerror}", "give a program of this machine"
        raise UsageError(what, place=command[0], remedy=remedy) from error


def _stop(child: subprocess.Popen[bytes]) -> None:
    """Whatever happened here, the program does not outlive it."""
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


class _Host:
    def __init__(
        self,
        listener: socket.socket,
        child: subprocess.Popen[bytes],
        gpu: GpuSpec,
        observer: Observer,
        program: str,
        max_instructions: int,
    ) -> None:
        self._listener, self._child, self._gpu, self._observer = listener, child, gpu, observer
        self._program, self._limit = program, max_instructions
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        self.connected = False
        self.counter = [0]

    def serve(self) -> int:
        """Serve until the program has ended; its exit code as a shell gives it."""
        ended = os.pidfd_open(self._child.pid)
        self._selector.register(ended, selectors.EVENT_READ)
        try:
            while True:
                ready = [key for key, _ in self._selector.select()]
                for key in ready:
                    self._answer(key)
                if all(key.fd == ended for key in ready):
                    code = self._child.wait()
                    return code if code >= 0 else 128 - code
        finally:
            os.close(ended)
            self._selector.close()

    def _answer(self, key: selectors.SelectorKey) -> None:
        if key.fileobj is self._listener:
            connection, _ = self._listener.accept()
            self.connected = True
            session = Session(Wire(connection), self._gpu, self._observer, self._program, self._limit)
            self._selector.register(connection, selectors.EVENT_READ, session)
        elif isinstance(key.data, Session):
            try:
                key.data.serve(self.counter)
            except Closed:
                self._selector.unregister(key.fileobj)
                key.data.wire.connection.close()


def describe_signal(exit_code: int) -> str:
    """`killed by SIGSEGV` for 139; nothing for an exit that the program chose."""
    if exit_code <= 128:
        return ""
    with suppress(ValueError):
        return f"killed by {signal.Signals(exit_code - 128).name}"
    return ""
