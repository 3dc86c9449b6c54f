"""What the order of accesses is worth: errors against the simulator when a changed design is ordered by its own timing, and by the
described GPU's (docs/adr/0015-order-of-accesses.md).

    python validation/order_of_accesses.py            # prints the table
    python validation/order_of_accesses.py --write    # also rewrites it in the decision record
"""

from __future__ import annotations

import argparse
from pathlib import Path

from marked_page import put

from warpsight.gpu.document import value_text
from warpsight.gpu.loader import load_gpu
from warpsight.pipeline.evaluate import predict_profiled, profile_trace
from warpsight.pipeline.simulation import simulate_trace
from warpsight.pipeline.suites import load_suite
from warpsight.pipeline.tracing import trace_kernel
from warpsight.result.prediction import mean_absolute_percentage_error, relative_error

PAGE = Path(__file__).resolve().parents[1] / "docs" / "adr" / "0015-order-of-accesses.md"
COMMAND = "python validation/order_of_accesses.py --write"
GPU = "mdm-pascal"
MODELS = ("warpsight", "mdm")
DESIGNS = (
    "noc.bandwidth=525GB/s", "noc.bandwidth=2100GB/s", "dram.bandwidth=240GB/s", "dram.bandwidth=960GB/s", "l1.mshrs=32",
    "l1.mshrs=256", "core_clock=2GHz", "l2.latency=240cycles", "dram.latency=440cycles",
)  # fmt: skip
OWN_TIMING = tuple(f"{name}={value_text(name, 0)}" for name in ORDER)


def errors() -> dict[str, dict[tuple[str, str], list[float]]]:
    """Signed errors by design, then by order and model, of every kernel of the development half."""
    found: dict[str, dict[tuple[str, str], list[float]]] = {design: {} for design in DESIGNS}
    for kernel in load_suite("warpsight").development:
        trace = trace_kernel(kernel.request())
        for design in DESIGNS:
            reference = simulate_trace(trace, load_gpu(GPU, [design])).prediction.cycles
            for order, overrides in (("own", OWN_TIMING), ("described", ())):
                gpu = load_gpu(GPU, [design, *overrides])
                for answer in predict_profiled(profile_trace(trace, gpu), gpu, MODELS):
                    key = (order, answer.model)
                    found[design].setdefault(key, []).append(relative_error(answer.cycles, reference))
    return found


def table(found: dict[str, dict[tuple[str, str], list[float]]]) -> str:
    """Means, and the largest of Warpsight's own model, as Markdown."""
    columns = [(model, order) for model in MODELS for order in ("own", "described")]
    head = [f"`{model}`, {order}" for model, order in columns]
    head += [f"largest of `{MODELS[0]}`, {order}" for order in ("own", "described")]
    lines = [f"| design | {' | '.join(head)} |", f"|---|{'---:|' * len(head)}"]
    for design, by in found.items():
        means = [f"{mean_absolute_percentage_error(by[order, model]):.1f} %" for model, order in columns]
        largest = [f"{100 * max(map(abs, by[order, MODELS[0]])):.0f} %" for order in ("own", "described")]
        lines.append(f"| {design} | {' | '.join([*means, *largest])} |")
    return "\n".join(lines)


def main() -> None:
    """Print the table; with --write also keep it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="rewrite the table in the decision record")
    arguments = parser.parse_args()
    found = table(errors())
    print(found)
    if arguments.write:
        put(PAGE, COMMAND, {"order": found})


if __name__ == "__main__":
    main()
