"""A comparison: predictions of several models for several launches, their inputs and errors, and gates on the mean error.

The inputs are compared too, to tell errors of a model from errors of its inputs. Instructions are the trace's: of PTX, if the
kernel was emulated, while a GPU executes SASS. Hit rates, sectors and DRAM traffic are those of the cache simulation. A profiler's
hit rates are of 32 B sectors, and so are ours of the L2 beside them; ours of the L1, and of the L2 beside a simulator's, are of
requests, each of one line that a warp's access touches. A request for a line in flight is counted separately (a merge); profilers
do not document how they count those, so both numbers are given.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from warpsight.base.errors import UsageError, WarpsightError
from warpsight.base.progress import Watch
from warpsight.gpu.spec import GpuSpec
from warpsight.hardware.launch_matching import Part, launches_apart
from warpsight.hardware.measurements.launch import MeasuredLaunch
from warpsight.hardware.references import Against, Reference, read_against
from warpsight.intervals.usage import dram_bytes, l2_sectors
from warpsight.models.base import get_model, model_names
from warpsight.pipeline.evaluate import ProfiledTrace, predict_profiled, profile_trace
from warpsight.pipeline.provenance import TOOL
from warpsight.pipeline.request import AUTO, COLD, DEFAULT_METHOD, DEFAULT_MODEL, PAPERS_MODELS, KernelRequest, Method
from warpsight.pipeline.tracing import obtain_trace
from warpsight.result.prediction import Prediction, mean_absolute_percentage_error, relative_error, with_whole
from warpsight.traces.schema import LOAD, STORE, TraceHeader

COUNT, SHARE, BYTES = "count", "share", "bytes"
ALL = "all"
_FLUSHES = ("ncu", "accelsim")  # tools whose launches begin with empty caches


@dataclass(frozen=True)
class InputRow:
    """One input. `predicted` is Warpsight's value, `with_merges` (shares) that with merges counted as hits; None: unknown."""

    name: str
    kind: str
    predicted: float | None
    with_merges: float | None
    measured: float
    metric: str

    @property
    def error(self) -> float | None:
        """Signed relative error; None for shares, whose `difference` is more useful, and for a measured 0."""
        if self.predicted is None or self.kind == SHARE or not self.measured:
            return None
        return relative_error(self.predicted, self.measured)

    @property
    def difference(self) -> float | None:
        """Predicted minus measured; shares as fractions."""
        return None if self.predicted is None else self.predicted - self.measured

    def to_json(self) -> dict[str, Any]:
        """The part of the result document."""
        return {**self.__dict__, "error": self.error, "difference": self.difference}


def compare_inputs(profiled: ProfiledTrace, gpu: GpuSpec, launch: MeasuredLaunch) -> tuple[InputRow, ...]:
    """The inputs that were measured; of several metrics of one input, the one closest to Warpsight's definition."""
    ours = _ours(profiled, gpu)
    rows = []
    for name, kind, fields in _ROWS:
        measure = next((launch.measures[field] for field in fields if field in launch.measures), None)
        if measure is not None:
            rows.append(InputRow(name, kind, *ours[fields[0]], measure.value, measure.metric))
    split = {"DRAM bytes read", "DRAM bytes written"} <= {row.name for row in rows}
    return tuple(row for row in rows if not (split and row.name == "DRAM bytes"))


# Name, kind, and the fields of a measurement for it, the closest definition first.
_ROWS = (
    ("warp instructions", COUNT, ("warp_instructions",)),
    ("thread instructions", COUNT, ("thread_instructions",)),
    ("L1 load sectors", COUNT, ("l1_load_sectors",)),
    ("L1 store sectors", COUNT, ("l1_store_sectors",)),
    ("L1 hit rate", SHARE, ("l1_load_hit_rate", "l1_hit_rate")),
    ("L2 hit rate", SHARE, ("l2_hit_rate",)),
    ("L2 hit rate", SHARE, ("l2_lookup_hit_rate",)),
    ("DRAM bytes read", BYTES, ("dram_read_bytes",)),
    ("DRAM bytes written", BYTES, ("dram_write_bytes",)),
    ("DRAM bytes", BYTES, ("dram_bytes",)),
)


def _ours(profiled: ProfiledTrace, gpu: GpuSpec) -> dict[str, tuple[float | None, float | None]]:
    """Warpsight's value of each field for the whole launch, and shares also with merges as hits."""
    header, misses = profiled.trace.header, profiled.misses
    totals = misses.totals()
    whole = header.blocks / header.recorded_blocks  # a sample is scaled by blocks
    sectors = {LOAD: 0.0, STORE: 0.0}
    for instruction, count in zip(profiled.trace.instructions, misses.sectors.tolist(), strict=True):
        if instruction.access in sectors and instruction.space in ("global", "generic"):
            sectors[instruction.access] += count * whole
    at_l2, l2_hits, l2_merges = (float(part.sum()) for part in l2_sectors(profiled.trace.instructions, misses, gpu.l1))
    lookups, found = totals["l2_reads"] + totals["l2_writes"], totals["l2_read_hits"] + totals["l2_write_hits"]
    read, written = (whole * part for part in dram_bytes(misses))
    return {
        "warp_instructions": (float(header.warp_instructions), None),
        "thread_instructions": (float(header.thread_instructions), None),
        "l1_load_sectors": (sectors[LOAD], None),
        "l1_store_sectors": (sectors[STORE], None),
        "l1_load_hit_rate": _shares(totals["l1_hits"], totals["l1_merges"], totals["l1_reads"]),
        "l2_hit_rate": _shares(l2_hits, l2_merges, at_l2),
        "l2_lookup_hit_rate": _shares(found, totals["l2_read_merges"], lookups),
        "dram_read_bytes": (read, None),
        "dram_write_bytes": (written, None),
        "dram_bytes": (read + written, None),
    }


def _shares(hits: float, merges: float, whole: float) -> tuple[float | None, float | None]:
    return (hits / whole, (hits + merges) / whole) if whole else (None, None)


# Clocks vary by less than this between runs.
SAME_CLOCK = 0.01


@dataclass(frozen=True)
class ModelPrediction:
    """One model's prediction for one launch, or the reason why there is none (`refused`)."""

    model: str
    prediction: Prediction | None
    refused: str = ""

    def error(self, reference: Reference | None, quantity: str = "cycles") -> float | None:
        """The signed relative error of the cycles, or of the `seconds`; None without a prediction or a value of the reference."""
        value = getattr(reference, quantity, None)
        return relative_error(getattr(self.prediction, quantity), value) if self.prediction is not None and value else None

    def judged(self, reference: Reference | None) -> float | None:
        """The error that means and gates use: of the cycles, or of the time if no cycles were measured."""
        error = self.error(reference)
        return self.error(reference, "seconds") if error is None else error

    def most_off(self, reference: Reference | None) -> dict[str, Any] | None:
        """The component of the reference with the largest difference (predicted minus reference, CPI)."""
        if self.prediction is None or reference is None or not reference.cpi_stack:
            return None
        theirs = reference.cpi_stack
        ours = with_whole(self.prediction.cpi_stack, theirs)
        predicted = {component: ours.get(component, 0.0) for component in theirs}
        name = max(theirs, key=lambda component: abs(predicted[component] - theirs[component]))
        difference = predicted[name] - theirs[name]
        return {"component": name, "predicted": predicted[name], "reference": theirs[name], "difference": difference}


@dataclass(frozen=True)
class ComparedLaunch:
    """One launch: the trace's `header`, the predictions in the order of the models, and the reference's row, if any.

    `inputs` are the models' inputs with their measured values; `clock_hz` is that of the GPU's description.
    """

    label: str
    header: TraceHeader
    predictions: tuple[ModelPrediction, ...]
    reference: Reference | None
    inputs: tuple[InputRow, ...] = ()
    clock_hz: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """The part of the result document."""
        header, reference = self.header, self.reference
        document = None
        if reference is not None:
            document = {name: getattr(reference, name) for name in ("name", "cycles", "cpi_stack", "place")}
            document |= self._measured(reference)
        return {
            "label": self.label,
            "kernel": header.kernel,
            "grid": list(header.grid),
            "block": list(header.block),
            "warp_instructions": header.warp_instructions,
            "reference": document,
            "answers": [
                {
                    "model": each.model, "error": each.error(reference), "time_error": each.error(reference, "seconds"),
                    "most_off": each.most_off(reference), "refused": each.refused,
                    "prediction": each.prediction.to_json() if each.prediction else None,
                }
                for each in self.predictions
            ],
            "inputs": [row.to_json() for row in self.inputs],
        }

    def _measured(self, reference: Reference) -> dict[str, Any]:
        """The additional values of a profiler's launch."""
        launch = reference.measured
        if launch is None:
            return {"seconds": reference.seconds, "clock": None, "measured": None}
        clock = launch.clock()
        clocks = None
        if clock is not None and clock.value:
            differs = abs(relative_error(self.clock_hz, clock.value)) > SAME_CLOCK
            clocks = {"measured": clock.value, "metric": clock.metric, "described": self.clock_hz, "differs": differs}
        return {
            "seconds": reference.seconds,
            "clock": clocks,
            "stall_shares": {name or "none near": share for name, share in launch.component_shares().items()},
            "measured": launch.to_json(),
        }


@dataclass(frozen=True)
class Gate:
    """The MAPE of `model` must be at most `limit` per cent."""

    model: str
    limit: float

    @classmethod
    def parse(cls, text: str) -> Gate:
        """From `mdm:15`. Raises UsageError."""
        model, colon, limit = text.rpartition(":")
        try:
            value = float(limit.removesuffix("%").strip())
        except ValueError:
            value = -1.0
        if not model.strip() or not colon or not 0 <= value < float("inf"):
            message = f'"{text}" is not a model and a limit in per cent'
            raise UsageError(message, place="gates", remedy="write MODEL:PERCENT, as mdm:15")
        return cls(model.strip(), value)


@dataclass(frozen=True)
class Comparison:
    """Launches on one GPU by `models`, `against` a file of references or nothing."""

    gpu: str
    models: tuple[str, ...]
    launches: tuple[ComparedLaunch, ...]
    against: str
    gates: tuple[Gate, ...]
    measured_by: str = ""
    notes: tuple[str, ...] = ()

    def errors(self, model: str) -> list[tuple[str, float]]:
        """Label and signed relative error (`ModelPrediction.judged`) of every launch with a prediction and a reference."""
        number = self.models.index(model)
        errors = [(launch.label, launch.predictions[number].judged(launch.reference)) for launch in self.launches]
        return [(label, error) for label, error in errors if error is not None]

    def mape(self, model: str) -> float | None:
        """Mean absolute error in per cent; None without any error."""
        errors = [error for _, error in self.errors(model)]
        return mean_absolute_percentage_error(errors) if errors else None

    def passed(self) -> bool:
        """Whether every gate passes. A gate without any error fails."""
        return all(row["passed"] for row in self._gate_rows())

    def to_json(self) -> dict[str, Any]:
        """The result document. Errors are fractions, signed; MAPE and limits per cent."""
        return {
            "tool": TOOL,
            "gpu": self.gpu,
            "models": list(self.models),
            "against": self.against or None,
            "measured_by": self.measured_by or None,
            "notes": list(self.notes),
            "launches": [launch.to_json() for launch in self.launches],
            "summary": [self._summary(model) for model in self.models] if self.against else [],
            "gates": self._gate_rows(),
            "ranking": self._ranking() if len(self.launches) > 1 and not self.against else [],
        }

    def _ranking(self) -> list[dict[str, Any]]:
        """The launches by the time that the first model predicts, each with its speedup over the first launch."""
        rows = []
        for launch in self.launches:
            prediction = launch.predictions[0].prediction
            known = {} if prediction is None else {name: getattr(prediction, name) for name in ("cycles", "seconds", "bound_by")}
            rows.append({"label": launch.label, **known})
        return with_speedups(rows)

    def _summary(self, model: str) -> dict[str, Any]:
        errors = self.errors(model)
        worst = max(errors, key=lambda item: abs(item[1])) if errors else None
        timed = [launch.reference is not None and not launch.reference.cycles for launch in self.launches]
        return {
            "model": model,
            "launches": len(errors),
            "of": "time" if timed and all(timed) else "cycles or time" if any(timed) else "cycles",
            "mape": self.mape(model),
            "mean_error": sum(error for _, error in errors) / len(errors) if errors else None,
            "largest": {"label": worst[0], "error": worst[1]} if worst else None,
        }

    def _gate_rows(self) -> list[dict[str, Any]]:
        gated = [(gate, self.mape(gate.model)) for gate in self.gates]
        return [
            {"model": gate.model, "limit": gate.limit, "mape": mape, "passed": mape is not None and mape <= gate.limit}
            for gate, mape in gated
        ]


def compare(
    requests: Sequence[KernelRequest], gpu: GpuSpec, models: Sequence[str] | None = None, method: Method = DEFAULT_METHOD, *,
    against: str | None = None, gates: Sequence[str] = (), watch: Watch | None = None,
) -> Comparison:
    """Every model on every request; a request's path may be `NAME=KERNEL`, its name in `against`. Without `models` they are
    the default model and the papers' best; `("all",)` are all of them.

    A trace of another tool is compared launch by launch.

    In state `auto` the L2 begins cold where `against` was measured so: by Nsight Compute, which flushes it, and by Accel-Sim.

    A model that is not named and cannot predict is listed with the reason; a named one raises its error.
    Raises UsageError for an unknown model, a gate without a reference or for another model, and launches without a row.
    """
    named = models is not None and tuple(models) != (ALL,)
    names = tuple(models or (DEFAULT_MODEL, *PAPERS_MODELS)) if named or not models else tuple(model_names())
    for name in names:
        get_model(name)
    parsed = tuple(Gate.parse(text) for text in gates)
    _check_gates(parsed, names, against)
    references = read_against(against) if against else None
    measurements = references.measurements if references else None
    if method.caches_before == AUTO and measurements is not None and measurements.tool in _FLUSHES:
        method = replace(method, caches_before=COLD)
    launches = [
        _compare_launch(part, label, gpu, names, method, references, named, watch)
        for label, request in (map(labelled, requests) if against else told_apart(requests))
        for part in launches_apart(request, label)
    ]
    measured_by, notes = (measurements.tool, measurements.notes) if measurements else ("", ())
    return Comparison(gpu.name, names, tuple(launches), against or "", parsed, measured_by, notes)


def _compare_launch(
    part: Part, label: str, gpu: GpuSpec, names: Sequence[str], method: Method, against: Against | None, named: bool,
    watch: Watch | None,
) -> ComparedLaunch:
    """One launch with every model; `named`: a model that cannot predict is an error."""
    trace = obtain_trace(part.request, gpu=gpu, watch=watch)
    reference = against.match(gpu.name, trace.header, label, part.turn) if against is not None else None
    profiled = profile_trace(trace, gpu, method, watch=watch)
    predictions = []
    for name in names:
        try:
            (prediction,) = predict_profiled(profiled, gpu, [name])
            predictions.append(ModelPrediction(name, prediction))
        except WarpsightError as error:
            if named:
                raise
            predictions.append(ModelPrediction(name, None, error.what))
    shown = label or part.shown or (reference.name if reference and not reference.measured else trace.header.kernel)
    inputs = compare_inputs(profiled, gpu, reference.measured) if reference and reference.measured else ()
    return ComparedLaunch(shown, trace.header, tuple(predictions), reference, inputs, gpu.core_clock_hz)


def with_speedups(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with their `speedup` over the first one, the fastest first; those without a time have none and come last."""
    base = rows[0].get("seconds")
    sped = [{**row, "speedup": base / row["seconds"] if base and row.get("seconds") else None} for row in rows]
    return sorted(sped, key=lambda row: row.get("seconds") or math.inf)


def _check_gates(gates: Sequence[Gate], models: Sequence[str], against: str | None) -> None:
    for gate in gates:
        if against is None:
            raise UsageError("needs a reference to compare with", place="gates", remedy="give `against`")
        if gate.model not in models:
            get_model(gate.model)
            message = f"{gate.model} is not among the models: {', '.join(models)}"
            raise UsageError(message, place="gates", remedy=f"add `model={gate.model}`")


def told_apart(requests: Sequence[KernelRequest]) -> list[tuple[str, KernelRequest]]:
    """The `labelled` requests; where several files have none, their names, as their kernels may have one name."""
    named = [labelled(request) for request in requests]
    files = [Path(str(request.path)).name for _, request in named]
    several = len({*files}) > 1 and len({*files}) == len(files) and all("\n" not in file for file in files)
    return [(label or (file if several and not request.is_foreign else ""), request)
            for (label, request), file in zip(named, files, strict=True)]  # fmt: skip


def labelled(request: KernelRequest) -> tuple[str, KernelRequest]:
    """The name before the path (`NAME=KERNEL`), if any, and the request without it."""
    path = request.path
    if not isinstance(path, str) or "\n" in path or "=" not in path or Path(path).exists():
        return "", request
    label, _, rest = path.partition("=")
    return label.strip(), replace(request, path=rest)
