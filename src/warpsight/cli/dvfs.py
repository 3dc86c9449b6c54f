"""`warpsight dvfs`: kernels over core clock and memory bandwidth."""

from __future__ import annotations

import argparse

from warpsight.base.errors import UsageError
from warpsight.cli import options, sweep
from warpsight.cli.options import chosen_executor
from warpsight.cli.output import ProgressBar, print_answer, print_json, terminal_style
from warpsight.gpu.loader import load_gpu
from warpsight.reports.formats import write_text
from warpsight.reports.next_step import line
from warpsight.reports.sweep_answers import energy_text
from warpsight.reports.sweep_pictures import energy_picture
from warpsight.sweeps.dvfs import MEMORY, dvfs_study, power_points
from warpsight.sweeps.result import Question, Sweep
from warpsight.sweeps.run import run_sweep

EXAMPLES = """\
examples:
  warpsight dvfs launch.yaml --core-clock 0.8GHz:2GHz:200MHz
  warpsight dvfs launch.yaml --memory 0.5,0.75,1 --power-curve 0.8GHz=70W,1.4GHz=120W,2GHz=230W --svg dvfs.svg
  warpsight dvfs --suite warpsight --model warpsight --power '40 + 90 * (0.3 + utilisation) * (core_clock / GHz) ** 3'
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    options.add_kernel(parser, any_number=True)
    parser.add_argument("--suite", metavar="NAME|DIR", help="all kernels of a suite (for example warpsight)")
    options.add_gpu(parser)
    parser.add_argument("--core-clock", metavar="VALUES", help="SM clocks, for example 1GHz:2GHz:100MHz or 1GHz,1.4GHz "
                        "(default: 0.5 to 1.5 times the GPU's, in steps of 0.1)")
    parser.add_argument("--memory", metavar="F[,F]", help="DRAM bandwidth relative to the GPU's, for example "
                        "0.5,0.75,1 (default 1)")
    parser.add_argument("--l2-clock", choices=("own", "core"), default="own", help="clock domain of the L2 and the NoC: their own, "
                        "so that their latency in seconds is constant (default), or the core's")
    parser.add_argument("--power-curve", metavar="CLOCK=WATTS,...", help="the GPU's power at some clocks, interpolated linearly")
    parser.add_argument("--power", metavar="EXPR", help="power in W, an expression over core_clock, other keys, and utilisation "
                        "(0 to 1: the share of cycles in which an instruction issues)")
    options.add_models(parser)
    options.add_method(parser)
    parser.add_argument("--svg", metavar="FILE", help="also draw the result")
    sweep.add_running(parser)


def run(arguments: argparse.Namespace) -> int:
    """Sweep the clocks and print."""
    if arguments.power is not None and arguments.power_curve is not None:
        raise UsageError("cannot be combined with --power-curve", place="--power", remedy="give one of the two")
    if not arguments.paths and arguments.suite is None:
        raise UsageError("is missing", place="KERNEL", remedy="give kernels, or --suite warpsight")
    gpu = load_gpu(arguments.gpu, overrides=arguments.overrides)
    factors = [] if arguments.memory is None else [_factor(text) for text in arguments.memory.split(",")]
    clocks = _around(gpu.core_clock_hz) if arguments.core_clock is None else arguments.core_clock
    study = dvfs_study(
        sweep.named_kernels(arguments), gpu, options.gpu_name(arguments), clocks=clocks, memory=factors,
        l2_clock=arguments.l2_clock, models=options.model_names(arguments), method=options.method(arguments), suite=arguments.suite,
        settings=arguments.overrides,
    )  # fmt: skip
    power = arguments.power if arguments.power_curve is None else power_points(arguments.power_curve)
    with chosen_executor(arguments) as executor, ProgressBar() as bar:
        results = Sweep.of(run_sweep(study, executor, results=arguments.results, watch=bar.watch).plan)
    documents = [results.energy(memory=MEMORY if factors else None, power=power, about=Question(model)) for model in study.models]
    if arguments.svg:
        write_text(arguments.svg, energy_picture(documents[0]))
    if arguments.json:
        print_json(documents)
    else:
        text = "\n\n".join(energy_text(document, terminal_style()) for document in documents)
        print_answer(text, line(["models", "show", study.models[0]], "the model's assumptions"))
    return 0


def _around(clock: float) -> str:
    """0.5 to 1.5 times a clock, in steps of 0.1."""
    return ",".join(f"{round(clock * tenths / 10)} Hz" for tenths in range(5, 16))


def _factor(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f'"{text}" is not a number', place="--memory", remedy="give factors, as 0.5,0.75,1") from None
