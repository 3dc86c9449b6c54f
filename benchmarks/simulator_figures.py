"""Speed of the simulator over the reference kernels."""

from __future__ import annotations

import sys
import time

from reference_kernels import SOURCE, make_launch, reference_rows

GPU = "mdm-pascal"


def rate(*, slowest: bool) -> float:
    """Million warp instructions per second, best of three: over all reference kernels together, or of the `slowest` kernel."""
    import warpsight
    from warpsight.gpu.loader import load_gpu
    from warpsight.pipeline.evaluate import trace_occupancy
    from warpsight.simulator.simulate import simulate_launch

    gpu = load_gpu(GPU)
    instructions, seconds, least = 0, 0.0, float("inf")
    for row in reference_rows():
        if row.gpu != GPU:
            continue
        launch = make_launch(row.kernel, row.size)
        trace = warpsight.trace(str(SOURCE), kernel=launch.kernel, grid=launch.grid, block=launch.block, args=launch.args)
        blocks = trace_occupancy(trace, gpu).blocks_per_sm
        best = float("inf")
        for _ in range(3):
            start = time.perf_counter()
            found = simulate_launch(trace, gpu, blocks)
            best = min(best, time.perf_counter() - start)
        print(f"{row.name:16s} {found.warp_instructions / best / 1e6:7.2f} M warp instructions/s", file=sys.stderr)
        least = min(least, found.warp_instructions / best)
        instructions, seconds = instructions + found.warp_instructions, seconds + best
    return (least if slowest else instructions / seconds) / 1e6
