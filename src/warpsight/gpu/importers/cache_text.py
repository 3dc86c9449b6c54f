"""The cache strings of GPGPU-Sim: `type:sets:line:ways,repl:write:alloc:write_alloc:index,mshr:entries:merge,queue:fifo,port`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from warpsight.gpu.importers.option_files import Option

SECTOR_BYTES, SECTORS = 32, 4
_FORM = re.compile(
    r"(?:(?P<kind>[A-Z]):)?(?P<sets>\d{1,9}):(?P<line>\d{1,9}):(?P<ways>\d{1,9}),"
    r"(?P<replacement>\w):(?P<write>\w):(?P<allocation>\w):(?P<write_allocation>\w):(?P<index>\w),"
    r"(?P<mshr>\w):(?P<entries>\d{1,9}):(?P<merge>\d{1,9})"
    r"(,(?P<queue>\d{1,9})(:(?P<fifo>\d{1,9}))?(,(?P<port>\d{1,9}))?)?",
    re.ASCII,
)
_LETTERS: dict[str, dict[str, str]] = {
    "kind": {"N": "normal", "S": "sectored"},
    "replacement": {"L": "LRU", "F": "FIFO"},
    "write": {
        "R": "read-only", "B": "write-back", "T": "write-through", "E": "write-evict",
        "L": "local write-back, global write-through",
    },
    "allocation": {"m": "on-miss", "f": "on-fill", "s": "streaming"},
    "write_allocation": {"N": "no", "W": "write-allocate", "F": "fetch on write", "L": "lazy fetch on read"},
    "index": {"L": "linear", "H": "Fermi hash", "P": "IPOLY", "X": "xor", "C": "custom"},
    "mshr": {"A": "associative", "S": "sector-associative", "F": "texture FIFO", "T": "sectored texture FIFO"},
}


@dataclass(frozen=True)
class CacheText:
    """A decoded cache string. The words are those of `_LETTERS`; `port` is the data port's bytes, 0: a line."""

    kind: str
    sets: int
    line: int
    ways: int
    replacement: str
    write: str
    allocation: str
    write_allocation: str
    index: str
    mshr: str
    entries: int
    merge: int
    queue: int
    port: int

    @property
    def sector(self) -> int:
        """What a miss fetches, in bytes."""
        return SECTOR_BYTES if self.kind == "sectored" else self.line

    @property
    def bytes(self) -> int:
        """Capacity."""
        return self.sets * self.line * self.ways


def parse_cache(option: Option) -> CacheText:
    """Decodes a cache string. Raises FormatError: `none`, not of the form, an unknown letter, a number that cannot be."""
    remedy = "the form is type:sets:line:ways,repl:write:alloc:write_alloc:index,mshr:entries:merge,queue:fifo,port"
    if option.value == "none":
        raise option.wrong("a GPU without this cache cannot be described", "give a cache string")
    found = _FORM.fullmatch(option.value.replace(" ", ""))
    if found is None:
        raise option.wrong("is not a cache string", remedy)
    words: dict[str, str] = {}
    for part, letters in _LETTERS.items():
        letter = found[part] or "N"  # GPGPU-Sim 3 writes no type: it has no sectored caches
        if letter not in letters:
            known = ", ".join(f"{known} {word}" for known, word in letters.items())
            raise option.wrong(f'"{letter}" is no {part.replace("_", " ")}', f"known: {known}")
        words[part] = letters[letter]
    numbers = {part: int(found[part] or 0) for part in ("sets", "line", "ways", "entries", "merge", "queue", "port")}
    for part in ("sets", "line", "ways", "entries", "merge"):
        if numbers[part] == 0:
            raise option.wrong(f"{part} is 0", remedy)
    if words["kind"] == "sectored" and numbers["line"] != SECTOR_BYTES * SECTORS:
        raise option.wrong("a sectored cache has lines of 128 B, four sectors of 32 B", "write S:sets:128:ways")
    return CacheText(**words, **numbers)  # type: ignore[arg-type]
