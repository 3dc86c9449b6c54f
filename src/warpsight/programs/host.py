"""Runs a CUDA program with the runtime library in front of it, and serves it until it ends. The library is built at first use."""

from __future__ import annotations

import ctypes
import mmap
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from warpsight.base import diskcache
from warpsight.base.errors import UsageError
from warpsight.base.signals import Interruption, leave_again, leaving_on_signals
from warpsight.base.temporary import TemporaryFolder
from warpsight.gpu.spec import GpuSpec
from warpsight.kernels.toolkit import Architecture
from warpsight.programs.session import MEMORY_BYTES, Observer, Session
from warpsight.programs.wire import CHECK_VARIABLE, MEMORY_VARIABLE, SOCKET_VARIABLE, Closed, Wire

_SOURCES = Path(__file__).parent / "runtime"
# Without sibling calls the function of the interface that a program has called is in the back trace. With -Bsymbolic the library
# calls its own functions, also where a package of Python has loaded NVIDIA's runtime with the same names.
_VERSION = "CUDART"  # what is defined as the version
_FLAGS = ("-std=c11", "-O2", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-pthread", "-fno-optimize-sibling-calls",
          "-Wl,-Bsymbolic")  # fmt: skip
_KIND = "runtime"
# What is loaded before programs that NVIDIA's runtime is linked into statically: `nvcc` names some of its functions so. Packages of
# Python are such libraries, too.
_PRELOAD, _STATIC_MARK, _INTERPRETER = "static_runtime.so", b"libcudart_static_", "python"
_PRELOAD_SOURCE = Path(__file__).parent / "preload" / "static_runtime.c"
# What NVTX loads, so that the program's ranges come to the runtime library.
_NVTX, _NVTX_SOURCE, _NVTX_VARIABLE = "nvtx.so", Path(__file__).parent / "preload" / "nvtx.c", "NVTX_INJECTION64_PATH"
# A folder that Python imports `sitecustomize` from, for packages whose runtime the preloaded library cannot find.
_PYTHON_FOLDER, _LIBRARIES_VARIABLE = _PRELOAD_SOURCE.parent, "WARPSIGHT_LIBRARIES"
_PRELOAD_FLAGS = ("-std=c11", "-O2", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-pthread", "-shared")
# The file name that programs ask for, by the major version of CUDA's interface; it is also the version of all symbols.
SONAMES = {13: "libcudart.so.13", 12: "libcudart.so.12", 11: "libcudart.so.11.0"}
DRIVER = "libcuda.so.1"
# The driver's library needs the file beside it, by its place and not by its name: packages of Python bring NVIDIA's library of that
# name along, and load it by its path.
_BESIDE = f"$ORIGIN/{SONAMES[max(SONAMES)]}"


def compiler() -> str:
    """The C compiler: `$CC`, else `cc`, `gcc` or `clang` on PATH. Raises UsageError if there is none."""
    for name in (os.environ.get("CC", ""), "cc", "gcc", "clang"):
        if name and (path := shutil.which(name)):
            return path
    raise UsageError(
        "no C compiler found (cc, gcc, clang): one is needed once, to build the library that replaces the CUDA runtime",
        place="warpsight run",
        remedy="install one (for example `apt install gcc`), or set CC",
    )


def library_folder(scratch: Path) -> Path:
    """The folder with the libraries of every version, built now unless they are in the cache folder, whole. It is `scratch`, or in
    it, where the cache folder cannot be written, or has a name that the loader cannot take. Raises UsageError.
    """
    files = [*sorted(f for f in _SOURCES.iterdir() if f.suffix in (".c", ".h", ".txt")), _PRELOAD_SOURCE, _NVTX_SOURCE]
    content = diskcache.content_key(*_FLAGS, *_PRELOAD_FLAGS, _BESIDE, *(part for f in files for part in (f.name, f.read_bytes())))
    names = [*SONAMES.values(), DRIVER, _PRELOAD, _NVTX]
    kept = [diskcache.library(_KIND, content, name) for name in names]
    if not all(kept):
        command = compiler()
        with ThreadPoolExecutor() as pool:
            common = list(pool.map(lambda source: _object(command, source, scratch), sources_of_any_version()))
            list(pool.map(lambda version: _build(command, version, scratch, common), SONAMES))
        _build_driver(command, scratch)
        for source, name in ((_PRELOAD_SOURCE, _PRELOAD), (_NVTX_SOURCE, _NVTX)):
            _make(command, [*_PRELOAD_FLAGS, str(source), "-ldl"], scratch / name)
        for name in names:
            diskcache.put_library(_KIND, content, name, (scratch / name).read_bytes())
        kept = [diskcache.library(_KIND, content, name) for name in names]
    place = kept[0].resolve().parent if kept[0] is not None and all(kept) else scratch
    if (_unloadable(place) or " " in str(place)) and place != scratch:  # LD_PRELOAD ends names with spaces, too
        link = scratch / "libraries"
        link.symlink_to(place)
        place = link
    if _unloadable(place):
        raise UsageError("has : or ; or $ in its name, which the system's loader does not take", place=str(scratch.parent),
                         remedy="set TMPDIR to another folder")  # fmt: skip
    return place


def _unloadable(folder: Path) -> bool:
    """Whether LD_LIBRARY_PATH cannot hold the name: it has separators in it, or what the loader replaces."""
    return bool(set(":;$") & set(str(folder)))


def _sources() -> list[Path]:
    return sorted(_SOURCES.glob("*.c"))


def sources_of_any_version() -> list[Path]:
    """The sources of the runtime that are the same for every version of CUDA's interface: compiled once."""
    return [source for source in _sources() if _VERSION not in source.read_text()]


def _object(command: str, source: Path, folder: Path) -> Path:
    made = folder / f"{source.stem}.o"
    _make(command, [*_FLAGS, "-c", str(source)], made)
    return made


def _build(command: str, version: int, folder: Path, common: Sequence[Path]) -> None:
    """The library of one version from the objects `common` to all, and its own."""
    soname = SONAMES[version]
    script = folder / f"{soname}.map"
    script.write_text(f"{soname} {{ global: cuda*; __cuda*; cu[A-Z]*; InitializeInjectionNvtx2; local: *; }};\n")
    per_thread = (_SOURCES / "per_thread.txt").read_text().split()
    arguments = [*_FLAGS, f"-D{_VERSION}={version}", "-shared", f"-Wl,-soname,{soname}", f"-Wl,--version-script,{script}"]
    # Streams of a thread's own behave as the default stream does here, so that both names are one function.
    arguments += [f"-Wl,--defsym={name}={name[:-5]}" for name in per_thread]
    common_names = {made.stem for made in common}
    own = [source for source in _sources() if source.stem not in common_names]
    _make(command, [*arguments, *map(str, [*own, *common]), "-ldl"], folder / soname)


def _build_driver(command: str, folder: Path) -> None:
    """The driver's library is empty and needs the runtime's, which has the functions of both: they have one memory."""
    _make(command, ["-shared", "-nostdlib", f"-Wl,-soname,{_BESIDE}", "-x", "c", os.devnull], folder / "beside.so")
    needs = ["-shared", "-nostdlib", f"-Wl,-soname,{DRIVER}", "-Wl,--no-as-needed", str(folder / "beside.so")]
    _make(command, needs, folder / DRIVER)


def _make(command: str, arguments: Sequence[str], made: Path) -> None:
    build = subprocess.run([command, *arguments, "-o", str(made)], capture_output=True, text=True, check=False)
    if build.returncode or not made.is_file():
        silent = f"the compiler says nothing, ends with exit code {build.returncode} and makes no library"
        said = build.stderr.strip()[:600] or silent
        remedy = "set CC to a C compiler, or unset it"
        raise UsageError(f"the runtime library cannot be built: {said}", place=command, remedy=remedy)


# -- The program.

_GRACE_SECONDS = 5.0
_LOOK_SECONDS = 0.5
_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1  # linux/prctl.h: the signal that a process gets when its parent ends


@dataclass(frozen=True)
class EndedProgram:
    """How the program ended. `exit_code` as a shell gives it (128 + signal); `connected` if it used CUDA at all."""

    exit_code: int
    connected: bool
    launches: int


def run_program(
    command: Sequence[str], gpu: GpuSpec, observer: Observer, *, architecture: Architecture | None = None, max_instructions: int,
    stdout: IO[Any] | None = None,
) -> EndedProgram:
    """Run `command` and execute its kernels: the machine code of `architecture`, or their PTX without one. Its output goes where
    this process's goes, or to `stdout`. The program ends with this process: SIGTERM and SIGHUP raise SystemExit here. Ctrl-C ends
    it, and is raised here only where nothing was launched.

    Raises UsageError where the program cannot be started or the runtime library cannot be built.
    """
    with leaving_on_signals(), TemporaryFolder() as scratch:
        library = library_folder(scratch)
        path = str(scratch / "socket")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener, ExitStack() as ends:
            try:
                listener.bind(path)
            except OSError as error:
                what, remedy = f"cannot hold a socket: {error.strerror or error}", "set TMPDIR to another folder with a short name"
                raise UsageError(what, place=str(scratch), remedy=remedy) from None
            listener.listen()
            with Interruption():  # Python ignores what a signal raises in what is called after a fork, as by `logging`
                child = _start(command, _environment(library, path, bool(observer.check), _may_be_static(command[0])), stdout)
                ends.callback(_stop, child)
            host = _Host(listener, child, gpu, architecture, observer, Path(command[0]).name, max_instructions)
            try:
                code = host.serve()
            except KeyboardInterrupt:  # what was launched until then is the answer
                if not host.counter[0]:
                    raise
                code = 128 + signal.SIGINT
    return EndedProgram(code, host.connected, host.counter[0])


def _may_be_static(program: str) -> bool:
    """Whether NVIDIA's runtime is part of the program's file, or may be part of libraries that it loads."""
    executable = shutil.which(program)
    if executable is None or Path(executable).name.startswith(_INTERPRETER):
        return executable is not None
    try:
        with Path(executable).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return data.find(_STATIC_MARK) >= 0
    except (OSError, ValueError):  # it is empty, or may be executed but not read
        return False


def _environment(library: Path, path: str, checks: bool, static: bool) -> dict[str, str]:
    """The program's environment: the runtime library before every other, also for what has NVIDIA's in it."""
    others = [part for part in os.environ.get("LD_LIBRARY_PATH", "").split(":") if part]
    libraries = ":".join([str(library), *others])
    asked = {CHECK_VARIABLE: "1"} if checks else {}
    if _NVTX_VARIABLE not in os.environ:  # else another tool is to have the ranges
        asked[_NVTX_VARIABLE] = str(library / _NVTX)
    if static and " " not in str(library):
        asked["LD_PRELOAD"] = ":".join(filter(None, [str(library / _PRELOAD), os.environ.get("LD_PRELOAD", "")]))
    if static and os.pathsep not in str(_PYTHON_FOLDER):
        asked["PYTHONPATH"] = os.pathsep.join(filter(None, [str(_PYTHON_FOLDER), os.environ.get("PYTHONPATH", "")]))
        asked[_LIBRARIES_VARIABLE] = str(library)
    return {**os.environ, "LD_LIBRARY_PATH": libraries, SOCKET_VARIABLE: path, MEMORY_VARIABLE: str(MEMORY_BYTES), **asked}


def _start(command: Sequence[str], environment: dict[str, str], stdout: IO[Any] | None) -> subprocess.Popen[bytes]:
    executable = shutil.which(command[0])
    if executable is None:
        what = "is not an executable file" if Path(command[0]).exists() else "no such program"
        remedy = "build it with nvcc first, or use `warpsight predict` for one of its kernels" if command[0].endswith(".cu") else (
            "give the program as you would start it: ./program"
        )
        raise UsageError(what, place=command[0], remedy=remedy)
    sys.stdout.flush()
    owner = os.getpid()

    def end_with_owner() -> None:  # in the new process, before the program: only system calls
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != owner:  # it has ended already
            os.kill(os.getpid(), signal.SIGKILL)

    try:
        return subprocess.Popen(command, executable=executable, env=environment, stdout=stdout, preexec_fn=end_with_owner)  # noqa: PLW1509
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
        self, listener: socket.socket, child: subprocess.Popen[bytes], gpu: GpuSpec, architecture: Architecture | None,
        observer: Observer, program: str, max_instructions: int,
    ) -> None:
        self._listener, self._child, self._gpu, self._observer = listener, child, gpu, observer
        self._architecture, self._program, self._limit = architecture, program, max_instructions
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
                # a signal that comes just before the system call would else be noticed when the program does something
                ready = [key for key, _ in self._selector.select(_LOOK_SECONDS)]
                leave_again()
                with Interruption():  # raised within an import or a compiler, the end would be taken for their failure, or be lost
                    for key in ready:
                        self._serve_ready(key)
                if ready and all(key.fd == ended for key in ready):
                    code = self._child.wait()
                    return code if code >= 0 else 128 - code
        finally:
            os.close(ended)
            self._selector.close()

    def _serve_ready(self, key: selectors.SelectorKey) -> None:
        if key.fileobj is self._listener:
            connection, _ = self._listener.accept()
            self.connected = True
            session = Session(Wire(connection), self._gpu, self._architecture, self._observer, self._program, self._limit)
            self._selector.register(connection, selectors.EVENT_READ, session)
        elif isinstance(key.data, Session):
            try:
                key.data.serve(self.counter)
            except Closed:
                self._selector.unregister(key.fileobj)
                key.data.wire.connection.close()


def describe_signal(exit_code: int) -> str:
    """`killed by SIGSEGV` for 139, `interrupted` for 130; nothing for an exit that the program chose."""
    if exit_code <= 128 or exit_code == 128 + signal.SIGINT:
        return "interrupted" if exit_code > 128 else ""
    with suppress(ValueError):
        return f"killed by {signal.Signals(exit_code - 128).name}"
    return ""
