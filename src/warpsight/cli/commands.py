"""The commands: name, the module that answers, and one line for `warpsight --help`. Modules are imported only when used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Command:
    """A command. Its module has `configure(parser)` and `run(arguments) -> exit code`.

    `parts` are commands of two words, by the second one, where the first word alone is a command too.
    """

    name: str
    module: str
    summary: str
    parts: Mapping[str, Command] = field(default_factory=dict)


_STUDY = "warpsight.cli.sweep_study"
_ANSWERS = "warpsight.cli.sweep_answers"
_SWEEP_PARTS = (
    Command("status", _STUDY, "how far a study is"),
    Command("resume", _STUDY, "go on with a study that was interrupted, or whose code or kernels have changed"),
    Command("collect", _STUDY, "write the table of what is computed so far"),
    Command("best", _ANSWERS, "the best designs of a study under conditions"),
    Command("pareto", _ANSWERS, "the designs that no other beats in performance and cost"),
    Command("sensitivity", _ANSWERS, "which axis of a study matters, for each kernel"),
    Command("map", _ANSWERS, "performance, or a part of the CPI stack, over two axes"),
    Command("speedups", _ANSWERS, "speed-up of each kernel over a baseline design"),
)

_TRACE_PARTS = (Command("export", "warpsight.cli.trace_export", "write a trace as Accel-Sim reads it"),)

COMMANDS = (
    Command("demo", "warpsight.cli.demo", "one loop at stride 1 and 32: the same work, far apart in time, and why"),
    Command("predict", "warpsight.cli.predict", "cycles, what bounds them and the CPI stack of a kernel on a GPU"),
    Command("explain", "warpsight.cli.explain", "which source or PTX line the cycles of a prediction come from"),
    Command("advise", "warpsight.cli.advise", "what would make a kernel faster, each change evaluated, ranked by its gain"),
    Command("report", "warpsight.cli.report", "one HTML file that shows a kernel, a result or a study: stacks, code, what if"),
    Command("compare", "warpsight.cli.compare", "all models on one or more kernels, beside each other and a reference"),
    Command("trace", "warpsight.cli.trace", "run a kernel on this machine and keep what it did, for later predictions",
            {part.name: part for part in _TRACE_PARTS}),
    Command("run", "warpsight.cli.run", "a whole CUDA program: run it here, each of its launches predicted"),
    Command("simulate", "warpsight.cli.simulate", "a kernel on a GPU cycle by cycle: the reference that models are held against"),
    Command("profile", "warpsight.cli.profile", "the interval profile of a kernel's representative warp"),
    Command("cache", "warpsight.cli.cache", "L1 misses by class from reuse distances, of a kernel, a trace or an access list"),
    Command("model", "warpsight.cli.model", "a prediction from an interval profile, without a kernel"),
    Command("calibrate", "warpsight.cli.calibrate", "a GPU's description from timings of micro-benchmarks, which it has"),
    Command("sweep", "warpsight.cli.sweep", "thousands of designs: kernels over axes of a GPU, and the answers they give",
            {part.name: part for part in _SWEEP_PARTS}),
    Command("dvfs", "warpsight.cli.dvfs", "time, and energy by a power curve, over core clocks and memory speeds"),
    Command("validate", "warpsight.cli.validate", "figures of the papers again, from the referee and the models on a suite"),
    Command("serve", "warpsight.cli.serve", "a folder of results on localhost, each as its report, shown again when it changes"),
    Command("gpus", "warpsight.cli.gpus", "list, show, check and import GPU descriptions"),
    Command("models", "warpsight.cli.models", "list and show the performance models"),
    Command("doctor", "warpsight.cli.doctor", "what this installation can do: tools, libraries, PTX instructions"),
)

BY_NAME = {command.name: command for command in COMMANDS}
