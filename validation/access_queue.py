"""The effect of the depth of the load-store unit's queue on thrashing: misses compared with the reference, as a Markdown table.

    python validation/access_queue.py            # prints the table
    python validation/access_queue.py --write    # also rewrites it in docs/explanation/caches.md

`sm.access_queue` is the only number of the interleaving that was chosen by comparison.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

from accuracy import trace_of
from marked_page import put
from reference_kernels import ROOT, reference_rows
from warpsight.caches.exact.simulate import simulate_caches
from warpsight.gpu.loader import load_gpu
from warpsight.result.prediction import relative_error

DEPTHS = (8, 12, 16, 18, 20, 22, 24)
KERNELS = {
    "grid_stride 32": "l2_read_misses",
    "row_sum": "l2_read_misses",
    "spmv_csr": "l2_read_misses",
    "kmeans_assign": "l1_read_misses",
}
OURS = {"l1_read_misses": "l1_misses", "l2_read_misses": "l2_read_misses"}
COMMAND = "python validation/access_queue.py --write"


def table() -> str:
    """One row per kernel, one column per depth."""
    gpu = load_gpu("mdm-pascal")
    lines = [f"| accesses that wait | {' | '.join(map(str, DEPTHS))} |", "|---|" + "---:|" * len(DEPTHS)]
    for row in reference_rows():
        if row.gpu != "mdm-pascal" or row.name not in KERNELS:
            continue
        trace, cells, count = trace_of(row), list[str](), KERNELS[row.name]
        for depth in DEPTHS:
            changed = replace(gpu, sm=replace(gpu.sm, access_queue=depth))
            found = simulate_caches(trace, changed, int(row.numbers["blocks_per_sm"])).totals()
            cells.append(f"{100 * relative_error(found[OURS[count]], row.numbers[count]):+.1f} %")
        lines.append(f"| {row.name}, {count[:2].upper()} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Print the table; with --write also keep it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="rewrite the table in docs/explanation/caches.md")
    write = parser.parse_args().write
    found = table()
    print(found)
    if write:
        put(ROOT / "docs" / "explanation" / "caches.md", COMMAND, {"access queue": found})


if __name__ == "__main__":
    main()
