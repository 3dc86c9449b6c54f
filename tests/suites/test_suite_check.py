"""Does the check of a suite's kernel see a wrong result, and tell what is wrong with a check file?"""

from __future__ import annotations

from pathlib import Path

import pytest
from small_suite import CHECK, KERNEL, MANIFEST, write_suite

from warpsight.base.errors import UsageError
from warpsight.pipeline.suite_check import CheckedRun, check_kernel
from warpsight.pipeline.suites import load_suite

pytestmark = pytest.mark.unit


def _checked(folder: Path, *, manifest: str = MANIFEST, kernel: str = KERNEL, check: str = CHECK) -> CheckedRun:
    suite = load_suite(write_suite(folder, manifest=manifest, kernel=kernel, check=check))
    return check_kernel(suite.kernel("twice"))


def test_right_kernel_is_right_and_says_what_was_compared(tmp_path: Path) -> None:
    run = _checked(tmp_path)
    assert run.right
    assert dict(run.elements) == {"y": 256, "big": 1}
    assert run.trace.header.warp_instructions > 0


def test_kernel_with_one_wrong_element_is_told_with_its_index(tmp_path: Path) -> None:
    run = _checked(tmp_path, kernel=KERNEL.replace("y[i] = 2 * x[i];", "y[i] = i == 70 ? 9 : 2 * x[i];"))
    (difference,) = run.differences
    assert (difference.output, difference.index, difference.wrong, difference.elements, difference.found) == ("y", 70, 1, 256, 9.0)
    assert str(difference).startswith("y[70] is 9 and should be ")


def test_integer_that_is_off_by_one_is_wrong_whatever_the_tolerance(tmp_path: Path) -> None:
    run = _checked(tmp_path, check=CHECK.replace(".sum()", ".sum() + 1"))
    assert [each.output for each in run.differences] == ["big"]


@pytest.mark.parametrize(("tolerance", "right"), [("", False), ("tolerance: 1e-5\n", False), ("tolerance: 1e-3\n", True)])
def test_float_is_right_within_the_tolerance_and_equal_without_one(tmp_path: Path, tolerance: str, right: bool) -> None:
    manifest = MANIFEST.replace("tolerance: 1e-6\n", tolerance)
    assert _checked(tmp_path, manifest=manifest, check=CHECK.replace("2.0 * x", "2.0001 * x.astype('f8')")).right is right


@pytest.mark.parametrize("value", ["0.0f / 0.0f", "1.0f / 0.0f"])
def test_nan_or_infinity_where_a_number_belongs_is_wrong(tmp_path: Path, value: str) -> None:
    run = _checked(tmp_path, kernel=KERNEL.replace("y[i] = 2 * x[i];", f"y[i] = i == 5 ? {value} : 2 * x[i];"))
    assert [(each.output, each.index) for each in run.differences] == [("y", 5)]


def test_order_that_is_not_defined_is_settled_by_comparable(tmp_path: Path) -> None:
    reverse = "def expected(x, y, big, n):\n    return {'y': 2.0 * x[::-1]}\n"
    assert not _checked(tmp_path, check=reverse).right
    assert _checked(tmp_path, check=reverse + "def comparable(outputs):\n    return {'y': sorted(outputs['y'])}\n").right
    cut = "def comparable(outputs):\n    return {'y': outputs['y'][: int(outputs['y'][0] * 100)]}\n"
    assert [each.output for each in _checked(tmp_path, check=reverse + cut).differences] == ["size of y"]


@pytest.mark.parametrize(
    ("check", "words"),
    [
        ("", r"check\.py: has no function expected"),
        ("def expected(:", r"check\.py:1: SyntaxError"),
        ("import nothing_like_it", r"check\.py:1: ModuleNotFoundError"),
        ("def expected(x, y):\n    return {}", r"check\.py: expected\(\) takes 2 argument\(s\), the kernel 4"),
        ("def expected(x, y, big, n):\n    return {'y': x[n]}", r"check\.py:2: IndexError"),
        ("def expected(x, y, big, n):\n    pass", r"check\.py: expected\(\) returned None and no outputs"),
        ("def expected(x, y, big, n):\n    return {'z': x}", r'expected\(\) returned "z", which is not an array among'),
        ("def expected(x, y, big, n):\n    return {'n': 1}", r'expected\(\) returned "n", which is not an array among'),
        ("def expected(x, y, big, n):\n    return {'y': x[:5]}", r'"y" of shape \(5,\); it has \(256,\)'),
        ("def expected(x, y, big, n):\n    return {'y': 'text'}", r'"y" of <U4, but only numbers can be compared'),
        ("def expected(x, y, big, n):\n    return {'y': [[1], [1, 2]]}", r"check\.py: ValueError"),
        (f"{CHECK}def comparable(outputs):\n    return 5", r"check\.py: comparable\(\) returned 5 and no outputs"),
    ],
)
def test_check_file_that_does_not_do_its_part_is_refused_with_its_line(tmp_path: Path, check: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        _checked(tmp_path, check=check)
    assert caught.value.remedy
