"""Several files as one case: each begins with a line `=== NAME`, so that a bundle of texts is a text, and may lose any line."""

from __future__ import annotations

import re

_HEAD = re.compile(rb"^=== ([\w.+-]+(?:/[\w.+-]+)*)\n", re.MULTILINE)


def pack(files: dict[str, bytes]) -> bytes:
    """The bundle of `files` by name."""
    return b"".join(b"=== " + name.encode() + b"\n" + data + b"\n" for name, data in files.items())


def unpack(case: bytes) -> dict[str, bytes]:
    """The files of a bundle, by relative name; what comes before the first is left out."""
    heads = list(_HEAD.finditer(case))
    ends = [*(head.start() for head in heads[1:]), len(case)]
    return {
        head[1].decode(): case[head.end() : end].removesuffix(b"\n")
        for head, end in zip(heads, ends, strict=True)
        if ".." not in head[1].decode().split("/")
    }
