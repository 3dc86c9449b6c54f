"""The commands: name, the module that answers, and one line for `warpsight --help`. Modules are imported only when used."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Command:
    """A command. Its module has `configure(parser)` and `run(arguments) -> exit code`."""

    name: str
    module: str
    summary: str


COMMANDS = (
    Command("demo", "warpsight.cli.demo", "one loop at stride 1 and 32: the same work, far apart in time, and why"),
    Command("predict", "warpsight.cli.predict", "cycles, what bounds them and the CPI stack of a kernel on a GPU"),
    Command("explain", "warpsight.cli.explain", "which source or PTX line the cycles of a prediction come from"),
    Command("advise", "warpsight.cli.advise", "what would make a kernel faster, each change evaluated, ranked by its gain"),
    Command("compare", "warpsight.cli.compare", "all models on one or more kernels, beside each other and a reference"),
    Command("trace", "warpsight.cli.trace", "run a kernel on this machine and keep what it did, for later predictions"),
    Command("run", "warpsight.cli.run", "a whole CUDA program: run it here, each of its launches predicted"),
    Command("simulate", "warpsight.cli.simulate", "a kernel on a GPU cycle by cycle: the reference that models are held against"),
    Command("profile", "warpsight.cli.profile", "the interval profile of a kernel's representative warp"),
    Command("cache", "warpsight.cli.cache", "L1 misses by class from reuse distances, of a kernel, a trace or an access list"),
    Command("model", "warpsight.cli.model", "a prediction from an interval profile, without a kernel"),
    Command("calibrate", "warpsight.cli.calibrate", "a GPU's memory parameters for MWP-CWP, from timings of micro-benchmarks"),
    Command("validate", "warpsight.cli.validate", "figures of the papers again, from the referee and the models on a suite"),
    Command("gpus", "warpsight.cli.gpus", "list, show and check GPU descriptions"),
    Command("models", "warpsight.cli.models", "list and show the performance models"),
    Command("doctor", "warpsight.cli.doctor", "what this installation can do: tools, libraries, PTX instructions"),
)

BY_NAME = {command.name: command for command in COMMANDS}
