"""The interval profile as JSON, schema 1: what `warpsight profile` writes and `warpsight model` reads. Strict both ways."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any, NoReturn

import numpy as np

from warpsight.base.errors import FormatError
from warpsight.caches.miss_profile import SHARES
from warpsight.profile.counts_document import counts_document, read_counts
from warpsight.profile.fields import Fields
from warpsight.profile.interval_profile import CAUSES, IntervalProfile, LaunchShape, ResourceDemands

SCHEMA = 1
COUNTS = ("read_misses", "write_misses", "dram_reads", "dram_writes")
INTERVAL_KEYS = ("instructions", "stall_cycles", "cause", "pc", "memory_instructions", *COUNTS)
REQUIRED_KEYS = ("schema", "kernel", "warps_per_sm", "total_warp_instructions", "llc_miss_ratio", "intervals")
OPTIONAL_KEYS = ("nonoverlapped_instructions", "dpki", "launch", "memory_stall_levels", "demands", "counts", "notes")
LAUNCH_KEYS = ("blocks", "warps_per_block", "blocks_per_sm")
LAUNCH_OPTIONAL_KEYS = ("limiter", "occupancy")
# files of before it was measured do not have it: no waits
DEMAND_OPTIONAL_KEYS = ("way_wait",)
DEMAND_KEYS = tuple(field.name for field in fields(ResourceDemands) if field.name not in DEMAND_OPTIONAL_KEYS)
_LEVELS = ("l1", "l2", "dram")
_MOST_PC = 2**31 - 1


def profile_document(profile: IntervalProfile) -> dict[str, Any]:
    """`profile` as the JSON object of schema 1. Keys that say nothing (an unknown launch, for instance) are left out."""
    rows = zip(
        *(getattr(profile, name).tolist() for name in INTERVAL_KEYS),
        strict=True,
    )
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "kernel": profile.kernel,
        "warps_per_sm": profile.warps_per_sm,
        "total_warp_instructions": profile.total_warp_instructions,
        "llc_miss_ratio": profile.llc_miss_ratio,
        "intervals": [_interval_document(dict(zip(INTERVAL_KEYS, row, strict=True))) for row in rows],
        "nonoverlapped_instructions": profile.nonoverlapped_instructions,
    }
    if profile.dpki is not None:
        document["dpki"] = profile.dpki
    if profile.launch is not None:
        document["launch"] = dict(profile.launch.__dict__)
    if profile.memory_stall_levels is not None:
        document["memory_stall_levels"] = dict(zip(_LEVELS, profile.memory_stall_levels, strict=True))
    if profile.demands is not None:
        document["demands"] = dict(profile.demands.__dict__)
    if profile.counts is not None:
        document["counts"] = counts_document(profile.counts)
    if profile.notes:
        document["notes"] = list(profile.notes)
    return document


def write_profile(profile: IntervalProfile) -> str:
    """`profile` as JSON text, one interval a line, ending in a newline. Numbers survive the way back exactly."""
    document = profile_document(profile)
    marks = [json.dumps(interval) for interval in document.pop("intervals")]
    head = json.dumps({**document, "intervals": []}, indent=1, allow_nan=False)
    inside = ",\n  ".join(marks)
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
        nonoverlapped_instructions=top.optional_number("nonoverlapped_instructions"),
        path=None,
        dpki=top.optional_number("dpki"),
        launch=launch,
        memory_stall_levels=_stall_levels(top),
        demands=_demands(top),
        counts=read_counts(top, launch),
        notes=tuple(top.texts("notes")) if top.has("notes") else (),
    )


def _launch(top: Fields) -> LaunchShape | None:
    if not top.has("launch") or top.is_null("launch"):
        return None
    launch = top.inside("launch", LAUNCH_KEYS, LAUNCH_OPTIONAL_KEYS)
    blocks, warps_per_block, blocks_per_sm = (launch.whole(name, least=1) for name in LAUNCH_KEYS)
    limiter = launch.text("limiter") if launch.has("limiter") else ""
    occupancy = launch.number("occupancy", most=1.0) if launch.has("occupancy") else 0.0
    return LaunchShape(blocks, warps_per_block, blocks_per_sm, limiter, occupancy)


def _stall_levels(top: Fields) -> tuple[float, float, float] | None:
    if not top.has("memory_stall_levels") or top.is_null("memory_stall_levels"):
        return None
    levels = top.inside("memory_stall_levels", _LEVELS, ())
    l1, l2, dram = (levels.number(name, most=1.0) for name in _LEVELS)
    if abs(l1 + l2 + dram - 1.0) > 1e-6:
        top.fail("memory_stall_levels", f"sums to {l1 + l2 + dram:g}; shares of a whole sum to 1", "correct it, or leave it out")
    return l1, l2, dram


def _demands(top: Fields) -> ResourceDemands | None:
    if not top.has("demands") or top.is_null("demands"):
        return None
    inside = top.inside("demands", DEMAND_KEYS, DEMAND_OPTIONAL_KEYS)
    most = {**dict.fromkeys(SHARES, 1.0), "dram_share": 1.0}
    values = {name: inside.number(name, most=most[name]) if name in most else inside.number(name) for name in DEMAND_KEYS}
    for name in (*SHARES, "work_imbalance", "longest_warp"):
        if not values[name]:
            inside.fail(name, "is 0; it divides, so it must be above 0", "1 is evenly")
    if values["stall_in_step"] > values["stall_cycles"]:
        inside.fail("stall_in_step", "is more than stall_cycles, of which it is what remains", "correct one of the two")
    values["way_wait"] = inside.number("way_wait", most=1.0) if inside.has("way_wait") else 0.0
    return ResourceDemands(**values)


def _interval_document(row: dict[str, Any]) -> dict[str, Any]:
    row["instructions"], row["memory_instructions"] = int(row["instructions"]), int(row["memory_instructions"])
    row["cause"], row["pc"] = CAUSES[row["cause"]], None if row["pc"] < 0 else row["pc"]
    return row


def _json(text: str | bytes, origin: str) -> Any:
    def refuse_constant(name: str) -> NoReturn:
        raise FormatError(f"{name} is not a number that a profile can hold", place=origin, remedy="write finite numbers")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise FormatError(f'the key "{twice}" is given twice in one object', place=origin, remedy="keep one of them")
        return found

    try:
        return json.loads(text, parse_constant=refuse_constant, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        place = f"{origin}:{error.lineno}:{error.colno}"
        raise FormatError(f"not JSON: {error.msg}", place=place, remedy="is the file whole?") from None
    except (UnicodeDecodeError, RecursionError, ValueError) as error:
        raise FormatError(f"not JSON: {error}", place=origin, remedy="`warpsight profile` writes what is read here") from None
