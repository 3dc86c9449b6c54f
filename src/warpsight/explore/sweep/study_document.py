"""A study as plain JSON, so that a folder of results says of what it is, and back."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from typing import Any, NoReturn, TypeVar

from warpsight.base.errors import FormatError, UsageError
from warpsight.explore.request import KernelRequest, Method
from warpsight.explore.sweep.axes import check_value
from warpsight.explore.sweep.checks import check_study
from warpsight.explore.sweep.expressions import Expression, parse_expression
from warpsight.explore.sweep.names import METHOD
from warpsight.explore.sweep.study import Axis, Referee, Sampling, Study, StudyKernel

SCHEMA = 1
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
    from warpsight.gpu.catalog import catalog_path

    referee = None
    if study.referee is not None:
        where = study.referee.where.text if study.referee.where else None
        given = study.referee
        referee = {"designs": given.designs, "seed": given.seed, "where": where, "max_cycles": given.max_cycles}
    return {
        "schema": SCHEMA,
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
        "referee": referee,
    }


def study_from_document(document: Any, place: str = "study") -> Study:
    """The study that `study_document` wrote; `place` is the file that it was read from.

    Raises FormatError for what is no such document, and UsageError or SpecError for values that no study has.
    """
    read = _Reader(document, place)
    if read.field("schema", int) != SCHEMA:
        raise FormatError(f"is of schema {document['schema']}", place=place, remedy=f"this version reads schema {SCHEMA}")
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
        referee=None if read.field("referee", dict, type(None)) is None else _referee(read.part("referee")),
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


def _referee(read: _Reader) -> Referee:
    return Referee(
        designs=read.number("designs", 0),
        seed=read.number("seed", 0),
        where=_optional(read, "where", str, lambda text: _expression(text, read.place, "where")),
        max_cycles=_optional(read, "max_cycles", int, int),
    )
