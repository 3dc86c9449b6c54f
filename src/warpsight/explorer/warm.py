"""Imported once by the process that answers are forked from: it loads the GPUs and answers an example.

What it has loaded, its forks need not load: Numba, LLVM and the compiled simulators take seconds, and the first time compiling them
takes half a minute. So it forks nothing itself, leaves what it has made to the garbage collector of none of its forks, and gives
free memory back to the system: a fork that used it would first copy it.
"""

from __future__ import annotations

import gc

from warpsight.base.room import give_back
from warpsight.explorer.answer import answer
from warpsight.explorer.designs import gpu_of
from warpsight.explorer.examples import examples
from warpsight.gpu.catalog import catalog_names


def _told(kind: str, text: str) -> None:
    """Nobody listens: what fails here fails again, and is told, where a user asks."""


def _warm() -> None:
    for name in catalog_names():
        gpu_of(name)
    answer(examples()[0].question, _told, forks=False)
    give_back()
    gc.freeze()


_warm()
