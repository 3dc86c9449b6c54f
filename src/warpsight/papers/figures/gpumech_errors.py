"""GPUMech (MICRO 2014), Figs. 11 to 15: errors of the models of its Table II."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from warpsight.papers.figures.base import GPUMECH, About, Claim, Figure, Number
from warpsight.papers.figures.errors import CPI, IPC, Accuracy, Curves, Judged, Step, Sweep, error_at, errors_of, mape, trend
from warpsight.papers.results import Variant

GPU = "gpumech"
MODELS = ("naive-interval", "markov-chain", "mt", "mt-mshr", "gpumech")
EXPLAINED = ("markov-chain", "gpumech")
_NAMES = "`gpumech` is the paper's MT_MSHR_BAND; the others are called as there."
_ENDS = "section VI-C"


def _share_within(rows: Sequence[Judged], model: str, limit: float = 0.2) -> float | None:
    errors = errors_of(rows, model)
    return 100 * sum(abs(error) < limit for error in errors) / len(errors) if errors else None


def _means(rows: Sequence[Judged], gpumech: float, markov_chain: float, where: str) -> list[Number]:
    papers = (("gpumech", gpumech), ("markov-chain", markov_chain))
    return [Number(f"{model}, mean", "%", paper, mape(rows, model), where) for model, paper in papers]


def _numbers_11(rows: Sequence[Judged]) -> list[Number]:
    where = "section VI-B; the means with Fig. 13"
    return [
        *_means(rows, 13.2, 62.9, where),
        Number("gpumech, kernels with less than 20 % error", "%", 75.0, _share_within(rows, "gpumech"), where),
        Number("markov-chain, kernels with less than 20 % error", "%", 50.0, _share_within(rows, "markov-chain"), where),
        *_in_ipc(rows),
    ]


def _numbers_12(rows: Sequence[Judged]) -> list[Number]:
    return [*_means(rows, 14.0, 65.3, "section VI-B"), *_in_ipc(rows)]


def _in_ipc(rows: Sequence[Judged]) -> list[Number]:
    """The same means in the measure that does not end at 100 %."""
    of_ipc = [replace(row, measure=IPC) for row in rows]
    return [Number(f"{model}, mean, of IPC", "%", None, mape(of_ipc, model)) for model in ("gpumech", "markov-chain")]


def _claims_models(rows: Sequence[Judged]) -> list[Claim]:
    known = {model: error for model in MODELS if (error := mape(rows, model)) is not None}
    shown = ", ".join(f"{model} {error:.1f} %" for model, error in known.items())
    if len(known) < len(MODELS):
        return []
    steps = [known[model] for model in ("mt", "mt-mshr", "gpumech")]
    return [
        Claim("Each part that is added to MT lowers the mean error", "section VI-B", steps[0] >= steps[1] >= steps[2], shown),
        Claim("The Markov chain is a little better than the naive interval model", "section VI-B",
              known["markov-chain"] <= known["naive-interval"], shown),
    ]  # fmt: skip


def _numbers_13(values: Sequence[float], curves: Curves) -> list[Number]:
    where = f"{_ENDS}, Fig. 13"
    return [
        Number("gpumech, 32 warps", "%", 13.2, error_at(values, curves["gpumech"], 32), where),
        Number("markov-chain, 32 warps", "%", 62.9, error_at(values, curves["markov-chain"], 32), where),
    ]


def _claims_13(values: Sequence[float], curves: Curves) -> list[Claim]:
    where = f"{_ENDS}, Fig. 13"
    return [
        *(trend(f"The error of {model} grows with the warps of an SM", where, values, curves[model], rises=True)
          for model in ("naive-interval", "markov-chain", "mt")),
        trend("GPUMech's error is higher with few warps", where, values, curves["gpumech"], rises=False),
    ]  # fmt: skip


def _gaps(first: Sequence[float | None], second: Sequence[float | None]) -> list[float | None]:
    return [None if a is None or b is None else abs(a - b) for a, b in zip(first, second, strict=True)]


def _claims_14(values: Sequence[float], curves: Curves) -> list[Claim]:
    where = f"{_ENDS}, Fig. 14"
    gaps = _gaps(curves["mt"], curves["mt-mshr"])
    return [
        *(trend(f"The error of {model} grows with the MSHRs", where, values, curves[model], rises=True)
          for model in ("naive-interval", "markov-chain", "mt", "mt-mshr")),
        trend("What MSHRs make between MT and MT_MSHR shrinks with their number", where, values, gaps, rises=False),
    ]  # fmt: skip


def _numbers_15(values: Sequence[float], curves: Curves) -> list[Number]:
    others = [error for value, error in zip(values, curves["gpumech"], strict=True) if value != 64 and error is not None]
    where = f"{_ENDS}, Fig. 15"
    return [
        Number("gpumech, 64 GB/s", "%", 26.1, error_at(values, curves["gpumech"], 64), where),
        Number("gpumech, largest at more than 64 GB/s", "%", 17.8, max(others, default=None), f"{where}: less than 17.8 %"),
    ]


def _claims_15(values: Sequence[float], curves: Curves) -> list[Claim]:
    where = f"{_ENDS}, Fig. 15"
    gaps = _gaps(curves["mt-mshr"], curves["gpumech"])
    return [
        trend("GPUMech's error falls as DRAM bandwidth grows", where, values, curves["gpumech"], rises=False),
        trend("What bandwidth makes between MT_MSHR and GPUMech shrinks as it grows", where, values, gaps, rises=False),
    ]


def warp_overrides(warps: int) -> tuple[str, ...]:
    """An SM with room for so many warps. Above the catalogue's 32, registers grow with them, so that warps are the limit."""
    if warps == 32:
        return ()
    more = (f"sm.registers={1024 * warps}",) if warps > 32 else ()
    return (f"sm.max_warps={warps}", *more)


def _about(number: int, title: str, shows: str) -> About:
    return About(f"gpumech-{number}", title, GPUMECH, f"Fig. {number}", shows, GPU)


_LRR = "Warps are scheduled round-robin, as the paper's figure has it."
_CHOSEN = "The paper's text does not give all values of the axis; these are ours, around its Table I."

FIGURES: tuple[Figure, ...] = (
    Accuracy(
        _about(11, "CPI error, round-robin", "CPI error by kernel and model, round-robin scheduling"),
        Variant(GPU), MODELS, EXPLAINED, CPI, _numbers_11, _claims_models, (_NAMES,), by_class=False,
    ),
    Accuracy(
        _about(12, "CPI error, greedy-then-oldest", "CPI error by kernel and model, greedy-then-oldest scheduling"),
        Variant(GPU, ("sm.policy=gto",), "gto"), MODELS, EXPLAINED, CPI, _numbers_12, _claims_models, (_NAMES,), by_class=False,
    ),
    Sweep(
        _about(13, "Error over warps of an SM", "Mean CPI error over all kernels by model, over warps per core"),
        "warps of an SM", "", tuple(Step(n, warp_overrides(n)) for n in (8, 16, 32, 48)), MODELS, EXPLAINED, CPI, False,
        _numbers_13, _claims_13,
        (_NAMES, _LRR, "`sm.max_warps` sets the warps; registers and shared memory may allow fewer. A kernel whose block has more "
         "warps than an SM has room for does not run, and is missing from that mean."),
    ),
    Sweep(
        _about(14, "Error over the number of MSHRs", "Mean CPI error over all kernels by model, over MSHRs of an L1"),
        "MSHRs", "", tuple(Step(n, () if n == 32 else (f"l1.mshrs={n}",)) for n in (32, 64, 128, 256)), MODELS, EXPLAINED, CPI,
        False, None, _claims_14, (_NAMES, _LRR, _CHOSEN),
    ),
    Sweep(
        _about(15, "Error over DRAM bandwidth", "Mean CPI error over all kernels by model, over DRAM bandwidth"),
        "DRAM bandwidth", "GB/s",
        tuple(Step(n, () if n == 192 else (f"dram.bandwidth={n}GB/s",)) for n in (64, 128, 192, 256)), MODELS, EXPLAINED, CPI,
        False, _numbers_15, _claims_15, (_NAMES, _LRR, _CHOSEN),
    ),
)  # fmt: skip
