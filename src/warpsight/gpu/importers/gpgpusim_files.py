"""The files of a GPGPU-Sim configuration as written: options, and the interconnect file of BookSim 2, with places.

Option files (`gpgpusim.config`, `trace.config`): words separated by white space, `-option value` pairs; `#` begins a comment, a
value in double quotes may span lines, `-config FILE` includes another file. If an option is given twice, the last one counts, as
in the simulator.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from warpsight.base.errors import FormatError, UsageError, suggestion
from warpsight.base.inputs import read_input

_DEEPEST = 8
_MOST_BYTES = 4 << 20
_WHOLE = re.compile(r"\d{1,15}", re.ASCII)
_DECIMAL = re.compile(r"\d{1,12}(\.\d{0,12})?", re.ASCII)


@dataclass(frozen=True)
class Option:
    """One option. `place` is `file:line` with the user's name of the file, `cite` how a source refers to it."""

    name: str
    value: str
    place: str
    cite: str

    def wrong(self, why: str, remedy: str) -> FormatError:
        """The error for a wrong value."""
        return FormatError(f'{self.name} "{self.value}": {why}', place=self.place, remedy=remedy)

    def whole(self, least: int = 0) -> int:
        """The value as a whole number. Raises FormatError if it is not one, or less than `least`."""
        return self.wholes("", least)[0]

    def wholes(self, separator: str, least: int = 0) -> list[int]:
        """The whole numbers between separators; with "" the value is one number."""
        parts = self.value.split(separator) if separator else [self.value]
        if not all(_WHOLE.fullmatch(part.strip()) for part in parts):
            kind = f'whole numbers with "{separator}" between them' if separator else "a whole number"
            raise self.wrong(f"is not {kind}", "write it as the simulator reads it")
        numbers = list(map(int, parts))
        if min(numbers) < least:
            raise self.wrong(f"is less than {least}", "check the number")
        return numbers

    def decimals(self, separator: str) -> list[float]:
        """The numbers between separators."""
        parts = [part.strip() for part in self.value.split(separator)]
        if not all(map(_DECIMAL.fullmatch, parts)):
            raise self.wrong(f'is not numbers with "{separator}" between them', "write it as the simulator reads it")
        return list(map(float, parts))

    def flag(self) -> bool:
        """0 or 1."""
        if self.value not in ("0", "1"):
            raise self.wrong("is neither 0 nor 1", "write 0 or 1")
        return self.value == "1"


@dataclass
class Options:
    """All options of some files, in order. `used` are the names that were queried; `repeated` are notes on those given twice."""

    files: list[str]
    given: dict[str, Option] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    repeated: list[str] = field(default_factory=list)

    def add(self, option: Option) -> None:
        """Add an option; it replaces an earlier one of its name."""
        before = self.given.pop(option.name, None)
        if before is not None and before.value != option.value:
            self.repeated.append(f"{option.name} is given at {before.place} ({before.value}) and {option.place}: the last counts")
        self.given[option.name] = option

    def get(self, *names: str) -> Option | None:
        """The option of the first of `names` that is given, or None."""
        self.used.update(names)
        return next((self.given[name] for name in names if name in self.given), None)

    def need(self, *names: str) -> Option:
        """As `get`. Raises FormatError if the files have none of them."""
        option = self.get(*names)
        if option is None:
            near = suggestion(names[0], self.given)
            raise FormatError(f"no {names[0]}{near}", place=", ".join(self.files), remedy="give all files of the configuration")
        return option

    def default(self, value: str, *names: str) -> Option:
        """As `get`, or an option with the simulator's own default."""
        absent = Option(names[0], value, ", ".join(self.files), f"GPGPU-Sim's default, no file gives {names[0]}")
        return self.get(*names) or absent

    def flag(self, name: str) -> bool:
        """Whether a switch is given as 1."""
        option = self.get(name)
        return option is not None and option.flag()


def read_text(path: Path) -> str:
    """A configuration file's text. Raises UsageError if it cannot be read, FormatError if it is not text or too large."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise FormatError("is larger than a configuration can be", place=str(path), remedy="name the configuration file")
        return read_input(path, _MOST_BYTES).decode("utf-8")
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", place=str(path), remedy="name a configuration file") from None
    except UnicodeDecodeError:
        raise FormatError("is not text", place=str(path), remedy="name a configuration file, as text in UTF-8") from None


def read_options(path: Path, text: str, options: Options, depth: int = 0) -> None:
    """Read the options of a file's `text` into `options`. Raises FormatError, with its line: no option, no value, an open quote."""
    name, line, pending = "", 0, False
    for word, word_line in _words(path, text):
        if pending:
            pending = False
            if word.startswith("-") and not _DECIMAL.fullmatch(word[1:]):
                message = f'{name} has no value: "{word[:60]}" follows'
                raise FormatError(message, place=f"{path}:{line}", remedy="write a value behind it")
            option = Option(name, " ".join(word.split()), f"{path}:{line}", f"{path.name}:{line} {name}")
            if name != "-config":
                options.add(option)
            elif depth >= _DEEPEST:
                raise option.wrong(f"is more than {_DEEPEST} files deep", "does a file read itself?")
            else:  # relative to the file that contains it
                inner = path.parent / option.value
                options.files.append(str(inner))
                read_options(inner, read_text(inner), options, depth + 1)
        elif not re.fullmatch(r"-[A-Za-z][\w:.-]*", word, re.ASCII):
            remedy = "options begin with -, comments with #"
            raise FormatError(f'"{word[:60]}" is not an option', place=f"{path}:{word_line}", remedy=remedy)
        else:
            name, line, pending = word, word_line, True
    if pending:
        raise FormatError(f"{name} has no value: the file ends", place=f"{path}:{line}", remedy="write a value behind it")


def _words(path: Path, text: str) -> Iterator[tuple[str, int]]:
    """Words with their line. One in quotes extends, over lines, to the closing quote and comes without quotes."""
    quoted: list[str] = []
    start = 0
    for number, raw in enumerate(text.split("\n"), 1):
        for word in raw.partition("#")[0].split():
            if quoted:
                quoted.append(word)
            elif word.startswith('"'):
                quoted, start = [word[1:]], number
            else:
                yield word, number
                continue
            if quoted[-1].endswith('"'):
                yield " ".join(quoted)[:-1], start
                quoted = []
    if quoted:
        raise FormatError("a quote is opened and never closed", place=f"{path}:{start}", remedy='close it with "')


# -- The interconnect file of GPGPU-Sim (BookSim 2): `name = value;` lines with `//` comments.

_ENTRY = re.compile(r"(\w+)\s*=\s*(.+?)\s*;?", re.DOTALL | re.ASCII)


def looks_like_network(text: str) -> bool:
    """Whether the first line of `text` that is not a comment is `name = ...`."""
    for raw in text.split("\n"):
        line = raw.partition("//")[0].partition("#")[0].strip()
        if line:
            return re.match(r"\w+\s*=", line, re.ASCII) is not None
    return False


def read_network(path: Path, text: str) -> dict[str, Option]:
    """The settings by name. Raises FormatError, with the line, for a line that is not a setting."""
    settings: dict[str, Option] = {}
    for number, raw in enumerate(text.split("\n"), 1):
        for part in raw.partition("//")[0].split(";"):
            if not part.strip():
                continue
            match = _ENTRY.fullmatch(part.strip())
            if match is None:
                message = f'"{part.strip()[:60]}" is not a setting of a network'
                raise FormatError(message, place=f"{path}:{number}", remedy="write `name = value;`, comments after //")
            settings[match[1]] = Option(match[1], match[2], f"{path}:{number}", f"{path.name}:{number} {match[1]}")
    return settings
