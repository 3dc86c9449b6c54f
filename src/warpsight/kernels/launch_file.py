"""A launch kept in a file: a small YAML, or a Python file whose own code makes the arrays.

`LaunchSpec` has the keys and their meaning; `source` and `include_dirs` are relative to the file. `prepare` compiles it.
"""

from __future__ import annotations

import re
import runpy
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from os.path import isfile
from pathlib import Path
from typing import Any, NoReturn

from warpsight.base.errors import FormatError, UsageError, WarpsightError, suggestion
from warpsight.base.yaml_nodes import Composed, compose
from warpsight.kernels.arguments import scalar_number, type_name
from warpsight.kernels.launch import ArrayArgument, KernelSource, Launch
from warpsight.kernels.launch_check import make_launch
from warpsight.kernels.launch_template import can_be_elements, declared_parameters, parameter_names
from warpsight.kernels.mangling import display_name
from warpsight.kernels.sources import find_kernel, load_source, near_file, source_texts
from warpsight.kernels.toolkit import Architecture
from warpsight.kernels.values import check_kinds, has_names, parse_integer, shown, whole_number

_DEPTH = 2
_UNQUOTED = re.compile(r"""(?<!['"\w])[iuf]\d+\[""")  # the beginning of an array
_QUOTE = "quote texts that have brackets or commas: args: ['f32[1024]:uniform']"


def _value(node: Any, path: str, depth: int = 0) -> Any:
    if node.id == "scalar":
        return None if node.tag == "tag:yaml.org,2002:null" else str(node.value)
    if node.id == "sequence":
        if depth == _DEPTH:  # aliases can make a short text endless
            what = f"lists are {depth} deep here, and no key takes a deeper one"
            raise UsageError(what, place=f"{path}:{node.start_mark.line + 1}", remedy=_QUOTE)
        return [_value(item, path, depth + 1) for item in node.value]
    raise UsageError("a mapping is not expected here", place=f"{path}:{node.start_mark.line + 1}", remedy=_QUOTE)


def read_yaml(path: str, *, needs: str = "a launch needs source, grid, block") -> tuple[dict[str, Any], dict[str, int]]:
    """The values (texts, lists of texts, None) and the line of each key; `needs` is the remedy for an empty file.

    Raises FormatError for what is not YAML, UsageError for a duplicate key or a value that is a mapping, with file and line.
    """
    values: dict[str, Any] = {}
    lines: dict[str, int] = {}
    try:
        document = compose(Path(path), path, Composed("launch file", "a launch file", needs, FormatError))
    except FormatError as error:
        if "is not YAML" in error.what and _UNQUOTED.search(Path(path).read_text("utf-8", errors="replace")):
            raise FormatError(error.what, place=error.place, remedy=_QUOTE) from None
        raise
    for key_node, value_node in document.value:
        key, line = str(key_node.value), key_node.start_mark.line + 1
        if key in lines:
            raise UsageError(f"{key} is given twice, first in line {lines[key]}", place=f"{path}:{line}", remedy="keep one of them")
        values[key], lines[key] = _value(value_node, path), line
    return values, lines


# -- The launch that a file describes, before anything is compiled, and the step from there to a launch.

@dataclass(frozen=True)
class LaunchSpec:
    """A launch as a user wrote it. `source` is a path or kernel text; `grid`, `block`, `args` as `make_launch` takes them.

    In a Python file `source` may be a kernel of Numba, Triton or CuPy (`python_kernels.as_launch`), which has no `block` where that
    fixes it; `constants` are the compile-time values of a Triton kernel.

    `registers` per thread replaces the assembler's count; None leaves it. `maxrregcount` and `opt_level` are what the assembler is
    told, `std` the C++ standard. `cluster` is the shape of a thread block cluster, in blocks. `path` is the file that it was read
    from, `places` where each of its keys stands there, as far as nothing else was given for it; `name` what to call a source that
    is text.
    """

    source: Any
    grid: Any = None
    block: Any = None
    kernel: str | None = None
    args: tuple[Any, ...] = ()
    shared: str | int = 0
    arch: str | None = None
    defines: tuple[str, ...] = ()
    include_dirs: tuple[str, ...] = ()
    registers: int | None = None
    seed: int = 0
    maxrregcount: int | None = None
    opt_level: int | None = None
    cluster: str | int | Sequence[int] | None = None
    std: str | None = None
    constants: Mapping[str, Any] = field(default_factory=dict, hash=False)
    path: str = ""
    places: Mapping[str, str] = field(default_factory=dict, hash=False)
    name: str = ""


KEYS = ("kernel", "source", "grid", "block", "shared", "args", "arch", "defines", "include_dirs", "registers", "seed",
        "maxrregcount", "opt_level", "cluster", "std", "constants")  # fmt: skip
REQUIRED = ("source", "grid", "block")


def prepare(spec: LaunchSpec, native: Architecture | None = None) -> tuple[KernelSource, Launch]:
    """Compile or read the kernels of `spec` and check its launch. Raises what `load_source` and `make_launch` raise.

    `native` is whose machine code will be executed, None for PTX.
    """
    source = load_kernels(spec, native)
    try:
        spec = in_order(spec, source)
        launch = make_launch(
            source, spec.kernel, spec.grid, spec.block, spec.args, shared=spec.shared, seed=spec.seed, cluster=spec.cluster,
            names=_sizes(spec, source),
        )
        _check_elements(spec, launch)
    except (UsageError, FormatError) as error:
        key = "args" if error.place.startswith("argument") else error.place
        if key not in spec.places:
            raise
        where = spec.places[key].removesuffix(f": {error.place}")
        raise type(error)(error.what, place=f"{where}: {error.place}", remedy=error.remedy) from error
    return source, launch


def _check_elements(spec: LaunchSpec, launch: Launch) -> None:
    """Raise UsageError for an array given as text whose elements are not those that the text of the kernel declares."""
    for number, what in _other_elements(spec, launch):
        if isinstance(spec.args[number], str):
            remedy = "give elements of the declared type; bytes (u8) are taken as they are"
            raise UsageError(what, place=f"argument {number + 1} ({spec.args[number].strip()})", remedy=remedy)


def notes_on_arrays(spec: LaunchSpec, launch: Launch) -> tuple[str, ...]:
    """A note on each array of the caller's that has other elements than the text of the kernel declares."""
    unlike = _other_elements(spec, launch)
    return tuple(f"argument {number + 1}: {what}; it takes their bytes as they are" for number, what in unlike)


def _other_elements(spec: LaunchSpec, launch: Launch) -> list[tuple[int, str]]:
    """The numbers of the arrays whose elements are not those that the text of the kernel declares, and what they are."""
    arrays = {number: each.array.dtype for number, each in enumerate(launch.arguments) if isinstance(each, ArrayArgument)}
    if not arrays or not isinstance(spec.source, str):
        return []
    written = Path(spec.source).read_text("utf-8", errors="replace") if isfile(spec.source) else spec.source
    declared = declared_parameters(written, launch.kernel)
    if len(declared) != len(spec.args):
        return []
    return [
        (number, f"its elements are {type_name(dtype)}, and the kernel declares {' '.join(declared[number])}".rstrip())
        for number, dtype in arrays.items() if not can_be_elements(dtype, declared[number][0], written)
    ]  # fmt: skip


def _sizes(spec: LaunchSpec, source: KernelSource) -> dict[str, int]:
    """What the grid, the block and the shared memory of `spec` may read: whole-numbered macros and scalar arguments by name, and
    arguments by their number, as `arg.1`. Nothing where none of them reads anything.
    """
    dimensions = (spec.grid, spec.block, spec.shared)
    texts = [part for each in dimensions for part in (each if isinstance(each, (list, tuple)) else [each]) if isinstance(part, str)]
    if not any(map(has_names, texts)):
        return {}
    named: dict[str, Any] = dict(define.split("=", 1) for define in map(str, spec.defines) if "=" in define)
    for number, (name, value) in enumerate(zip(_names(spec, source), spec.args, strict=False), 1):
        named |= {name: value, f"arg.{number}": value}
    sizes = {name: scalar_number(value) for name, value in named.items()}
    return {name: size for name, size in sizes.items() if size is not None}


def _names(spec: LaunchSpec, source: KernelSource) -> list[str]:
    """The names of the kernel's parameters."""
    return parameter_names(source, find_kernel(source, spec.kernel), _written(spec))


def _written(spec: LaunchSpec) -> list[str]:
    """The texts of the kernels: of the file and of its headers, or the one that is given."""
    return source_texts(spec.source, spec.include_dirs) if isfile(spec.source) else [spec.source]


_BY_NAME = re.compile(r"\s*([A-Za-z_]\w*)\s*=(?!=)\s*(.*)", re.DOTALL)


def is_by_name(argument: Any) -> bool:
    """Whether an argument is given by its parameter's name, as `n=1024`."""
    return isinstance(argument, str) and _BY_NAME.fullmatch(argument) is not None


def in_order(spec: LaunchSpec, source: KernelSource) -> LaunchSpec:
    """`spec` with its arguments in order, where they are given by name, as `n=1024`; after the first of these all are. Raises
    UsageError for a name that no parameter has, one that is given twice, and where there are more or fewer values than parameters.
    """
    given = [_BY_NAME.fullmatch(each) if isinstance(each, str) else None for each in spec.args]
    first = next((number for number, each in enumerate(given) if each), None)
    if first is None:
        _check_count(spec, source)
        return spec
    names, values = _names(spec, source), dict(enumerate(spec.args[:first]))
    for number, match in enumerate(given[first:], first):
        place = f"argument {number + 1} ({spec.args[number]})"
        if match is None:
            remedy = "give this one by name, too: NAME=VALUE"
            raise UsageError("follows an argument that is given by name", place=place, remedy=remedy)
        name = match[1]
        if name not in names:
            what = f"the kernel has no parameter {name}{suggestion(name, names)}"
            raise UsageError(what, place=place, remedy=f"its parameters are {', '.join(names)}")
        if names.index(name) in values:
            raise UsageError(f"{name} has a value already", place=place, remedy="give each parameter once")
        values[names.index(name)] = match[2]
    if missing := [name for number, name in enumerate(names) if number not in values]:
        what = f"no value is given for {', '.join(missing)}"
        raise UsageError(what, place="arguments", remedy=f"give it as the others: {missing[0]}=...")
    return replace(spec, args=tuple(values[number] for number in sorted(values)))


def _check_count(spec: LaunchSpec, source: KernelSource) -> None:
    """Raise UsageError for another number of values than the kernel's text declares parameters."""
    kernel = find_kernel(source, spec.kernel)
    declared = declared_parameters("\n".join(_written(spec)), kernel)
    if len(declared) != len(source.module.kernels[kernel].parameters) or len(declared) == len(spec.args):
        return
    kinds = ", ".join(" ".join(each) for each in declared)
    written_by = f"; `warpsight init {spec.source}` writes a launch file with a value for each"
    more = written_by if not spec.args and isfile(spec.source) else ""
    what = f"{display_name(kernel)} takes {len(declared)} argument(s), {len(spec.args)} given"
    raise UsageError(what, place="arguments", remedy=f"its parameters are ({kinds}): give values in order, or as NAME=VALUE{more}")


def load_kernels(spec: LaunchSpec, native: Architecture | None = None) -> KernelSource:
    """Compile or read the kernels of `spec`. Raises what `load_source` raises, and UsageError for values of the wrong kind."""
    check_kinds(vars(spec), {name: f"{spec.path}: {name}" for name in vars(spec)} if spec.path else {"args": "arguments"})
    return load_source(
        spec.source, arch=spec.arch, kernel_expressions=(spec.kernel,) if spec.kernel else (), defines=spec.defines,
        include_dirs=spec.include_dirs, name=spec.name or None, native=native,
        maxrregcount=spec.maxrregcount, opt_level=spec.opt_level, std=spec.std,
    )


# -- Reading the file.

_LISTS = ("args", "defines", "include_dirs")


def _refuse(what: str, place: str, remedy: str) -> NoReturn:
    raise UsageError(what, place=place, remedy=remedy)


def _checked(key: str, value: Any, place: str) -> Any:
    """A value that is of its key's kind. Raises UsageError for another one."""
    if key in _LISTS:
        if not isinstance(value, (list, tuple)):
            _refuse(f"{key} is not a list", place, f"write {key}: [...]")
        return tuple(value)
    if key in ("registers", "seed", "maxrregcount", "opt_level"):
        return parse_integer(value, place) if isinstance(value, str) else whole_number(value, place, f"write e.g. {key}: 32")
    if key == "arch":
        return str(value)
    if key == "constants":
        if not isinstance(value, Mapping):
            _refuse("constants are not a mapping", place, 'write constants = {"BLOCK": 128} in a Python file')
        return dict(value)
    if key == "source" and is_kernel_object(value):
        return value
    if key in ("kernel", "source"):
        text = str(value) if isinstance(value, Path) else value
        if not isinstance(text, str) or not text.strip():
            _refuse(f"{key} is {shown(text)}, not a text", place, f"write e.g. {key}: NAME")
        return text
    return value


def is_kernel_object(source: object) -> bool:
    """Whether `source` is an object of a Python program, and not a path, a text or a plain value."""
    return source is not None and not isinstance(source, (str, bytes, Path, int, float, list, dict))


def _relative(name: Any, folder: Path) -> Any:
    """`name` seen from where the program runs; text of a kernel and kernels of Python stay as they are."""
    if is_kernel_object(name):
        return name
    return name if "\n" in name or name == "-" else str(folder / name)


def spec_from_keys(values: Mapping[str, Any], lines: Mapping[str, int], path: str) -> LaunchSpec:
    """The spec of checked `values`. `lines` gives the line of each key where the file has lines.

    Raises UsageError at `path:line` for an unknown or missing key or a value of the wrong kind.
    """
    for key in values:
        if key not in KEYS:
            place = f"{path}:{lines[key]}" if key in lines else path
            _refuse(f"{key} is not a known key{suggestion(key, KEYS)}", place, f"the keys are: {', '.join(KEYS)}")
    for key in REQUIRED[: 1 if is_kernel_object(values.get("source")) else None]:
        if values.get(key) is None:
            _refuse(f"{key} is missing", path, f"a launch needs {', '.join(REQUIRED)}")
    folder = Path(path).parent
    places = {key: f"{path}:{lines[key]}" if key in lines else f"{path}: {key}" for key in values}
    checked = {key: _checked(key, value, places[key]) for key, value in values.items() if value is not None}
    checked["include_dirs"] = tuple(_relative(str(each), folder) for each in checked.get("include_dirs", ()))
    checked["args"] = tuple(relative_argument(value, folder) for value in checked.get("args", ()))
    return LaunchSpec(**{**checked, "source": _relative(checked["source"], folder), "path": path, "places": places})


def relative_argument(value: Any, folder: Path) -> Any:
    """An argument that names a file, `@a.npy`, `a.npy` or `x=a.npy`, relative to the folder of the file that says so; any other as
    it is.
    """
    if is_by_name(value):
        name, _, given = value.partition("=")
        return f"{name}={relative_argument(given.strip(), folder)}"
    if isinstance(value, str) and (value.startswith("@") or value.endswith(".npy")):
        return f"@{folder / value.removeprefix('@')}"
    return value


def _user_code_failed(error: BaseException, path: str) -> NoReturn:
    """The user's file raised: name the line of theirs, not ours."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    line, text = (error.lineno, error.msg) if isinstance(error, SyntaxError) else (lines[-1] if lines else None, str(error))
    place = f"{path}:{line}" if line else path
    remedy = f"`warpsight run {path}` runs a script with Triton kernels" if "active drivers" in text else "correct the launch file"
    if isinstance(error, ModuleNotFoundError) and error.name:
        remedy = f"install it (`python -m pip install {error.name.partition('.')[0]}`), or correct the launch file"
    raise UsageError(f"{type(error).__name__}: {text}", place=place, remedy=remedy) from error


def _read_python(path: str) -> LaunchSpec:
    before = list(sys.path)
    sys.path.insert(0, str(Path(path).resolve().parent))  # as of a script: kernels may lie beside the launch file
    try:
        names = runpy.run_path(path, run_name="warpsight_launch")
        has_function = callable(names.get("launch"))
        result = names["launch"]() if has_function else None
    except WarpsightError:
        raise
    except (Exception, SystemExit) as error:
        _user_code_failed(error, path)
    finally:
        sys.path[:] = before
    if isinstance(result, LaunchSpec):
        places = {key: f"{path}: {key}" for key in KEYS}
        return replace(result, source=_relative(result.source, Path(path).parent), path=path, places=places)
    if has_function:
        if not isinstance(result, Mapping):
            _refuse(f"launch() returned a {type(result).__name__}", path, "return a dict of the keys of a launch, or a LaunchSpec")
        return spec_from_keys(result, {}, path)
    values = {key: names[key] for key in KEYS if key in names}
    for key in REQUIRED[: 1 if is_kernel_object(values.get("source")) else None]:
        if key not in values:
            near = suggestion(key, [name for name in names if not name.startswith("_")])
            _refuse(f"neither launch() nor {key} is defined{near}", path, _how_to_launch(names))
    return spec_from_keys(values, {}, path)


def _how_to_launch(names: Mapping[str, Any]) -> str:
    """What a Python file lacks that defines `names`: of a kernel alone, its launch."""
    kernels = [name for name, value in names.items() if type(value).__module__.startswith(("triton.", "numba."))
               and callable(getattr(value, "fn", getattr(value, "py_func", None)))]  # fmt: skip
    if "source" in names or not kernels:
        return f"set {', '.join(REQUIRED)}, or define launch()"
    return (f"add the launch of the kernel, with values of your program: `source = {kernels[-1]}`, `grid = (1024,)`, "
            "`args = ['f32[1048576]:uniform', 1048576]`, and for compile-time values `constants = {'BLOCK': 1024}`")  # fmt: skip


def read_launch_file(path: str | Path) -> LaunchSpec:
    """Read a `.yaml`/`.yml` or `.py` launch file. A Python file is run in this process: it is the user's own code.

    It either sets the keys at its top level or defines `launch()`, which returns them as a dict or as a LaunchSpec.
    Raises UsageError that names file and line.
    """
    name = str(path)
    if not isfile(name):
        raise UsageError(f"no such launch file{near_file(name)}", place=name, remedy="give a .yaml or .py file")
    if name.endswith(".py"):
        return _read_python(name)
    if name.endswith((".yaml", ".yml")):
        values, lines = read_yaml(name)
        return spec_from_keys(values, lines, name)
    raise UsageError("is not a launch file", place=name, remedy="give a .yaml or .py file")
