"""Results kept between runs: small files under a cache folder, named by the hash of everything that they depend on.

The folder is ``$WARPSIGHT_CACHE``, else ``$XDG_CACHE_HOME/warpsight``, else ``~/.cache/warpsight``. The cache only ever saves
time: an entry that is missing, cut or corrupted is computed again, and a folder that cannot be written is not an error.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path

_CHECKSUM_BYTES = 32


def folder() -> Path:
    """The cache folder in effect; it may not exist yet."""
    if own := os.environ.get("WARPSIGHT_CACHE"):
        return Path(own)
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return Path(shared) / "warpsight"
    return Path(os.path.expanduser("~")) / ".cache" / "warpsight"


def content_key(*parts: str | bytes) -> str:
    """A hexadecimal key that depends on every part and on where one part ends and the next begins."""
    digest = hashlib.sha256()
    for part in parts:
        # Names of files that are not UTF-8 have surrogates in Python.
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def _entry(kind: str, key: str) -> Path:
    return folder() / kind / key[:2] / key


def get(kind: str, key: str) -> bytes | None:
    """The bytes stored under `kind` and `key`, or None when absent, unreadable or corrupted."""
    try:
        stored = _entry(kind, key).read_bytes()
    except OSError:
        return None
    checksum, data = stored[:_CHECKSUM_BYTES], stored[_CHECKSUM_BYTES:]
    return data if hashlib.sha256(data).digest() == checksum else None


def put(kind: str, key: str, data: bytes) -> bool:
    """Store `data`, replacing any earlier entry in one step; False when the folder cannot be written."""
    entry = _entry(kind, key)
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=".new-", dir=entry.parent)
    except OSError:
        return False
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.sha256(data).digest() + data)
        # A reader sees the old entry or the new one, never half of it, also when two runs store it at once.
        os.replace(temporary, entry)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        return False
    return True
