"""What one key of a GPU description is: its name, unit, bounds and default, and the step of a prediction that reads it first.

The keys themselves are in `spec.py`, as the annotations of `GpuSpec`'s fields; parameters of a model stand in the model's file.
"""

from __future__ import annotations

from dataclasses import dataclass

from warpsight.base.units import BANDWIDTH, COUNT, CYCLES, ENERGY, POWER, SHARE, SIZE, TIME

WORD, FLAG = "word", "true or false"

# The steps of a prediction, in order. When a key changes, the step that reads it first is done again, and those after it; but of
# residency the caches see the number of resident blocks alone.
RESIDENCY, CACHES, PROFILE, MODEL = "residency", "caches", "profile", "model"
# Beside them: the cycle-level simulator alone reads the key, or a run of a whole program, for the time between its launches.
SIMULATOR, PROGRAM = "simulator", "program"

MOST_CYCLES, MOST_COUNT, MOST_BYTES, MOST_NANOSECONDS = 10**6, 2**20, 2**40, 1e9


@dataclass(frozen=True)
class Key:
    """One key. `kind` is a dimension of `base.units`, or `WORD` (one of `choices`), or `FLAG`.

    `least` and `most` bound a number, in base units. `default` is text as a file would write it, or `=other.key` for that key's
    value; None: the key is required; empty: the GPU may lack what it describes, and then the spec lacks it. `reason` is the source
    that a default carries.

    `step` is the first step of a prediction that reads the design's own value. `orders`: the value also belongs to the timing by
    which the cache simulation orders accesses, which a design takes from its reference GPU (`gpu.steps.ordered`).
    `path` is the attribute path in `GpuSpec`; a last part in brackets is a dictionary key; empty for a parameter of a model.
    """

    name: str
    kind: str
    meaning: str
    least: float = 1
    most: float = MOST_COUNT
    default: str | None = None
    reason: str = ""
    choices: tuple[str, ...] = ()
    step: str = MODEL
    orders: bool = False
    path: str = ""

    @property
    def numeric(self) -> bool:
        """A number, so it must have a source."""
        return self.kind not in (WORD, FLAG)

    @property
    def attribute(self) -> str:
        """The name of the key's numbers in `Design`: `l1_mshrs`, `noc_bandwidth_bytes_per_s`."""
        return self.path.replace(".", "_").replace("[", "_").rstrip("]")


# -- Keys as annotations: the annotated field gives the name.

def count(
    meaning: str, step: str, *, least: float = 1, most: float = MOST_COUNT, default: str | None = None, reason: str = "",
    orders: bool = False,
) -> Key:
    """A plain count."""
    return Key("", COUNT, meaning, least, most, default, reason, step=step, orders=orders)


def size(
    meaning: str, step: str, *, least: float = 1, most: float = MOST_BYTES, default: str | None = None, reason: str = ""
) -> Key:
    """A size in bytes."""
    return Key("", SIZE, meaning, least, most, default, reason, step=step)


def cycles(
    meaning: str, step: str, *, least: float = 1, most: float = MOST_CYCLES, default: str | None = None, reason: str = "",
    orders: bool = False,
) -> Key:
    """A number of core cycles."""
    return Key("", CYCLES, meaning, least, most, default, reason, step=step, orders=orders)


def bandwidth(meaning: str, step: str, *, orders: bool = False) -> Key:
    """A bandwidth in bytes a second."""
    return Key("", BANDWIDTH, meaning, 1, 1e18, step=step, orders=orders)


def time(meaning: str, step: str, *, reason: str) -> Key:
    """A time in ns, which may be none."""
    return Key("", TIME, meaning, 0, MOST_NANOSECONDS, reason=reason, step=step)


def share(meaning: str, step: str, *, reason: str, orders: bool = False) -> Key:
    """A share of a whole, above 0 and at most 1."""
    return Key("", SHARE, meaning, 0.01, 1, reason=reason, step=step, orders=orders)


def power(meaning: str, *, reason: str) -> Key:
    """A power in W, which may be none. The models read it."""
    return Key("", POWER, meaning, 0, 1e5, reason=reason, step=MODEL)


def energy(meaning: str, *, reason: str) -> Key:
    """An energy of one event in pJ, which may be none. The models read it."""
    return Key("", ENERGY, meaning, 0, 1e9, reason=reason, step=MODEL)


def word(meaning: str, step: str, *choices: str) -> Key:
    """One of some words."""
    return Key("", WORD, meaning, choices=choices, step=step)


def flag(meaning: str, step: str) -> Key:
    """True or false."""
    return Key("", FLAG, meaning, step=step)
