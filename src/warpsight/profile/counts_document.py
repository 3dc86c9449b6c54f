"""`KernelCounts` in the JSON of an interval profile: the key `counts`."""

from __future__ import annotations

from typing import Any

from warpsight.addressing.transactions import RULES
from warpsight.profile.fields import Fields
from warpsight.profile.interval_profile import LaunchShape
from warpsight.profile.kernel_counts import KernelCounts

_NUMBERS = (
    "computation_instructions", "coalesced_instructions", "uncoalesced_instructions", "transactions", "synchronizations",
    "load_bytes",
)  # fmt: skip
_WHOLE = ("blocks", "warps_per_block", "blocks_per_sm")
_ORIGINS = ("trace", "program text", "given")


def counts_document(counts: KernelCounts) -> dict[str, Any]:
    """`counts` as a JSON object."""
    return dict(counts.__dict__)


def read_counts(top: Fields, launch: LaunchShape | None) -> KernelCounts | None:
    """The counts in a profile's JSON, None without any. Raises FormatError: a wrong type, no instruction, another launch."""
    if not top.has("counts") or top.is_null("counts"):
        return None
    inside = top.inside("counts", (*_NUMBERS, *_WHOLE, "coalescing"), ("origin",))
    numbers: dict[str, Any] = {name: inside.number(name) for name in _NUMBERS}
    counts = KernelCounts(
        **numbers,
        **{name: inside.whole(name, least=1) for name in _WHOLE},
        coalescing=inside.choice("coalescing", RULES),
        origin=inside.choice("origin", _ORIGINS) if inside.has("origin") else "given",
    )
    if counts.instructions <= 0:
        inside.fail("computation_instructions", "and the memory instructions are 0, and a warp executes something", "correct it")
    if counts.uncoalesced_instructions and counts.transactions < 1:
        inside.fail("transactions", f"is {counts.transactions:g}; an uncoalesced instruction makes at least 1", "correct it")
    if counts.memory_instructions and not counts.load_bytes:
        inside.fail("load_bytes", "is 0, and memory instructions move something", "give word size x 32")
    if launch is not None:
        for name in _WHOLE:
            if getattr(counts, name) != getattr(launch, name):
                what = f"is {getattr(counts, name)}, and launch.{name} is {getattr(launch, name)}"
                inside.fail(name, what, "correct one of the two")
    return counts
