"""Do we count what a detailed simulator counted? Streams re-made here in NumPy, counts from the reference's cycles.csv."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest
from reference_streams import gather, grid_stride, row_sum, vector_add

from warpsight.caches.exact.simulate import simulate_caches
from warpsight.gpu.loader import load_gpu
from warpsight.traces.schema import KernelTrace

pytestmark = pytest.mark.oracle

ROWS: list[tuple[str, str, Callable[[], KernelTrace]]] = [
    ("vector_add", "", vector_add),
    ("gather", "", gather),
    ("grid_stride", "1", lambda: grid_stride(1)),
    ("grid_stride", "4", lambda: grid_stride(4)),
    ("grid_stride", "32", lambda: grid_stride(32)),
    ("row_sum", "", row_sum),
]


@pytest.mark.parametrize(("kernel", "size", "make"), ROWS, ids=[name + size for name, size, _ in ROWS])
def test_counts_of_a_reference_kernel_agree(kernel: str, size: str, make: Callable[[], KernelTrace], shared: Path) -> None:
    with (shared / "reference" / "cycles.csv").open() as file:
        rows = [r for r in csv.DictReader(file) if (r["gpu"], r["kernel"], r["size"]) == ("mdm-pascal", kernel, size)]
    assert len(rows) == 1
    row = {name: int(value) for name, value in rows[0].items() if value.isdigit()}
    found = simulate_caches(make(), load_gpu("mdm-pascal"), row["blocks_per_sm"]).totals()
    assert found["l1_reads"] == row["l1_read_requests"]
    assert found["l1_writes"] == row["l1_write_requests"]
    assert found["l1_misses"] == pytest.approx(row["l1_read_misses"], rel=0.10)
    assert found["l2_read_misses"] == pytest.approx(row["l2_read_misses"], rel=0.10)
    # Its bursts are 32 B, a line four.
    assert found["dram_reads"] == pytest.approx(row["dram_read_bursts"] / 4, rel=0.10)
