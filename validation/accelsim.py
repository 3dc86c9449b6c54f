"""Predictions and counts of traces compared with Accel-Sim's for the same traces, as Markdown tables.

    python validation/accelsim.py --config gpgpusim.config --config trace.config TRACES LOGS

TRACES holds a folder for each trace, as `warpsight trace export` or Accel-Sim's tracer write it, and LOGS the output of
the simulator for it, `NAME.log` for the folder NAME, simulated with these configuration files. A trace without a log is left out.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from warpsight.gpu.describe import made_yaml
from warpsight.gpu.importers.gpgpusim import import_configuration
from warpsight.gpu.importers.gpgpusim_files import Options, read_options, read_text
from warpsight.gpu.importers.gpgpusim_sm import Choices
from warpsight.gpu.loader import load_gpu
from warpsight.gpu.spec import GpuSpec
from warpsight.hardware.comparison import InputRow, compare_inputs
from warpsight.hardware.launch_matching import match_measured
from warpsight.hardware.measurements.launch import MeasuredLaunch
from warpsight.hardware.references import read_measurements
from warpsight.pipeline.evaluate import predict_profiled, profile_trace
from warpsight.pipeline.request import Method
from warpsight.pipeline.simulation import simulate_trace
from warpsight.result.prediction import relative_error
from warpsight.traces.importers.accelsim.importer import import_accelsim

MODELS = ("warpsight", "mdm", "gpumech")
_STAGES = 5  # cycles of Accel-Sim's pipeline around a unit, as chains of dependent instructions measure them
_L1 = re.compile(r"^GPGPU-Sim: Reconfigure L1 cache to (\d+)KB", re.MULTILINE)


@dataclass(frozen=True)
class LaunchRow:
    """One launch: `cycles` by model and simulator, and the inputs of both sides."""

    name: str
    launch: MeasuredLaunch
    cycles: dict[str, float]
    inputs: dict[str, InputRow]

    def error(self, by: str) -> float | None:
        """Signed relative error of the cycles."""
        measured = self.launch.value("cycles")
        return relative_error(self.cycles[by], measured) if measured else None


def described(configs: Sequence[str], log: str, scratch: Path, stages: int) -> GpuSpec:
    """The GPU of the configuration, its L1 as large as the simulator made it for this kernel; `stages` of the pipeline."""
    found = _L1.search(log)
    carve_out = None
    if found is not None:
        options = Options(list(configs))
        for path in configs:
            read_options(Path(path), read_text(Path(path)), options)
        carve_out = (options.need("-gpgpu_unified_l1d_size").whole() - int(found[1])) * 1024
    imported = import_configuration(list(configs), choices=Choices(carve_out=carve_out, stages=stages))
    scratch.write_text(made_yaml(imported))
    return load_gpu(str(scratch))


def rows(configs: Sequence[str], traces: Path, logs: Path, scratch: Path, stages: int) -> Iterator[LaunchRow]:
    """A row for each launch that is in both folders."""
    for folder in sorted(path for path in traces.iterdir() if (path / "kernelslist.g").is_file()):
        log = logs / f"{folder.name}.log"
        if not log.is_file():
            continue
        gpu = described(configs, log.read_text(), scratch, stages)
        measurements = read_measurements(str(log))
        for imported in import_accelsim(folder):
            trace = imported.trace()
            launch = match_measured(measurements, trace.header, "")
            profiled = profile_trace(trace, gpu, Method(caches_before="cold"))
            cycles = {answer.model: answer.cycles for answer in predict_profiled(profiled, gpu, MODELS)}
            cycles["simulator"] = simulate_trace(trace, gpu, caches_before="cold").prediction.cycles
            yield LaunchRow(folder.name, launch, cycles, {row.name: row for row in compare_inputs(profiled, gpu, launch)})


def counts_table(found: Sequence[LaunchRow]) -> list[str]:
    """What both count: ours / theirs, one number where they are equal."""
    columns = ("warp instructions", "thread instructions", "L1 load sectors", "L1 store sectors", "L1 hit rate", "L2 hit rate",
               "DRAM bytes read", "DRAM bytes written")  # fmt: skip
    lines = [f"| trace | {' | '.join(columns)} |", f"|---|{'---:|' * len(columns)}"]
    return lines + [f"| {row.name} | {' | '.join(_both(row.inputs.get(column)) for column in columns)} |" for row in found]


def _both(row: InputRow | None) -> str:
    if row is None or row.predicted is None:
        return ""
    if row.kind == "share":
        return f"{100 * row.predicted:.1f} % / {100 * row.measured:.1f} %"
    if row.predicted == row.measured:
        return f"{row.measured:,.0f}"
    return f"{row.predicted:,.0f} / {row.measured:,.0f}"


def cycles_table(found: Sequence[LaunchRow]) -> list[str]:
    """Cycles by the simulator, and each one's error."""
    by = ("simulator", *MODELS)
    head = ("trace", "Accel-Sim", "simulator", *(f"{name} error" for name in by))
    lines = [f"| {' | '.join(head)} |", f"|---|{'---:|' * (len(head) - 1)}"]
    for row in found:
        cells = [row.name, f"{row.launch.value('cycles') or 0:,.0f}", f"{row.cycles['simulator']:,.0f}"]
        lines.append(f"| {' | '.join([*cells, *(_percent(row.error(name)) for name in by)])} |")
    means = [[abs(error) for row in found if (error := row.error(name)) is not None] for name in by]
    shown = [_percent(sum(errors) / len(errors)).lstrip("+") if errors else "" for errors in means]
    return [*lines, f"| mean of absolute errors | | | {' | '.join(shown)} |"]


def _percent(error: float | None) -> str:
    return "" if error is None else f"{100 * error:+.0f} %"


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", action="append", required=True, metavar="FILE", help="gpgpusim.config; trace.config")
    parser.add_argument("--gpu", type=Path, default=Path("accelsim-gpu.yaml"), help="where the GPU description is written")
    parser.add_argument("--pipeline-stages", type=int, default=_STAGES, help="as of warpsight gpus import")
    parser.add_argument("traces", type=Path)
    parser.add_argument("logs", type=Path)
    arguments = parser.parse_args()
    found = list(rows(arguments.config, arguments.traces, arguments.logs, arguments.gpu, arguments.pipeline_stages))
    print("\n".join([*counts_table(found), "", *cycles_table(found)]))


if __name__ == "__main__":
    main()
