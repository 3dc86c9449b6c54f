"""How the cache simulation is compiled: on plain pointers, without the interpreter lock, kept on disk until a source changes."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import lazy_loader as lazy

from warpsight.base.compiled import intrinsic

numba = lazy.load("numba")


@intrinsic
def pointer(typing_context: Any, array: Any) -> Any:
    """The address of a one-dimensional contiguous array's data, to be indexed as the array would be.

    Handing on arrays costs descriptors and reference counts at every call: most of the run time and of the compile time.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return context.make_array(signature.args[0])(context, builder, arguments[0]).data

    return numba.types.CPointer(array.dtype)(array), generate


def source_fingerprint() -> int:
    """A number that changes with the text of any module here or in `addressing`.

    Numba keys a stored function by its own file alone; a function that closes over this number is keyed by its callees' files too.
    """
    here = Path(__file__).resolve().parent
    digest = hashlib.sha256()
    for folder in (here, here.parent / "addressing"):
        for file in sorted(folder.rglob("*.py")):
            digest.update(file.read_bytes())
    return int.from_bytes(digest.digest()[:7], "big")
