"""MDM (MICRO 2020), Figs. 5 to 9 and 15: errors of the models of Table V, and of Warpsight's own beside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from warpsight.papers.figures import errors
from warpsight.papers.figures.base import MDM, About, Claim, Figure, Number
from warpsight.papers.figures.errors import IPC, Accuracy, Curves, Judged, Step, Sweep, divergent, largest, mape, not_divergent
from warpsight.papers.results import Variant

GPU = "mdm-pascal"
PAPERS = ("gpumech", "gpumech-plus", "mdm-queue", "mdm-mshr", "mdm")
MODELS = (*PAPERS, "warpsight")
OWN = "`warpsight` is a model of this project; the paper has the other five."
CHOSEN = "The paper's text does not give the values of the axis; these are ours, around its Table III."
# MDM gives no size for the queue that blocks a streaming L1.
STREAMING = ("l1.allocation=on-fill", "l1.mshrs=4096", "noc.queue=256")


def _numbers_5(rows: Sequence[Judged]) -> list[Number]:
    where = "section V-A"
    return [
        Number("mdm, all kernels, mean", "%", 13.9, mape(rows, "mdm"), where),
        Number("gpumech, all kernels, mean", "%", 162.0, mape(rows, "gpumech"), where),
        Number("mdm, divergent, mean", "%", 18.0, mape(divergent(rows), "mdm"), where),
        Number("gpumech, divergent, mean", "%", 298.0, mape(divergent(rows), "gpumech"), where),
        Number("mdm, divergent, largest", "%", 50.0, largest(divergent(rows), "mdm"), where),
        Number("gpumech, divergent, largest", "%", 750.0, largest(divergent(rows), "gpumech"), where),
        Number("mdm, not divergent, mean", "%", 9.0, mape(not_divergent(rows), "mdm"), where),
        Number("gpumech, not divergent, mean", "%", 9.0, mape(not_divergent(rows), "gpumech"), where),
        Number("gpumech-plus, divergent, mean", "%", 131.0, mape(divergent(rows), "gpumech-plus"), where),
        Number("mdm-queue, divergent, mean", "%", 63.0, mape(divergent(rows), "mdm-queue"), where),
        Number("mdm-mshr, divergent, mean", "%", 60.3, mape(divergent(rows), "mdm-mshr"), where),
        Number("warpsight, all kernels, mean", "%", None, mape(rows, "warpsight"), ""),
    ]


def _claims_5(rows: Sequence[Judged]) -> list[Claim]:
    known = {model: error for model in PAPERS if (error := mape(divergent(rows), model)) is not None}
    shown = ", ".join(f"{model} {error:.1f} %" for model, error in known.items())
    ordered = [known[model] for model in PAPERS if model in known]
    best = bool(ordered) and "mdm" in known and known["mdm"] == min(ordered)
    falls = all(a >= b for a, b in pairwise(ordered[:3]))
    says = "GPUMech's error on divergent kernels falls with each part that is added, and is least with both of MDM's"
    return [Claim(says, "section V-A", best and falls if len(known) == len(PAPERS) else None, shown)]


def _numbers_15(rows: Sequence[Judged]) -> list[Number]:
    mdm, gpumech = (mape(divergent(rows), model) for model in ("mdm", "gpumech"))
    ratio = gpumech / mdm if mdm and gpumech is not None else None
    return [
        Number("gpumech's mean error over mdm's, divergent", "times", 8.66, ratio, "section VII"),
        Number("mdm, divergent, mean", "%", None, mdm, "section VII: as well as with the conventional L1"),
        Number("gpumech, divergent, mean", "%", None, gpumech, ""),
    ]


def _claims_15(rows: Sequence[Judged]) -> list[Claim]:
    mdm, gpumech = (mape(divergent(rows), model) for model in ("mdm", "gpumech"))
    if mdm is None or gpumech is None:
        return []
    says = "MDM keeps its lead over GPUMech with a streaming L1"
    return [Claim(says, "section VII", mdm < gpumech, f"{mdm:.1f} % against {gpumech:.1f} %")]


def _claims_over(number: int, says: str, *, rises: bool) -> Callable[[Sequence[float], Curves], list[Claim]]:
    """What section V-B observes over an axis: where GPUMech's error goes, and that MDM's is the least."""

    def claims(values: Sequence[float], curves: Curves) -> list[Claim]:
        where = f"section V-B, Fig. {number}"
        return [
            errors.trend(says, where, values, curves["gpumech"], rises=rises),
            errors.lowest("MDM is the most accurate of the paper's models", where, values, curves, "mdm", PAPERS[:-1]),
        ]

    return claims


def _numbers_8(values: Sequence[float], curves: Curves) -> list[Number]:
    where = "section V-B, Fig. 8"
    return [
        Number("gpumech, 32 MSHRs", "%", 98.0, errors.error_at(values, curves["gpumech"], 32), where),
        Number("gpumech, 256 MSHRs", "%", 317.0, errors.error_at(values, curves["gpumech"], 256), where),
        Number("gpumech-plus, 128 MSHRs", "%", 124.0, errors.error_at(values, curves["gpumech-plus"], 128), where),
        Number("gpumech-plus, 256 MSHRs", "%", 133.0, errors.error_at(values, curves["gpumech-plus"], 256), where),
        Number("mdm, 128 MSHRs", "%", 18.0, errors.error_at(values, curves["mdm"], 128), "section V-A"),
    ]


def _numbers_9(values: Sequence[float], curves: Curves) -> list[Number]:
    where = "section V-B, Fig. 9"
    known = [error for error in curves["mdm"] if error is not None]
    return [
        Number("gpumech, 15 SMs", "%", 124.0, errors.error_at(values, curves["gpumech"], 15), where),
        Number("gpumech, 80 SMs", "%", 450.0, errors.error_at(values, curves["gpumech"], 80), where),
        Number("mdm, largest mean over SM counts", "%", 26.0, max(known, default=None), f"{where}: less than 26 %"),
    ]


def _steps(key: str, values: Sequence[int], unit: str, base: int) -> tuple[Step, ...]:
    """The base design is the catalogue's own, with nothing set."""
    return tuple(Step(value, () if value == base else (f"{key}={value}{unit}",)) for value in values)


def _about(number: int, title: str, shows: str) -> About:
    return About(f"mdm-{number}", title, MDM, f"Fig. {number}", shows, GPU)


FIGURES: tuple[Figure, ...] = (
    Accuracy(
        _about(5, "IPC error of the models at the baseline design", "IPC error by application and model, at Table III's GPU"),
        Variant(GPU), MODELS, ("gpumech", "mdm"), IPC, _numbers_5, _claims_5, (OWN,),
    ),
    Sweep(
        _about(6, "Error over NoC bandwidth", "Mean error of the divergent applications by model, over NoC bandwidth"),
        "NoC bandwidth", "GB/s", _steps("noc.bandwidth", (525, 700, 1050, 1400, 2100), "GB/s", 1050), MODELS,
        ("gpumech", "mdm"), IPC, True, None, _claims_over(6, "GPUMech's error falls as the NoC's bandwidth grows", rises=False),
        (OWN, CHOSEN),
    ),
    Sweep(
        _about(7, "Error over DRAM bandwidth", "Mean error of the divergent applications by model, over DRAM bandwidth"),
        "DRAM bandwidth", "GB/s", _steps("dram.bandwidth", (240, 320, 480, 640, 960), "GB/s", 480), MODELS,
        ("gpumech", "mdm"), IPC, True, None, _claims_over(7, "GPUMech's error grows with DRAM bandwidth", rises=True),
        (OWN, CHOSEN),
    ),
    Sweep(
        _about(8, "Error over the number of MSHRs", "Mean error of the divergent applications by model, over MSHRs of an L1"),
        "MSHRs", "", _steps("l1.mshrs", (32, 64, 128, 256), "", 128), MODELS,
        ("gpumech", "mdm"), IPC, True, _numbers_8, _claims_over(8, "GPUMech's error grows with the number of MSHRs", rises=True),
        (OWN, "For GPUMech+ at 128 MSHRs, which is the baseline, the paper has 124 % here and 131 % with Fig. 5."),
    ),
    Sweep(
        _about(9, "Error over the SM count", "Mean error of the divergent applications by model, over the number of SMs"),
        "SMs", "", _steps("sm_count", (15, 28, 40, 60, 80), "", 28), MODELS,
        ("gpumech", "mdm"), IPC, True, _numbers_9, _claims_over(9, "GPUMech's error grows with the SM count", rises=True),
        (OWN, "The paper's text names 15 and 80 SMs. Grids are made for 28 SMs: at 80 some kernels leave SMs partly empty."),
    ),
    Accuracy(
        _about(15, "IPC error with a streaming L1", "IPC error of GPUMech and MDM with 4096 MSHRs and allocation on fill"),
        Variant(GPU, STREAMING, "streaming L1"), MODELS, ("gpumech", "mdm"), IPC, _numbers_15, _claims_15,
        (OWN, f"The design is the baseline with {', '.join(f'`{each}`' for each in STREAMING)}. The paper gives no size for the "
         "queue that takes the place of the MSHRs in MDM's equations; 256 requests of an SM are our choice."),
    ),
)  # fmt: skip
