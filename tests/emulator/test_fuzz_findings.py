"""Are the inputs that once ended in a traceback, a hang or the death of the process now answered or refused in clear words?

Each was found by tools/fuzz.py, and reduced. It says itself what must become of it: `expect: ok`, or the words of its error.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from fuzzing.cases import TARGETS

from warpsight.base.errors import WarpsightError

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
