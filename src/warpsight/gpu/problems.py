"""What is wrong with a description, collected: a load reports the first, a check all of them."""

from __future__ import annotations

from collections.abc import Iterable

from warpsight.base.errors import SpecError, suggestion
from warpsight.gpu.keys import KEYS, SECTIONS, TEXT_KEYS


class Problems(list[SpecError]):
    """The errors found so far, in the order in which a reader would want them."""

    def add(self, what: str, *, place: str, remedy: str = "") -> None:
        """Records one error."""
        self.append(SpecError(what, place=place, remedy=remedy))

    def raise_first(self) -> None:
        """Raises the first error, if there is one."""
        if self:
            raise self[0]

    def unknown_key(self, name: str, place: str, *, dotted: bool = False) -> None:
        """Records a key that is not in the table, with the nearest one. `dotted`: suggest it with its section."""
        section, _, last = name.rpartition(".")
        within = [key.removeprefix(f"{section}.") for key in KEYS if section and key.startswith(f"{section}.")]
        hint = suggestion(last, within)
        if hint and dotted:
            hint = hint.replace('"', f'"{section}.', 1)
        everything: Iterable[str] = (*KEYS, *SECTIONS, *(() if dotted else TEXT_KEYS))
        near = hint or suggestion(name, everything)
        listed = ", ".join(within or (*(key for key in KEYS if "." not in key), *SECTIONS))
        self.add(f"{name} is not a known key{near}", place=place, remedy=f"known here: {listed}")
