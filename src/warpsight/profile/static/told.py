"""What a user tells the static analysis that the program text does not say."""

from __future__ import annotations

from dataclasses import dataclass, field

from warpsight.base.errors import UsageError

ALL = -1


@dataclass(frozen=True)
class Told:
    """`trips` body executions by loop label; PTX lines of memory instructions (or `ALL`) by what they are where that is not known.

    `both_paths`: of a branch that depends on data, both sides are counted (Hong and Kim, ISCA 2009, section 3.5: an upper bound).
    """

    trips: dict[str, int] = field(default_factory=dict)
    coalesced: frozenset[int] = frozenset()
    uncoalesced: frozenset[int] = frozenset()
    both_paths: bool = False

    def kind(self, ptx_line: int) -> bool | None:
        """Whether the access at `ptx_line` was told to be coalesced; None: it was not told. A line goes before `ALL`."""
        for place in (ptx_line, ALL):
            if place in self.coalesced:
                return True
            if place in self.uncoalesced:
                return False
        return None


def parse_trips(texts: list[str]) -> dict[str, int]:
    """`LABEL=n` texts. Raises UsageError for another form, a label given twice, or less than 1."""
    found: dict[str, int] = {}
    for text in texts:
        label, equals, number = (part.strip() for part in text.partition("="))
        if not equals or not label or not number.isdecimal() or int(number) < 1:
            remedy = "give a loop's label and the executions of its body: '$L__BB0_2=16'"
            raise UsageError(f'"{text}" is not LABEL=n', place="--trips", remedy=remedy)
        if label in found:
            raise UsageError(f"{label} is given twice", place="--trips", remedy="keep one of them")
        found[label] = int(number)
    return found


def parse_lines(texts: list[str], option: str) -> frozenset[int]:
    """PTX line numbers, or `all`. Raises UsageError for anything else."""
    found = set()
    for text in ",".join(texts).split(",") if texts else ():
        word = text.strip()
        if word != "all" and not (word.isdecimal() and int(word) > 0):
            remedy = "give a PTX line number, several with commas, or all"
            raise UsageError(f'"{word}" is no line of the PTX', place=option, remedy=remedy)
        found.add(ALL if word == "all" else int(word))
    return frozenset(found)
