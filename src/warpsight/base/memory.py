"""How much memory can still be had. Linux grants more than there is, and ends the process that uses it."""

from __future__ import annotations

import re


def available_bytes() -> int | None:
    """Bytes that can be used without swapping, None where the system does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            found = re.search(r"^MemAvailable:\s+(\d+) kB", file.read(), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) << 10 if found else None


def lacks(size: int) -> str:
    """What to say where `size` further bytes cannot be had; "" where they can."""
    free = available_bytes()
    if free is None or size <= free:
        return ""
    return f"more than {free >> 20:,} MiB, which is what is free"
