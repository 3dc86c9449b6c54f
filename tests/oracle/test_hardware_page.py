"""Do the predictions beside measurements on real GPUs stand as the page has them, and within what is known of the error?"""

from __future__ import annotations

import pytest

from hardware import COMMAND, MEASURED, PAGE, rows
from marked_page import get
from reference_kernels import REFERENCE

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.shared,
    pytest.mark.skipif(not (REFERENCE.parent / "traces").is_dir(), reason="the traces are not beside the checkout"),
]


def test_page_has_what_the_code_predicts() -> None:
    found = rows()
    assert get(PAGE, COMMAND, "measured") == "\n".join(found)
    own = [line for line in found if "`warpsight`" in line]
    assert len(own) == len(MEASURED)
    errors = [float(line.split("|")[-2].removesuffix("% ").strip().removesuffix("%")) for line in own]
    assert all(abs(error) <= 31 for error in errors), errors
