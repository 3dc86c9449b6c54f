"""Which compiler a CUDA C++ text needs, what its result depends on, and the result kept on disk.

NVRTC compiles device code only. A text with host code goes to nvcc when that is on PATH, guarded or not; else to NVRTC, for which
the host code must be hidden behind ``#ifndef __CUDACC_RTC__``.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict
from pathlib import Path

from warpsight.base import diskcache
from warpsight.base.errors import CompileError
from warpsight.workload import libraries, nvcc, nvrtc
from warpsight.workload.nvrtc import CompiledCuda, CompileOptions

_CACHE_KIND = "ptx"
_CACHE_FORMAT = "1"
_GUARD = "__CUDACC_RTC__"
_HOST_MARKERS = re.compile(r"\bmain\s*\(|<<<|\bcuda[A-Z]\w*\s*\(|(?<!::)\bstd\s*::")
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*(.*)$", re.MULTILINE)
_LITERAL_INCLUDE = re.compile(r'"([^"]+)"|<([^>]+)>')
_COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?\*/|("(?:\\.|[^"\\\n])*")', re.DOTALL)
_GUARD_REMEDY = (
    f"host code and standard headers must stand between `#ifndef {_GUARD}` and `#endif`; "
    "or put nvcc on PATH, which compiles both"
)
_LIBCUXX_HEADER = re.compile(r'open source file "(?:nv|cuda|cub|thrust)/')
_LIBCUXX_REMEDY = 'python -m pip install "nvidia-cuda-cccl>=13.0,<13.1" brings libcu++, CUB and Thrust'


def has_host_code(text: str, include_dirs: tuple[str, ...] = ()) -> bool:
    """Whether `text` has host code, guarded or not: `main(`, `<<<`, a CUDA runtime call or a standard header."""
    # Comments go, strings stay: an #include names its file in one.
    code = _COMMENT_OR_STRING.sub(lambda found: found.group(1) or " ", text)
    if _HOST_MARKERS.search(re.sub(r'"(?:\\.|[^"\\\n])*"', '""', code)):
        return True
    folders = [*map(Path, include_dirs), *libraries.include_folders()]
    names = [found.group(2) for operand in _INCLUDE.findall(code) if (found := _LITERAL_INCLUDE.match(operand)) and found.group(2)]
    return any(not any((folder / name).is_file() for folder in folders) for name in names)


def included_text(text: str, path: str, include_dirs: tuple[str, ...]) -> list[str] | None:
    """Names and texts of the user's headers that `text` includes, directly or not, in order of appearance.

    None when an include is not a literal (a macro), because then the list cannot be known without preprocessing.
    """
    found: dict[Path, str] = {}
    pending = [(text, Path(path).parent)]
    while pending:
        current, folder = pending.pop(0)
        for operand in _INCLUDE.findall(current):
            literal = _LITERAL_INCLUDE.match(operand)
            if literal is None:
                return None
            name = literal.group(1) or literal.group(2)
            for place in (folder, *map(Path, include_dirs), Path(path).parent):
                header = place / name
                if header.is_file():
                    if header not in found:
                        found[header] = header.read_text(encoding="utf-8", errors="replace")
                        pending.append((found[header], header.parent))
                    break
    return [part for header, body in found.items() for part in (str(header), body)]


def _compiler(text: str, options: CompileOptions) -> str | None:
    """The nvcc to use, or None for NVRTC."""
    return nvcc.find_nvcc() if has_host_code(text, options.include_dirs) else None


def _with_nvrtc(text: str, path: str, options: CompileOptions) -> tuple[CompiledCuda, bool]:
    """The result, and whether NVRTC made it: a header that only a toolkit has sends the text to nvcc after all."""
    try:
        return nvrtc.compile_cuda(text, path, options), True
    except CompileError as error:
        missing_header = "open source file" in error.what
        if missing_header and (fallback := nvcc.find_nvcc()):
            return nvcc.compile_with_nvcc(fallback, text, path, options), False
        if _LIBCUXX_HEADER.search(error.what):
            raise CompileError(error.what, place=error.place, remedy=_LIBCUXX_REMEDY) from error
        if missing_header or (_GUARD not in text and has_host_code(text, options.include_dirs)):
            raise CompileError(error.what, place=error.place, remedy=_GUARD_REMEDY) from error
        raise


def compile_cached(text: str, path: str, options: CompileOptions) -> CompiledCuda:
    """The PTX of CUDA C++ `text`, from the disk cache when text, headers, options and compiler are those of an earlier run.

    `path` names the text in messages; its folder is searched for headers. Raises CompileError, UsageError, MissingLibraryError.
    """
    nvcc_path = _compiler(text, options)
    headers = included_text(text, path, options.include_dirs)
    compiler = nvcc.version(nvcc_path) if nvcc_path else nvrtc.library_identity()
    # The absolute path is part of the key because the compilers write it into the .file records.
    parts = (_CACHE_FORMAT, compiler, os.path.abspath(path), text, json.dumps(asdict(options)), *(headers or ()))
    key = diskcache.content_key(*parts)
    if headers is not None and (stored := diskcache.get(_CACHE_KIND, key)):
        return CompiledCuda(**json.loads(stored))
    keyed_compiler = True
    if nvcc_path:
        compiled = nvcc.compile_with_nvcc(nvcc_path, text, path, options)
    else:
        compiled, keyed_compiler = _with_nvrtc(text, path, options)
    if headers is not None and keyed_compiler:
        diskcache.put(_CACHE_KIND, key, json.dumps(asdict(compiled)).encode())
    return compiled
