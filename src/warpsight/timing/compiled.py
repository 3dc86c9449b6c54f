"""The fingerprint that the kept machine code of this package is keyed by: its own sources and those that it calls."""

from __future__ import annotations

import hashlib
from pathlib import Path

from warpsight.caches.compiled import source_fingerprint as of_caches


def source_fingerprint() -> int:
    """A number that changes with the text of any module here, in `caches` or in `addressing`."""
    digest = hashlib.sha256(of_caches().to_bytes(8, "big"))
    for file in sorted(Path(__file__).resolve().parent.glob("*.py")):
        digest.update(file.read_bytes())
    return int.from_bytes(digest.digest()[:7], "big")
