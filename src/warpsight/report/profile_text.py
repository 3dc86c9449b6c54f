"""An interval profile as terminal text: its totals and its longest intervals."""

from __future__ import annotations

from typing import Any

from warpsight.base.format import thousands, three_digits

_LISTED = 12


def profile_text(document: dict[str, Any], tool: str) -> str:
    """`document` is the interchange JSON (DESIGN section 2). Lists the intervals that stall longest, in the order they run."""
    intervals = document["intervals"]
    stalls = sum(interval["stall_cycles"] for interval in intervals)
    instructions = sum(interval["instructions"] for interval in intervals)
    lines = [
        f"{tool}   {document['kernel']}   interval profile of the representative warp",
        "",
        f"  warps per SM         {document['warps_per_sm']}",
        f"  warp instructions    {thousands(document['total_warp_instructions'])} in the launch, "
        f"{thousands(instructions)} in this warp",
        f"  intervals            {thousands(len(intervals))}, with {thousands(stalls)} stall cycles",
        f"  LLC miss ratio       {three_digits(document['llc_miss_ratio'])}",
        "",
        f" {'interval':>8}{'instructions':>14}{'stall cycles':>14}  {'cause':<9}{'pc':>6}"
        f"{'mem. instr.':>13}{'read misses':>13}{'write misses':>14}{'DRAM reads':>12}{'DRAM writes':>13}",
    ]
    longest = sorted(range(len(intervals)), key=lambda i: -intervals[i]["stall_cycles"])[:_LISTED]
    lines += [_row(number, intervals[number]) for number in sorted(longest)]
    if len(intervals) > _LISTED:
        lines.append(f" the {_LISTED} that stall longest of {thousands(len(intervals))}; --json or -o FILE gives all")
    return "\n".join(lines)


def _row(number: int, interval: dict[str, Any]) -> str:
    pc = "" if interval.get("pc") is None else str(interval["pc"])
    counts = ("memory_instructions", "read_misses", "write_misses", "dram_reads", "dram_writes")
    figures = "".join(f"{three_digits(interval[name]):>{width}}" for name, width in zip(counts, (13, 13, 14, 12, 13), strict=True))
    head = f" {number:>8}{thousands(interval['instructions']):>14}{three_digits(interval['stall_cycles']):>14}"
    return f"{head}  {interval['cause']:<9}{pc:>6}{figures}"
