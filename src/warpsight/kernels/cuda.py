"""CUDA C++ to PTX: with NVRTC from PyPI, or with the nvcc of the user for texts with host code; results are kept on disk.

NVRTC compiles device code only. A text with host code goes to nvcc when that is on PATH, guarded or not; else to NVRTC, for
which the host code must be hidden behind ``#ifndef __CUDACC_RTC__``. NVRTC runs in a process of its own.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from warpsight.base import diskcache
from warpsight.base.compile_budget import compiling
from warpsight.base.errors import CompileError, UsageError
from warpsight.base.inputs import read_input
from warpsight.base.progress import step
from warpsight.base.temporary import TemporaryFolder
from warpsight.kernels import nvrtc_process
from warpsight.kernels import toolkit as libraries
from warpsight.kernels.device_text import device_library, host_library, without_host_code
from warpsight.kernels.toolkit import Architecture

PACKAGE = "nvidia-cuda-nvrtc"
_LIBRARY = "libnvrtc.so.13"
_PLACE = "NVRTC"
STANDARDS = ("c++03", "c++11", "c++14", "c++17", "c++20")  # of C++, those that NVRTC and nvcc compile
DEFAULT_STANDARD = "c++17"  # theirs, too


@dataclass(frozen=True)
class CompiledCuda:
    """What a compiler made: the PTX text, the mangled name of each kernel expression asked for, and its warnings."""

    ptx: str
    mangled_names: dict[str, str] = field(default_factory=dict)
    warnings: str = ""


@dataclass(frozen=True)
class CompileOptions:
    """What a compilation depends on besides the text. `defines` are `NAME` or `NAME=value`; `standard` is one of `STANDARDS`.

    Raises UsageError for another one.
    """

    architecture: Architecture
    defines: tuple[str, ...] = ()
    include_dirs: tuple[str, ...] = ()
    kernel_expressions: tuple[str, ...] = ()
    standard: str = DEFAULT_STANDARD

    def __post_init__(self) -> None:
        if self.standard not in STANDARDS:
            what = f'"{self.standard}" is not a C++ standard that the compiler knows'
            raise UsageError(what, place="std", remedy=f"give one of {', '.join(STANDARDS)}")

    def flags(self) -> list[str]:
        """The options that NVRTC and nvcc share, in the user's order."""
        return [
            "-lineinfo",
            f"--std={self.standard}",
            *(f"--define-macro={define}" for define in self.defines),
            *(f"--include-path={folder}" for folder in self.include_dirs),
        ]


def library_identity() -> str:
    """Which NVRTC this is, without loading it. Raises MissingLibraryError."""
    return libraries.identity(libraries.library_path(_LIBRARY, PACKAGE))


def _nvrtc(job: Mapping[str, object], place: str) -> dict[str, Any]:
    """What NVRTC, in a process of its own, answers to a job (`nvrtc_process.py`). Raises CompileError, LimitError."""
    path = libraries.library_path(_LIBRARY, PACKAGE)
    builtins = sorted(map(str, path.parent.glob("libnvrtc-builtins.so.*")))
    command = [sys.executable, "-I", "-S", nvrtc_process.__file__, str(path), *builtins]
    with compiling(place) as budget:
        try:
            process = budget.run(command, json.dumps(job).encode(), "the CUDA compiler (NVRTC)")
        except OSError as error:
            raise CompileError(f"the CUDA compiler (NVRTC) cannot be run: {error}", place=place) from None
    if process.returncode != 0:
        what = "the CUDA compiler (NVRTC) crashes on it"
        raise CompileError(what, place=place, remedy="compile it to PTX with nvcc, and give that")
    answer: dict[str, Any] = json.loads(process.stdout)
    if "failed" in answer:
        raise CompileError(answer["failed"], place=_PLACE, remedy=f"reinstall {PACKAGE} with pip")
    return answer


@functools.cache
def supported_architectures() -> list[int]:
    """The compute capabilities (times ten) that this NVRTC compiles for, ascending."""
    return list(_nvrtc({}, _PLACE)["architectures"])


def _require_supported(architecture: Architecture, known: Sequence[int]) -> None:
    """Raise UsageError when NVRTC cannot compile for `architecture`, listing those that it can."""
    if architecture.number not in known:
        what = f"{architecture.virtual} is not an architecture that this NVRTC compiles for ({', '.join(map(str, known))})"
        nearest = min(known, key=lambda number: abs(number - architecture.number))
        raise UsageError(what, place="arch", remedy=f"use {nearest}, or compile to .ptx elsewhere")


# nvcc includes the host's <math.h> before every text, NVRTC does not. The values are constant expressions, as there.
_MATH_MACROS = {
    "INFINITY": "__builtin_bit_cast(float, 0x7f800000)", "NAN": "__builtin_bit_cast(float, 0x7fc00000)",
    "HUGE_VALF": "__builtin_bit_cast(float, 0x7f800000)", "HUGE_VAL": "__builtin_bit_cast(double, 0x7ff0000000000000)",
    "M_E": "2.7182818284590452354", "M_LOG2E": "1.4426950408889634074", "M_LOG10E": "0.43429448190325182765",
    "M_LN2": "0.69314718055994530942", "M_LN10": "2.30258509299404568402", "M_PI": "3.14159265358979323846",
    "M_PI_2": "1.57079632679489661923", "M_PI_4": "0.78539816339744830962", "M_1_PI": "0.31830988618379067154",
    "M_2_PI": "0.63661977236758134308", "M_2_SQRTPI": "1.12837916709551257390", "M_SQRT2": "1.41421356237309504880",
    "M_SQRT1_2": "0.70710678118654752440",
}  # fmt: skip
_MACRO_DEFINED = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)


def _math_macros(text: str, path: str, options: CompileOptions) -> list[str]:
    """The options that define the macros of <math.h>, but for those that the user's options, text or headers define."""
    own = {define.partition("=")[0] for define in options.defines}
    for part in (text, *(included_text(text, path, options.include_dirs) or ())):
        own.update(_MACRO_DEFINED.findall(part))
    return [f"--define-macro={name}={value}" for name, value in _MATH_MACROS.items() if name not in own]


def compile_cuda(text: str, path: str, options: CompileOptions, headers: Mapping[str, str] | None = None) -> CompiledCuda:
    """Compile CUDA C++ `text` to PTX; `path` is its name in messages and `.loc` records, and its folder is searched for headers.

    `headers` are texts in place of files, by the name in the ``#include``. Functions that say nothing else are device functions,
    so that ``constexpr`` ones can be called, as with nvcc's ``--expt-relaxed-constexpr``. Raises CompileError with the compiler's
    own words (file and line), UsageError for an architecture that NVRTC lacks, and MissingLibraryError when NVRTC is not installed.
    """
    flags = [
        f"--gpu-architecture={options.architecture.virtual}",
        "--device-as-default-execution-space",
        *_math_macros(text, path, options),
        *options.flags(),
        f"--include-path={Path(path).parent}",
        *(f"--include-path={folder}" for folder in libraries.include_folders()),
    ]
    number, expressions = options.architecture.number, list(options.kernel_expressions)
    job = {"text": text, "path": path, "number": number, "flags": flags, "expressions": expressions, "headers": headers or {}}
    answer = _nvrtc(job, path)
    _require_supported(options.architecture, answer["architectures"])
    log = answer["log"].strip()
    if answer["status"]:
        raise CompileError(f"the CUDA compiler (NVRTC) refuses it:\n{log}", place=path)
    return CompiledCuda(answer["ptx"], answer["names"], log)


# -- CUDA C++ with host code to PTX, with the user's nvcc. Only used when it is on PATH.


def find_nvcc() -> str | None:
    """The nvcc on PATH, or None."""
    return shutil.which("nvcc")


def nvcc_version(nvcc: str) -> str:
    """All that `nvcc --version` says; part of the key of a cached compilation."""
    return _run_nvcc([nvcc, "--version"], nvcc)[1]


def _run_nvcc(command: list[str], place: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error."""
    with compiling(place) as budget:
        try:
            process = budget.run(command, b"", "nvcc")
        except OSError as error:
            raise CompileError(f"nvcc cannot be run: {error}", place=place, remedy="repair it, or remove it from PATH") from error
    return process.returncode, process.stdout.decode(errors="replace"), process.stderr.decode(errors="replace")


# Code of libraries is often compiled with both: those of CUTLASS's build, and the first of PyTorch's for extensions.
_NVCC_REFUSES = "nvcc refuses it:"
_AS_EXTENSIONS = ("--expt-relaxed-constexpr", "--expt-extended-lambda")


def compile_with_nvcc(nvcc: str, text: str, path: str, options: CompileOptions) -> CompiledCuda:
    """Compile `text`, known to messages as `path`, to PTX: `nvcc -ptx -lineinfo -O3 -arch=compute_XX`, and `_AS_EXTENSIONS`.

    nvcc reads the file itself when `path` is one, so that its headers are found as the user's build finds them.
    Raises CompileError with nvcc's own words.
    """
    with TemporaryFolder() as scratch:
        source, output = Path(path), scratch / "out.ptx"
        if not source.is_file():
            source = scratch / "input.cu"
            source.write_text(text, encoding="utf-8")
        command = [nvcc, "-ptx", "-O3", *_AS_EXTENSIONS, f"-arch={options.architecture.virtual}", *options.flags()]
        code, said, complained = _run_nvcc([*command, "-x", "cu", "-o", str(output), str(source)], path)
        log = (complained + said).replace(str(source), path).strip()
        if code != 0 or not output.is_file():
            raise CompileError(f"{_NVCC_REFUSES}\n{log}", place=path)
        return CompiledCuda(output.read_text(encoding="utf-8", errors="replace"), {}, log)


# -- Which compiler a CUDA C++ text needs, what its result depends on, and the result kept on disk.

_CACHE_KIND, _CACHE_FORMAT = "ptx", "4"
_GUARD = "__CUDACC_RTC__"
_HOST_MARKERS = re.compile(r"\bmain\s*\(|<<<|\bcuda[A-Z]\w*\s*\(|(?<!::)\bstd\s*::")
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*(.*)$", re.MULTILINE)
_LITERAL_INCLUDE = re.compile(r'"([^"]+)"|<([^>]+)>')
_COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?\*/|("(?:\\.|[^"\\\n])*")', re.DOTALL)
_GUARD_REMEDY = f"host code and standard headers must stand between `#ifndef {_GUARD}` and `#endif`; " \
    "or put nvcc on PATH, which compiles both"  # fmt: skip
# A header that the compiler did not find, in NVRTC's words and in those of nvcc's host compiler.
_MISSING = re.compile(r'(?:could not|cannot) open source file "([^"]+)"|fatal error: (\S+): No such file')
_HIDE = f"put the #include and the host code between `#ifndef {_GUARD}` and `#endif`"
_LIBCUXX = "cuda/std/type_traits"
_OF_TOOLKIT = re.compile(r'open source file "(?:nv|cuda|cub|thrust|crt)/')
_LIBCUXX_REMEDY = 'python -m pip install "nvidia-cuda-cccl>=13.0,<13.1" brings libcu++, CUB and Thrust'
_CRT_REMEDY = 'python -m pip install "nvidia-cuda-crt>=13.0,<13.1" brings the headers that mma.h includes'


def _missing_header(said: str) -> str:
    """The header that a compiler did not find; empty where it says something else."""
    found = _MISSING.search(said)
    return (found[1] or found[2]) if found else ""


def _without_header(error: CompileError, text: str) -> CompileError:
    """The error with a remedy for the header that was not found; the error itself where that is not what is wrong."""
    header = _missing_header(error.what)
    if not header:
        return error
    host = host_library(header)
    if _OF_TOOLKIT.search(f'open source file "{header}'):
        remedy = _CRT_REMEDY if header.startswith("crt/") else _LIBCUXX_REMEDY
    elif host:
        remedy = f"{header} is of {host}, which a kernel does not need: {_HIDE}"
    elif device := device_library(header):
        remedy = f"{header} is of {device}: name the folder of its headers with -I"
    elif re.search(rf'#[ \t]*include[ \t]*"[^"]*{re.escape(header)}"', text) or "/" in header:
        remedy = f"name the folder that has {header} with -I; if only host code needs it, {_HIDE}"
    elif error.what.startswith(_NVCC_REFUSES):  # which would have found a standard header
        remedy = f"check the name of {header}, or name the folder that has it with -I; if only host code needs it, {_HIDE}"
    else:
        remedy = _GUARD_REMEDY
    return CompileError(error.what, place=error.place, remedy=remedy)


def has_host_code(text: str, include_dirs: tuple[str, ...] = ()) -> bool:
    """Whether `text` has host code, guarded or not: `main(`, `<<<`, a CUDA runtime call or a standard header."""
    # Comments go, strings stay: an #include names its file in one.
    code = _COMMENT_OR_STRING.sub(lambda match: match[1] or " ", text)
    if _HOST_MARKERS.search(re.sub(r'"(?:\\.|[^"\\\n])*"', '""', code)):
        return True
    folders = [*map(Path, include_dirs), *libraries.include_folders()]
    names = [match[2] for operand in _INCLUDE.findall(code) if (match := _LITERAL_INCLUDE.match(operand)) and match[2]]
    return any(not any((folder / name).is_file() for folder in folders) for name in names)


def included_text(text: str, path: str, include_dirs: tuple[str, ...]) -> list[str] | None:
    """Names and texts of the user's headers that `text` includes, directly or not, in order of appearance.

    None when an include is not a literal (a macro), because then the list cannot be known without preprocessing.
    """
    headers: dict[Path, str] = {}
    pending = [(text, Path(path).parent)]
    while pending:
        current, folder = pending.pop(0)
        for operand in _INCLUDE.findall(current):
            literal = _LITERAL_INCLUDE.match(operand)
            if literal is None:
                return None
            places = (place / (literal[1] or literal[2]) for place in (folder, *map(Path, include_dirs), Path(path).parent))
            header = next((place for place in places if place.is_file()), None)
            if header is not None and header not in headers:
                with suppress(PermissionError):  # the compiler cannot open it either, and says so
                    headers[header] = read_input(header).decode("utf-8", "replace")
                    pending.append((headers[header], header.parent))
    return [part for header, body in headers.items() for part in (str(header), body)]


_UNKNOWN = re.compile(r'error: (?:identifier|namespace "std" has no member) "(\w+)"')


def _folder_of(nvcc: str, header: str) -> list[str]:
    """The folder that has `header` in the toolkit of an nvcc, if one has: NVRTC's package lacks libcu++ and headers of `mma.h`."""
    said = "".join(_run_nvcc([nvcc, "--dryrun", "-x", "cu", os.devnull], nvcc)[1:])
    named = [Path(match) for match in re.findall(r'"?(?:-I|-isystem"? "?)([^"\s]+)', said)]
    return [str(folder) for folder in (*named, *(each / "cccl" for each in named)) if (folder / header).is_file()][:1]


def _device_code_of(text: str, path: str, options: CompileOptions, first: str = "") -> CompiledCuda | None:
    """What NVRTC makes of the text without its host code, which a note says; None where it refuses that too.

    If the `first` refusal was of a header for the host alone, what NVRTC says is raised: that header is not what is wrong.
    """
    host_header = _missing_header(first) if host_library(_missing_header(first)) else ""
    nvcc, known = find_nvcc(), libraries.include_folders()
    folders, of_host, sought = [Path(folder) for folder in options.include_dirs], frozenset[str](), {""}
    header = "" if any((folder / _LIBCUXX).is_file() for folder in known) else _LIBCUXX
    while True:
        beside = _folder_of(nvcc, header) if nvcc and header not in sought else []
        sought.add(header)
        known, options = [*known, *map(Path, beside)], replace(options, include_dirs=(*options.include_dirs, *beside))
        if (device := without_host_code(text, path, folders, known, of_host)) is None:
            return None
        try:
            compiled = compile_cuda(device.text, path, options, device.headers)
            break
        except CompileError as error:
            header = _missing_header(error.what)
            if nvcc and header not in sought:
                continue
            if header and (_OF_TOOLKIT.search(error.what) or device_library(header)):
                raise _without_header(error, text) from error
            unknown = frozenset(_UNKNOWN.findall(error.what)) - of_host
            if not unknown and host_header:
                remedy = f"the host code was left out, as {host_header} is missing; if that is at fault, {_HIDE}"
                raise CompileError(error.what, place=error.place, remedy=remedy) from error
            if not unknown:
                return None
            of_host |= unknown
    absent = ", ".join(name for name in device.left_out if host_library(name))
    note = "compiled by NVRTC without the host code" + (f", which needs {absent}" if absent else ", as there is no nvcc on PATH")
    return replace(compiled, warnings=note)


def _with_nvrtc(text: str, path: str, options: CompileOptions) -> tuple[CompiledCuda, bool]:
    """The result, and whether NVRTC made it: a header that only a toolkit has sends the text to nvcc after all."""
    try:
        return compile_cuda(text, path, options), True
    except CompileError as error:
        missing_header = _MISSING.search(error.what) is not None
        if missing_header and (fallback := find_nvcc()):
            return _with_nvcc(fallback, text, path, options), False
        with_host = missing_header or has_host_code(text, options.include_dirs)
        if with_host and (device := _device_code_of(text, path, options, error.what)):
            return device, False
        if missing_header:
            raise _without_header(error, text) from error
        if (_GUARD not in text and has_host_code(text, options.include_dirs)):
            raise CompileError(error.what, place=error.place, remedy=_GUARD_REMEDY) from error
        raise


_INSTANCE_NOTE = "compiled by NVRTC without the host code, since nvcc makes only the instances of templates that the text has"


def _is_instantiated(expression: str, ptx: str) -> bool:
    """Whether `ptx` has an instance of the template that `expression` (`space::scale<float>`) names, whatever its arguments."""
    name = expression.partition("<")[0].rpartition("::")[2].strip()
    return f"{len(name)}{name}I" in ptx


def _with_nvcc(nvcc: str, text: str, path: str, options: CompileOptions) -> CompiledCuda:
    """nvcc's result; NVRTC's where nvcc misses a header that the text hides from NVRTC, or makes no instance that is asked for."""
    try:
        compiled = compile_with_nvcc(nvcc, text, path, options)
        if all(_is_instantiated(expression, compiled.ptx) for expression in options.kernel_expressions):
            return compiled
        device = _device_code_of(text, path, options)
        return compiled if device is None else replace(device, warnings=_INSTANCE_NOTE)
    except CompileError as error:
        if _MISSING.search(error.what) and _GUARD in text:
            with suppress(CompileError):
                return compile_cuda(text, path, options)
        if _MISSING.search(error.what) and (device := _device_code_of(text, path, options, error.what)):
            return device
        raise _without_header(error, text) from error


def compile_cached(text: str, path: str, options: CompileOptions) -> CompiledCuda:
    """The PTX of CUDA C++ `text`, from the disk cache when text, headers, options and compiler are those of an earlier run.

    `path` names the text in messages; its folder is searched for headers. Raises CompileError, UsageError, MissingLibraryError.
    """
    nvcc = find_nvcc() if has_host_code(text, options.include_dirs) else None
    headers = included_text(text, path, options.include_dirs)
    compiler = nvcc_version(nvcc) if nvcc else library_identity()
    # The absolute path is part of the key because the compilers write it into the .file records.
    parts = (_CACHE_FORMAT, compiler, os.path.abspath(path), text, json.dumps(asdict(options)), *(headers or ()))
    key = diskcache.content_key(*parts)
    with step(f"compile {path} for {options.architecture.virtual} with {'nvcc' if nvcc else 'NVRTC'}"):
        if headers is not None and (stored := diskcache.get(_CACHE_KIND, key)):
            return CompiledCuda(**json.loads(stored))
        if nvcc:
            compiled, keyed_compiler = _with_nvcc(nvcc, text, path, options), True
        else:
            compiled, keyed_compiler = _with_nvrtc(text, path, options)
        if headers is not None and keyed_compiler:
            diskcache.put(_CACHE_KIND, key, json.dumps(asdict(compiled)).encode())
    return compiled
