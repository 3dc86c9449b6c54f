"""The metrics of Nsight Compute that a prediction has: one table, for the command `ncu` and for its page in the documentation.

Names, labels, units and sections are those of `ncu` (Nsight Compute documentation, "Metrics Decoder" and the section files). A
metric that the models do not have is not in the table; `absent.py` says why, for those that people ask for most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from warpsight.analysis.nsight.absent import why_absent
from warpsight.analysis.nsight.quantities import (
    ATOM,
    GLOBAL,
    LOCAL,
    NOT_SELECTED,
    RED,
    SELECTED,
    SHARED,
    STALLS,
    Quantities,
)
from warpsight.base.errors import UnsupportedError, UsageError, suggestion
from warpsight.traces.schema import LOAD, SECTOR_BYTES, STORE, WARP_SIZE

# Identifier -> title, in the order of `ncu`.
SECTIONS = {
    "SpeedOfLight": "GPU Speed Of Light Throughput",
    "ComputeWorkloadAnalysis": "Compute Workload Analysis",
    "MemoryWorkloadAnalysis": "Memory Workload Analysis",
    "SchedulerStats": "Scheduler Statistics",
    "WarpStateStats": "Warp State Statistics",
    "InstructionStats": "Instruction Statistics",
    "LaunchStats": "Launch Statistics",
    "Occupancy": "Occupancy",
    "SourceCounters": "Source Counters",
}


@dataclass(frozen=True)
class Metric:
    """A metric: `label` is its name on the details page ("": it is on the raw page alone), `how` says what it is computed from."""

    name: str
    label: str
    unit: str
    how: str
    value: Callable[[Quantities], float | None]
    section: str = ""


def _of(method: Callable[..., float | None], *arguments: object) -> Callable[[Quantities], float | None]:
    """A method of the quantities, or a function of them, with its other arguments."""
    return lambda q: method(q, *arguments)


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _percent(part: float, whole: float) -> float | None:
    return 100.0 * part / whole if whole else None


_ELAPSED, _ACTIVE = ".avg.pct_of_peak_sustained_elapsed", ".avg.pct_of_peak_sustained_active"
_CLOCK = "`core_clock` of the GPU's description, or the clock that `power.limit` sustains"


_UNITS: dict[str, Callable[[Quantities], int]] = {
    "sm": lambda q: q.gpu.sm_count, "smsp": lambda q: q.gpu.sm_count * q.gpu.sm.schedulers,
}  # fmt: skip
_PLURAL = {"sm": "SMs", "smsp": "warp schedulers"}


def _speed_of_light() -> Iterable[Metric]:
    for unit, label in (("gpc", "SM Frequency"), ("sm", ""), ("smsp", "")):
        yield Metric(f"{unit}__cycles_elapsed.avg.per_second", label, "hz", _CLOCK, lambda q: q.gpu.core_clock_hz)
    yield Metric("gpc__cycles_elapsed.max", "Elapsed Cycles", "cycle", "cycles of the prediction", lambda q: q.prediction.cycles)
    for roll_up in ("avg", "max"):
        yield Metric(f"sm__cycles_elapsed.{roll_up}", "", "cycle", "the same", lambda q: q.prediction.cycles)
    yield Metric(f"gpu__compute_memory_throughput{_ELAPSED}", "Memory Throughput", "%",
                 "the largest of L1, network, L2 and DRAM, each in percent of its peak (speed of light of a report)",
                 lambda q: max(q.utilization[name] for name in ("l1", "noc", "l2", "dram")))
    for name, label in ((f"gpu__dram_throughput{_ELAPSED}", "DRAM Throughput"), (f"dram__throughput{_ELAPSED}", "")):
        yield Metric(name, label, "%", "bytes read and written / bandwidth", lambda q: q.utilization["dram"])
    yield Metric("gpu__time_duration.sum", "Duration", "ns", "time of the prediction", lambda q: 1e9 * q.prediction.seconds)
    l1 = "line requests, passes through the banks and atomic sectors / cycles"
    yield Metric(f"l1tex__throughput{_ACTIVE}", "L1/TEX Cache Throughput", "%", f"{l1} in which SMs are active",
                 lambda q: q.utilization["l1"] * q.prediction.cycles / q.active_cycles)
    yield Metric(f"l1tex__throughput{_ELAPSED}", "", "%", l1, lambda q: q.utilization["l1"])
    yield Metric(f"lts__throughput{_ELAPSED}", "L2 Cache Throughput", "%", "accesses of the slices / cycles, one per cycle each",
                 lambda q: q.utilization["l2"])
    yield Metric("sm__cycles_active.avg", "SM Active Cycles", "cycle",
                 "elapsed cycles without `idle` and without the begin and end of the grid", lambda q: q.active_cycles)
    yield Metric("smsp__cycles_active.avg", "", "cycle", "the same", lambda q: q.active_cycles)
    for unit, units in _UNITS.items():
        yield Metric(f"{unit}__cycles_active.sum", "", "cycle", f"active cycles of all {_PLURAL[unit]}",
                     _of(lambda q, n: q.active_cycles * n(q), units))
        yield Metric(f"{unit}__cycles_elapsed.sum", "", "cycle", f"elapsed cycles of all {_PLURAL[unit]}",
                     _of(lambda q, n: q.prediction.cycles * n(q), units))
    yield Metric(f"sm__throughput{_ELAPSED}", "Compute (SM) Throughput", "%",
                 "the largest of issue slots, functional units and instructions that the load-store unit begins",
                 lambda q: max(100.0 * q.issue, q.busiest_pipe, q.lsu_issue) * q.active_cycles / q.prediction.cycles)


def _compute() -> Iterable[Metric]:
    per_cycle = "warp instructions / (SMs x {} cycles)"
    yield Metric("sm__inst_executed.avg.per_cycle_active", "Executed Ipc Active", "inst/cycle", per_cycle.format("active"),
                 lambda q: q.ipc)
    yield Metric("sm__inst_executed.avg.per_cycle_elapsed", "Executed Ipc Elapsed", "inst/cycle", per_cycle.format("elapsed"),
                 lambda q: q.prediction.ipc_sm_warp)
    for unit, units in _UNITS.items():
        yield Metric(f"{unit}__inst_executed.sum.per_cycle_elapsed", "", "inst/cycle", "warp instructions / elapsed cycles",
                     lambda q: q.header.warp_instructions / q.prediction.cycles)
        if unit == "smsp":
            yield Metric(f"{unit}__inst_executed.avg.per_cycle_elapsed", "", "inst/cycle", "the same / (SMs x schedulers)",
                         _of(lambda q, n: q.header.warp_instructions / (q.prediction.cycles * n(q)), units))
            for verb in ("executed", "issued"):
                yield Metric(f"{unit}__inst_{verb}.avg.per_cycle_active", "", "inst/cycle",
                             "warp instructions / (SMs x schedulers x active cycles)", lambda q: q.ipc / q.gpu.sm.schedulers)
    yield Metric(f"sm__inst_issued{_ACTIVE}", "Issue Slots Busy", "%", "issue slots used in active cycles",
                 lambda q: 100.0 * q.issue)
    yield Metric("sm__inst_issued.avg.per_cycle_active", "Issued Ipc Active", "inst/cycle",
                 "as executed: an instruction issues once", lambda q: q.ipc)
    yield Metric(f"sm__instruction_throughput{_ACTIVE}", "SM Busy", "%", "the larger of issue slots and functional units",
                 lambda q: max(100.0 * q.issue, q.busiest_pipe))
    occupied = "cycles for which instructions occupy {} / (SMs x schedulers x active cycles)"
    for pipe, unit, what in (
        ("alu", "int", "the ALU pipe (op class int)"), ("fma", "fp32", "the FMA pipe (FP32, IMAD)"),
        ("fp64", "fp64", "the FP64 pipe"), ("tensor", "tensor", "the tensor cores"),
    ):
        yield Metric(f"sm__pipe_{pipe}_cycles_active{_ACTIVE}", "", "%", occupied.format(what), _of(Quantities.pipe, unit))
        yield Metric(f"sm__pipe_{pipe}_cycles_active{_ELAPSED}", "", "%", "the same, of elapsed cycles",
                     _of(lambda q, u: q.pipe(u) * q.active_cycles / q.prediction.cycles, unit))
    for pipe, unit, what in (("alu", "int", "ALU"), ("fma", "fp32", "FMA"), ("fp16", "fp16", "FP16"), ("fp64", "fp64", "FP64"),
                             ("uniform", "uniform", "uniform"), ("xu", "sfu", "XU")):
        yield Metric(f"sm__inst_executed_pipe_{pipe}{_ACTIVE}", "", "%", occupied.format(f"the {what} pipe"),
                     _of(Quantities.pipe, unit))
        yield Metric(f"sm__inst_executed_pipe_{pipe}{_ELAPSED}", "", "%", "the same, of elapsed cycles",
                     _of(lambda q, u: q.pipe(u) * q.active_cycles / q.prediction.cycles, unit))
    yield Metric(f"sm__inst_executed_pipe_lsu{_ACTIVE}", "", "%", "memory instructions x `sm.access_interval` / active cycles",
                 lambda q: q.lsu_issue)
    for pipe, classes in (("alu", ("int",)), ("fma", ("fp32", "imad")), ("fp16", ("fp16",)), ("fp64", ("fp64",)),
                          ("tensor", ("tensor",)), ("uniform", ("uniform",)), ("xu", ("sfu",))):  # fmt: skip
        for unit in ("sm", "smsp"):
            yield Metric(f"{unit}__inst_executed_pipe_{pipe}.sum", "", "inst", f"warp instructions ({', '.join(classes)})",
                         _of(lambda q, c: sum(map(q.executed, c)), classes))
    for unit in ("sm", "smsp"):
        yield Metric(f"{unit}__inst_executed_pipe_lsu.sum", "", "inst", "memory instructions with an active lane",
                     lambda q: q.lsu_instructions)


def _memory() -> Iterable[Metric]:
    yield Metric("dram__bytes.sum.per_second", "Memory Throughput", "byte/s", "bytes read and written at DRAM / time",
                 lambda q: sum(q.dram_bytes) / q.prediction.seconds)
    yield Metric(f"gpu__compute_memory_access_throughput{_ELAPSED}", "Mem Busy", "%", "the larger of L1 and L2",
                 lambda q: max(q.utilization["l1"], q.utilization["l2"]))
    yield Metric(f"gpu__compute_memory_request_throughput{_ELAPSED}", "Max Bandwidth", "%", "the larger of network and DRAM",
                 lambda q: max(q.utilization["noc"], q.utilization["dram"]))
    yield Metric("l1tex__t_sector_hit_rate.pct", "L1/TEX Hit Rate", "%",
                 "sectors of loads that hit / sectors of loads and stores; a store counts as a miss", _l1_hit_rate)
    yield Metric("lts__t_sector_hit_rate.pct", "L2 Hit Rate", "%",
                 "sectors of reads, writes and atomics that hit; a write hits unless a part of its line is fetched",
                 lambda q: _percent(sum(q.l2_hits.values()), sum(q.l2_sectors.values())))
    for name, label in (("memory_throughput", "Mem Pipes Busy"), ("inst_executed_pipe_lsu", "")):
        yield Metric(f"sm__{name}{_ELAPSED}", label, "%", "as `sm__inst_executed_pipe_lsu`, of elapsed cycles",
                     lambda q: q.lsu_issue * q.active_cycles / q.prediction.cycles)
    yield Metric("dram__bytes.sum", "", "byte", "bytes read and written at DRAM", lambda q: sum(q.dram_bytes))
    yield Metric("dram__bytes.sum.pct_of_peak_sustained_elapsed", "", "%", "the same over time and bandwidth",
                 lambda q: q.utilization["dram"])
    yield Metric("dram__sectors.sum", "", "sector", "the same in sectors", lambda q: sum(q.dram_bytes) / SECTOR_BYTES)
    for number, verb in enumerate(("read", "write")):
        what = "read misses of the L2, and fetches for writes that cover a line in part" if verb == "read" else "write-backs"
        yield Metric(f"dram__bytes_{verb}.sum", "", "byte", f"{what}, in bytes", _of(lambda q, n: q.dram_bytes[n], number))
        yield Metric(f"dram__bytes_{verb}.sum.per_second", "", "byte/s", "the same over the time",
                     _of(_dram_rate, number))
        yield Metric(f"dram__bytes_{verb}.sum.pct_of_peak_sustained_elapsed", "", "%", "the same over time and bandwidth",
                     _of(lambda q, n: _percent(q.dram_bytes[n] * q.utilization["dram"] / 100, sum(q.dram_bytes)), number))
        yield Metric(f"dram__sectors_{verb}.sum", "", "sector", f"{what}, in sectors",
                     _of(lambda q, n: q.dram_bytes[n] / SECTOR_BYTES, number))
    yield from _first_level()
    yield from _second_level()


def _dram_rate(q: Quantities, number: int) -> float:
    return q.dram_bytes[number] / q.prediction.seconds


def _l1_hit_rate(q: Quantities) -> float | None:
    looked_up = sum(q.sectors(space, access) for space in (GLOBAL, LOCAL) for access in (LOAD, STORE))
    return _percent(q.l1_load_hits(GLOBAL, LOCAL), looked_up)


_OPS = {"ld": LOAD, "st": STORE, "atom": ATOM, "red": RED}


def _l1_sectors(q: Quantities) -> float:
    return sum(q.sectors(GLOBAL, access) for access in _OPS.values()) + sum(q.sectors(LOCAL, each) for each in (LOAD, STORE))


def _l1_requests(q: Quantities) -> float:
    return sum(q.requests(GLOBAL, access) for access in _OPS.values()) + sum(q.requests(LOCAL, each) for each in (LOAD, STORE))


def _first_level() -> Iterable[Metric]:
    """L1 and shared memory."""
    for name in ("", "_pipe_lsu"):  # textures take the same path
        yield Metric(f"l1tex__t_requests{name}.sum", "", "", "accesses to global and local memory with an active lane",
                     _l1_requests)
        yield Metric(f"l1tex__t_sectors{name}.sum", "", "sector", "sectors of all accesses to global and local memory", _l1_sectors)
        yield Metric(f"l1tex__average_t_sectors_per_request{name}.ratio", "", "sector/request", "sectors / requests",
                     lambda q: _ratio(_l1_sectors(q), _l1_requests(q)))
    yield Metric("l1tex__t_bytes.sum", "", "byte", "the same x 32 bytes", lambda q: SECTOR_BYTES * _l1_sectors(q))
    yield Metric("l1tex__t_bytes.sum.per_second", "", "byte/s", "the same over the time",
                 lambda q: SECTOR_BYTES * _l1_sectors(q) / q.prediction.seconds)
    for space, op in ((GLOBAL, "red"), (GLOBAL, "atom"), (SHARED, "atom")):
        yield Metric(f"smsp__inst_executed_op_{space}_{op}.sum", "", "inst", "executed instructions with an active lane",
                     _of(Quantities.requests, space, _OPS[op]))
    for space, ops in ((GLOBAL, tuple(_OPS)), (LOCAL, ("ld", "st"))):
        for op in ops:
            names, at = f"pipe_lsu_mem_{space}_op_{op}", (space, _OPS[op])
            yield Metric(f"l1tex__t_requests_{names}.sum", "", "", "executed instructions with an active lane",
                         _of(Quantities.requests, *at))
            yield Metric(f"l1tex__t_sectors_{names}.sum", "", "sector", "sectors that they touch, coalesced",
                         _of(Quantities.sectors, *at))
            yield Metric(f"l1tex__t_bytes_{names}.sum", "", "byte", "the same x 32 bytes",
                         _of(lambda q, *a: SECTOR_BYTES * q.sectors(*a), *at))
            yield Metric(f"l1tex__t_bytes_{names}.sum.per_second", "", "byte/s", "the same over the time",
                         _of(lambda q, *a: SECTOR_BYTES * q.sectors(*a) / q.prediction.seconds, *at))
            yield Metric(f"l1tex__average_t_sectors_per_request_{names}.ratio", "", "sector/request", "sectors / requests",
                         _of(lambda q, *a: _ratio(q.sectors(*a), q.requests(*a)), *at))
        names = f"pipe_lsu_mem_{space}_op_ld"
        yield Metric(f"l1tex__t_sectors_{names}_lookup_hit.sum", "", "sector", "those that hit in the L1",
                     _of(Quantities.l1_load_hits, space))
        yield Metric(f"l1tex__t_sectors_{names}_lookup_miss.sum", "", "sector", "the others, also in a line on its way",
                     _of(lambda q, s: q.sectors(s, LOAD) - q.l1_load_hits(s), space))
        yield Metric(f"l1tex__t_sector_{names}_hit_rate.pct", "", "%", "hits / sectors",
                     _of(lambda q, s: _percent(q.l1_load_hits(s), q.sectors(s, LOAD)), space))
    for op in ("ld", "st"):
        access = _OPS[op]
        for space in (GLOBAL, LOCAL, SHARED):
            for name in ("sass_inst_executed", "inst_executed"):
                yield Metric(f"smsp__{name}_op_{space}_{op}.sum", "", "inst", "executed instructions with an active lane",
                             _of(Quantities.requests, space, access))
        yield Metric(f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum", "", "", "passes through the banks",
                     _of(Quantities.wavefronts, access))
        yield Metric(f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{op}.sum", "", "",
                     "passes beyond those of an access without conflicts", _of(Quantities.conflicts, access))
    yield Metric("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum", "", "", "loads and stores together",
                 lambda q: q.wavefronts(LOAD) + q.wavefronts(STORE))
    yield Metric("l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum", "", "", "loads and stores together",
                 lambda q: q.conflicts(LOAD) + q.conflicts(STORE))


def _second_level() -> Iterable[Metric]:
    """The L2, as far as the SMs use it."""
    kinds = {"read": (LOAD, "sectors that L1 misses fetch"), "write": (STORE, "sectors of stores"),
             "atom": (ATOM, "sectors of atomics"), "red": (RED, "sectors of atomics without a result")}
    for op, (kind, what) in kinds.items():
        for source in ("", "srcunit_tex_"):
            yield Metric(f"lts__t_sectors_{source}op_{op}.sum", "", "sector", what, _of(lambda q, k: q.l2_sectors[k], kind))
    for op, (kind, _) in kinds.items():
        yield Metric(f"lts__t_sectors_op_{op}_lookup_hit.sum", "", "sector", f"sectors of `lts__t_sectors_op_{op}.sum` that hit",
                     _of(lambda q, k: q.l2_hits[k], kind))
        yield Metric(f"lts__t_sectors_op_{op}_lookup_miss.sum", "", "sector", "the others",
                     _of(lambda q, k: q.l2_sectors[k] - q.l2_hits[k], kind))
    for op, (kind, _) in tuple(kinds.items())[:2]:
        yield Metric(f"lts__t_sector_op_{op}_hit_rate.pct", "", "%", f"`lts__t_sector_hit_rate.pct` of {op}s",
                     _of(lambda q, k: _percent(q.l2_hits[k], q.l2_sectors[k]), kind))
    for name in ("lts__t_sectors.sum", "lts__t_sectors_srcunit_tex.sum"):
        yield Metric(name, "", "sector", "reads, writes and atomics of the SMs", lambda q: sum(q.l2_sectors.values()))
    yield Metric("lts__t_bytes.sum", "", "byte", "the same x 32 bytes", lambda q: SECTOR_BYTES * sum(q.l2_sectors.values()))
    yield Metric("lts__t_bytes.sum.per_second", "", "byte/s", "the same over the time",
                 lambda q: SECTOR_BYTES * sum(q.l2_sectors.values()) / q.prediction.seconds)
    for source in ("", "srcunit_tex_"):
        yield Metric(f"lts__t_sectors_{source}lookup_hit.sum", "", "sector", "those that hit", lambda q: sum(q.l2_hits.values()))
        yield Metric(f"lts__t_sectors_{source}lookup_miss.sum", "", "sector", "the others",
                     lambda q: sum(q.l2_sectors.values()) - sum(q.l2_hits.values()))


def _scheduler() -> Iterable[Metric]:
    yield Metric(f"smsp__issue_active{_ACTIVE}", "One or More Eligible", "%", "issue slots used in active cycles",
                 lambda q: 100.0 * q.issue)
    yield Metric("smsp__issue_active.avg.per_cycle_active", "Issued Warp Per Scheduler", "",
                 "warp instructions / (SMs x schedulers x active cycles)", lambda q: q.ipc / q.gpu.sm.schedulers)
    yield Metric("smsp__issue_inst0.avg.pct_of_peak_sustained_active", "No Eligible", "%", "the other active cycles",
                 lambda q: 100.0 * (1.0 - q.issue))
    yield Metric("smsp__warps_active.avg.per_cycle_active", "Active Warps Per Scheduler", "warp", "those of an SM / schedulers",
                 lambda q: q.active_warps / q.gpu.sm.schedulers)
    yield Metric("smsp__warps_eligible.avg.per_cycle_active", "Eligible Warps Per Scheduler", "warp",
                 "instructions per cycle and scheduler x (cycles selected + cycles not selected)",
                 lambda q: q.ipc / q.gpu.sm.schedulers * (q.states[SELECTED] + q.states[NOT_SELECTED]))


def _warp_states() -> Iterable[Metric]:
    latency = "active warps of an SM / warp instructions per active cycle (Little's law)"
    for name, label in (("smsp__average_warp_latency_per_inst_issued.ratio", "Warp Cycles Per Issued Instruction"),
                        ("smsp__average_warps_active_per_inst_executed.ratio", "Warp Cycles Per Executed Instruction")):
        yield Metric(name, label, "cycle", latency, lambda q: q.warp_latency)
    yield Metric("smsp__thread_inst_executed_per_inst_executed.ratio", "Avg. Active Threads Per Warp", "",
                 "thread instructions / warp instructions",
                 lambda q: q.header.thread_instructions / q.header.warp_instructions)
    yield Metric("smsp__thread_inst_executed_per_inst_executed.pct", "", "%", "the same, of 32",
                 lambda q: 100.0 * q.header.thread_instructions / (WARP_SIZE * q.header.warp_instructions))
    how = {
        "long_scoreboard": "`mem_data`, `mshr`, `noc` and `dram` of the stack: the load is in the L1, in a queue or at DRAM",
        "short_scoreboard": "`com_data`, results that a scoreboard announces: shared memory, special functions",
        "wait": "`com_data`, results with a fixed latency",
        "math_pipe_throttle": "`alu`, `fma`, `fp16`, `fp64`, `xu`, `tensor`, `uniform`; `com_struct` of models without parts",
        "lg_throttle": "`lsu`, the part for global and local memory",
        "mio_throttle": "`banks`, and `lsu`, the part for shared memory",
        "tex_throttle": "`lsu`, the part for textures and surfaces",
        "barrier": "`sync`",
        "drain": "`drain`: the blocks of the last wave; those of earlier waves leave the SM at their last instruction",
        NOT_SELECTED: "the wait for an issue slot of a warp that is eligible",
        SELECTED: "the cycle in which it issues",
        "misc": "components that a model declares itself",
    }
    for reason in STALLS:
        label = "Selected" if reason == SELECTED else f"Stall {reason.replace('_', ' ').title()}"
        yield Metric(f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio", label, "inst", how[reason],
                     _of(lambda q, r: q.states[r], reason))
        yield Metric(f"smsp__warp_issue_stalled_{reason}_per_warp_active.pct", "", "%", "the same over the sum of all reasons",
                     _of(lambda q, r: _percent(q.states[r], q.warp_latency), reason))


# The arithmetic from which roofline scripts compute floating-point operations, by the opcodes of machine code.
_ARITHMETIC = {
    **{f"{kind}{op}": (name, f"{name}32I") for kind, letter in (("f", "F"), ("d", "D")) for op in ("add", "mul", "fma")
       for name in (letter + op.upper(),)},
    **{f"h{op}": (name, f"{name}_32I") for op in ("add", "mul", "fma") for name in (f"H{op.upper()}2",)},
}  # fmt: skip

_MOVES = {"hfma": ", also where the assembler uses it to load a constant"}


def _instructions() -> Iterable[Metric]:
    for verb in ("executed", "issued"):
        how = "warp instructions of the trace" if verb == "executed" else "as executed: an instruction issues once"
        yield Metric(f"smsp__inst_{verb}.avg", f"Avg. {verb.title()} Instructions Per Scheduler", "inst",
                     f"{how}, / (SMs x schedulers)", lambda q: q.per_sm / q.gpu.sm.schedulers)
        for unit, label in (("smsp", f"{verb.title()} Instructions"), ("sm", "")):
            yield Metric(f"{unit}__inst_{verb}.sum", label, "inst", how, lambda q: float(q.header.warp_instructions))
    yield Metric("smsp__thread_inst_executed.sum", "", "inst", "thread instructions of the trace",
                 lambda q: float(q.header.thread_instructions))
    for op, opcodes in _ARITHMETIC.items():
        for unit in ("sm", "smsp"):
            yield Metric(f"{unit}__sass_thread_inst_executed_op_{op}_pred_on.sum", "", "inst",
                         f"lanes that execute {opcodes[0]}, at level `sass`{_MOVES.get(op, '')}; n/a if a predicate guards one",
                         _of(Quantities.thread_instructions, *opcodes))


def _launch() -> Iterable[Metric]:
    yield Metric("launch__block_size", "Block Size", "", "threads of a block", lambda q: float(q.header.threads_per_block))
    yield Metric("launch__cluster_size", "", "", "blocks of a cluster, 0 without clusters",
                 lambda q: float(q.header.cluster_blocks) if q.header.cluster_blocks > 1 else 0.0)
    yield Metric("launch__grid_size", "Grid Size", "", "blocks of the grid", lambda q: float(q.header.blocks))
    for number, axis in enumerate("xyz"):
        yield Metric(f"launch__block_dim_{axis}", "", "", "block", _of(lambda q, n: float(q.header.block[n]), number))
        yield Metric(f"launch__grid_dim_{axis}", "", "", "grid", _of(lambda q, n: float(q.header.grid[n]), number))
    yield Metric("launch__registers_per_thread", "Registers Per Thread", "register/thread", "the assembler's count",
                 lambda q: float(q.header.registers_per_thread))
    yield Metric("launch__shared_mem_config_size", "Shared Memory Configuration Size", "byte",
                 "the step of the carve-out that holds the blocks which fit otherwise", _carve_out)
    yield Metric("launch__shared_mem_per_block_driver", "Driver Shared Memory Per Block", "byte/block",
                 "`sm.shared_memory_reserved`", lambda q: float(q.gpu.sm.shared_memory_reserved_bytes))
    yield Metric("launch__shared_mem_per_block_dynamic", "Dynamic Shared Memory Per Block", "byte/block", "of the launch",
                 lambda q: float(q.header.dynamic_shared_bytes))
    yield Metric("launch__shared_mem_per_block_static", "Static Shared Memory Per Block", "byte/block", "of the kernel",
                 lambda q: float(q.header.static_shared_bytes))
    yield Metric("launch__shared_mem_per_block", "", "byte/block", "static, dynamic and the driver's together",
                 lambda q: float(q.header.static_shared_bytes + q.header.dynamic_shared_bytes
                                 + q.gpu.sm.shared_memory_reserved_bytes))
    for unit in _UNITS:
        yield Metric(f"{unit}__warps_launched.sum", "", "warp", "blocks x warps of a block",
                     lambda q: float(q.header.blocks * q.header.warps_per_block))
    yield Metric("smsp__threads_launched.sum", "", "thread", "blocks x threads of a block",
                 lambda q: float(q.header.blocks * q.header.threads_per_block))
    yield Metric("sm__ctas_launched.sum", "", "block", "blocks of the grid", lambda q: float(q.header.blocks))
    yield Metric("launch__sm_count", "# SMs", "SM", "`sm_count`", lambda q: float(q.gpu.sm_count))
    yield Metric("launch__thread_count", "Threads", "thread", "blocks x threads of a block",
                 lambda q: float(q.header.blocks * q.header.threads_per_block))
    yield Metric("launch__waves_per_multiprocessor", "Waves Per SM", "", "blocks / (SMs x resident blocks)",
                 lambda q: q.header.blocks / (q.gpu.sm_count * q.profiled.occupancy.blocks_per_sm))


def _carve_out(q: Quantities) -> float | None:
    carved = q.profiled.occupancy.carve_out_bytes
    return float(q.gpu.sm.shared_memory_bytes if carved is None else carved)


def _occupancy() -> Iterable[Metric]:
    for name, label, limiter in (("blocks", "SM", "blocks"), ("registers", "Registers", "registers"),
                                 ("shared_mem", "Shared Mem", "shared memory"), ("warps", "Warps", "threads")):
        yield Metric(f"launch__occupancy_limit_{name}", f"Block Limit {label}", "block", "CUDA's occupancy rules",
                     _of(lambda q, k: float(q.block_limits[k]), limiter))
    yield Metric("sm__maximum_warps_avg_per_active_cycle", "Theoretical Active Warps per SM", "warp", "resident blocks x warps",
                 lambda q: float(q.profiled.occupancy.warps_per_sm))
    yield Metric("sm__maximum_warps_per_active_cycle_pct", "Theoretical Occupancy", "%", "the same over `sm.max_warps`",
                 lambda q: 100.0 * q.profiled.occupancy.fraction)
    yield Metric("sm__warps_active.avg.peak_sustained", "", "warp", "`sm.max_warps`", lambda q: float(q.gpu.sm.max_warps))
    yield Metric("smsp__warps_active.avg.peak_sustained", "", "warp", "the same / schedulers",
                 lambda q: q.gpu.sm.max_warps / q.gpu.sm.schedulers)
    achieved = "mean of resident warps over the waves, without the cycles in which their places wait for blocks"
    yield Metric(f"sm__warps_active{_ACTIVE}", "Achieved Occupancy", "%", f"{achieved}, over `sm.max_warps`",
                 lambda q: 100.0 * q.active_warps / q.gpu.sm.max_warps)
    yield Metric(f"smsp__warps_active{_ACTIVE}", "", "%", "the same", lambda q: 100.0 * q.active_warps / q.gpu.sm.max_warps)
    yield Metric("sm__warps_active.avg.per_cycle_active", "Achieved Active Warps Per SM", "warp", achieved,
                 lambda q: q.active_warps)


def _source() -> Iterable[Metric]:
    yield Metric("derived__smsp__inst_executed_op_branch_pct", "Branch Instructions Ratio", "%",
                 "branches / warp instructions, a fraction as `ncu` gives it",
                 lambda q: q.executed("branch") / q.header.warp_instructions)
    yield Metric("smsp__inst_executed_op_branch.sum", "Branch Instructions", "inst", "warp instructions that branch",
                 lambda q: q.executed("branch"))
    yield Metric("inst_executed", "", "inst", "warp instructions of the trace", lambda q: float(q.header.warp_instructions))
    yield Metric("thread_inst_executed", "", "inst", "thread instructions of the trace",
                 lambda q: float(q.header.thread_instructions))
    shared = (LOAD, STORE, ATOM, RED)
    yield Metric("memory_l1_wavefronts_shared", "", "", "passes through the banks of shared memory",
                 lambda q: sum(map(q.wavefronts, shared)))
    yield Metric("memory_l1_wavefronts_shared_ideal", "", "", "the same without bank conflicts",
                 lambda q: sum(q.wavefronts(each) - q.conflicts(each) for each in shared))
    yield Metric("derived__memory_l1_wavefronts_shared_excessive", "", "", "passes that are due to bank conflicts",
                 lambda q: sum(map(q.conflicts, shared)))
    yield Metric("memory_l2_theoretical_sectors_global", "", "sectors", "sectors of all accesses to global memory",
                 lambda q: sum(q.sectors(GLOBAL, access) for access in _OPS.values()))
    yield Metric("memory_l2_theoretical_sectors_local", "", "sectors", "sectors of all accesses to local memory",
                 lambda q: sum(q.sectors(LOCAL, access) for access in (LOAD, STORE)))


def _table() -> Iterable[Metric]:
    makers = (_speed_of_light, _compute, _memory, _scheduler, _warp_states, _instructions, _launch, _occupancy, _source)
    for section, make in zip(SECTIONS, makers, strict=True):
        for metric in make():
            yield replace(metric, section=section)


METRICS: dict[str, Metric] = {metric.name: metric for metric in _table()}

def chosen_metrics(names: Sequence[str]) -> list[Metric]:
    """The metrics of these names, each once; a name without its roll-up (`.sum`) stands for all that begin so.

    Raises UsageError for a name that is not known, with a near one, and UnsupportedError for one that a prediction does not have.
    """
    chosen: dict[str, Metric] = {}
    for name in names:
        found = [METRICS[name]] if name in METRICS else [each for each in METRICS.values() if each.name.startswith(f"{name}.")]
        if not found:
            _refuse(name)
        chosen |= {each.name: each for each in found}
    return list(chosen.values())


def _refuse(name: str) -> None:
    why = why_absent(name)
    remedy = "`warpsight ncu --query-metrics` lists the metrics that a prediction has"
    if why:
        raise UnsupportedError(f"{name} is not predicted: {why}", place="metrics", remedy=remedy)
    raise UsageError(f'"{name}" is not a metric of a prediction{suggestion(name, METRICS)}', place="metrics", remedy=remedy)


def chosen_sections(names: Sequence[str]) -> list[str]:
    """The identifiers of sections, by identifier or title. Raises UsageError for one that is not known."""
    titles = {title.lower(): identifier for identifier, title in SECTIONS.items()}
    chosen = []
    for name in names:
        identifier = name if name in SECTIONS else titles.get(name.lower(), "")
        if not identifier:
            what = f'"{name}" is not a section of a prediction{suggestion(name, SECTIONS)}'
            raise UsageError(what, place="sections", remedy=f"known: {', '.join(SECTIONS)}")
        chosen.append(identifier)
    return list(dict.fromkeys(chosen))


def measured_metrics(quantities: Quantities) -> dict[str, float | None]:
    """Every metric of a launch, by name; None where it has none, as a hit rate without accesses."""
    return {metric.name: metric.value(quantities) for metric in METRICS.values()}
