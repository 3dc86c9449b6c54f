"""PTX to machine code with ptxas, and machine code to text with nvdisasm: NVIDIA's own tools, which need no GPU.

nvJitLink links; it also assembles PTX, but as code that is linked later. Then the addresses of shared arrays are not known, so that
four loads of neighbouring words stay four loads. nvcc and Triton call ptxas.
"""

from __future__ import annotations

import re
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from warpsight.base import diskcache
from warpsight.base.compile_budget import compiling
from warpsight.base.errors import CompileError, UsageError
from warpsight.base.progress import step
from warpsight.base.temporary import TemporaryFolder
from warpsight.isa.architectures import need_of, remedy_for
from warpsight.kernels import nvjitlink_process
from warpsight.kernels import toolkit as libraries
from warpsight.kernels.launch import KernelSource
from warpsight.kernels.toolkit import Architecture, MissingLibraryError

PACKAGE, DISASSEMBLER_PACKAGE = "nvidia-cuda-nvcc", "nvidia-cuda-nvdisasm"
_ASSEMBLER, _DISASSEMBLER = "ptxas", "nvdisasm"


def assembler_path() -> Path:
    """The assembler's program. Raises MissingLibraryError when it is not installed."""
    return _program(_ASSEMBLER, "NVIDIA's assembler", f"{PACKAGE}>=13.0,<13.1")


def disassembler_path() -> Path:
    """The disassembler's program. Raises MissingLibraryError when it is not installed."""
    return _program(_DISASSEMBLER, "NVIDIA's disassembler", f"{DISASSEMBLER_PACKAGE}>=13.2")


def _program(name: str, what: str, package: str) -> Path:
    for folder in libraries.toolkit_folders():
        if (path := folder / "bin" / name).is_file():
            return path
    remedy = f'python -m pip install "{package}", or use `level="ptx"`'
    raise MissingLibraryError(f"{name}, {what}, is not installed", remedy=remedy)


def _run(command: Sequence[str], path: str, what: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run a tool on what `path` names, within the budget of compiling. Raises CompileError if it cannot be started, LimitError."""
    with compiling(path) as budget:
        try:
            return budget.run(command, given, what)
        except OSError as error:
            raise CompileError(f"{what} cannot be run: {error}", place=path) from None


def assemble(ptx: str, path: str, architecture: Architecture, options: Sequence[str] = ()) -> bytes:
    """The cubin of `ptx` for `architecture`; `path` names it in messages. `options` are ptxas's own, as `-maxrregcount=32`.

    Raises CompileError with the assembler's words, MissingLibraryError when it is not installed.
    """
    program = assembler_path()
    with TemporaryFolder() as folder:
        given, made = folder / "code.ptx", folder / "code.cubin"
        given.write_text(ptx, encoding="utf-8")
        command = [str(program), f"-arch={architecture.real}", "-lineinfo", *options, "-o", str(made), str(given)]
        process = _run(command, path, f"the assembler ({_ASSEMBLER})")
        if process.returncode == 0:
            return made.read_bytes()
    said = (process.stderr + process.stdout).decode(errors="replace").replace(str(given), path).strip()
    failure = "crashes on it"
    if process.returncode > 0 and said:
        failure = f"does not know {architecture.real}" if "for option 'gpu-name'" in said else f"refuses it:\n{said}"
        _refuse_missing(said, path, architecture)
    raise CompileError(f"the assembler ({_ASSEMBLER}) {failure}", place=path)


# -- The linker.

_LINKER, _LINKER_PACKAGE = "libnvJitLink.so.13", "nvidia-nvjitlink"

# Kinds of nvJitLink's inputs by number of CUjitInputType: a cubin, PTX, a fat binary, an object file, a library.
_KINDS = (1, nvjitlink_process.PTX_INPUT, 4, 5, 6)


def link(images: Sequence[tuple[int, bytes]], path: str, architecture: Architecture) -> bytes:
    """One cubin of images with numbers of `CUjitInputType`.

    Raises CompileError with the linker's words, MissingLibraryError when nvJitLink is not installed.
    """
    library = libraries.library_path(_LINKER, _LINKER_PACKAGE)
    command = [sys.executable, "-I", "-S", nvjitlink_process.__file__, str(library), path, f"-arch={architecture.real}"]
    inputs = [(_KINDS[kind], image.rstrip(b"\0") if kind == 1 else image) for kind, image in images]
    given = b"".join(struct.pack("<2q", kind, len(image)) + image for kind, image in inputs)
    process = _run(command, path, "the linker (nvJitLink)", given)
    if process.returncode == 0:
        return process.stdout
    failure = "crashes on it"
    if process.returncode == 2:
        failure = f"does not know {architecture.real}"
    elif process.returncode == 1 and process.stdout:
        said = process.stdout.decode(errors="replace").strip()
        failure = f"refuses it:\n{said}"
        _refuse_missing(said, path, architecture)
    raise CompileError(f"the linker (nvJitLink) {failure}", place=path)


_MISSING = re.compile(r"line (\d+); error\s*: (?:Instruction|Feature|Modifier) '([^']+)' (?:not supported on|requires) \.target")


def _refuse_missing(said: str, path: str, architecture: Architecture) -> None:
    """Raise a CompileError that says where an instruction is available, if the assembler refuses one that `architecture` lacks."""
    missing = _MISSING.search(said)
    need = need_of(missing[2]) if missing else None
    if missing and need is not None:
        what = f'"{missing[2]}" (PTX line {missing[1]}) is not an instruction of {architecture.real}: it needs {need}'
        raise CompileError(what, place=path, remedy=remedy_for(need))


_CUBINS = "cubin"


def cubin_of(source: KernelSource, architecture: Architecture, options: Sequence[str] = ()) -> bytes:
    """The machine code of `source` for `architecture`, with its lines of PTX; kept on disk. `options` beside the source's own.

    Raises as `assemble` does.
    """
    if source.cubin:
        return source.cubin
    options = (*source.assembling, *options)
    key = diskcache.content_key("2", libraries.identity(assembler_path()), architecture.real, *options, source.ptx)
    with step(f"assemble {source.path} for {architecture.real}"):
        cubin = diskcache.get(_CUBINS, key)
        if cubin is None:
            cubin = assemble(with_lines(source.ptx), source.path, architecture, options)
            diskcache.put(_CUBINS, key, cubin)
    return cubin


# -- What a user may say of assembling.

_REGISTER_LIMITS, _OPTIMISATIONS = (16, 255), (0, 3)


def assembler_options(maxrregcount: int | None, opt_level: int | None) -> tuple[str, ...]:
    """Options of the assembler: the most registers a thread may take, and how far it optimises. Raises UsageError."""
    options = []
    for name, value, (least, most), option in (
        ("maxrregcount", maxrregcount, _REGISTER_LIMITS, "-maxrregcount="),
        ("opt_level", opt_level, _OPTIMISATIONS, "--opt-level="),
    ):  # fmt: skip
        if value is not None and not least <= value <= most:
            raise UsageError(f"{value} is out of range", place=name, remedy=f"give {least} to {most}, or leave it out")
        options += [] if value is None else [f"{option}{value}"]
    return tuple(options)


# -- Lines of the PTX text in machine code.
#
# The assembler keeps the line of each PTX instruction in a function that has a `.loc` at all, so one is enough.

_OPENING = re.compile(r"^[ \t]*\{", re.MULTILINE)
_FUNCTION = re.compile(r"^[ \t]*(?:\.\w+\s+)*\.(?:entry|func)\b", re.MULTILINE)
_LINE_MARK, _FILE = re.compile(r"^[ \t]*\.loc\b", re.MULTILINE), re.compile(r"^[ \t]*\.file\s+(\d+)", re.MULTILINE)
_STATEMENT = re.compile(r"^[ \t]*(?:@!?%?[\w$]+[ \t]+)?(?=[a-z][\w:]*(?:\.[\w:]+)*[ \t;]+[^:]*;)", re.MULTILINE)


def with_lines(ptx: str) -> str:
    """`ptx` with a `.loc` in each function that has none, without moving any line."""
    pieces, end = [], 0
    number = max((int(n) for n in _FILE.findall(ptx)), default=0)
    marked = False
    starts = [match.start() for match in _FUNCTION.finditer(ptx)]
    for start, following in zip(starts, [*starts[1:], len(ptx)], strict=True):
        body = _OPENING.search(ptx, start, following)
        if body is None or _LINE_MARK.search(ptx, body.end(), following):
            continue
        statement = _STATEMENT.search(ptx, body.end(), following)
        if statement is None:
            continue
        pieces += [ptx[end : statement.start()], f".loc {number or 1} 1 0 "]
        end, marked = statement.start(), True
    text = "".join(pieces) + ptx[end:]
    return text if number or not marked else f'{text.rstrip()}\n.file 1 "ptx"\n'


# -- The disassembler.

_CACHE_KIND = "listing"
_BY_REGISTER = re.compile(rb"^\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?(?:BRX|JMX)", re.MULTILINE)  # a branch to one of several labels


def disassemble(cubin: bytes, path: str, *, source_lines: bool = False, functions: Sequence[int] = ()) -> str:
    """The listing of machine code, with encodings and lines of the PTX text; kept on disk. `path` names it in messages.

    With `source_lines` it also has the lines of the source that the code's own line information names. `functions` are the numbers
    of the symbols whose code is wanted, all if there are none: a library with hundreds of kernels would take minutes.

    Raises MissingLibraryError, and CompileError when the disassembler refuses it.
    """
    program = disassembler_path()
    options = ["-c", "-hex", "-gp", *(["-gi"] if source_lines else [])]
    options += ["-fun", ",".join(map(str, functions))] if functions else []
    key = diskcache.content_key("2", libraries.identity(program), *options, cubin)
    if stored := diskcache.get(_CACHE_KIND, key):
        return stored.decode()
    with TemporaryFolder() as folder:
        file = folder / "code.cubin"
        file.write_bytes(cubin)
        # Where a branch by register may go is found by an analysis, without which the disassembler takes a quarter less.
        for chosen in (["-ndf", *options], options):
            process = _run([str(program), *chosen, str(file)], path, f"the disassembler ({_DISASSEMBLER})")
            if process.returncode != 0 or not _BY_REGISTER.search(process.stdout):
                break
    if process.returncode != 0:
        words = process.stderr.decode(errors="replace").replace(str(file), path).strip().splitlines()
        raise CompileError(f"the disassembler ({_DISASSEMBLER}) refuses it: {words[-1] if words else 'it crashes'}", place=path)
    diskcache.put(_CACHE_KIND, key, process.stdout)
    return process.stdout.decode()
