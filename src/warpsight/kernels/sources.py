"""From what a user has, a `.cu`, `.ptx` or `.cubin` file, a program, text or standard input, to kernels ready to run."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import BinaryIO
from weakref import WeakKeyDictionary

from warpsight.base.errors import FormatError, UnsupportedError, UsageError, WarpsightError, suggestion
from warpsight.base.inputs import read_input
from warpsight.isa.ptx.parser import parse_module
from warpsight.kernels.assembler import assembler_options
from warpsight.kernels.cubin import embedded_ptx, read_module
from warpsight.kernels.cuda import DEFAULT_STANDARD, CompileOptions, compile_cached, included_text
from warpsight.kernels.fatbin import (
    Entry,
    architectures_in,
    best_code,
    is_binary,
    modules_in,
    no_ptx,
    not_for,
    ptx_texts,
)
from warpsight.kernels.launch import KernelSource
from warpsight.kernels.mangling import base_name, display_name, normalised
from warpsight.kernels.toolkit import DEFAULT_ARCHITECTURE, Architecture, parse_architecture

TEXT = "<text>"
"""What a text without a file is called in line information."""
_PTX_HEADER = re.compile(r"^[ \t]*\.version\s", re.MULTILINE)
_CUDA_HINT = re.compile(r"__global__|__device__|^[ \t]*#[ \t]*include", re.MULTILINE)
_TEMPLATE = re.compile(r"\btemplate\s*<([^;{}]*?)>[^;{}()]*?\b__global__\b(?:[^;{}()]|__launch_bounds__\s*\([^)]*\))*?\b(\w+)\s*\(")
_KINDS = "a .cu (CUDA C++), .ptx or .cubin file"
_LISTED = 20
_STDIN: WeakKeyDictionary[BinaryIO, bytes] = WeakKeyDictionary()


def _is_text(source: str | Path) -> bool:
    return isinstance(source, str) and ("\n" in source or _PTX_HEADER.search(source) is not None or "__global__" in source)


def _stdin() -> bytes:
    """The bytes of standard input, which are kept: a kernel may run a second time, and the stream gives them once."""
    stream = sys.stdin.buffer
    if stream not in _STDIN:
        _STDIN[stream] = stream.read()
    return _STDIN[stream]


def near_file(name: str) -> str:
    """A suggestion for a file that does not exist: the nearest name in its folder."""
    path = Path(name)
    return suggestion(path.name, [each.name for each in path.parent.glob("*")] if os.path.isdir(path.parent) else [])


def _read_bytes(name: str) -> bytes:
    """The bytes of the file `name`, or of standard input for `-`."""
    if name == "-":
        return _stdin()
    path = Path(name)
    if not os.path.exists(name):  # unlike a Path's own method, this takes names that no file can have
        raise UsageError(f"no such file{near_file(name)}", place=name, remedy=f"give {_KINDS}, or - for standard input")
    if path.is_dir():
        raise UsageError("is a folder, not a kernel source", place=name, remedy=f"give {_KINDS}")
    try:
        return read_input(name)
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", place=name, remedy="give a file that you can read") from error


def _decode(data: bytes, name: str) -> str:
    # NVRTC and some tools leave the C string's terminator at the end of PTX.
    data = data.rstrip(b"\x00")
    if b"\x00" in data:
        raise FormatError("is a binary file, not source text", place=name, remedy=f"give {_KINDS}")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise FormatError("is not UTF-8 text", place=f"{name}:{line}", remedy=f"give {_KINDS} saved as UTF-8") from error
    if not text.strip():
        raise FormatError("is empty: there is no kernel to run", place=name, remedy=f"give {_KINDS}")
    return text


def _is_ptx(text: str, name: str) -> bool:
    """Whether `text` is PTX, by extension where that is known and else by content. Raises FormatError when it is neither."""
    if name.endswith(".ptx"):
        return True
    if name.endswith((".cu", ".cuh")):
        return False
    if _PTX_HEADER.search(text):
        return True
    if _CUDA_HINT.search(text):
        return False
    raise FormatError("is neither PTX (no .version line) nor CUDA C++ (no __global__)", place=name, remedy=f"give {_KINDS}")


def _only_for_cuda(name: str, what: str, **options: object) -> None:
    for option, value in options.items():
        if value:
            text = f"{name} is {what}, which is compiled already: `{option}` cannot change it"
            raise UsageError(text, place=option, remedy="leave the option out, or give the .cu file")


def load_source(
    path_or_text: str | Path, *, arch: str | int | None = None, kernel_expressions: Sequence[str] = (), defines: Sequence[str] = (),
    include_dirs: Sequence[str] = (), name: str | None = None, native: Architecture | None = None,
    maxrregcount: int | None = None, opt_level: int | None = None, std: str | None = None,
) -> KernelSource:
    """Read, compile if need be, and parse kernels.

    `path_or_text` is a `.cu`, `.ptx`, `.cubin` or `.fatbin` path, a program that embeds kernels, `-` for standard input, or the
    text itself (anything with a line break). CUDA C++ is compiled for `arch` (`native`, or `DEFAULT_ARCHITECTURE`, unless given),
    with `defines` (`NAME=value`), `include_dirs` and the C++ standard `std` (`c++17`). `kernel_expressions` such as `scale<float>`
    instantiate template kernels; of several modules in a program the one that has the first of them is taken. `native` is whose
    machine code will be executed, None for PTX. `maxrregcount` and `opt_level` are the assembler's. `name` is shown for a text that
    has no file. Raises UsageError, FormatError, CompileError; UnsupportedError for PTX that is not modelled, and for machine code
    where PTX is wanted.
    """
    if _is_text(path_or_text):
        shown, data = name or TEXT, str(path_or_text).encode("utf-8", "surrogatepass")
    else:
        path = str(path_or_text)
        shown, data = name or ("<stdin>" if path == "-" else path), _read_bytes(path)
    # Without a GPU an architecture says whose machine code is meant.
    changing = None if native is not None and arch is not None and parse_architecture(arch) == native else arch
    assembling = assembler_options(maxrregcount, opt_level)
    if is_binary(data):
        _only_for_cuda(shown, "machine code", arch=changing, defines=tuple(defines), include_dirs=tuple(include_dirs), std=std)
        source = _binary_source(data, shown, kernel_expressions[0] if kernel_expressions else None, native)
        if source.cubin:
            _only_for_cuda(shown, "machine code", maxrregcount=maxrregcount is not None, opt_level=opt_level is not None)
        return replace(source, assembling=assembling)
    text = _decode(data, shown)
    if _is_ptx(text, shown):
        _only_for_cuda(shown, "PTX", arch=changing, defines=tuple(defines), include_dirs=tuple(include_dirs), std=std)
        return KernelSource(shown, text, parse_module(text, shown), assembling=assembling)
    default = DEFAULT_ARCHITECTURE if native is None else native.virtual
    options = CompileOptions(
        parse_architecture(arch if arch is not None else default), tuple(defines), tuple(include_dirs),
        tuple(expression for expression in kernel_expressions if "<" in expression), std or DEFAULT_STANDARD,
    )
    compiled = compile_cached(text, shown, options)
    module = parse_module(compiled.ptx, f"{shown} (PTX)")
    if not module.kernels and (templates := _TEMPLATE.findall(text)):
        instance = f"{templates[0][1]}<{_example(templates[0][0])}>"
        remedy = (f"give an instance: `kernel='{instance}'`, with its template arguments, or add one to the text: "
                  f"`template __global__ void {instance}(...);`")  # fmt: skip
        names = ", ".join(name for _, name in templates)
        raise UsageError(f"its kernels are templates, and none is instantiated: {names}", place=shown, remedy=remedy)
    return KernelSource(shown, compiled.ptx, module, dict(compiled.mangled_names), compiled.warnings, assembling=assembling)


def _example(parameters: str) -> str:
    """Arguments that template `parameters` may have: a type, a truth value, a number."""
    kinds = [each.split() for each in parameters.split(",")]
    return ", ".join({"typename": "float", "class": "float", "bool": "true"}.get(kind[0] if kind else "", "4") for kind in kinds)


# -- Cubins, fat binaries and programs.


def has_only_machine_code(source: object) -> bool:
    """Whether `source` is a file of machine code without PTX. Raises what reading it raises."""
    if not isinstance(source, (str, os.PathLike)) or _is_text(path := str(source)) or not os.path.isfile(path):
        return False
    data = _read_bytes(path)
    return is_binary(data) and not any(entry.kind == "ptx" for module in modules_in(data, path) for entry in module)


def own_architecture(path_or_text: str | Path, arch: str | int | None = None) -> Architecture:
    """Whose machine code is meant where no GPU is given: `arch`, the only one that a cubin or program has machine code for, or
    `DEFAULT_ARCHITECTURE`, which compilers get. Raises UsageError where there are several, and what reading the file raises.
    """
    if arch is not None:
        return parse_architecture(arch)
    data = b"" if _is_text(path_or_text) else _read_bytes(str(path_or_text))
    found: set[Architecture] = set()
    if is_binary(data):
        entries = [entry for module in modules_in(data, str(path_or_text)) for entry in module if entry.kind == "elf"]
        found = {entry.architecture for entry in entries}
        if len(found) > 1:
            what = f"has machine code for {architectures_in(entries)}, and no GPU is given"
            raise UsageError(what, place=str(path_or_text), remedy="choose one with `gpu=` or `arch=`")
    return found.pop() if found else parse_architecture(DEFAULT_ARCHITECTURE)


def check_source(path: str, arch: str | None) -> None:
    """Raise what is wrong with a source whatever its launch and level are."""
    if not _is_text(path) and is_binary(data := _read_bytes(path)):
        modules_in(data, path)
    else:
        load_source(path, arch=arch)


def module_source(
    entries: Sequence[Entry], place: str, native: Architecture | None, gpu: Architecture | None = None
) -> KernelSource:
    """One module of a program: the machine code that CUDA chooses for `native`, else PTX to be assembled for it; for None PTX,
    first what can be assembled for `gpu`.

    Raises UsageError where neither runs there, UnsupportedError where PTX is wanted and there is none, or it is not modelled.
    """
    code = None if native is None else best_code(entries, native)
    if code is not None:
        module = read_module(code.data, code.architecture, place)
        return KernelSource(place, embedded_ptx(code.data), module, cubin=code.data)
    refusal: WarpsightError | None = None
    texts = ptx_texts(entries, place, native)
    fitting = ptx_texts(entries, place, gpu) if native is None and gpu is not None else []
    for text in [*fitting, *(text for text in texts if text not in fitting)]:
        try:
            return KernelSource(place, text, parse_module(text, f"{place} (PTX)"))
        except WarpsightError as error:
            refusal = refusal or error
    raise refusal or (no_ptx(entries, place) if native is None else not_for(entries, native, place))


def _binary_source(data: bytes, name: str, kernel: str | None, native: Architecture | None) -> KernelSource:
    """The module of a binary that contains `kernel`. Raises as `module_source` does, and UsageError where several contain it."""
    sources: list[KernelSource] = []
    refusal: WarpsightError | None = None
    for entries in modules_in(data, name):
        try:
            sources.append(module_source(entries, name, native))
        except (UsageError, UnsupportedError) as error:
            refusal = refusal or error
    sources = [source for source in sources if source.module.kernels] or sources[:1]
    if not sources:
        raise refusal or FormatError("contains no kernel", place=name, remedy=f"give {_KINDS}")
    if len(sources) == 1:
        return sources[0]
    chosen = _find(list(dict.fromkeys(k for source in sources for k in source.module.kernels)), {}, name, kernel)
    holding = [source for source in sources if chosen in source.module.kernels]
    if len(holding) > 1:
        what = f"{len(holding)} of its modules have a kernel {display_name(chosen)}"
        raise UsageError(what, place=name, remedy="give the cubin of one of them (cuobjdump -xelf all)")
    return holding[0]


def _listing(kernels: Iterable[str]) -> str:
    names = [display_name(kernel) for kernel in kernels]
    more = f", and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more


def _candidates(kernels: Sequence[str], name: str) -> list[str]:
    """The kernels that `name` may mean, by the strictest reading that any kernel satisfies."""
    full = {kernel: normalised(display_name(kernel)) for kernel in kernels}
    plain = {kernel: base_name(display) for kernel, display in full.items()}
    for displayed in (full, plain):
        for matches in (str.__eq__, lambda display, name: display.endswith(f"::{name}")):
            if candidates := [kernel for kernel in kernels if matches(displayed[kernel], name)]:
                return candidates
    return []


def find_kernel(source: KernelSource, name: str | None = None) -> str:
    """The mangled name of the kernel that `name` means: mangled, or as in the source (`spmv_csr`, `ns::foo`, `scale<float>`).

    The end of a qualified name (`foo` for `ns::foo`) and a template without its arguments will do where only one kernel fits; None
    where there is only one kernel, those of library headers aside. Raises UsageError with the list of kernels otherwise.
    """
    kernels = source.module.kernels
    if name is None and len(kernels) > 1:
        own = [kernel for kernel, function in kernels.items() if not function.is_of_library]
        if len(own) == 1:
            return own[0]
    return _find(list(kernels), source.mangled_names, source.path, name)


def kernels_like(source: KernelSource, pattern: str | None) -> list[str]:
    """The mangled names of the kernels that are called like `pattern` (with `*` and `?`), or contain it; without one, of all."""
    kernels = list(source.module.kernels)
    if pattern is None:
        return kernels
    return _fitting(kernels, pattern if _is_pattern(pattern) else f"*{pattern}*")


def _fitting(kernels: Sequence[str], pattern: str) -> list[str]:
    """The kernels whose name fits `pattern`, with its namespace or without."""
    names = {kernel: display_name(kernel) for kernel in kernels}
    return [kernel for kernel, name in names.items()
            if fnmatchcase(name, pattern) or fnmatchcase(base_name(name).rpartition("::")[2], pattern)]  # fmt: skip


def _is_pattern(name: str) -> bool:
    return "?" in name or ("*" in name and "<" not in name)  # `scale<float*>` is the name of a template's instance


def source_texts(path: str, include_dirs: Sequence[str] = ()) -> list[str]:
    """The text of a CUDA source and of the user's headers that it includes; nothing for PTX and machine code."""
    data = _read_bytes(path)
    if is_binary(data):
        return []
    text = _decode(data, path)
    return [] if _is_ptx(text, path) else [text, *(included_text(text, path, tuple(include_dirs)) or ())]


def _find(kernels: list[str], mangled_names: Mapping[str, str], place: str, name: str | None) -> str:
    if not kernels:
        remedy = "mark one `__global__`, and not static; for a template give its instance: `kernel='name<float>'`"
        raise UsageError("it contains no kernel", place=place, remedy=remedy)
    if name is None:
        if len(kernels) == 1:
            return kernels[0]
        what = f"there are {len(kernels)} kernels in it: {_listing(kernels)}"
        more = f", or with a pattern, as '{display_name(kernels[0])[:4]}*'; `warpsight init {place} --list` lists all"
        raise UsageError(what, place=place, remedy=f"choose one with `kernel='NAME'`{more if len(kernels) > _LISTED else ''}")
    if name in kernels:
        return name
    if (lowered := mangled_names.get(name)) in kernels:
        return str(lowered)
    candidates = _candidates(kernels, normalised(name))
    if not candidates and _is_pattern(name):
        candidates = _fitting(kernels, name)
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        # Overloads look alike without their parameters, so the mangled names distinguish them.
        alike = len({display_name(kernel) for kernel in candidates}) < len(candidates)
        what = f'"{name}" may mean {len(candidates)} kernels: {", ".join(candidates) if alike else _listing(candidates)}'
        raise UsageError(what, place=place, remedy="give one of these names in full")
    what = f'there is no kernel "{name}"{suggestion(name, [display_name(kernel) for kernel in kernels])}'
    raise UsageError(what, place=place, remedy=f"the kernels are: {_listing(kernels)}")
