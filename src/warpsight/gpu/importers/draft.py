"""A description that grows while a configuration is read: values, each with its source, and what could not be carried over."""

from __future__ import annotations

from dataclasses import dataclass, field

from warpsight.base.errors import SpecError
from warpsight.gpu.importers.option_files import Option, Options
from warpsight.gpu.keys import KEYS, WORD
from warpsight.gpu.values import Content, Value, check_bounds


@dataclass(frozen=True)
class Choices:
    """What the person who imports may choose.

    `carve_out`: shared memory of an SM, in bytes, where L1 and shared memory are one; None: the most that there is. `policy`: the
    scheduler to take in place of one that descriptions do not have. `stages`: cycles between dependent instructions beside those
    in the functional unit, which `trace.config` counts alone.
    """

    carve_out: int | None = None
    policy: str | None = None
    stages: int = 2


@dataclass
class Draft:
    """The options, the choices and what came of them. `notes` are one line each."""

    options: Options
    choices: Choices
    values: dict[str, Value] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def put(self, key: str, content: Content, options: Option | list[Option], how: str = "") -> None:
        """One value, from `options`, with how it follows. Raises SpecError, at the first option, when it is out of bounds."""
        several = options if isinstance(options, list) else [options]
        if KEYS[key].kind == WORD and content not in KEYS[key].choices:
            known = ", ".join(KEYS[key].choices)
            raise SpecError(f'{key}: "{content}" is not known', place=several[0].place, remedy=f"known: {known}")
        if KEYS[key].numeric:
            check_bounds(KEYS[key], float(content), several[0].place)
        cites = "; ".join(f"{option.cite} {option.value}" if option.value else option.cite for option in several)
        self.values[key] = Value(content, several[0].place, f"{cites}: {how}" if how else cites)

    def number(self, key: str) -> int:
        """A whole number that was put before."""
        return int(self.values[key].content)

    def note(self, option: Option, why: str) -> None:
        """Says of an option why it is not, or not as it is, in the description."""
        self.notes.append(f"{option.cite} {option.value}: {why}")
