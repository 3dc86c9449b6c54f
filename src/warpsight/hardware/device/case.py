"""A case: a launch for the GPU with the emulator's results, in a file that is read without compiler and emulator."""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import FormatError, UsageError
from warpsight.base.inputs import open_input
from warpsight.base.outputs import written_whole

Array = npt.NDArray[Any]
SCHEMA = 1
_META = "case"
_RECORDS = re.compile(r'^\s*(?:\.file\s|\.loc\s|//).*\n?', re.MULTILINE)


@dataclass(frozen=True)
class Parameter:
    """A parameter of the kernel: the bytes of a scalar, or (data None) an array `before` the launch and `after` the emulator's run.

    `after` is None for an array that the emulator did not change. `compared`: whether the caller sees what is written.
    """

    data: bytes | None
    before: Array | None = None
    after: Array | None = None
    compared: bool = True

    @property
    def expected(self) -> Array:
        """The array after the emulator's run."""
        array = self.after if self.after is not None else self.before
        assert array is not None
        return array


@dataclass(frozen=True)
class Case:
    """One launch. `name` is the suite's, `kernel` the mangled name in `ptx`, `target` the PTX's, `shared` dynamic bytes per block.

    `helpers` is the PTX of `helpers.cu`. `program` are hashes: `ptx` (of its instructions, independent of the source's
    location), `inputs` (shape and arguments), `source` (of the file, "" for a string). `may_differ` are instructions whose
    results PTX does not define exactly, by reason.
    """

    name: str
    kernel: str
    target: str
    ptx: str
    helpers: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    registers: int
    program: dict[str, str]
    may_differ: dict[str, list[str]]
    parameters: tuple[Parameter, ...]

    def save(self, path: Path) -> None:
        """Write one `.npz` file. Raises UsageError if it cannot be written."""
        arrays: dict[str, Array] = {}
        kinds: list[dict[str, Any]] = []
        for number, parameter in enumerate(self.parameters):
            if parameter.data is not None:
                kinds.append({"scalar": parameter.data.hex()})
                continue
            kinds.append({"array": number, "changed": parameter.after is not None, "compared": parameter.compared})
            for name, array in (("before", parameter.before), ("after", parameter.after)):
                if array is not None:
                    arrays[f"{name}{number}"] = array
        text = json.dumps({"schema": SCHEMA, **self.__dict__, "parameters": kinds})
        arrays[_META] = np.frombuffer(text.encode(), np.uint8)
        try:
            with written_whole(path) as temporary, temporary.open("wb") as file:
                np.savez(file, **arrays)  # type: ignore[arg-type]
        except OSError as error:
            raise UsageError(f"cannot be written: {error.strerror}", place=str(path), remedy="name another folder") from None


def load_case(path: str | Path) -> Case:
    """The case in a file of `Case.save`. Raises FormatError for other files, UsageError for one that cannot be read."""
    place, remedy = str(path), "create the cases again"
    try:
        with open_input(path) as opened, np.load(opened, allow_pickle=False) as file:
            content = json.loads(file[_META].tobytes())
            if content.pop("schema", None) != SCHEMA:
                raise FormatError(f"is not a case of schema {SCHEMA}", place=place, remedy=remedy)
            parameters = tuple(_parameter(parameter, file) for parameter in content.pop("parameters"))
        content["grid"], content["block"] = tuple(content["grid"]), tuple(content["block"])
        return Case(**content, parameters=parameters)
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror or error}", place=place, remedy=remedy) from None
    except (KeyError, TypeError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise FormatError(f"is not a case, or is damaged: {error}", place=place, remedy=remedy) from None


def _parameter(content: dict[str, Any], file: Any) -> Parameter:
    if "scalar" in content:
        return Parameter(bytes.fromhex(content["scalar"]))
    number = content["array"]
    return Parameter(None, file[f"before{number}"], file[f"after{number}"] if content["changed"] else None, content["compared"])


def program_hash(kernel: str, ptx: str) -> str:
    """SHA-256 of a kernel's name and the PTX without comments and without records of source files and lines, which hold paths."""
    return hashlib.sha256(f"{kernel}\n{_RECORDS.sub('', ptx)}".encode()).hexdigest()
