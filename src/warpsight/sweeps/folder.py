"""The folder of a study: the study as JSON, so that it can be resumed and asked, and the table of its results."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from warpsight.base.errors import FormatError, UsageError
from warpsight.gpu.catalog import catalog_path
from warpsight.pipeline.provenance import TOOL
from warpsight.pipeline.request import KernelRequest, Method
from warpsight.sweeps.axes import check_value
from warpsight.sweeps.expressions import Expression, parse_expression
from warpsight.sweeps.files import forget_the_unfinished, is_unfinished, written_whole
from warpsight.sweeps.names import METHOD
from warpsight.sweeps.study import Axis, Sampling, SimulatorRuns, Study, StudyKernel, check_study

STUDY_SCHEMA = 1
T = TypeVar("T")
_NOT_RECORDED = ("path", "output")
_REQUEST_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("kernel", "arch", "kernels", "launches", "isa_file"), (str,)),
    **dict.fromkeys(("grid", "block"), (str, int, list)),
    **dict.fromkeys(("shared", "sample", "heap_bytes"), (str, int)),
    **dict.fromkeys(("seed", "registers", "max_instructions", "threads", "stack_bytes"), (int,)),
    **dict.fromkeys(("args", "defines", "include_dirs"), (list,)),
    "check": (bool,),
}


def study_document(study: Study) -> dict[str, Any]:
    """Everything that a study says, as JSON: paths absolute, every value of an axis, expressions as they were written.

    Raises UsageError for a kernel that only a Python program has: an object, an array as argument.
    """
    simulator = None
    if study.simulator is not None:
        where = study.simulator.where.text if study.simulator.where else None
        given = study.simulator
        simulator = {"designs": given.designs, "seed": given.seed, "where": where, "max_cycles": given.max_cycles}
    return {
        "schema": STUDY_SCHEMA,
        "name": study.name,
        "kernels": [{"name": kernel.name, "request": _request(kernel)} for kernel in study.kernels],
        "gpu": study.gpu if catalog_path(study.gpu) is not None else os.path.abspath(study.gpu),
        "overrides": list(study.overrides),
        "axes": [{"key": axis.key, "values": list(axis.values), "continuous": axis.continuous} for axis in study.axes],
        "sampling": asdict(study.sampling),
        "derived": [[key, expression.text] for key, expression in study.derived],
        "constraints": [expression.text for expression in study.constraints],
        "models": list(study.models),
        "method": asdict(study.method),
        "simulator": simulator,
    }


def study_from_document(document: Any, place: str = "study") -> Study:
    """The study that `study_document` wrote; `place` is the file that it was read from.

    Raises FormatError for what is no such document, and UsageError or SpecError for values that no study has.
    """
    read = _Reader(document, place)
    if read.field("schema", int) != STUDY_SCHEMA:
        raise FormatError(f"is of schema {document['schema']}", place=place, remedy=f"this version reads schema {STUDY_SCHEMA}")
    study = Study(
        name=read.field("name", str),
        kernels=tuple(_kernel(each) for each in read.parts("kernels")),
        gpu=read.field("gpu", str),
        overrides=tuple(read.texts("overrides")),
        axes=tuple(_axis(each) for each in read.parts("axes")),
        sampling=_sampling(read.part("sampling")),
        derived=tuple(_derived(read)),
        constraints=tuple(_expression(text, place, "constraints") for text in read.texts("constraints")),
        models=tuple(read.texts("models")),
        method=_method(read.part("method")),
        simulator=None if read.field("simulator", dict, type(None)) is None else _simulator(read.part("simulator")),
    )
    check_study(study)
    return study


class _Reader:
    """Fields of a JSON object, each of the kind that it should be. Raises FormatError with file and field."""

    def __init__(self, values: Any, place: str) -> None:
        self.place = place
        if not isinstance(values, Mapping):
            self.refuse("is no object of fields")
        self.values: Mapping[str, Any] = values

    def refuse(self, what: str) -> NoReturn:
        raise FormatError(what, place=self.place, remedy="the document of a study is damaged; run the study again from its file")

    def field(self, name: str, *kinds: type) -> Any:
        if name not in self.values:
            self.refuse(f"has no {name}")
        value = self.values[name]
        # JSON's true and false are no numbers, though Python's are
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            self.refuse(f"{name} is {type(value).__name__}, not {' or '.join(kind.__name__ for kind in kinds)}")
        return value

    def number(self, name: str, least: int) -> int:
        value = self.field(name, int)
        if value < least:
            self.refuse(f"{name} is {value}, below {least}")
        return int(value)

    def texts(self, name: str) -> list[str]:
        values: list[str] = self.field(name, list)
        if not all(isinstance(each, str) for each in values):
            self.refuse(f"{name} has something other than texts")
        return values

    def part(self, name: str) -> _Reader:
        return _Reader(self.field(name, dict), f"{self.place}: {name}")

    def parts(self, name: str) -> list[_Reader]:
        return [_Reader(each, f"{self.place}: {name} {at}") for at, each in enumerate(self.field(name, list))]


def _request(kernel: StudyKernel) -> dict[str, Any]:
    request = kernel.request
    if not isinstance(request.path, (str, os.PathLike)):
        what = f"the kernel {kernel.name} is an object of a Python program, which no folder of results can name"
        raise UsageError(what, place=kernel.name, remedy="keep its trace, `warpsight trace`, and give the trace's folder")
    path = os.fspath(request.path)
    written: dict[str, Any] = {"path": path if "\n" in path or path == "-" else os.path.abspath(path)}
    for field in fields(KernelRequest):
        value = getattr(request, field.name)
        if value is None or field.name in _NOT_RECORDED:
            continue
        written[field.name] = _plain(value, field.name, kernel.name)
    for name in ("args", "include_dirs"):
        if name in written:
            written[name] = [_absolute(each, name) for each in written[name]]
    if "isa_file" in written:
        written["isa_file"] = _absolute(written["isa_file"], "isa_file")
    return written


def _absolute(value: Any, name: str) -> Any:
    """A file among arguments or a folder of headers, wherever the study is read again."""
    if name in ("include_dirs", "isa_file"):
        return os.path.abspath(value)
    if isinstance(value, str) and (value.startswith("@") or value.endswith(".npy")):
        return "@" + os.path.abspath(value.removeprefix("@"))
    return value


def _is_plain(value: Any) -> bool:
    """JSON has it as it is: no NumPy scalar, whose type would be lost, and no NaN or infinity."""
    return type(value) in (str, int, bool) or (type(value) is float and math.isfinite(value))


def _plain(value: Any, name: str, kernel: str) -> Any:
    """A value that JSON has, unchanged; a list for a tuple."""
    if name in _REQUEST_KINDS:
        if isinstance(value, (list, tuple)):
            if all(_is_plain(each) for each in value):
                return list(value)
        elif type(value) in (str, int, bool):
            return value
    what = f"{name} of the kernel {kernel} is of a Python program, which no folder of results can name"
    remedy = "write arguments as texts, 'f32[1024]:uniform' or 'data.npy', or give the folder of the kernel's trace"
    raise UsageError(what, place=kernel, remedy=remedy)


def _kernel(read: _Reader) -> StudyKernel:
    request = read.part("request")
    given: dict[str, Any] = {"path": request.field("path", str)}
    if not given["path"].strip() or "\0" in given["path"]:
        request.refuse("path is none")
    for name in request.values:
        if name == "path":
            continue
        if name not in _REQUEST_KINDS:
            request.refuse(f"has an unknown field {name}")
        value = request.field(name, *_REQUEST_KINDS[name])
        if name in ("defines", "include_dirs"):
            value = request.texts(name)
        if isinstance(value, list) and not all(_is_plain(each) for each in value):
            request.refuse(f"{name} has something other than texts and numbers")
        given[name] = tuple(value) if isinstance(value, list) else value
    return StudyKernel(read.field("name", str), KernelRequest(**given))


def _axis(read: _Reader) -> Axis:
    key, values = read.field("key", str), read.field("values", list)
    if not values or not all(_is_plain(value) for value in values):
        read.refuse("values are missing, or are no texts and numbers")
    for value in values:
        check_value(key, value, read.place)
    continuous = read.field("continuous", bool)
    ends = [value for value in values if isinstance(value, (int, float))]
    if len(set(values)) < len(values) or (continuous and not (len(ends) == len(values) == 2 and ends[0] < ends[1])):
        read.refuse("values are repeated, or are no range")
    return Axis(key, tuple(values), continuous)


def _sampling(read: _Reader) -> Sampling:
    return Sampling(read.field("kind", str), read.number("designs", 0), read.number("seed", 0))


def _method(read: _Reader) -> Method:
    words = {}
    for key in METHOD:
        name = key.removeprefix("method.")
        words[name] = read.field(name, str)
        check_value(key, words[name], read.place)
    return Method(**words)


def _derived(read: _Reader) -> list[tuple[str, Expression]]:
    found = []
    for each in read.field("derived", list):
        if not (isinstance(each, list) and len(each) == 2 and all(isinstance(part, str) for part in each)):
            read.refuse("derived has something other than pairs of key and expression")
        found.append((each[0], _expression(each[1], read.place, each[0])))
    return found


def _expression(text: str, place: str, name: str) -> Expression:
    return parse_expression(text, f"{place}: {name}")


def _optional(read: _Reader, name: str, kind: type, made: Callable[[Any], T]) -> T | None:
    value = read.field(name, kind, type(None))
    return None if value is None else made(value)


def _simulator(read: _Reader) -> SimulatorRuns:
    return SimulatorRuns(
        designs=read.number("designs", 0),
        seed=read.number("seed", 0),
        where=_optional(read, "where", str, lambda text: _expression(text, read.place, "where")),
        max_cycles=_optional(read, "max_cycles", int, int),
    )


# -- The folder of a study: what it is of, so that it can be gone on with and asked, and the table of its results.

STUDY, RESULTS, DESIGNS = "study.json", "results.parquet", "designs.parquet"
BEFORE = "results.before.parquet"
FOLDER_SCHEMA = 1


@dataclass(frozen=True)
class StudyFolder:
    """`study` as it was run, and `results`, the folder with what is kept of it."""

    path: Path
    study: Study
    results: str

    @property
    def table(self) -> Path:
        """The file with the rows."""
        return self.path / RESULTS

    @property
    def before(self) -> Path:
        """An earlier table with results that `table` has lost, as when a kernel's file has gone; absent otherwise."""
        return self.path / BEFORE

    @property
    def designs(self) -> Path:
        """The file with the designs: their numbers, axes and derived keys."""
        return self.path / DESIGNS


def make_folder(path: str | Path, study: Study, results: str) -> StudyFolder:
    """The folder with the study's description in it; one that is there already is taken when it is a study's or empty.

    Raises UsageError for a folder with something else in it, or that cannot be written.
    """
    folder = Path(path)
    try:
        another = not folder.is_dir() or not all(map(is_unfinished, folder.iterdir())) if folder.exists() else False
        if another and not (folder / STUDY).exists():
            raise UsageError("is there already, and is no study's folder", place=str(folder), remedy="give another one with --out")
        folder.mkdir(parents=True, exist_ok=True)
        document = {"schema": FOLDER_SCHEMA, "tool": TOOL, "results": results, "study": study_document(study)}
        forget_the_unfinished(folder)
        with written_whole(folder / STUDY) as temporary:
            temporary.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        remedy = "give a folder of yours, where there is room, with --out"
        raise UsageError(f"cannot be written: {reason}", place=str(folder), remedy=remedy) from None
    return StudyFolder(folder, study, results)


def is_study(path: str | Path) -> bool:
    """Whether a study's description lies in that folder."""
    return path != "-" and (Path(path) / STUDY).is_file()


def open_folder(path: str | Path) -> StudyFolder:
    """A study's folder. Raises UsageError when there is none, FormatError when its description is damaged."""
    folder = Path(path)
    place = folder / STUDY
    try:
        data = place.read_bytes()
    except (OSError, ValueError):
        remedy = "give the folder that `warpsight sweep` wrote (its --out)"
        raise UsageError("is no study's folder", place=str(folder), remedy=remedy) from None
    try:
        document: Any = json.loads(data)
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else "it is not JSON"
        raise FormatError(f"is damaged: {reason}", place=str(place), remedy="run the study again") from None
    if not isinstance(document, dict) or document.get("schema") != FOLDER_SCHEMA or not isinstance(document.get("results"), str):
        what = f"is not a study's description of schema {FOLDER_SCHEMA}"
        raise FormatError(what, place=str(place), remedy="run the study again with this version")
    return StudyFolder(folder, study_from_document(document.get("study"), str(place)), document["results"])
