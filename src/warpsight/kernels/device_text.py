"""CUDA C++ without its host code, for a machine that lacks what the host code includes: a library such as cuBLAS, or nvcc itself.

A text is read at namespace level alone, without types: definitions and declarations that are neither device code nor constants
are blanked out, line by line, so that the rest stays in its lines. What a compiler then refuses is refused; nothing is guessed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
      | (?P<directive>^[ \t]*\#(?:[^\n\\/]|\\.|\\\n|/\*.*?\*/|/(?![*/]))*)
      | (?P<text>R"(?P<mark>[^()\s\\]{0,16})\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
      | (?P<number>\.?\d(?:[\w.]|'\w)*)
      | (?P<bracket>[{}();])
      | (?P<other>[^\W\d]\w*|\s+|.)""",
    re.VERBOSE | re.MULTILINE | re.DOTALL,
)
_ON_DEVICE = ("__global__", "__device__", "__constant__", "__managed__", "constexpr", "consteval", "static_assert")
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(?:\([^)]*\))?((?:\\\n|[^\n])*)", re.MULTILINE)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<([^>]+)>)')
_WORD = re.compile(r"[^\W\d]\w*")
_OPENS_SCOPE = re.compile(r'\s*(?:(?:inline\s+)?namespace\b[^({=]*|extern\s*"C(?:\+\+)?"\s*)$')
_ATTRIBUTE = re.compile(
    r"\b(?:alignas|decltype|noexcept|__align__|__attribute__|__launch_bounds__)\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
)
_NAMES = re.compile(r"\s*(?:using|typedef|template|namespace|class|struct|union|enum)\b")
_STANDARD = re.compile(r"(?<!cuda::)(?<!::)\bstd\b")

# Standard headers without device code of their own: what kernels take from them, with the values that the device has.
_LIMITS = {
    "CHAR_BIT": "8", "SCHAR_MAX": "127", "SCHAR_MIN": "(-128)", "UCHAR_MAX": "255", "SHRT_MAX": "32767", "SHRT_MIN": "(-32768)",
    "USHRT_MAX": "65535", "INT_MAX": "2147483647", "INT_MIN": "(-INT_MAX - 1)", "UINT_MAX": "4294967295U",
    "LONG_MAX": "9223372036854775807L", "LONG_MIN": "(-LONG_MAX - 1L)", "ULONG_MAX": "18446744073709551615UL",
    "LLONG_MAX": "9223372036854775807LL", "LLONG_MIN": "(-LLONG_MAX - 1LL)", "ULLONG_MAX": "18446744073709551615ULL",
}  # fmt: skip
_FLOATS = {
    "FLT_MAX": "3.402823466e+38f", "FLT_MIN": "1.175494351e-38f", "FLT_EPSILON": "1.192092896e-07f", "FLT_DIG": "6",
    "DBL_MAX": "1.7976931348623157e+308", "DBL_MIN": "2.2250738585072014e-308", "DBL_EPSILON": "2.2204460492503131e-16",
}  # fmt: skip
_SIZES = {
    "INT8_MAX": "127", "INT16_MAX": "32767", "INT32_MAX": "2147483647", "INT64_MAX": "9223372036854775807L", "UINT8_MAX": "255",
    "UINT16_MAX": "65535", "UINT32_MAX": "4294967295U", "UINT64_MAX": "18446744073709551615UL",
}  # fmt: skip
_INTEGERS = "".join(
    f"typedef {sign} {name} {short}int{bits}_t;\n"
    for sign, short in (("signed", ""), ("unsigned", "u"))
    for bits, name in ((8, "char"), (16, "short"), (32, "int"), (64, "long"))
) + "typedef long intptr_t;\ntypedef unsigned long uintptr_t;\n"  # fmt: skip
# By the header's name in C++: types, which libcu++ has too, and macros.
_STANDARD_HEADERS = {
    "cstdint": (_INTEGERS, _SIZES), "climits": ("", _LIMITS), "cfloat": ("", _FLOATS),
}  # fmt: skip
# Those that CUDA's own headers include.
_OF_CUDA = ("assert.h", "limits.h", "math.h", "stddef.h", "stdint.h", "stdio.h", "stdlib.h", "string.h")
_STANDARD_NAME = re.compile(  # C++, then C and POSIX
    r"[a-z_]+|(?:assert|ctype|dirent|dlfcn|errno|fcntl|fenv|float|getopt|glob|inttypes|iso646|libgen|limits|locale|malloc|math|memory|"
    r"omp|pthread|signal|stdarg|stdbool|stddef|stdint|stdio|stdlib|string|strings|time|unistd|(?:sys|arpa|netinet|linux)/\w+)\.h"
)
# What a header belongs to that no kernel needs, by how its name begins.
_OF_HOST_LIBRARIES = {
    "PyTorch": ("torch/", "ATen/", "c10/", "pybind11/", "Python.h"), "JAX": ("xla/", "jax"), "TensorFlow": ("tensorflow/",),
    "a CUDA library for the host": ("cublas", "cudnn", "cusparse", "cusolver", "cufft", "curand.h", "nccl", "nvml", "nvToolsExt",
                                    "nvtx3/", "npp", "nvjpeg", "cuda_profiler_api.h"),
    "CUDA's samples": ("helper_", "exception.h"), "MPI": ("mpi.h",), "OpenCV": ("opencv",),
    "a test framework": ("gtest/", "catch2/"),
}  # fmt: skip


_AS_STD = "namespace cuda { namespace std {} }\nnamespace std { using namespace cuda::std; }\n"


# Libraries of device code, by how the names of their headers begin.
_DEVICE_LIBRARIES = {"CUTLASS": ("cutlass/", "cute/"), "cuRAND (pip's nvidia-curand)": ("curand_",), "NVSHMEM": ("nvshmem",)}


def device_library(header: str) -> str:
    """The library of device code that a header is of; empty where it is of none that is known."""
    return next((owner for owner, names in _DEVICE_LIBRARIES.items() if header.startswith(names)), "")


def host_library(header: str) -> str:
    """The library for the host that a header is of; empty where it is of none that is known."""
    return next((owner for owner, names in _OF_HOST_LIBRARIES.items() if header.startswith(names)), "")


@dataclass(frozen=True)
class DeviceText:
    """A text without host code, and its headers by the name in the ``#include``. Those in `left_out` became empty."""

    text: str
    headers: dict[str, str]
    left_out: tuple[str, ...]


def without_host_code(
    text: str, path: str, folders: Sequence[Path], known: Sequence[Path], of_host: frozenset[str] = frozenset()
) -> DeviceText | None:
    """`text` of the file `path` and its headers, which are beside it or in `folders`, without host code.

    Headers in the folders `known`, and those of libraries of device code, which compile without a host, are left to the compiler;
    the others keep their paths and lines in what it says (``#line``). `of_host` are names that only headers for the host declare:
    types and constants that use one are host code. A missing header of neither the standard library nor a library for the host may
    have device code, and is left to the compiler, too, and so is one whose brackets do not match. None where those of the text do
    not match.
    """
    found: dict[str, str] = {}
    whole: dict[str, str] = {}
    missing: list[str] = []
    names: dict[Path, str] = {}
    pending = [(text, Path(path).parent)]
    while pending:
        part, beside = pending.pop()
        for name in _included(part):
            if name in found or name in whole or name in missing or any((folder / name).is_file() for folder in known):
                continue
            header = next((place / name for place in (beside, *folders, Path(path).parent) if (place / name).is_file()), None)
            if header is not None and device_library(name):
                whole[name] = header.read_text(encoding="utf-8", errors="replace")
                pending.append((whole[name], header.parent))
            elif header is not None and (first := names.setdefault(header.resolve(), name)) != name:
                found[name] = f'#include "{first}"\n'  # as one file, which may say `#pragma once`
            elif header is not None:
                found[name] = header.read_text(encoding="utf-8", errors="replace")
                pending.append((found[name], header.parent))
            elif _STANDARD_NAME.fullmatch(name) or host_library(name):
                missing.append(name)
    annotations = _annotations([text, *found.values(), *whole.values()])
    if (own := _stripped(text, annotations, of_host)) is None:
        return None
    paths = {name: json.dumps(str(header), ensure_ascii=False) for header, name in names.items()}
    headers = {name: _stripped(part, annotations, of_host) or part for name, part in found.items()}
    headers |= {name: f"#line 1 {path}\n{headers[name]}" for name, path in paths.items()}
    return DeviceText(own, headers | {name: _instead_of(name, known) for name in {*missing, *_OF_CUDA}}, tuple(missing))


def _instead_of(name: str, folders: Sequence[Path]) -> str:
    """What device code takes from a header that is not there."""
    if name.startswith("cublas"):  # which includes these in its turn
        return "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
    if host_library(name) or name in ("stdlib.h", "cstdlib"):  # which declare the integers of each size, too
        return "#include <stdint.h>\n"
    plain = f"c{name.removesuffix('.h')}" if name.endswith(".h") else name
    plain = plain.replace("cinttypes", "cstdint")
    types, macros = _STANDARD_HEADERS.get(plain, ("", {}))
    if any((folder / "cuda" / "std" / plain).is_file() for folder in folders) and (types or macros or name == plain):
        types = f"#include <cuda/std/{plain}>\n{_AS_STD}"
    return "".join(["#pragma once\n", types, *(f"#ifndef {m}\n#define {m} {value}\n#endif\n" for m, value in macros.items())])


def _included(text: str) -> Iterator[str]:
    for token in _TOKEN.finditer(text):
        if token["directive"] and (match := _INCLUDE.match(token["directive"])):
            yield match[1] or match[2]


def _annotations(texts: Iterable[str]) -> frozenset[str]:
    """Words that make a definition device code: CUDA's own, and macros that stand for one of them."""
    defines = [match.groups() for text in texts for match in _DEFINE.finditer(text)]
    words = set(_ON_DEVICE)
    while more := {name for name, body in defines if name not in words and words & set(_WORD.findall(body))}:
        words |= more
    return frozenset(words)


class _Scan:
    """Where the reading of a text stands: the item since `start`, of which `head` is the code up to its first brace."""

    def __init__(self, text: str, annotations: frozenset[str], of_host: frozenset[str]) -> None:
        self.text, self.annotations, self.of_host = text, annotations, of_host
        self.pieces: list[str] = []
        self.start = self.depth = self.scopes = 0
        self.head, self.body = "", False

    def keep(self, end: int) -> None:
        """The text up to there stays, whatever it is, and an item begins."""
        self.pieces.append(self.text[self.start : end])
        self.start, self.head, self.body = end, "", False

    def close(self, end: int) -> None:
        """An item ends there."""
        item, on_device = self.text[self.start : end], self.annotations & set(_WORD.findall(self.head))
        if not on_device and (not _stays(self.head, self.body) or self.of_host & set(_WORD.findall(item))):
            self.pieces.append(_blank(item))
            self.start = end
        self.keep(end)

    def code(self, word: str) -> bool:
        """Take in what is no bracket."""
        if not self.body:
            self.head += word
        return True

    def bracket(self, value: str, end: int) -> bool:
        """Take in a bracket or a semicolon; False where it does not match."""
        if value == "{" and not self.depth and _OPENS_SCOPE.match(self.head):
            self.scopes += 1
            self.keep(end)
        elif value == "}" and not self.depth:
            if self.head.strip() or not self.scopes:
                return False
            self.scopes -= 1
            self.keep(end)
        elif value in "{(":
            self.body = self.body or (value == "{" and not self.depth)
            self.depth += 1
            self.code(value)
        elif value in "})":
            self.depth -= 1
            self.code(value)
            if value == "}" and not self.depth and _is_function(self.head):
                self.close(end)
        elif not self.depth:
            self.close(end)
        else:
            self.code(value)
        return True


def _stripped(text: str, annotations: frozenset[str], of_host: frozenset[str]) -> str | None:
    """The text with host code blanked out; None where brackets do not match."""
    scan = _Scan(text, annotations, of_host)
    for token in _TOKEN.finditer(text):
        if token["comment"]:
            continue
        if token["directive"]:
            if not scan.depth and not scan.head.strip():  # between items
                scan.keep(token.end())
        elif not (scan.bracket(token.group(), token.end()) if token["bracket"] else scan.code(token.group())):
            return None
    return None if scan.depth or scan.scopes or scan.head.strip() else "".join([*scan.pieces, text[scan.start :]])


def _is_function(head: str) -> bool:
    """Does the head before a brace begin the body of a function? Else of a type, or of what a variable is given."""
    head = _ATTRIBUTE.sub("", head)
    before = head.partition("(")[0]
    outside = re.sub(r"<[^<>]*>", "", re.sub(r"operator\s*[=!<>]+", "operator", before))
    return "(" in head and "=" not in outside


def _stays(head: str, body: bool) -> bool:
    """Is it a type, a name, or a constant?"""
    if body and _is_function(head):
        return False
    if _STANDARD.search(head):
        return False
    if _NAMES.match(head):
        return "(" not in head or body or head.lstrip().startswith(("using", "typedef"))
    return "const" in _WORD.findall(head) and "(" not in head.partition("=")[0]


def _blank(item: str) -> str:
    """As many empty lines."""
    return re.sub(r"[^\n]+", "", item)
