"""A case: what is run on the GPU and what the emulator made of it, in a file that is read without compiler and emulator."""

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

Array = npt.NDArray[Any]
SCHEMA = 1
_META = "case"
_RECORDS = re.compile(r'^\s*(?:\.file\s|\.loc\s|//).*\n?', re.MULTILINE)


@dataclass(frozen=True)
class Parameter:
    """A parameter of the kernel: the bytes of a scalar, or (data None) an array, `before` the launch and as the emulator left it.

    `after` is None for an array that the emulator left as it was. `compared` says whether the caller sees what is written.
    """

    data: bytes | None
    before: Array | None = None
    after: Array | None = None
    compared: bool = True

    @property
    def expected(self) -> Array:
        """The array as the emulator left it."""
        found = self.after if self.after is not None else self.before
        assert found is not None
        return found


@dataclass(frozen=True)
class Case:
    """One launch. `name` is the suite's, `kernel` the mangled name in `ptx`, `target` the PTX's, `shared` dynamic bytes a block.

    `helpers` is the PTX of `helpers.cu`. `program` are hashes: `ptx` (of its instructions, so that it is the same wherever the
    source lies), `inputs` (shape and arguments), `source` (of the file, "" for a text). `may_differ` are instructions whose
    results PTX leaves to the GPU, by why.
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
        """Write it as one `.npz` file. Raises UsageError when it cannot be written."""
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
        plain = {key: value for key, value in self.__dict__.items() if key != "parameters"}
        text = json.dumps({"schema": SCHEMA, **plain, "parameters": kinds})
        arrays[_META] = np.frombuffer(text.encode(), np.uint8)
        try:
            with open(path, "wb") as file:
                np.savez(file, **arrays)  # type: ignore[arg-type]
        except OSError as error:
            raise UsageError(f"cannot be written: {error.strerror}", place=str(path), remedy="name another folder") from None


def load_case(path: str | Path) -> Case:
    """The case of a file that `Case.save` wrote. Raises FormatError for any other, UsageError for one that cannot be read."""
    place, remedy = str(path), "make the cases again"
    try:
        with np.load(path, allow_pickle=False) as file:
            told = json.loads(file[_META].tobytes())
            if told.pop("schema", None) != SCHEMA:
                raise FormatError(f"is not a case of schema {SCHEMA}", place=place, remedy=remedy)
            parameters = tuple(_parameter(each, file) for each in told.pop("parameters"))
        told["grid"], told["block"] = tuple(told["grid"]), tuple(told["block"])
        return Case(**told, parameters=parameters)
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror or error}", place=place, remedy=remedy) from None
    except (KeyError, TypeError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise FormatError(f"is no case, or is damaged: {error}", place=place, remedy=remedy) from None


def _parameter(told: dict[str, Any], file: Any) -> Parameter:
    if "scalar" in told:
        return Parameter(bytes.fromhex(told["scalar"]))
    number = told["array"]
    return Parameter(None, file[f"before{number}"], file[f"after{number}"] if told["changed"] else None, told["compared"])


def program_hash(kernel: str, ptx: str) -> str:
    """SHA-256 of a kernel's name and the PTX without comments and the records of source files and lines, which name folders."""
    return hashlib.sha256(f"{kernel}\n{_RECORDS.sub('', ptx)}".encode()).hexdigest()
