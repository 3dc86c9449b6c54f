"""From GPGPU-Sim options to the keys of the whole GPU, its SMs and its op classes.

`Draft` is the description while a configuration is read: values, each with its source, and notes on what is left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil

from warpsight.base.errors import FormatError, SpecError
from warpsight.gpu.document import Value, check_bounds
from warpsight.gpu.importers.gpgpusim_files import Option, Options
from warpsight.gpu.key import WORD
from warpsight.gpu.spec import KEYS, Content


@dataclass(frozen=True)
class Choices:
    """What the user may choose.

    `carve_out`: shared memory of an SM, in bytes, if L1 and shared memory are one; None: the most possible. `policy`: the scheduler
    that replaces one that descriptions do not have. `stages`: cycles between dependent instructions in addition to those in the
    functional unit, which are the only ones that `trace.config` counts.
    """

    carve_out: int | None = None
    policy: str | None = None
    stages: int = 2


@dataclass
class Draft:
    """The options, the choices and the resulting values. `notes` are one line each."""

    options: Options
    choices: Choices
    values: dict[str, Value] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def put(self, key: str, content: Content, options: Option | list[Option], how: str = "") -> None:
        """Set a value that follows from `options`; `how` says in which way. Raises SpecError if it is out of range."""
        several = options if isinstance(options, list) else [options]
        if KEYS[key].kind == WORD and content not in KEYS[key].choices:
            known = ", ".join(KEYS[key].choices)
            raise SpecError(f'{key}: "{content}" is not known', place=several[0].place, remedy=f"known: {known}")
        if KEYS[key].numeric:
            check_bounds(KEYS[key], float(content), several[0].place)
        cites = "; ".join(f"{option.cite} {option.value}" if option.value else option.cite for option in several)
        self.values[key] = Value(content, several[0].place, f"{cites}: {how}" if how else cites)

    def number(self, key: str) -> int:
        """A whole number that was set before."""
        return int(self.values[key].content)

    def note(self, option: Option, why: str) -> None:
        """Note why an option is not, or not unchanged, in the description."""
        self.notes.append(f"{option.cite} {option.value}: {why}")


_WARP = 32
_MHZ = 1e6

# op class -> the suffix of the -ptx_opcode options, that of the trace.config options, the units that execute it, the first that the
# SM has (without INT units the simulator sends integers to the SP units, without DP units doubles to the SFUs)
_OPS = {
    "int": ("int", "int", (("-gpgpu_num_int_units", "0"), ("-gpgpu_num_sp_units", "1"))),
    "fp32": ("fp", "sp", (("-gpgpu_num_sp_units", "1"),)),
    "fp64": ("dp", "dp", (("-gpgpu_num_dp_units", "0"), ("-gpgpu_num_sfu_units", "1"))),
    "sfu": ("sfu", "sfu", (("-gpgpu_num_sfu_units", "1"),)),
}
_PTX_DEFAULTS = {
    "int": ("1,1,19,25,145,32", "1,1,4,4,32,4"),
    "fp": ("1,1,1,1,30", "1,1,1,1,5"),
    "dp": ("8,8,8,8,335", "8,8,8,8,130"),
    "sfu": ("8", "8"),
    "tensor": ("64", "64"),
}
_PTX_NAMES = ("ADD", "MAX", "MUL", "MAD", "DIV", "SHFL")


def clocks(draft: Draft) -> dict[str, float]:
    """Hz of the domains core, icnt, l2 and dram."""
    option = draft.options.need("-gpgpu_clock_domains")
    rates = option.decimals(":")
    if len(rates) != 4 or min(rates) <= 0:
        raise option.wrong("is not four clocks", "write core:icnt:l2:dram in MHz")
    return dict(zip(("core", "icnt", "l2", "dram"), (rate * _MHZ for rate in rates), strict=True))


def put_sms(draft: Draft) -> None:
    """`core_clock`, `sm_count` and section `sm`."""
    options = draft.options
    draft.put("core_clock", clocks(draft)["core"], options.need("-gpgpu_clock_domains"), "MHz of the core domain")
    clusters, per = options.need("-gpgpu_n_clusters"), options.default("3", "-gpgpu_n_cores_per_cluster")
    draft.put("sm_count", clusters.whole(1) * per.whole(1), [clusters, per], "clusters x cores per cluster")
    pipeline = options.need("-gpgpu_shader_core_pipeline")
    threads = pipeline.wholes(":", 1)
    if len(threads) != 2 or threads[1] != _WARP or threads[0] % _WARP:
        raise pipeline.wrong("is not threads:32, the threads a multiple of 32", "a description has warps of 32 threads")
    draft.put("sm.max_warps", threads[0] // _WARP, pipeline, "threads of an SM / 32")
    blocks = options.default("32", "-gpgpu_shader_cta")
    draft.put("sm.max_blocks", blocks.whole(1), blocks)
    registers = options.need("-gpgpu_shader_registers")
    draft.put("sm.registers", registers.whole(1), registers)
    banks = options.default("16", "-gpgpu_shmem_num_banks")
    draft.put("sm.shared_memory_banks", banks.whole(1), banks)
    _put_issue(draft)


def _put_issue(draft: Draft) -> None:
    """Schedulers, their policy and width, and instruction fetch."""
    options = draft.options
    schedulers, warps = options.default("1", "-gpgpu_num_sched_per_core"), draft.number("sm.max_warps")
    draft.put("sm.schedulers", schedulers.whole(1), schedulers)
    if schedulers.whole() > warps:
        message = f"{schedulers.whole()} schedulers for {warps} warps"
        raise FormatError(message, place=schedulers.place, remedy="check the number")
    width = options.default("1", "-gpgpu_max_insn_issue_per_warp")
    draft.put("sm.issue_width", width.whole(1), width, "per warp, scheduler and cycle")
    different = options.get("-gpgpu_dual_issue_diff_exec_units")
    if different is not None and different.flag() and width.whole() > 1:
        draft.note(different, "in a description, two instructions of a cycle may use the same unit")
    _put_policy(draft)
    fetched = options.default("1", "-gpgpu_inst_fetch_throughput")
    if fetched.whole(1) == 1:
        draft.put("sm.fetch_width", 2, fetched, "one warp per cycle fills its buffer, which holds 2 instructions")
    elif fetched.whole() >= schedulers.whole():
        draft.put("sm.fetch_width", 0, fetched, "at least one warp per scheduler fetches in a cycle: fetch is not a limit")
    else:
        draft.note(fetched, "fewer warps than schedulers fetch in a cycle; a description has one warp per cycle, or no limit")


def _put_policy(draft: Draft) -> None:
    """The scheduler. One that descriptions do not have is refused without a choice."""
    option = draft.options.default("gto", "-gpgpu_scheduler")
    chosen = draft.choices.policy
    if option.value in ("lrr", "gto"):
        if chosen not in (None, option.value):
            draft.note(option, f"{chosen} was chosen instead")
        draft.put("sm.policy", chosen or option.value, option)
    elif chosen is None:
        raise option.wrong("a description has no such scheduler", "choose `policy=lrr` or `policy=gto`")
    else:
        draft.put("sm.policy", chosen, option)
        draft.note(option, f"no such scheduler; {chosen} was chosen instead")


def put_ops(draft: Draft) -> None:
    """Sections `latency` and `initiation`."""
    for op, (ptx, trace, units) in _OPS.items():
        _put_op(draft, op, ptx, draft.options.get(f"-trace_opcode_latency_initiation_{trace}"), _units(draft, units))
    shared = draft.options.default("3", "-gpgpu_smem_latency", "-smem_latency")
    draft.put("latency.shared", shared.whole(1), shared)
    if not draft.options.flag("-gpgpu_tensor_core_avail"):
        return
    plain = draft.options.get("-trace_opcode_latency_initiation_tensor")
    _put_op(draft, "tensor", "tensor", _tensor_unit(draft) or plain, _units(draft, (("-gpgpu_num_tensor_core_units", "0"),)))


def _units(draft: Draft, candidates: tuple[tuple[str, str], ...]) -> Option:
    """The number of units of an op class per SM."""
    for name, default in candidates:
        option = draft.options.default(default, name)
        if option.whole() > 0:
            return option
    raise option.wrong("no unit executes these instructions", "give the SM a unit")


def _tensor_unit(draft: Draft) -> Option | None:
    """The latency and initiation interval in trace.config of the specialized unit TENSOR."""
    tensor: Option | None = None
    for number in range(1, 9):
        unit = draft.options.get(f"-specialized_unit_{number}")
        timing = draft.options.get(f"-trace_opcode_latency_initiation_spec_op_{number}")
        if unit is None or not unit.value.startswith("1,"):
            continue
        if unit.value.endswith(",TENSOR") and timing is not None:
            tensor = timing
        else:
            draft.note(unit, "a specialized unit without a separate op class in a description")
    return tensor


def _put_op(draft: Draft, op: str, ptx: str, traced: Option | None, units: Option) -> None:
    """Latency and initiation interval of an op class, from trace.config if it has both, else from the -ptx_opcode options."""
    if traced is not None:
        numbers = traced.wholes(",")
        if len(numbers) != 2:
            raise traced.wrong("is not latency,initiation", "write two whole numbers")
        if min(numbers) >= 1:
            stages = draft.choices.stages
            how = f"latency {numbers[0]} of the unit itself, and {stages} of the pipeline around it"
            draft.put(f"latency.{op}", numbers[0] + stages, traced, how)
            _put_initiation(draft, op, numbers[1], traced, units)
            return
        draft.note(traced, f"0 is not a latency or interval of a pipeline; {op} is from the -ptx_opcode options")
    latency, interval = _ptx(draft, "latency", ptx), _ptx(draft, "initiation", ptx)
    cycles, intervals = latency.wholes(",", 1), interval.wholes(",", 1)
    others = ", ".join(f"{name} {n}" for name, n in zip(_PTX_NAMES[1:], cycles[1:], strict=False))
    if others:
        draft.note(latency, f"latency.{op} is ADD's; {others} have no separate op class")
    draft.put(f"latency.{op}", cycles[0], latency, "of ADD" if others else "")
    _put_initiation(draft, op, intervals[0], interval, units)


def _ptx(draft: Draft, part: str, ptx: str) -> Option:
    """A -ptx_opcode option; the simulator spells the latency of tensor instructions "tesnor"."""
    name = "tesnor" if (part, ptx) == ("latency", "tensor") else ptx
    return draft.options.default(_PTX_DEFAULTS[ptx][part == "initiation"], f"-ptx_opcode_{part}_{name}")


def _put_initiation(draft: Draft, op: str, interval: int, option: Option, units: Option) -> None:
    """The interval of a unit is that of a scheduler if each scheduler has one unit."""
    schedulers = draft.number("sm.schedulers")
    exact = interval * schedulers / units.whole()
    cycles = max(1, ceil(exact))
    draft.put(f"initiation.{op}", cycles, [option, units], f"{interval} cycles per unit x {schedulers} schedulers / units")
    if cycles != exact:
        draft.note(units, f"initiation.{op} would be {exact:.3g} cycles per scheduler; it is rounded up to {cycles}")
