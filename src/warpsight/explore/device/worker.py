"""A process that uses the GPU: a fault of one kernel, after which every call fails, costs nobody else's results.

    python -m warpsight.explore.device.worker CASE.npz RESULT.json SETTINGS DEVICE
    python -m warpsight.explore.device.worker --once DEVICE CASE.npz ...

The first measures a case. The second launches each case once and no other kernel, for a profiler.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from warpsight.base.errors import WarpsightError
from warpsight.explore.device.case import load_case
from warpsight.explore.device.gpu import Gpu
from warpsight.explore.device.measure import Loaded, Settings, measure


def main(words: Sequence[str]) -> int:
    """Do what the words say; 0, or 1 where a profiled launch failed."""
    if words[0] == "--once":
        return _once(int(words[1]), words[2:])
    path, result, settings, device = words
    try:
        with Gpu(int(device)) as gpu:
            document, arrays = measure(gpu, load_case(path), Settings(**json.loads(settings)))
        found: dict[str, Any] = {"measured": document}
        if arrays:
            np.savez(Path(result).with_suffix(".npz"), **{f"found{number}": array for number, array in arrays.items()})  # type: ignore[arg-type]
    except WarpsightError as error:
        found = {"failed": str(error)}
    Path(result).write_text(json.dumps(found), "utf-8")
    return 0


def _once(device: int, paths: Sequence[str]) -> int:
    """Launch each case once, in order."""
    try:
        with Gpu(device) as gpu:
            for path in paths:
                Loaded(gpu, load_case(path)).run_once()
    except WarpsightError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
