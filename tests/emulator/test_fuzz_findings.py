"""Are the inputs that once ended in a traceback, a hang or the death of the process now answered or refused in clear words?

Each was found by tools/fuzz.py, and reduced. It says itself what must become of it: `expect: ok`, or the words of its error.
"""

from __future__ import annotations

import gc
import json
import re
import weakref
from pathlib import Path

import numpy as np
import pytest

import warpsight
from fuzzing.cases import TARGETS
from warpsight.base.errors import LaunchFault, WarpsightError

pytestmark = pytest.mark.unit
CASES = sorted((Path(__file__).parent / "hostile").glob("*/*.*"))


def _expected(case: bytes) -> str:
    if case.startswith(b"{"):
        return str(json.loads(case)["expect"])
    found = re.search(r"^(?://|#) expect: (.+)$", case.decode(), re.MULTILINE)
    assert found is not None
    return found[1]


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_what_the_fuzzer_found_is_answered_or_refused_in_clear_words(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = path.read_bytes()
    monkeypatch.chdir(tmp_path)
    expected, said = _expected(case), "ok"
    try:
        TARGETS[path.parent.name](case)
    except WarpsightError as error:
        said = str(error)
        assert "\n" not in error.what
        assert error.remedy
    assert expected in said


def test_memory_of_a_launch_that_is_over_goes_without_a_search_for_cycles() -> None:
    case = Path(__file__).parent.parent.parent / "tools" / "fuzzing" / "kernels.ptx"
    array = np.zeros(1 << 16, np.uint32)
    alive = weakref.ref(array)
    gc.disable()
    try:
        warpsight.trace(case, "scale", grid=32, block=32, shared=16, args=[array, 3], threads=2)
        with pytest.raises(LaunchFault, match="past the end of shared memory"):
            warpsight.trace(case, "scale", grid=1, block=32, args=[array, 3])
        del array
        assert alive() is None
    finally:
        gc.enable()
