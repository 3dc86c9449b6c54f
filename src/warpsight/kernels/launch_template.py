"""A launch file to begin with: every parameter of a kernel by its name and type in the source, with a size that it can run with.

Names and types come from the kernel's declaration, as far as the text has it; sizes of parameters from the PTX. The launch has
about a million threads, and an array an element for each.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from warpsight.isa.ptx.program import Address, Function, SpecialRegister, Symbol, Variable
from warpsight.kernels.arguments import TYPES, is_struct, takes_array
from warpsight.kernels.launch import Dim3, KernelSource
from warpsight.kernels.launch_check import refuse_made_parameters
from warpsight.kernels.mangling import base_name, display_name

# Grid, block and the extent of an axis, by the number of axes that the kernel reads.
_GRIDS: dict[int, tuple[Dim3, Dim3, int]] = {
    1: ((4096, 1, 1), (256, 1, 1), 1024), 2: ((64, 64, 1), (16, 16, 1), 1024), 3: ((16, 16, 16), (8, 8, 4), 64),
}  # fmt: skip
# C++ types by our names for them, and how many of these a value has.
_SCALARS = {
    "float": "f32", "double": "f64", "half": "f16", "__half": "f16", "bool": "bool", "char": "i8", "signed char": "i8",
    "unsigned char": "u8", "uchar": "u8", "short": "i16", "unsigned short": "u16", "ushort": "u16", "int": "i32", "signed": "i32",
    "unsigned": "u32", "unsigned int": "u32", "uint": "u32", "long": "i64", "unsigned long": "u64", "long long": "i64",
    "long long int": "i64", "unsigned long long": "u64", "unsigned long long int": "u64", "size_t": "u64", "ptrdiff_t": "i64",
    "__nv_bfloat16": "u16", "nv_bfloat16": "u16", "__nv_bfloat162": "u32", "void": "u8",
    "unsigned long int": "u64", "long int": "i64", "short int": "i16", "unsigned short int": "u16",
    **{f"{sign}int{bits}_t": f"{sign or 'i'}{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip
_VECTOR = re.compile(r"(float|double|int|uint|char|uchar|short|ushort)([1234])")
_COUNTS = re.compile(r"(nr|cnt|length|total|elements|numel|num\w*|nelem\w*|n_?(elements|items)|(.*_)?(size|count|len|n))", re.I)
_EXTENTS = re.compile(
    r"(m|k|w|h|nx|ny|nz|width|height|depth|rows?|cols?|columns|dim\w*|ld[abc]?|pitch|(n|num)_?(rows|cols|columns))", re.I
)


@dataclass(frozen=True)
class Parameter:
    """A parameter of the kernel: its `name` and `type` in the source ("" where the text does not have them), `value` and `why`."""

    name: str
    type: str
    value: str
    why: str


@dataclass(frozen=True)
class LaunchTemplate:
    """A launch of `kernel` of the file `source` with a value for every parameter.

    `elements` names the parameter that counts the elements of the arrays, from which a grid of one dimension follows; else "".
    """

    source: str
    kernel: str
    grid: Dim3
    block: Dim3
    shared: int
    parameters: tuple[Parameter, ...]
    elements: str = ""

    def text(self, path: str, settings: Mapping[str, Any]) -> str:
        """The YAML of a launch file at `path`, with a comment on each value; `settings` are further keys, left out where empty."""
        beside = os.path.relpath(self.source, os.path.dirname(path) or ".") if path != "-" else self.source
        threads = math.prod(self.block)
        every = math.prod(self.grid) * threads
        grid = (f"ceil({self.elements} / block.x)", "blocks: a thread for each element") if self.elements else (
            _dimensions(self.grid), f"blocks; with {threads} threads each, {every:,} threads"
        )
        rows = [
            (f"source: {_quoted(beside)}", ""),
            (f"kernel: {_quoted(self.kernel)}", ""),
            *((f"{key}: {_setting(value, path)}", "") for key, value in settings.items() if value),
            (f"grid: {grid[0]}", grid[1]),
            (f"block: {_dimensions(self.block)}", "threads per block"),
            *([(f"shared: {self.shared}", "bytes of dynamic shared memory: one element for each thread")] if self.shared else []),
            ("args:" if self.parameters else "args: []", "in the order of the kernel's parameters" if self.parameters else ""),
            *((f"  - {_quoted(each.value)}", _about(each)) for each in self.parameters),
        ]
        width = min(max(len(text) for text, _ in rows), 48) + 2
        head = ["# The sizes and values were chosen by `warpsight init`: replace them with those of your program."]
        return "\n".join([*head, *(f"{text:<{width}}# {comment}" if comment else text for text, comment in rows), ""])


def _setting(value: Any, path: str) -> str:
    """A text, or a list of texts; folders are seen from the file."""
    if not isinstance(value, list):
        return _quoted(str(value))
    folder = os.path.dirname(path) or "."
    return f"[{', '.join(_quoted(os.path.relpath(each, folder) if os.path.isdir(each) else each) for each in value)}]"


def _quoted(text: str) -> str:
    """A YAML text in single quotes, unless it is a plain word."""
    return text if re.fullmatch(r"[\w./-]*[A-Za-z][\w./-]*", text) else "'" + text.replace("'", "''") + "'"


def _dimensions(dims: Dim3) -> str:
    """`4096`, `[64, 64]`."""
    kept = list(dims)
    while len(kept) > 1 and kept[-1] == 1:
        kept.pop()
    return str(kept[0]) if len(kept) == 1 else str(kept)


def _about(parameter: Parameter) -> str:
    declared = f"{parameter.name}: {parameter.type}" if parameter.name else parameter.type
    return f"{declared}; {parameter.why}" if parameter.why else declared


def launch_template(source: KernelSource, kernel: str, texts: Sequence[str]) -> LaunchTemplate:
    """A launch of `kernel` (its mangled name) of `source`; `texts` are those of a CUDA source and its headers."""
    function, shown = source.module.kernels[kernel], display_name(kernel)
    refuse_made_parameters(function)
    code = "\n".join(map(_without_comments, texts))
    declared = _declared(code, shown)
    read = {each.name for each in _operands(function) if isinstance(each, SpecialRegister)}
    if "cooperative_groups" in code:  # which read all axes to number threads
        read = {f"%tid.{axis}" for axis in re.findall(r"\bthreadIdx\s*\.\s*([xyz])\b", code)}
    grid, block, side = _GRIDS[max(number for number, axis in enumerate("xyz", 1) if axis == "x" or f"%tid.{axis}" in read)]
    if function.required_cluster is not None:  # whole clusters
        x, y, z = (-(-count // size) * size for count, size in zip(grid, function.required_cluster, strict=True))
        grid = (x, y, z)
    count = math.prod(grid) * math.prod(block)
    block = _block(function, block)
    if len(declared) != len(function.parameters):
        declared = [("", "")] * len(function.parameters)
    is_matrix = bool({name.lower() for _, name in declared} & {"m", "k"})  # then n is an extent, too
    sizes = _Sizes(count, side, is_matrix, code)
    parameters = tuple(
        _parameter(name, type, variable, sizes) for (type, name), variable in zip(declared, function.parameters, strict=True)
    )
    counts = [each.name for each in parameters if each.why == _ALL_ELEMENTS and each.name]
    flat = grid[1:] == block[1:] == (1, 1) and function.required_cluster is None
    shared = _dynamic_shared(source, function, block, code)
    return LaunchTemplate(source.path, shown, grid, block, shared, parameters, counts[0] if flat and len(counts) == 1 else "")


_ALL_ELEMENTS = "as many as an array has elements"


def parameter_names(source: KernelSource, kernel: str, texts: Sequence[str]) -> list[str]:
    """What `texts`, those of a CUDA source and its headers, call the parameters of `kernel` (its mangled name), in order.

    Where the texts do not have its declaration, what the PTX calls them.
    """
    parameters = source.module.kernels[kernel].parameters
    declared = [name for _, name in _declared("\n".join(map(_without_comments, texts)), display_name(kernel))]
    return declared if len(declared) == len(parameters) else [each.name for each in parameters]


def declared_parameters(text: str, kernel: str) -> list[tuple[str, str]]:
    """Type and name of each parameter of `kernel` (its mangled name) by a CUDA text; none where that has no declaration of it."""
    return _declared(_without_comments(text), display_name(kernel)) if "__global__" in text else []


def can_be_elements(dtype: np.dtype[Any], type: str, code: str) -> bool:
    """Whether an array of `dtype` is what a parameter of the C++ `type` points to; also where that is not known.

    Bytes can be anything, and anything can be read as bytes; types of 16 bits are also given by their bits.
    """
    known = _element(_resolved(_bare(type.removesuffix("*")), code)) if type.endswith("*") else None
    declared = TYPES[known[0]] if known else dtype
    if known is None or 1 in (dtype.itemsize, declared.itemsize):
        return True
    if dtype.itemsize not in (declared.itemsize, declared.itemsize * known[1]):
        return False
    return dtype.itemsize == 2 or (dtype.kind in "fc") == (declared.kind == "f")


def _operands(function: Function) -> Iterator[Any]:
    """The operands of its instructions, and what addresses among them begin with."""
    for instruction in function.instructions:
        for operand in instruction.operands:
            yield operand.base if isinstance(operand, Address) else operand


def _dynamic_shared(source: KernelSource, function: Function, block: Dim3, code: str) -> int:
    """Bytes for one element for each thread, if the kernel reads dynamic shared memory; else 0."""
    named = {each.name for each in _operands(function) if isinstance(each, Symbol)}
    variables = [variable for name, variable in source.module.variables.items() if name in named]
    if not any(variable.extern and variable.space == "shared" for variable in variables):
        return 0
    match = re.search(r"extern\s+__shared__\s+(?:__align__\s*\([^)]*\)\s*)?([\w ]+?)\s*\w+\s*\[\s*\]", code)
    element, times = (match and _element(_resolved(match[1], code))) or ("f32", 1)
    return math.prod(block) * TYPES[element].itemsize * times


def _block(function: Function, block: Dim3) -> Dim3:
    """A block that the kernel's launch bounds allow."""
    if function.required_threads is not None:
        return function.required_threads
    most = math.prod(function.max_threads or (1024,))
    x, y, z = block
    while x * y * z > most:
        x, y, z = (x // 2, y, z) if x >= y else (x, y // 2, z)
    return x, y, z


# -- The declaration in the source.

def _without_comments(text: str) -> str:
    return re.sub(r'//[^\n]*|/\*.*?\*/', " ", text, flags=re.DOTALL)


def _declared(code: str, shown: str) -> list[tuple[str, str]]:
    """Type and name of each parameter of the kernel that is shown as `ns::scale<float>`; none if its declaration is not found."""
    base = base_name(shown).rpartition("::")[2]
    given = _split(shown[len(base_name(shown)) :].strip("<>")) if shown.endswith(">") else []
    declaration = rf"(?:template\s*<([^{{}};]*?)>\s*)?(?:[\w:]+\s+)*__global__\b[^;{{}}]*?\b{re.escape(base)}\s*\("
    for match in re.finditer(declaration, code):
        depth, end = 1, match.end()
        while depth and end < len(code):
            depth += {"(": 1, ")": -1}.get(code[end], 0)
            end += 1
        inside = code[match.end() : end - 1]
        formal = [part.split("=")[0].split() for part in _split(match[1] or "")]
        kinds = {words[-1]: value for words, value in zip(formal, given, strict=False) if words[0] in ("typename", "class")}
        for name, value in kinds.items():
            inside = re.sub(rf"\b{re.escape(name)}\b", value, inside)
        return [] if inside.strip() in ("", "void") else [_type_and_name(part) for part in _split(inside)]
    return []


def _split(text: str) -> list[str]:
    """The parts between commas that are in no brackets."""
    parts, depth = [""], 0
    for sign in text:
        depth += {"<": 1, "(": 1, "[": 1, ">": -1, ")": -1, "]": -1}.get(sign, 0)
        if sign == "," and not depth:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts if part.strip()]


def _type_and_name(text: str) -> tuple[str, str]:
    """`const float*` and `x` of `const float* __restrict__ x`."""
    text = re.sub(r"\b(?:__restrict__|__restrict|restrict|__grid_constant__|volatile|struct)\b", " ", text.partition("=")[0])
    text, arrays = re.subn(r"\[[^\]]*\]", " ", text)
    match = re.fullmatch(r"(.*?[\s*&>])(\w+)\s*", text.strip(), re.DOTALL)
    type, name = (match[1], match[2]) if match else (text, "")
    type = re.sub(r"\s*\*\s*", "*", " ".join(type.split())).strip() + "*" * bool(arrays)
    return re.sub(r"\bconst$", "", type).strip(), name


def _resolved(type: str, code: str) -> str:
    """The type behind a `typedef`, a `using` or a `#define` of the text."""
    for _ in range(4):
        alias = re.search(
            rf"\btypedef\s+([\w ]+?)\s+{re.escape(type)}\s*;|\busing\s+{re.escape(type)}\s*=\s*([\w ]+?)\s*;"
            rf"|^[ \t]*#[ \t]*define[ \t]+{re.escape(type)}[ \t]+([\w ]+?)[ \t]*$", code, re.MULTILINE,
        )  # fmt: skip
        if alias is None:
            break
        type = next(group for group in alias.groups() if group)
    return type


def _element(type: str) -> tuple[str, int] | None:
    """Our type for a C++ type, and how many of it one value has: (f32, 4) for `float4`."""
    plain = " ".join(word for word in type.split() if word != "const").removeprefix("std::").removeprefix("::")
    if plain in _SCALARS:
        return _SCALARS[plain], 1
    if plain in ("half2", "__half2"):
        return "f16", 2
    vector = _VECTOR.fullmatch(plain)
    return (_SCALARS[vector[1]], int(vector[2])) if vector else None


# -- Values.

@dataclass(frozen=True)
class _Sizes:
    """The elements of an array, the extent of a matrix, whether there is one, and the text in which types are defined."""

    count: int
    side: int
    is_matrix: bool
    code: str


def _parameter(name: str, type: str, variable: Variable, sizes: _Sizes) -> Parameter:
    if takes_array(variable) and (type.endswith("*") if type else True):
        return _array(name, type, sizes)
    known = _element(_resolved(_bare(type.removesuffix("&")), sizes.code))
    if is_struct(variable):
        why = (f"a struct by value, all zeros here, so that pointers in it are null: replace its {variable.size} bytes by those of "
               "your program, in hexadecimal")  # fmt: skip
        return Parameter(name, type or "struct", "hex:" + "00" * variable.size, why)
    kind = known[0] if known and known[1] == 1 and TYPES[known[0]].itemsize == variable.size else ""
    value, why = _scalar(name, (kind or variable.type).startswith("f"), sizes)
    if kind == "bool":
        value = "true"
    return Parameter(name, type or variable.type, f"{kind}:{value}" if kind else value, why)


def _bare(type: str) -> str:
    return " ".join(word for word in type.split() if word != "const")


def _array(name: str, type: str, sizes: _Sizes) -> Parameter:
    pointee, count = type[:-1].strip(), sizes.count
    if pointee.endswith("*"):
        why = "device addresses, which a launch file cannot give: each is a null pointer here"
        return Parameter(name, type, f"u64[{count}]:zeros", why)
    known = _element(_resolved(_bare(pointee), sizes.code))
    element, times = known or ("f32", 1)
    why = "" if known else "its elements are not known here: taken as f32"
    rule = "zeros"
    if "const" in pointee.split() and element != "bool":
        wide = element in ("i32", "u32", "i64", "u64") and times == 1
        rule = "uniform" if element[0] == "f" else f"randint({count if wide else 100})"
        why = "random, each below the number of elements, so that they may be indices" if wide else why
    return Parameter(name, type or "an array or an integer of 8 bytes", f"{element}[{count * times}]:{rule}", why)


def _scalar(name: str, floating: bool, sizes: _Sizes) -> tuple[str, str]:
    """The value of a scalar by its name, and why."""
    if floating:
        return "1e-5" if re.search("eps|tol", name, re.I) else "0.0" if name.lower() == "beta" else "1.0", ""
    if _EXTENTS.fullmatch(name) or (sizes.is_matrix and name.lower() == "n"):
        return str(sizes.side), "an extent of the matrix or the grid"
    if _COUNTS.fullmatch(name):
        return str(sizes.count), _ALL_ELEMENTS
    return "1", ""
