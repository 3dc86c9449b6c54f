"""Terminal emphasis, or none: colour is switched on by the caller, which knows the terminal and NO_COLOR."""

from __future__ import annotations

from dataclasses import dataclass

WIDTH = 120

_COLOURS = {
    "base": "32", "com_data": "36", "com_struct": "36", "mem_data": "33", "mshr": "31", "noc": "35", "dram": "34",
}  # fmt: skip


@dataclass(frozen=True)
class Style:
    """How to emphasise. With `colour` off, text passes through unchanged."""

    colour: bool = False

    def strong(self, text: str) -> str:
        """Bold."""
        return self._wrap(text, "1")

    def faint(self, text: str) -> str:
        """Dimmed."""
        return self._wrap(text, "2")

    def component(self, name: str, text: str) -> str:
        """In the colour of a CPI-stack component."""
        return self._wrap(text, _COLOURS.get(name, "0"))

    def _wrap(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour and text else text


PLAIN = Style()
