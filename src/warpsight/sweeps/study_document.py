"""A study as a JSON document. The table of its fields is also that of study files; what is written is read back without loss."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from types import NoneType
from typing import Any, NoReturn

from warpsight.base.errors import FormatError, UsageError
from warpsight.gpu.catalog import catalog_path
from warpsight.pipeline.request import ARGUMENTS, DIMENSIONS, PATHS, REQUEST_FIELDS, KernelRequest, Method, RequestField
from warpsight.sweeps.axes import check_value
from warpsight.sweeps.expressions import Expression, parse_expression
from warpsight.sweeps.names import METHOD
from warpsight.sweeps.study import Axis, Sampling, SimulatorRuns, Study, StudyKernel, check_study

STUDY_SCHEMA = 2
_REQUEST = {each.name: each for each in REQUEST_FIELDS}


class _ObjectReader:
    """The fields of a JSON object, each checked for its type. Raises FormatError with file and field."""

    def __init__(self, values: Any, place: str) -> None:
        self.place = place
        if not isinstance(values, Mapping):
            self.refuse("is not an object")
        self.values: Mapping[str, Any] = values

    def refuse(self, what: str) -> NoReturn:
        raise FormatError(what, place=self.place, remedy="the document of the study is damaged; run the study again from its file")

    def field(self, name: str, *types: type) -> Any:
        if name not in self.values:
            self.refuse(f"has no {name}")
        value = self.values[name]
        # in Python, but not in JSON, true and false are numbers
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            self.refuse(f"{name} is {type(value).__name__}, not {' or '.join(each.__name__ for each in types)}")
        return value

    def number(self, name: str, least: int = 0) -> int:
        value = self.field(name, int)
        if value < least:
            self.refuse(f"{name} is {value}, below {least}")
        return int(value)

    def text(self, name: str) -> str:
        return str(self.field(name, str))

    def texts(self, name: str) -> tuple[str, ...]:
        values: list[str] = self.field(name, list)
        if not all(map(_is_text, values)):
            self.refuse(f"{name} has a value that is not a text")
        return tuple(values)

    def expression(self, name: str, text: str) -> Expression:
        return parse_expression(text, f"{self.place}: {name}")

    def part(self, name: str) -> _ObjectReader:
        return _ObjectReader(self.field(name, dict), f"{self.place}: {name}")

    def parts(self, name: str) -> list[_ObjectReader]:
        return [_ObjectReader(each, f"{self.place}: {name} {index}") for index, each in enumerate(self.field(name, list))]


# -- Kernels.

def _written_kernel(kernel: StudyKernel) -> dict[str, Any]:
    request = kernel.request
    if not isinstance(request.path, (str, os.PathLike)):
        _refuse_python_value(kernel, "the kernel", "keep its trace, `warpsight trace`, and give the trace's folder")
    path = os.fspath(request.path)
    written: dict[str, Any] = {"path": path if "\n" in path or path == "-" else os.path.abspath(path)}
    for name, value in vars(request).items():
        if value is not None and name not in ("path", "output"):
            field, values = _REQUEST.get(name), value if isinstance(value, (list, tuple)) else [value]
            if field is None or not all(map(_is_plain, values)):
                remedy = "write arguments as texts, 'f32[1024]:uniform' or 'data.npy', or give the folder of the kernel's trace"
                _refuse_python_value(kernel, f"{name} of the kernel", remedy)
            absolute = [_absolute(field, each) for each in values]
            written[name] = absolute if isinstance(value, (list, tuple)) else absolute[0]
    return {"name": kernel.name, "request": written}


def _refuse_python_value(kernel: StudyKernel, what: str, remedy: str) -> NoReturn:
    what = f"{what} {kernel.name} is an object of a Python program, which cannot be stored"
    raise UsageError(what, place=kernel.name, remedy=remedy)


def _absolute(field: RequestField, value: Any) -> Any:
    """The value, independent of the current folder."""
    if field.holds == PATHS:
        return os.path.abspath(value)
    if field.holds == ARGUMENTS and isinstance(value, str) and (value.startswith("@") or value.endswith(".npy")):
        return "@" + os.path.abspath(value.removeprefix("@"))
    return value


def _is_plain(value: Any) -> bool:
    """JSON has it unchanged: no NumPy scalar, whose type would be lost, and no NaN or infinity."""
    return type(value) in (str, int, bool) or (type(value) is float and math.isfinite(value))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _kernel(read: _ObjectReader) -> StudyKernel:
    request = read.part("request")
    values: dict[str, Any] = {"path": request.field("path", str)}
    if not values["path"].strip() or "\0" in values["path"]:
        request.refuse("path is not a path")
    for name in (each for each in request.values if each != "path"):
        if name not in _REQUEST:
            request.refuse(f"has an unknown field {name}")
        value = request.field(name, *_REQUEST[name].types)
        if isinstance(value, list):
            allowed = _is_plain if _REQUEST[name].holds in (ARGUMENTS, DIMENSIONS) else _is_text
            if not all(map(allowed, value)):
                request.refuse(f"{name} has a value of another type")
            value = tuple(value)
        values[name] = value
    return StudyKernel(read.text("name"), KernelRequest(**values))


# -- Axes, derived keys, method, simulator.

def _axis(read: _ObjectReader) -> Axis:
    key, values = read.field("key", str), read.field("values", list)
    if not values or not all(map(_is_plain, values)):
        read.refuse("values are missing, or are neither texts nor numbers")
    for value in values:
        check_value(key, value, read.place)
    continuous = read.field("continuous", bool)
    ends = [value for value in values if isinstance(value, (int, float))]
    if len(set(values)) < len(values) or (continuous and not (len(ends) == len(values) == 2 and ends[0] < ends[1])):
        read.refuse("values are repeated, or are not a range")
    return Axis(key, tuple(values), continuous)


def _derived(read: _ObjectReader, name: str) -> tuple[tuple[str, Expression], ...]:
    pairs = read.field(name, list)
    if not all(isinstance(pair, list) and len(pair) == 2 and all(isinstance(part, str) for part in pair) for pair in pairs):
        read.refuse("derived has a value that is not a pair of key and expression")
    return tuple((key, read.expression(key, text)) for key, text in pairs)


def _method(read: _ObjectReader) -> Method:
    words = {key.removeprefix("method."): read.text(key.removeprefix("method.")) for key in METHOD}
    for name, word in words.items():
        check_value(f"method.{name}", word, read.place)
    return Method(**words)


def _simulator(outer: _ObjectReader, name: str) -> SimulatorRuns | None:
    if outer.field(name, dict, NoneType) is None:
        return None
    read = outer.part(name)
    where, limit = read.field("where", str, NoneType), read.field("max_cycles", int, NoneType)
    condition = None if where is None else read.expression("where", where)
    return SimulatorRuns(read.number("designs"), read.number("seed"), condition, limit)


def _sampling(outer: _ObjectReader, name: str) -> Sampling:
    read = outer.part(name)
    return Sampling(read.text("kind"), read.number("designs"), read.number("seed"))


# -- The fields of a study.

@dataclass(frozen=True)
class StudyField:
    """A field of a study: its `key` in study files and documents, its `name` in `Study`, and its JSON value."""

    key: str
    name: str
    written: Callable[[Any], Any]
    read: Callable[[_ObjectReader, str], Any]


STUDY_FIELDS = (
    StudyField("name", "name", str, _ObjectReader.text),
    StudyField("kernels", "kernels", lambda kernels: [_written_kernel(each) for each in kernels],
               lambda read, name: tuple(_kernel(each) for each in read.parts(name))),
    StudyField("gpu", "gpu", lambda gpu: gpu if catalog_path(gpu) is not None else os.path.abspath(gpu),
               _ObjectReader.text),
    StudyField("set", "overrides", list, _ObjectReader.texts),
    StudyField("axes", "axes", lambda axes: [{**vars(axis), "values": list(axis.values)} for axis in axes],
               lambda read, name: tuple(_axis(each) for each in read.parts(name))),
    StudyField("sampling", "sampling", asdict, _sampling),
    StudyField("derived", "derived", lambda pairs: [[key, expression.text] for key, expression in pairs], _derived),
    StudyField("constraints", "constraints", lambda expressions: [each.text for each in expressions],
               lambda read, name: tuple(read.expression(name, text) for text in read.texts(name))),
    StudyField("models", "models", list, _ObjectReader.texts),
    StudyField("method", "method", asdict, lambda read, name: _method(read.part(name))),
    StudyField("simulator", "simulator",
               lambda runs: None if runs is None else {**vars(runs), "where": runs.where.text if runs.where else None}, _simulator),
    StudyField("accuracy", "accuracy", lambda accuracy: accuracy, lambda read, name: read.field(name, float, NoneType)),
)  # fmt: skip


def study_document(study: Study) -> dict[str, Any]:
    """Everything in a study, as JSON: absolute paths, every value of an axis, expressions as they were written.

    Raises UsageError for a kernel that exists only in a Python program: an object, an array as argument.
    """
    return {"schema": STUDY_SCHEMA, **{each.key: each.written(getattr(study, each.name)) for each in STUDY_FIELDS}}


def study_from_document(document: Any, place: str = "study") -> Study:
    """The study that `study_document` wrote; `place` is the file that it was read from.

    Raises FormatError for a document that is not one, and UsageError or SpecError for values that no study can have.
    """
    read = _ObjectReader(document, place)
    if read.field("schema", int) != STUDY_SCHEMA:
        raise FormatError(f"has schema {document['schema']}", place=place, remedy=f"this version reads schema {STUDY_SCHEMA}")
    study = Study(**{each.name: each.read(read, each.key) for each in STUDY_FIELDS})
    check_study(study)
    return study
