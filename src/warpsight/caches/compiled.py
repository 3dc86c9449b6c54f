"""How the cache simulation is compiled: kept on disk, without the interpreter lock, and recompiled when any of its sources changes."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numba

# error_model: a division by zero cannot happen (geometry is checked), so the test for it is left out.
compiled = numba.njit(cache=True, nogil=True, error_model="numpy")


def source_fingerprint() -> int:
    """A number that changes with the text of any module here or in `addressing`.

    Numba keys a stored function by its own file alone; a function that closes over this number is keyed by its callees' files too.
    """
    here = Path(__file__).resolve().parent
    digest = hashlib.sha256()
    for folder in (here, here.parent / "addressing"):
        for file in sorted(folder.glob("*.py")):
            digest.update(file.read_bytes())
    return int.from_bytes(digest.digest()[:7], "big")
