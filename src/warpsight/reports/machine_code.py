"""The listing of `warpsight sass` as terminal text."""

from __future__ import annotations

from typing import Any

from warpsight.isa.sass.native import BARRIERS, NO_BARRIER


def listing_text(document: dict[str, Any]) -> str:
    """`document` is that of `pipeline.machine_listing`.

    Columns: address; barriers waited for; stall cycles; the barriers that its result (W) and its operands (R) release; live
    registers; the instruction; its line.
    """
    classes = ", ".join(f"{count} {name}" for name, count in document["by_class"].items())
    lines = [
        f"{document['tool']}   {document['source']} : {document['kernel']}   {document['target']}",
        "",
        f"  {len(document['instructions'])} instructions: {classes}",
        f"  {document['registers_per_thread']} registers per thread, at most {document['most_live_registers']} live; "
        f"{document['static_shared_bytes']} B shared memory, {document['stack_bytes']} B stack",
        f"  at most {document['loads_in_flight']} loads in flight within a basic block",
        "",
        "  address  wait    stall  sets   live  instruction",
    ]
    section = ""
    for row in document["instructions"]:
        if row["section"] != section and section:
            lines += ["", f"  {row['section']}:"]
        section = row["section"]
        address, waits, stall, sets, live = machine_cells(row)
        text = f"  {address}  {waits}  {stall:>5}  {sets}   {live:>4}  {row['text']:<52} {_place(row)}"
        lines.append(text.rstrip())
    if document["notes"]:
        lines += ["", *(f" note: {note}" for note in document["notes"])]
    return "\n".join(lines)


def machine_cells(row: dict[str, Any]) -> tuple[str, str, str, str, str]:
    """Address, barriers waited for, stall cycles, barriers set and live registers of an instruction, as text."""
    waits = "".join(str(k) if k in row["waits"] else "-" for k in range(BARRIERS))
    sets = "".join(
        f"{letter}{row[name]}" if row[name] != NO_BARRIER else "--"
        for letter, name in (("W", "write_barrier"), ("R", "read_barrier"))
    )
    stall = f"{row['stall']}{'y' if row['yields'] else ' '}"
    return f"{row['address']:#07x}", waits, stall, sets, str(row["live_registers"])


def _place(row: dict[str, Any]) -> str:
    """The line of the source, or of the PTX where the source has none."""
    if row["line"]:
        return f"{row['file'].rpartition('/')[2]}:{row['line']}"
    return f"ptx:{row['ptx_line']}" if row["ptx_line"] else ""
