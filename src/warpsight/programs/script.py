"""A Python script with Triton kernels, run in this process as if the GPU were there: its launches are executed here.

The script's tensors are PyTorch's of the CPU. A launch copies those that it names into device memory, where each keeps its
address, and back when it has ended.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import io
import mmap
import os
import runpy
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import LimitError, UsageError, WarpsightError
from warpsight.emulator.codegen.layout import ARENA_BASE
from warpsight.emulator.codegen.symbols import GLOBAL_ALIGN, align_up
from warpsight.emulator.run.memory import Arena, ModuleData, ResidentMemory
from warpsight.emulator.run.watch import NO_RESERVE
from warpsight.gpu.occupancy import WARP_SIZE, occupancy
from warpsight.gpu.spec import GpuSpec
from warpsight.kernels.launch import ArrayArgument, KernelSource, Launch, RunOptions, ScalarArgument
from warpsight.kernels.machine_code import variant_of
from warpsight.kernels.sources import load_source
from warpsight.kernels.toolkit import Architecture, parse_architecture
from warpsight.kernels.triton_driver import Device, TritonLaunch, driving
from warpsight.programs.host import EndedProgram
from warpsight.programs.modules import MODULE_ZONE, Kernel, placed, variable_names
from warpsight.programs.session import MEMORY_BYTES, Observer, Span, execute_observed
from warpsight.programs.torch_device import as_cuda_device
from warpsight.programs.wire import Spent

_SCRIPT, MODULE = ".py", "-m"
# Packages that load libcuda.so.1, so that a program's host serves them.
_CALL_THE_DRIVER = {"numba", "cuda", "cupy", "cutlass", "pycuda"}
_RUNS_HERE = "triton"


class ScriptDevice(Device):
    """The GPU that a script sees. Launches run when they are issued."""

    def __init__(self, gpu: GpuSpec, architecture: Architecture | None, observer: Observer, max_instructions: int) -> None:
        self.gpu, self._architecture, self._observer, self._limit = gpu, architecture, observer, max_instructions
        stated = parse_architecture(gpu.compute_capability) if gpu.compute_capability != "none" else parse_architecture("80")
        self.number, self.launches, self._end = stated.number, 0, 0.0
        sm = gpu.sm
        self.properties = {
            "max_shared_mem": sm.max_shared_memory_per_block_bytes or sm.shared_memory_bytes, "multiprocessor_count": gpu.sm_count,
            "max_num_regs": sm.registers, "warpSize": WARP_SIZE, "sm_clock_rate": round(gpu.core_clock_hz / 1e3),
            "mem_clock_rate": 0, "mem_bus_width": 0,
        }  # fmt: skip
        self.memory = ScriptMemory()
        self.kernel = cache(self._kernel)

    def _kernel(self, ptx: str, entry: str) -> Kernel:
        source = load_source(ptx, name=f"{entry} (Triton)", native=self._architecture)
        architecture = None if self._architecture is None else variant_of(source, self._architecture)
        base = self.memory.load(source, architecture)
        return Kernel(source, source.module.kernels[entry], base, architecture, self._observer.check)

    def registers(self, ptx: str, entry: str) -> int:
        """Registers per thread."""
        return self.kernel(ptx, entry).registers.registers

    def launch(self, launch: TritonLaunch) -> None:
        """Execute it. Raises what the kernel does wrong, and UsageError where a block does not fit the GPU."""
        self.launches += 1
        try:
            seconds = self._run(launch)
            self.seconds += seconds
            issued = (self.launches - 1) * self.gpu.dispatch.launch_interval_ns * 1e-9  # ahead of the GPU, as fast as can be
            start = max(self._end, issued)
            self._end = start + seconds
            self._observer.spent(Span(os.getpid(), 1, start, self._end, Spent.LAUNCHED, self.launches))
        except WarpsightError as error:
            self._observer.refused(self.launches, launch.name, error)
            raise

    def _run(self, made: TritonLaunch) -> float:
        kernel = self.kernel(made.ptx, made.entry)
        use = kernel.registers
        occupancy(self.gpu, made.threads, use.registers, use.static_shared_bytes + made.shared)
        arrays = [each for each in made.arguments if isinstance(each, ArrayArgument)]
        addresses = iter(self.memory.copy_in(arrays))
        data = [each.parameter(next(addresses)) if isinstance(each, ArrayArgument) else each for each in made.arguments]
        launch = Launch(
            made.entry, made.grid, (made.threads, 1, 1), tuple(ScalarArgument(each) for each in data), made.shared, made.cluster
        )
        table, names = self.memory.table()
        bank = kernel.bank(_packed(kernel, data), kernel.prepared_for(launch))
        printed = io.StringIO()
        options = RunOptions(output=printed, check=self._observer.check, out_of_bounds=self._observer.out_of_bounds)

        def memory() -> ResidentMemory:
            return ResidentMemory(table, self.memory, bank, names)

        try:
            ran = execute_observed(self._observer, self.launches, made.name, kernel, launch, memory, self._limit, options)
        finally:
            print(printed.getvalue(), end="", flush=True)
            self.memory.copy_out()
        return self._observer.ran(ran)

    def time_ms(self, call: Callable[[], Any]) -> float:
        """What the launches of one call take; not a number for a call without launches, of which no time is known."""
        before, launches = self.seconds, self.launches
        call()
        return (self.seconds - before) * 1e3 if self.launches > launches else float("nan")


def _packed(kernel: Kernel, data: Sequence[bytes]) -> bytes:
    """The kernel's parameters at their places."""
    layout = kernel.layout
    packed = bytearray(layout[-1][0] + layout[-1][1] if layout else 0)
    for (start, size), each in zip(layout, data, strict=True):
        packed[start : start + size] = each
    return bytes(packed)


def _too_large(what: str) -> LimitError:
    return LimitError(f"{what} take more than {MEMORY_BYTES >> 30} GiB of device memory", remedy="use smaller arrays, or fewer")


class ScriptMemory(Arena):
    """Device memory of a script. Memory of the host has one address in it as long as it is known; `delta` is host minus device.
    Variables of modules lie before it, and stay.
    """

    def __init__(self) -> None:
        self._map = mmap.mmap(-1, MEMORY_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE)
        self._bytes: npt.NDArray[np.uint8] = np.frombuffer(self._map, np.uint8)
        self.delta = int(self._bytes.ctypes.data) - ARENA_BASE
        self._known: dict[tuple[int, int], int] = {}  # addresses by the host's address and size
        self._shared: dict[tuple[int, int], ArrayArgument] = {}  # whose addresses the script itself has asked for
        self._live: dict[tuple[int, int], ArrayArgument] = {}
        self._end = ARENA_BASE + MODULE_ZONE
        self._modules: list[ModuleData] = []
        self._kept: dict[int, bytes] = {}  # what variables held when the latest launch had ended, by address

    def load(self, source: KernelSource, architecture: Architecture | None) -> int:
        """Place a module's variables; their first address."""
        base = self._modules[-1].end if self._modules else ARENA_BASE
        data = placed(source, architecture, base, ARENA_BASE + MODULE_ZONE, source.path)
        self._modules.append(data)
        self._kept |= {address: first for _, address, _, _, first in data.rows}
        return base

    def share(self, argument: ArrayArgument) -> int:
        """The device address of memory that kernels may reach without its being an argument, from now on."""
        place = self._place(argument)
        self._shared[place] = argument
        return self._known[place] + argument.offset

    def _place(self, argument: ArrayArgument) -> tuple[int, int]:
        place = (int(argument.array.ctypes.data), argument.array.nbytes)
        if place not in self._known:
            size = align_up(max(1, place[1]), GLOBAL_ALIGN)
            if self._end + size > ARENA_BASE + MEMORY_BYTES:
                if self._shared or size > MEMORY_BYTES - MODULE_ZONE:
                    raise _too_large("the script's arrays")
                self._known.clear()
                self._end = ARENA_BASE + MODULE_ZONE
            self._known[place], self._end = self._end, self._end + size
        return place

    def copy_in(self, arguments: Sequence[ArrayArgument]) -> list[int]:
        """The addresses of the arguments' memory, after their contents have been copied there."""
        places = [self._place(argument) for argument in arguments]
        if any(place not in self._known for place in places):  # forgotten when a later one found no room
            places = [self._place(argument) for argument in arguments]
        if any(place not in self._known for place in places):
            raise _too_large("the arrays of one launch")
        self._live = dict(zip(places, arguments, strict=True)) | self._shared
        self._fill()
        return [self._known[place] for place in places]

    def _fill(self) -> None:
        for place, argument in self._live.items():
            self._view(place)[:] = argument.array.reshape(-1).view(np.uint8)
        for address, contents in self._kept.items():
            self.bytes_at(address, len(contents))[:] = np.frombuffer(contents, np.uint8)

    def attempt(self) -> int:
        """The memory itself: all that kernels can reach is a copy."""
        return self.delta

    def undo(self) -> None:
        """Copy again."""
        self._fill()

    def copy_out(self) -> None:
        """Results go to where the script sees them."""
        for place, argument in self._live.items():
            argument.array.reshape(-1).view(np.uint8)[:] = self._view(place)
        for _, address, size, writable, _ in self._variables():
            if writable:
                self._kept[address] = self.bytes_at(address, size).tobytes()

    def bytes_at(self, address: int, size: int) -> npt.NDArray[np.uint8]:
        """Device memory, to be read and written."""
        return self._bytes[address - ARENA_BASE : address - ARENA_BASE + size]

    def _view(self, place: tuple[int, int]) -> npt.NDArray[np.uint8]:
        return self.bytes_at(self._known[place], place[1])

    def table(self) -> tuple[npt.NDArray[np.int64], dict[int, str]]:
        """Live allocations as `ResidentMemory` takes them, and their names."""
        rows = sorted((self._known[place], self._known[place] + place[1], 1) for place in self._live if place[1])
        names = {start: f"memory of a tensor ({end - start:,} bytes)" for start, end, _ in rows}
        for data in self._modules:
            names |= variable_names(data)
        variables = [(address, address + size, int(writable)) for _, address, size, writable, _ in self._variables() if size]
        return np.array(sorted(variables) + rows, np.int64).reshape(-1, 3), names  # variables lie before tensors

    def _variables(self) -> Iterator[tuple[str, int, int, bool, bytes]]:
        """The rows of all modules (`ModuleData`)."""
        return (row for data in self._modules for row in data.rows)


# -- Running the script.

@contextlib.contextmanager
def seen_by_scripts(device: ScriptDevice) -> Iterator[None]:
    """Triton and PyTorch see `device` until the end."""
    with driving(device), as_cuda_device(device, device.gpu, device.memory.share):
        yield


def is_script(command: Sequence[str]) -> bool:
    """Whether it runs in this process: a Python script with its arguments, or `-m` with a module's name and its arguments.

    A script or module of Numba, `cuda.core`, cuTile or CUTLASS, without Triton, does not: it calls the driver, as programs do.
    Of a module the files among its arguments count, too (`-m pytest test_kernels.py`).
    """
    if command[0] != MODULE and not command[0].endswith(_SCRIPT):
        return False
    files = [command[0]]
    if command[0] == MODULE:
        with contextlib.suppress(UsageError), _as_program(command, "", None):
            files[:] = [_found(command), *(word.partition("::")[0] for word in command[2:] if _SCRIPT in word)]
    packages = set[str]().union(*(_imported(Path(file)) for file in files if file.endswith(_SCRIPT)))
    return not packages & _CALL_THE_DRIVER or _RUNS_HERE in packages


def as_program(command: Sequence[str]) -> list[str]:
    """The command that starts a program: for a script or a module, Python with it."""
    return [sys.executable, *command] if command[0] == MODULE or command[0].endswith(_SCRIPT) else list(command)


def _imported(path: Path) -> set[str]:
    """The packages that a script names in its imports; none where it cannot be read, which running it will say."""
    try:
        nodes = list(ast.walk(ast.parse(path.read_bytes())))
    except (OSError, SyntaxError, ValueError):
        return set()
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
    return {name.partition(".")[0] for name in names}


def run_script(
    command: Sequence[str], gpu: GpuSpec, observer: Observer, *, architecture: Architecture | None = None, max_instructions: int,
    stdout: IO[Any] | None = None,
) -> EndedProgram:
    """Run a Python script, or a module (`is_script`), in this process; its launches as `run_program` runs those of a program.

    Its tensors stay on the CPU, and `cuda` means that too. Raises UsageError where there is no such script, or no Triton.
    """
    path = _found(command)
    device = ScriptDevice(gpu, architecture, observer, max_instructions)
    arguments = command[2:] if command[0] == MODULE else command[1:]
    with _as_program([path, *arguments], "" if command[0] == MODULE else str(Path(path).resolve().parent), stdout):
        try:
            with seen_by_scripts(device):
                code = _main(path, command)
        except ModuleNotFoundError as error:
            what = f"{error.name} is not installed"
            raise UsageError(what, place=path, remedy="`python -m pip install triton torch` installs Triton and PyTorch") from error
    return EndedProgram(code, True, device.launches)


def _found(command: Sequence[str]) -> str:
    """The file that is run. Raises UsageError where there is none."""
    if command[0] != MODULE:
        if not Path(command[0]).is_file():
            raise UsageError("no such script", place=command[0], remedy="give a Python file with Triton kernels")
        return command[0]
    with contextlib.suppress(ImportError, ValueError):
        spec = importlib.util.find_spec(command[1]) if len(command) > 1 else None
        for folder in (spec and spec.submodule_search_locations) or ():  # a package: its name is not imported here
            if (inside := Path(folder) / "__main__.py").is_file():
                return str(inside)
        if spec is not None and spec.origin is not None:
            return spec.origin
    raise UsageError("no such module", place=" ".join(command[:2]), remedy="give the name of a module, as `-m pytest`")


@contextlib.contextmanager
def _as_program(command: Sequence[str], folder: str, stdout: IO[Any] | None) -> Iterator[None]:
    """`sys` as the script would find it as a program of its own, with modules of `folder`."""
    arguments, path, output = sys.argv, list(sys.path), sys.stdout
    sys.argv, sys.stdout = list(command), stdout or output
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.argv, sys.path[:], sys.stdout = arguments, path, output


def _main(path: str, command: Sequence[str]) -> int:
    """Run the script; its exit code. What it raises is shown as Python does, without the frames of this program."""
    try:
        if command[0] == MODULE:
            runpy.run_module(command[1], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(path, run_name="__main__")
    except SystemExit as error:
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    except WarpsightError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        return error.exit_code
    except Exception as error:  # the script's own
        frames = error.__traceback__
        while frames is not None and frames.tb_frame.f_code.co_filename != path:
            frames = frames.tb_next
        traceback.print_exception(type(error), error, frames or error.__traceback__)
        return 1
    return 0
