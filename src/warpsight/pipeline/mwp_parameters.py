"""MWP-CWP from the parameters of its paper's Table 1, in a file: no kernel, no GPU description, every intermediate shown."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpsight.base.errors import SpecError, UsageError, suggestion
from warpsight.base.units import BANDWIDTH, COUNT, FREQUENCY, SIZE, parse_quantity
from warpsight.equations.mwp_cwp import Parameters, solve
from warpsight.kernels.launch_file import read_yaml
from warpsight.pipeline.provenance import TOOL

NUMBER = "number"


@dataclass(frozen=True)
class Entry:
    """A parameter, by the paper's name without its #. `default` empty: it must be given, with `needs` where that is above 0."""

    name: str
    kind: str
    meaning: str
    default: str = ""
    needs: str = ""
    least: float = 0.0


ENTRIES = (
    Entry("Threads_per_warp", COUNT, "threads of a warp", "32", least=1),
    Entry("Issue_cycles", NUMBER, "cycles to execute one instruction", "4", least=1e-6),
    Entry("Freq", FREQUENCY, "clock of the SM, with unit", least=1),
    Entry("Mem_Bandwidth", BANDWIDTH, "between DRAM and cores, with unit", least=1),
    Entry("Mem_LD", NUMBER, "DRAM latency, cycles", least=1e-6),
    Entry("Departure_del_uncoal", NUMBER, "between two uncoalesced transactions, cycles", needs="Uncoal_Mem_insts"),
    Entry("Departure_del_coal", NUMBER, "between two coalesced transactions, cycles", needs="Coal_Mem_insts"),
    Entry("Threads_per_block", COUNT, "threads of a block", least=1),
    Entry("Blocks", COUNT, "blocks of the grid", least=1),
    Entry("Active_blocks_per_SM", COUNT, "blocks that run concurrently on an SM", least=1),
    Entry("Active_SMs", COUNT, "SMs with blocks", least=1),
    Entry("Comp_insts", NUMBER, "computation instructions of a thread", least=1e-6),
    Entry("Uncoal_Mem_insts", NUMBER, "uncoalesced memory instructions of a thread"),
    Entry("Coal_Mem_insts", NUMBER, "coalesced memory instructions of a thread"),
    Entry("Synch_insts", NUMBER, "barriers of a thread"),
    Entry("Uncoal_per_mw", NUMBER, "transactions of an uncoalesced memory instruction", needs="Uncoal_Mem_insts", least=1),
    Entry("Load_bytes_per_warp", SIZE, "bytes of a warp's memory instruction, with unit", least=1),
    Entry("MWP_decimals", COUNT, "round MWP to this number of decimals, as the paper's Table 2 does; default: no rounding", "none"),
)
_NAMES = {entry.name: entry for entry in ENTRIES}
_PAGE = "docs/explanation/mwp-cwp.md has an example with every parameter"


def read_parameters(path: str) -> dict[str, float]:
    """The parameters in the YAML or JSON file `path`, by name, in base units; those with a default filled in.

    Raises UsageError or FormatError, with file and line: no such file, not YAML, an unknown, repeated or missing name, no quantity.
    """
    if not Path(path).is_file():
        raise UsageError("there is no such file", place=path, remedy=_PAGE)
    texts, lines = read_yaml(path, needs="give the parameters of Table 1, one `NAME: value` a line")
    for name in texts:
        if name not in _NAMES:
            message = f"{name} is not a parameter of the model{suggestion(name, _NAMES)}"
            raise UsageError(message, place=f"{path}:{lines[name]}", remedy=f"known: {', '.join(_NAMES)}")
    values: dict[str, float] = {}
    for entry in ENTRIES:
        if entry.name in texts:
            values[entry.name] = _number(entry, texts[entry.name], f"{path}:{lines[entry.name]}")
        elif entry.default and entry.default != "none":
            values[entry.name] = float(entry.default)
    for entry in ENTRIES:
        idle = entry.default == "none" or (entry.needs and values.get(entry.needs) == 0)
        if entry.name not in values and not idle:
            raise UsageError(f"{entry.name} is missing ({entry.meaning})", place=path, remedy=_PAGE)
    return values


def _number(entry: Entry, text: Any, place: str) -> float:
    if not isinstance(text, str):
        raise UsageError(f"{entry.name} is not a single value", place=place, remedy=f"{entry.name}: {entry.meaning}")
    if entry.kind == NUMBER:  # of cycles or instructions, which may be a mean
        try:
            number = float(text.removesuffix("cycles").removesuffix("cycle"))
        except ValueError:
            number = -1.0
        if not 0 <= number < 1e18:
            message = f'{entry.name} is not a number from 0 to 1e18: "{text}"'
            raise SpecError(message, place=place, remedy=f"{entry.name}: {entry.meaning}")
    else:
        number = float(parse_quantity(text, entry.kind, key=entry.name, place=place))
    if number < entry.least:
        message = f"{entry.name} is {text}, below its least value of {entry.least:g}"
        raise SpecError(message, place=place, remedy=f"{entry.name}: {entry.meaning}")
    return number


def parameters_of(values: dict[str, float]) -> Parameters:
    """The equations' parameters. What is not needed (a kind of memory instruction that does not occur) is 0, transactions 1."""
    decimals = values.get("MWP_decimals")
    return Parameters(
        clock_hz=values["Freq"], bandwidth_bytes_per_s=values["Mem_Bandwidth"], memory_latency=values["Mem_LD"],
        departure_uncoalesced=values.get("Departure_del_uncoal", 0.0),
        departure_coalesced=values.get("Departure_del_coal", 0.0),
        issue_cycles=values["Issue_cycles"], warps_per_block=-(-values["Threads_per_block"] // values["Threads_per_warp"]),
        blocks=values["Blocks"], active_blocks=values["Active_blocks_per_SM"], active_sms=values["Active_SMs"],
        computation_instructions=values["Comp_insts"], synchronizations=values["Synch_insts"],
        uncoalesced_instructions=values["Uncoal_Mem_insts"], coalesced_instructions=values["Coal_Mem_insts"],
        transactions=values.get("Uncoal_per_mw", 1.0), load_bytes=values["Load_bytes_per_warp"],
        mwp_decimals=None if decimals is None else int(decimals),
    )


# What the answer shows, in the order of the paper's Table 2: name, unit, equation.
RESULTS = (
    ("Active_warps_per_SM", "warps", "20"),
    ("Mem_insts", "", "Table 1"),
    ("Total_insts", "", "Table 1"),
    ("Weight_uncoal", "", "13"),
    ("Weight_coal", "", "14"),
    ("Departure_delay", "cycles", "15"),
    ("Mem_L_Uncoal", "cycles", "10"),
    ("Mem_L_Coal", "cycles", "11"),
    ("Mem_L", "cycles", "12"),
    ("MWP_Without_BW_full", "warps", "16"),
    ("MWP_Without_BW", "warps", "17"),
    ("BW_per_warp", "B/s", "7"),
    ("MWP_peak_BW", "warps", "6"),
    ("MWP", "warps", "5"),
    ("Comp_cycles", "cycles", "19"),
    ("Comp_p", "cycles", "2"),
    ("Mem_cycles", "cycles", "18"),
    ("CWP_full", "warps", "8"),
    ("CWP", "warps", "9"),
    ("Rep", "", "21"),
    ("Case", "", ""),
    ("Exec_cycles_app", "cycles", "22-24"),
    ("Synch_cost", "cycles", "26"),
    ("Final_cycles", "cycles", "27"),
    ("CPI", "", "25"),
)


def evaluate_parameters(path: str) -> dict[str, Any]:
    """The result document of the parameters in `path`: they, every intermediate, cycles and seconds; notes on what is peculiar."""
    values = read_parameters(path)
    solved = {name: float(value) for name, value in solve(parameters_of(values)).items()}
    issue = solved["Comp_cycles"] * solved["Active_warps_per_SM"] * solved["Rep"]
    note = f"an SM needs {issue:,.0f} cycles to issue all instructions, more than the equations predict"
    # JSON has no word for infinity: what nothing limits is null
    results = {name: solved[name] if math.isfinite(solved[name]) else None for name, _, _ in RESULTS}
    return {
        "tool": TOOL, "model": "mwp-cwp", "parameters_file": path, "parameters": values,
        "results": {**results, "Case": int(solved["Case"])},
        "cycles": solved["Final_cycles"], "seconds": solved["Final_cycles"] / values["Freq"],
        "notes": [note] if solved["Final_cycles"] < issue else [],
    }
