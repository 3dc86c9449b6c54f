"""Work for other processes, which must be able to import it."""

from __future__ import annotations

import hashlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from warpsight.base.errors import UsageError
from warpsight.jobs.store import NotKept, ResultStore, StoreAddress


@dataclass(frozen=True)
class Chore:
    """Keep what follows from `name`; `fate` is what else happens. It takes `seconds`, and leaves its process's id in `traces`."""

    store: StoreAddress
    name: str
    fate: str = ""
    seconds: float = 0.0
    traces: str = ""


def keep(chore: Chore) -> str:
    """Keep a document and some bytes, or meet the chore's fate."""
    store = ResultStore.reopen(chore.store)
    if chore.traces:
        Path(chore.traces, f"{chore.name}-{os.getpid()}-{time.monotonic_ns()}").touch()
    time.sleep(chore.seconds)
    match chore.fate:
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "raise":
            raise ValueError("a defect")
        case "leave":
            raise SystemExit(0)
        case "refuse":
            raise UsageError("two is not three", place="--two", remedy="give three")
        case "fail":
            return "it failed"
        case "full":
            raise NotKept("the disk is full", place=chore.store.folder, remedy="make room")
    key = hashlib.sha256(chore.name.encode()).hexdigest()
    store.put("document", key, {"name": chore.name, "length": len(chore.name)})
    store.put_bytes("bytes", key, key.encode() * 20, ".parquet")
    return ""


def kept(folder: Path) -> dict[str, bytes]:
    """Every result in the folder, by its path."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {name: path.read_bytes() for path in files if not (name := path.relative_to(folder).as_posix()).startswith(".")}


def pids(traces: Path) -> dict[str, list[int]]:
    """By the name of a chore: the processes that began it, one entry for each time."""
    found: dict[str, list[int]] = {}
    for path in traces.iterdir():
        name, pid, _ = path.name.rsplit("-", 2)
        found.setdefault(name, []).append(int(pid))
    return found
