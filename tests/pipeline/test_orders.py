"""Are results that depend on an order that a GPU leaves open told from those that do not, and sums of floats from wrong results?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from warpsight.base.errors import UsageError
from warpsight.base.findings import ORDER, Finding
from warpsight.emulator.codegen.orders import block_order, chance_table
from warpsight.pipeline.kernel_input import prepare
from warpsight.pipeline.orders import Content, compare_orders, first_difference
from warpsight.pipeline.request import KernelRequest

pytestmark = pytest.mark.unit
SOURCE = Path(__file__).parents[1] / "emulator" / "kernels" / "orders.cu"
LEVELS = pytest.mark.parametrize("level", ["ptx", "sass"])


def compared(kernel: str, grid: int, block: int, *args: Any, level: str = "ptx", orders: int = 4) -> list[Finding]:
    request = KernelRequest(str(SOURCE), kernel=kernel, grid=grid, block=block, args=args, arch="sm_80", level=level)
    found = compare_orders(prepare(request), orders)
    assert all(f.tool == ORDER for f in found)
    return found


def zeros(count: int = 64, kind: Any = np.int32) -> npt.NDArray[Any]:
    return np.zeros(count, kind)


@LEVELS
def test_right_kernel_with_barriers_shuffles_a_last_block_and_a_lock_leaves_the_same_in_all_orders(level: str) -> None:
    out, count = zeros(), zeros(2)
    assert compared("right", 6, 64, out, count, level=level) == []
    assert not out.any()  # the caller's arrays stay as they are
    assert not count.any()


@LEVELS
@pytest.mark.parametrize(("kernel", "grid", "block"), [("last_block", 4, 32), ("last_lane", 1, 32), ("last_warp", 1, 128)])
def test_last_write_wins_in_whichever_order_blocks_warps_and_lanes_run(kernel: str, grid: int, block: int, level: str) -> None:
    (finding,) = compared(kernel, grid, block, zeros(), level=level)
    assert (finding.kind, finding.severity, finding.kernel) == ("non-deterministic", "error", kernel)
    assert (finding.address, finding.bytes, finding.space) == (finding.address, 4, "global")
    assert "element 0 (int32) of the array of parameter" in finding.message
    assert "in order 1" in finding.message
    assert finding.count == (32 if kernel == "last_block" else 1)


def test_either_side_of_a_branch_may_run_first() -> None:
    (finding,) = compared("last_side", 1, 32, zeros())
    assert "is 2 in the usual order" in finding.message or "is 1 in the usual order" in finding.message


def test_lanes_that_read_what_their_neighbours_write_must_wait_for_them() -> None:
    (finding,) = compared("neighbours", 1, 32, zeros(), 0, orders=8)
    assert finding.severity == "error"
    assert compared("neighbours", 1, 32, zeros(), 1, orders=8) == []


@LEVELS
def test_sum_of_floats_by_atomics_is_a_warning(level: str) -> None:
    (finding,) = compared("sum_of_floats", 4, 64, zeros(4, np.float32), level=level)
    assert (finding.kind, finding.severity, finding.count) == ("non-deterministic", "warning", 1)
    assert "(float32)" in finding.message


def test_places_that_atomics_give_out_depend_on_the_order() -> None:
    (finding,) = compared("places", 4, 64, zeros(1), zeros(256))
    assert "parameter 2" in finding.allocation
    assert finding.severity == "error"


def test_variables_of_the_module_are_compared_too() -> None:
    (finding,) = compared("writes_variable", 4, 32, zeros())
    assert 'variable "variable"' in finding.allocation


def test_block_that_waits_for_a_later_one_ends_in_every_order() -> None:
    assert compared("waits_for_later_block", 3, 1, zeros(), zeros(1)) == []


def test_launch_that_fails_only_in_another_order_is_a_finding() -> None:
    (finding,) = compared("fails_backwards", 4, 1, zeros())
    assert (finding.kind, finding.severity) == ("non-deterministic", "error")
    assert "ends in order 1 with" in finding.message


@pytest.mark.parametrize("orders", [0, 1001, -1])
def test_numbers_of_orders_out_of_range_are_refused(orders: int) -> None:
    with pytest.raises(UsageError, match="cannot be tried"):
        compared("last_lane", 1, 32, zeros(), orders=orders)


# -- Orders and differences by themselves.


@pytest.mark.parametrize("blocks", [1, 2, 3, 7, 64, 1000])
@pytest.mark.parametrize("seed", [1, 2, 3, 40])
def test_each_order_has_each_block_and_each_warp_once(blocks: int, seed: int) -> None:
    order = block_order(seed, blocks)
    assert sorted(order(place) for place in range(blocks)) == list(range(blocks))
    rows = chance_table(seed, blocks)[1:].reshape(-1, blocks)
    assert (np.sort(rows, axis=1) == np.arange(blocks)).all()
    assert seed != 1 or [order(place) for place in range(blocks)] == list(range(blocks))[::-1]


def difference(one: npt.NDArray[Any], other: npt.NDArray[Any], *, known: bool = True) -> Any:
    content = Content("array", 0, one.view(np.uint8), one.dtype if known else None)
    return first_difference(content, other.view(np.uint8))


def test_equal_contents_do_not_differ() -> None:
    assert difference(np.arange(4.0), np.arange(4.0)) is None


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_few_units_in_the_last_place_are_rounding_and_more_are_not(kind: Any, known: bool) -> None:
    one = np.array([1.5, -2.5, 3.5, 4.5], kind)
    near, far = one.copy(), one.copy()
    near[1:3] += 60 * np.spacing(one[1:3])
    far[2] *= kind(1.001)
    close = difference(one, near, known=known)
    assert (close.is_rounding, close.index, close.count, close.elements) == (True, 1, 2, np.dtype(kind))
    assert not difference(one, far, known=known).is_rounding


@pytest.mark.parametrize("other", [np.nan, np.inf, -1.5])
def test_other_kinds_of_numbers_are_no_rounding(other: float) -> None:
    assert not difference(np.array([1.5], np.float32), np.array([other], np.float32)).is_rounding


def test_small_integers_of_an_unknown_type_are_not_taken_for_tiny_floats() -> None:
    found = difference(np.array([5, 7], np.int32), np.array([5, 9], np.int32), known=False)
    assert (found.is_rounding, found.index, found.values, found.elements) == (False, 1, ("7", "9"), np.dtype(np.uint32))
