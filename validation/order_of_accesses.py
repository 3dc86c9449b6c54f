"""The effect of the order of accesses: errors against the simulator for changed designs, ordered by their own timing and by that of
its reference GPU (docs/adr/0019-order-of-accesses-is-a-method.md).

    python validation/order_of_accesses.py                          # prints the table
    python validation/order_of_accesses.py --write                  # also rewrites it in the decision record
    python validation/order_of_accesses.py --design l1.mshrs=32     # one row
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from marked_page import put
from warpsight.gpu.loader import load_gpu
from warpsight.gpu.steps import ORDERS
from warpsight.pipeline.evaluate import predict_trace
from warpsight.pipeline.request import Method
from warpsight.pipeline.simulation import simulate_trace
from warpsight.pipeline.suites import load_suite
from warpsight.pipeline.tracing import trace_kernel
from warpsight.result.prediction import mean_absolute_percentage_error, relative_error

PAGE = Path(__file__).resolve().parents[1] / "docs" / "adr" / "0019-order-of-accesses-is-a-method.md"
COMMAND = "python validation/order_of_accesses.py --write"
GPU = "mdm-pascal"
MODELS = ("warpsight", "mdm")
DESIGNS = (
    "noc.bandwidth=525GB/s", "noc.bandwidth=2100GB/s", "dram.bandwidth=240GB/s", "dram.bandwidth=960GB/s", "l1.mshrs=32",
    "l1.mshrs=256", "core_clock=2GHz", "l2.latency=240cycles", "dram.latency=20cycles", "dram.latency=440cycles",
    "dram.latency=1000cycles",
)  # fmt: skip


def errors(designs: Sequence[str]) -> dict[str, dict[tuple[str, str], list[float]]]:
    """Signed errors by design, then by order and model, of every kernel of the development half."""
    found: dict[str, dict[tuple[str, str], list[float]]] = {design: {} for design in designs}
    for kernel in load_suite("warpsight").development:
        trace = trace_kernel(kernel.request())
        for design in designs:
            gpu = load_gpu(GPU, [design])
            reference = simulate_trace(trace, gpu, caches_before="cold").prediction.cycles
            for order in ORDERS:
                for answer in predict_trace(trace, gpu, MODELS, Method(order=order, caches_before="cold")):
                    found[design].setdefault((order, answer.model), []).append(relative_error(answer.cycles, reference))
    return found


def table(found: dict[str, dict[tuple[str, str], list[float]]]) -> str:
    """Means, and the largest of Warpsight's own model, as Markdown."""
    columns = [(model, order) for model in MODELS for order in reversed(ORDERS)]
    head = [f"`{model}`, {order}" for model, order in columns]
    head += [f"largest of `{MODELS[0]}`, {order}" for order in reversed(ORDERS)]
    lines = [f"| design | {' | '.join(head)} |", f"|---|{'---:|' * len(head)}"]
    for design, by in found.items():
        means = [f"{mean_absolute_percentage_error(by[order, model]):.1f} %" for model, order in columns]
        largest = [f"{100 * max(map(abs, by[order, MODELS[0]])):.0f} %" for order in reversed(ORDERS)]
        lines.append(f"| {design} | {' | '.join([*means, *largest])} |")
    return "\n".join(lines)


def main() -> None:
    """Print the table; with --write also keep it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="rewrite the table in the decision record")
    parser.add_argument("--design", action="append", choices=DESIGNS, help="only this design (repeatable), without --write")
    arguments = parser.parse_args()
    if arguments.write and arguments.design:
        parser.error("--write takes all designs")
    found = table(errors(arguments.design or DESIGNS))
    print(found)
    if arguments.write:
        put(PAGE, COMMAND, {"order": found})


if __name__ == "__main__":
    main()
