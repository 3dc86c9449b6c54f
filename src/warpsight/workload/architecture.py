"""GPU architectures as users write them: `75`, `7.5`, `compute_75`, `sm_75`, `sm_90a`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from warpsight.base.errors import UsageError

DEFAULT_ARCHITECTURE = "75"


@dataclass(frozen=True)
class Architecture:
    """A compute capability times ten, and the letter of an architecture-specific (`a`) or family (`f`) variant."""

    number: int
    variant: str = ""

    @property
    def virtual(self) -> str:
        """The PTX target that compilers take, `compute_75`."""
        return f"compute_{self.number}{self.variant}"

    @property
    def real(self) -> str:
        """The machine-code target that assemblers take, `sm_75`."""
        return f"sm_{self.number}{self.variant}"


def parse_architecture(text: str | int) -> Architecture:
    """Read what `--arch` or a `.target` gives. Raises UsageError for anything that is no architecture."""
    matched = re.fullmatch(r"(?:compute_|sm_)?(\d{2,3})([af]?)|(\d{1,2})\.(\d)([af]?)", str(text).strip().lower())
    if matched is None:
        raise UsageError(f"{str(text)!r} is not a GPU architecture", place="--arch", remedy="write 75, compute_75 or sm_75")
    number, variant, major, minor, dotted_variant = matched.groups()
    if number is None:
        return Architecture(int(major + minor), dotted_variant)
    return Architecture(int(number), variant)
