"""Predictions for traces taken on real GPUs, compared with measurements on them, as a Markdown table.

    python validation/hardware.py            # prints the table
    python validation/hardware.py --write    # also rewrites it in validation/hardware/README.md
"""

from __future__ import annotations

import argparse
from pathlib import Path

from marked_page import put
from reference_kernels import REFERENCE
from warpsight.gpu.loader import load_gpu
from warpsight.pipeline.evaluate import predict_profiled, profile_trace
from warpsight.pipeline.request import Method
from warpsight.pipeline.simulation import simulate_trace
from warpsight.result.prediction import relative_error
from warpsight.traces.importers.accelsim.importer import import_accelsim

PAGE = Path(__file__).resolve().parent / "hardware" / "README.md"
COMMAND = "python validation/hardware.py --write"
MODELS = ("warpsight", "mdm", "gpumech", "bottleneck")
# folder of the trace, GPU, microseconds of kernel time that were measured for all its launches together
MEASURED = (("btree_v5_sm90", "h100-pcie", 18.1),)


def rows() -> list[str]:
    """A line for each trace and model, and one for the simulator."""
    lines = ["| trace | launches | GPU | by | cycles | microseconds | measured | error |", "|---|---:|---|---|---:|---:|---:|---:|"]
    for folder, name, measured in MEASURED:
        gpu = load_gpu(name)
        traces = [launch.trace() for launch in import_accelsim(REFERENCE.parent / "traces" / folder)]
        cycles = dict.fromkeys((*MODELS, "simulator"), 0.0)
        for trace in traces:
            for answer in predict_profiled(profile_trace(trace, gpu, Method(caches_before="cold")), gpu, MODELS):
                cycles[answer.model] += answer.cycles
            cycles["simulator"] += simulate_trace(trace, gpu, caches_before="cold").prediction.cycles
        for by, total in cycles.items():
            micro = 1e6 * total / gpu.core_clock_hz
            error = f"{100 * relative_error(micro, measured):+.0f} %"
            cells = (folder, len(traces), name, f"`{by}`", f"{total:,.0f}", f"{micro:.1f}", f"{measured:.1f}", error)
            lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


def main() -> None:
    """Print the table; with --write also keep it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="rewrite the table in validation/hardware/README.md")
    arguments = parser.parse_args()
    found = "\n".join(rows())
    print(found)
    if arguments.write:
        put(PAGE, COMMAND, {"measured": found})


if __name__ == "__main__":
    main()
