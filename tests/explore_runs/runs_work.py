"""Work for other processes, which must be able to import it."""

from __future__ import annotations

import os
from pathlib import Path


def write_or_die(task: tuple[str, str]) -> str:
    """Write a file named by the task; `die` ends the process, `fail` gives a reason."""
    folder, name = task
    if name == "die":
        os._exit(9)
    if name == "fail":
        return "it failed"
    Path(folder, name).write_text(name)
    return ""
