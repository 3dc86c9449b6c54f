"""The interval profile as JSON, schema 1: written by `warpsight profile`, read by `warpsight model`, and checked strictly."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, NoReturn

import numpy as np

from warpsight.addressing.coalescing import TRANSACTION_RULES
from warpsight.base.errors import FormatError, suggestion
from warpsight.caches.miss_profile import SHARES
from warpsight.gpu.spec import OP_CLASSES
from warpsight.intervals.interval_profile import (
    AMOUNTS,
    CAUSES,
    Activity,
    IntervalProfile,
    KernelCounts,
    LaunchShape,
    ResourceDemands,
)

_MOST = 2**63 - 1
_PROFILE = "see docs/reference/interval-profile.md"


class Fields:
    """The object `value`, found at JSON path `path` (empty at the top) of `origin`. Every method raises FormatError."""

    def __init__(self, value: Any, origin: str, path: str) -> None:
        self._origin, self._path = origin, path
        if not isinstance(value, dict):
            raise FormatError(f"is {_kind(value)}, but an object is expected", place=self._place(""), remedy=_PROFILE)
        self._value: dict[str, Any] = value

    def known(self, required: Sequence[str], optional: Sequence[str]) -> None:
        """Refuses keys that are neither, and misses those that are required."""
        for key in self._value:
            if key not in required and key not in optional:
                hint = suggestion(key, (*required, *optional))
                raise FormatError(f'"{key}" is not a key of an interval profile{hint}', place=self._place(key), remedy=_PROFILE)
        for key in required:
            if key not in self._value:
                raise FormatError("is missing", place=self._place(key), remedy=_PROFILE)

    def has(self, key: str) -> bool:
        """The key is there."""
        return key in self._value

    def is_null(self, key: str) -> bool:
        """The key is missing or its value is null."""
        return self._value.get(key) is None

    def whole(self, key: str, *, least: int = 0, most: int = _MOST) -> int:
        """An integer within the bounds; 3.0 is taken for 3."""
        value = self._value[key]
        if isinstance(value, float) and math.isfinite(value) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            self.fail(key, f"is {_kind(value)}, but a whole number is expected")
        self._bounded(key, value, least, most)
        return value

    def number(self, key: str, *, most: float = _MOST) -> float:
        """A finite number from 0 to `most`."""
        value = self._value[key]
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            self.fail(key, f"is {_kind(value)}, but a number is expected")
        self._bounded(key, value, 0, most)
        return float(value)

    def optional_number(self, key: str) -> float | None:
        """A finite number from 0 on, or None where the key is missing or null."""
        return None if self.is_null(key) else self.number(key)

    def text(self, key: str) -> str:
        """A string."""
        value = self._value[key]
        if not isinstance(value, str):
            self.fail(key, f"is {_kind(value)}, but text is expected")
        return str(value)

    def choice(self, key: str, words: Sequence[str]) -> str:
        """One of `words`."""
        value = self.text(key)
        if value not in words:
            self.fail(key, f'is "{value}"{suggestion(value, words)}', f"known: {', '.join(words)}")
        return value

    def texts(self, key: str) -> list[str]:
        """A list of strings."""
        value = self._value[key]
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.fail(key, "is not a list of texts")
        return [str(item) for item in value]

    def inside(self, key: str, required: Sequence[str], optional: Sequence[str]) -> Fields:
        """The object under `key`, its keys checked."""
        inner = Fields(self._value[key], self._origin, self._join(key))
        inner.known(required, optional)
        return inner

    def items(self, key: str, required: Sequence[str]) -> list[Fields]:
        """The objects in the list under `key`, their keys checked."""
        value = self._value[key]
        if not isinstance(value, list):
            self.fail(key, f"is {_kind(value)}, but a list is expected")
        objects = [Fields(item, self._origin, f"{self._join(key)}[{number}]") for number, item in enumerate(value)]
        for each in objects:
            each.known(required, ())
        return objects

    def fail(self, key: str, what: str, remedy: str = _PROFILE) -> NoReturn:
        """Raises FormatError at `key`."""
        raise FormatError(what, place=self._place(key), remedy=remedy)

    def _bounded(self, key: str, value: float, least: float, most: float) -> None:
        if isinstance(value, float) and not math.isfinite(value):
            self.fail(key, f"is {value}, but a finite number is expected")
        if value < least:
            self.fail(key, f"is {_shown(value)}, below the minimum of {least:g}")
        if value > most:
            self.fail(key, f"is {_shown(value)}, above the maximum of {most:g}")

    def _join(self, key: str) -> str:
        return f"{self._path}.{key}" if self._path and key else self._path or key

    def _place(self, key: str) -> str:
        where = self._join(key)
        return f"{self._origin}: {where}" if where else self._origin


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def _shown(value: float) -> str:
    # a JSON integer may be too long for a float
    return f"{value:g}" if abs(value) < _MOST else "beyond 64 bits"


# -- `KernelCounts` in the JSON of an interval profile: the key `counts`.

_NUMBERS = (
    "computation_instructions", "coalesced_instructions", "uncoalesced_instructions", "transactions", "synchronizations",
    "load_bytes",
)  # fmt: skip
_WHOLE = ("blocks", "warps_per_block", "blocks_per_sm")
_ORIGINS = ("trace", "program text", "given")


def read_counts(top: Fields, launch: LaunchShape | None) -> KernelCounts | None:
    """The counts in a profile's JSON, None without any. Raises FormatError: a wrong type, no instruction, another launch."""
    if top.is_null("counts"):
        return None
    inside = top.inside("counts", (*_NUMBERS, *_WHOLE, "coalescing"), ("origin",))
    numbers: dict[str, Any] = {name: inside.number(name) for name in _NUMBERS}
    counts = KernelCounts(
        **numbers, **{name: inside.whole(name, least=1) for name in _WHOLE},
        coalescing=inside.choice("coalescing", TRANSACTION_RULES),
        origin=inside.choice("origin", _ORIGINS) if inside.has("origin") else "given",
    )
    if counts.instructions <= 0:
        reason = "and the memory instructions are 0, but a warp executes at least one instruction"
        inside.fail("computation_instructions", reason, "correct it")
    if counts.uncoalesced_instructions and counts.transactions < 1:
        inside.fail("transactions", f"is {counts.transactions:g}; an uncoalesced instruction makes at least 1", "correct it")
    if counts.memory_instructions and not counts.load_bytes:
        inside.fail("load_bytes", "is 0, but memory instructions move data", "give word size x 32")
    if launch is not None:
        for name in _WHOLE:
            if getattr(counts, name) != getattr(launch, name):
                what = f"is {getattr(counts, name)}, and launch.{name} is {getattr(launch, name)}"
                inside.fail(name, what, "correct one of the two")
    return counts


# -- The whole profile.

SCHEMA = 1
COUNTS = ("read_misses", "write_misses", "dram_reads", "dram_writes")
INTERVAL_KEYS = ("instructions", "stall_cycles", "cause", "pc", "memory_instructions", *COUNTS)
REQUIRED_KEYS = ("schema", "kernel", "warps_per_sm", "total_warp_instructions", "llc_miss_ratio", "intervals")
OPTIONAL_KEYS = ("nonoverlapped_instructions", "dpki", "launch", "memory_stall_levels", "demands", "counts", "activity", "notes")
LAUNCH_KEYS = ("blocks", "warps_per_block", "blocks_per_sm")
LAUNCH_OPTIONAL_KEYS = ("limiter", "occupancy", "cluster_blocks")
# older files do not have them: no waits, no asynchronous copies, and conflicts, flits and the busiest unit are not known
DEMAND_OPTIONAL_KEYS = (
    "way_wait", "far_share", "port_conflict_share", "stall_conflict_share", "block_cycles", "asynchronous", "multicast_bytes",
    "sent_flits", "drain_cycles", "dram_rows",
)  # fmt: skip
_UNIT = "unit"
DEMAND_KEYS = tuple(field.name for field in fields(ResourceDemands) if field.name not in (*DEMAND_OPTIONAL_KEYS, _UNIT))
_LEVELS = ("l1", "l2", "dram")
_MOST_PC = 2**31 - 1


def profile_document(profile: IntervalProfile) -> dict[str, Any]:
    """`profile` as the JSON object of schema 1. Unknown values (an unknown launch, for instance) are left out."""
    rows = zip(*(getattr(profile, name).tolist() for name in INTERVAL_KEYS), strict=True)
    document: dict[str, Any] = {
        "schema": SCHEMA, "kernel": profile.kernel, "warps_per_sm": profile.warps_per_sm,
        "total_warp_instructions": profile.total_warp_instructions, "llc_miss_ratio": profile.llc_miss_ratio,
        "intervals": [_interval_document(dict(zip(INTERVAL_KEYS, row, strict=True))) for row in rows],
        "nonoverlapped_instructions": profile.nonoverlapped_instructions,
    }
    if profile.dpki is not None:
        document["dpki"] = profile.dpki
    if profile.launch is not None:
        document["launch"] = dict(profile.launch.__dict__)
    if profile.memory_stall_levels is not None:
        document["memory_stall_levels"] = dict(zip(_LEVELS, profile.memory_stall_levels, strict=True))
    for key in ("demands", "counts", "activity"):
        if getattr(profile, key) is not None:
            document[key] = dict(getattr(profile, key).__dict__)
    if profile.notes:
        document["notes"] = list(profile.notes)
    return document


def write_profile(profile: IntervalProfile) -> str:
    """`profile` as JSON text, one interval per line, with a newline at the end. Numbers are read back exactly."""
    document = profile_document(profile)
    inside = ",\n  ".join(json.dumps(interval) for interval in document.pop("intervals"))
    head = json.dumps({**document, "intervals": []}, indent=1, allow_nan=False)
    return head.replace('"intervals": []', f'"intervals": [\n  {inside}\n ]') + "\n"


def read_profile(text: str | bytes, *, origin: str) -> IntervalProfile:
    """The profile that the JSON `text` holds; `origin` names it in messages (a file name, `-`).

    Raises FormatError, naming the place as `origin: intervals[3].stall_cycles`, for anything that is not schema 1: text that is not
    JSON, another schema, a missing, unknown or repeated key, a wrong type, a negative or infinite number, NaN, contradictions.
    """
    return profile_from_document(_json(text, origin), origin=origin)


def profile_from_document(document: Any, *, origin: str) -> IntervalProfile:
    """The profile that a JSON object (as Python values) holds. Raises as `read_profile`."""
    top = Fields(document, origin, "")
    if top.has("schema") and top.whole("schema") != SCHEMA:
        top.fail("schema", f"is {document['schema']}; this version reads schema {SCHEMA}", "make the profile again")
    top.known(REQUIRED_KEYS, OPTIONAL_KEYS)
    launch = _launch(top)
    warps = top.whole("warps_per_sm", least=1)
    if launch is not None and (warps % launch.warps_per_block or warps > launch.blocks_per_sm * launch.warps_per_block):
        room = f"at most {launch.blocks_per_sm} blocks of {launch.warps_per_block} warps"
        top.fail("warps_per_sm", f"is {warps}, and its launch puts whole blocks on an SM, {room}", "correct one of the two")
    rows = top.items("intervals", INTERVAL_KEYS)
    if not rows:
        top.fail("intervals", "is empty, and a warp has at least one interval", "give the intervals of the representative warp")
    return IntervalProfile(
        kernel=top.text("kernel"),
        warps_per_sm=warps,
        total_warp_instructions=top.whole("total_warp_instructions", least=1),
        # a write that misses may fetch its line and evict another: two accesses to DRAM for one to the L2
        llc_miss_ratio=top.number("llc_miss_ratio", most=2.0),
        instructions=np.array([row.whole("instructions", least=1) for row in rows], dtype=np.float64),
        stall_cycles=np.array([row.number("stall_cycles") for row in rows]),
        cause=np.array([CAUSES.index(row.choice("cause", CAUSES)) for row in rows], dtype=np.int8),
        pc=np.array([-1 if row.is_null("pc") else row.whole("pc", most=_MOST_PC) for row in rows], dtype=np.int32),
        memory_instructions=np.array([row.whole("memory_instructions") for row in rows], dtype=np.float64),
        **{name: np.array([row.number(name) for row in rows]) for name in COUNTS},
        nonoverlapped_instructions=top.optional_number("nonoverlapped_instructions"), path=None, dpki=top.optional_number("dpki"),
        launch=launch, memory_stall_levels=_stall_levels(top), demands=_demands(top), counts=read_counts(top, launch),
        activity=_activity(top),
        notes=tuple(top.texts("notes")) if top.has("notes") else (),
    )


def _launch(top: Fields) -> LaunchShape | None:
    if top.is_null("launch"):
        return None
    launch = top.inside("launch", LAUNCH_KEYS, LAUNCH_OPTIONAL_KEYS)
    blocks, warps_per_block, blocks_per_sm = (launch.whole(name, least=1) for name in LAUNCH_KEYS)
    limiter = launch.text("limiter") if launch.has("limiter") else ""
    occupancy = launch.number("occupancy", most=1.0) if launch.has("occupancy") else 0.0
    cluster_blocks = launch.whole("cluster_blocks", least=1) if launch.has("cluster_blocks") else 1
    if blocks % cluster_blocks:
        launch.fail("cluster_blocks", f"is {cluster_blocks}, and the launch has {blocks} blocks", "give whole clusters")
    return LaunchShape(blocks, warps_per_block, blocks_per_sm, limiter, occupancy, cluster_blocks)


def _stall_levels(top: Fields) -> tuple[float, float, float] | None:
    if top.is_null("memory_stall_levels"):
        return None
    levels = top.inside("memory_stall_levels", _LEVELS, ())
    l1, l2, dram = (levels.number(name, most=1.0) for name in _LEVELS)
    if abs(l1 + l2 + dram - 1.0) > 1e-6:
        top.fail("memory_stall_levels", f"sums to {l1 + l2 + dram:g}; shares of a whole sum to 1", "correct it, or leave it out")
    return l1, l2, dram


def _demands(top: Fields) -> ResourceDemands | None:
    if top.is_null("demands"):
        return None
    inside = top.inside("demands", DEMAND_KEYS, (*DEMAND_OPTIONAL_KEYS, _UNIT))
    values = {name: inside.number(name, most=1.0 if name in (*SHARES, "dram_share") else _MOST) for name in DEMAND_KEYS}
    for name in (*SHARES, "work_imbalance", "longest_warp"):
        if not values[name]:
            inside.fail(name, "is 0, but it is a divisor and must be above 0", "write 1 for an even distribution")
    if values["stall_in_step"] > values["stall_cycles"]:
        inside.fail("stall_in_step", "is more than stall_cycles, of which it is a part", "correct one of the two")
    for name in DEMAND_OPTIONAL_KEYS:
        values[name] = inside.number(name, most=_MOST if name in (*AMOUNTS, "drain_cycles") else 1.0) if inside.has(name) else 0.0
    return ResourceDemands(**values, unit=inside.choice(_UNIT, ("", *OP_CLASSES)) if inside.has(_UNIT) else "")


def _activity(top: Fields) -> Activity | None:
    if top.is_null("activity"):
        return None
    names = tuple(field.name for field in fields(Activity))
    inside = top.inside("activity", names, ())
    return Activity(**{name: inside.number(name) for name in names})


def _interval_document(row: dict[str, Any]) -> dict[str, Any]:
    row["instructions"], row["memory_instructions"] = int(row["instructions"]), int(row["memory_instructions"])
    row["cause"], row["pc"] = CAUSES[row["cause"]], None if row["pc"] < 0 else row["pc"]
    return row


def _json(text: str | bytes, origin: str) -> Any:
    def refuse_constant(name: str) -> NoReturn:
        raise FormatError(f"{name} is not a number that a profile can hold", place=origin, remedy="write finite numbers")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise FormatError(f'the key "{twice}" is given twice in one object', place=origin, remedy="keep one of them")
        return members

    try:
        return json.loads(text, parse_constant=refuse_constant, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        place = f"{origin}:{error.lineno}:{error.colno}"
        raise FormatError(f"not JSON: {error.msg}", place=place, remedy="the file may be truncated") from None
    except (UnicodeDecodeError, RecursionError, ValueError) as error:
        raise FormatError(f"not JSON: {error}", place=origin, remedy="create it with `warpsight profile`") from None
