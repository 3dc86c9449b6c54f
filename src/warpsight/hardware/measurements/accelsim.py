"""Logs of Accel-Sim and GPGPU-Sim: what the simulator prints after each kernel.

Statistics follow a line `kernel_name = ...`. Cycles and thread instructions are of that kernel only; warp instructions, cache and
DRAM counts accumulate from kernel to kernel, those of the caches separately for each stream in versions that print
`kernel_stream_id` (from 2024 on). Grid and block are printed when the simulator reads or launches the kernel, options when it
starts. Source: the simulator's gpu-sim.cc, gpu-cache.cc, mem_latency_stat.cc.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from warpsight.base.errors import FormatError
from warpsight.hardware.measurements.launch import Measure, MeasuredLaunch, Measurements

TOOL = "accelsim"
_CYCLES = re.compile(r"^gpu_sim_cycle\s*=", re.MULTILINE)
_LINE = re.compile(
    r"^[ \t]*(?:"
    r"(?P<name>kernel_name|kernel_launch_uid|kernel_stream_id|gpu_sim_cycle|gpu_sim_insn|gpgpu_n_tot_w_icount"
    r"|total dram reads|total dram writes)\s*=[ \t]*(?P<value>[^\n]*?)"
    r"|(?P<cache>Total_core|L2)_cache_stats_breakdown\[(?P<access>\w+)\]\[(?P<status>\w+)\]\s*=[ \t]*(?P<count>[^\n]*?)"
    r"|-kernel name = (?P<read>[^\n]*?)"
    r"|-(?P<what>grid|block) dim = \((?P<size>[\d,]+)\)"
    r"|launching kernel name: (?P<launched>[^\n]*?) uid: (?P<uid>\d+)[^\n]*"
    r"|GPGPU-Sim PTX: pushing kernel '(?P<pushed>[^']*)'[^\n]*?"
    r"gridDim= ?\((?P<grid>[\d,]+)\) blockDim = \((?P<block>[\d,]+)\)[^\n]*"
    r"|-(?P<option>gpgpu_clock_domains|gpgpu_kernel_launch_latency|gpgpu_n_mem_per_ctrlr|gpgpu_dram_buswidth"
    r"|gpgpu_dram_burst_length|gpgpu_coalesce_arch)[ \t]+(?P<setting>\S+)[^\n]*"
    r")[ \t\r]*$",
    re.MULTILINE,
)
_LOOKUPS = ("HIT", "HIT_RESERVED", "MISS", "SECTOR_MISS")  # SECTOR_MISS includes MSHR_HIT; a RESERVATION_FAIL is retried
_L1 = ("GLOBAL_ACC_R", "GLOBAL_ACC_W", "LOCAL_ACC_R", "LOCAL_ACC_W")
_L2_READS = ("GLOBAL_ACC_R", "LOCAL_ACC_R", "CONST_ACC_R", "TEXTURE_ACC_R", "INST_ACC_R")
_L2_WRITES = ("GLOBAL_ACC_W", "LOCAL_ACC_W", "L1_WRBK_ACC")
_BY_SECTOR = 40  # from this -gpgpu_coalesce_arch on, an access has 32 B
_MEGA = 1e6
_REMEDY = "give the log as it was written"

_Size = tuple[int, int, int]


@dataclass
class _Statistics:
    """What follows one `kernel_name`, in `line`: counts by name, those of caches by cache, access and status."""

    kernel: str
    line: int
    uid: str = ""
    stream: str = ""
    counts: dict[str, int] = field(default_factory=dict)


@dataclass
class _Log:
    """The contents of a log: `options` with their places; grid and block by uid (`sizes`), else in order by kernel (`waiting`).

    `header` is the kernel of the trace's header that is being read, and the sizes that it has so far.
    """

    options: dict[str, tuple[str, str]] = field(default_factory=dict)
    sizes: dict[str, tuple[_Size, _Size]] = field(default_factory=dict)
    waiting: dict[str, list[tuple[_Size, _Size]]] = field(default_factory=dict)
    statistics: list[_Statistics] = field(default_factory=list)
    launched: int = 0
    header: tuple[str, dict[str, _Size]] | None = None

    def option(self, name: str) -> int | None:
        """The count that option `name` sets, None without it. Raises FormatError."""
        if name not in self.options:
            return None
        text, place = self.options[name]
        if not re.fullmatch(r"\d{1,9}", text):
            raise FormatError(f'-{name} is "{text[:40]}", which is not a count', place=place, remedy=_REMEDY)
        return int(text)

    @property
    def latency(self) -> int:
        """Cycles of a launch before its kernel starts."""
        return self.option("gpgpu_kernel_launch_latency") or 0


def is_accelsim(text: str) -> bool:
    """Whether `text` has the statistics of a simulated kernel."""
    return _CYCLES.search(text) is not None


def read_accelsim(text: str, origin: str) -> Measurements:
    """The launches of a log. Raises FormatError with `file:line`."""
    log = _collect(text, origin)
    launches: list[MeasuredLaunch] = []
    printed: dict[str, dict[str, int]] = {}
    for statistics in log.statistics:
        counts = _since(statistics, printed)
        if len(statistics.kernel.split()) == 1:
            launches.append(_launch(statistics, counts, log, origin))
    notes = []
    if log.latency:
        subtracted = f"{log.latency:,} cycles of -gpgpu_kernel_launch_latency are subtracted from each launch"
        notes.append(f"{subtracted}: predictions do not include them")
    concurrent = len(log.statistics) - len(launches)
    if concurrent:
        notes.append(f"{concurrent} statistics of several kernels that ran concurrently are ignored")
    unfinished = log.launched - sum(len(each.kernel.split()) for each in log.statistics)
    if unfinished > 0:
        notes.append(f"the log ends before the statistics of {unfinished} launch{'es' if unfinished > 1 else ''}")
    if not launches:
        raise FormatError("has no statistics of a single kernel", place=origin, remedy="simulate one kernel at a time")
    return Measurements(TOOL, origin, tuple(launches), tuple(notes))


def _collect(text: str, origin: str) -> _Log:
    log = _Log()
    line, start = 1, 0
    for match in _LINE.finditer(text):
        line += text.count("\n", start, match.start())
        start = match.start()
        if match["name"] or match["cache"]:
            _statistic(log, match, f"{origin}:{line}", line)
        elif match["option"]:
            log.options[match["option"]] = (match["setting"], f"{origin}:{line}")
        else:
            _launch_line(log, match, f"{origin}:{line}")
    return log


def _launch_line(log: _Log, match: re.Match[str], place: str) -> None:
    """A line of a trace's header, or of a launch."""
    if match["read"] is not None:
        log.header = (match["read"].strip(), {})
    elif match["what"] and log.header is not None:
        kernel, sizes = log.header
        sizes[match["what"]] = _size(match["size"], place)
        if len(sizes) == 2:
            log.waiting.setdefault(kernel, []).append((sizes["grid"], sizes["block"]))
    elif match["launched"] is not None:
        log.launched += 1
        kernel = match["launched"].strip()
        if log.waiting.get(kernel):
            log.sizes[match["uid"]] = log.waiting[kernel].pop(0)
    elif match["pushed"] is not None:
        log.launched += 1
        log.waiting.setdefault(match["pushed"], []).append((_size(match["grid"], place), _size(match["block"], place)))


def _statistic(log: _Log, match: re.Match[str], place: str, line: int) -> None:
    """A line of the statistics of a kernel."""
    name = match["name"] or f"{match['cache']} {match['access']} {match['status']}"
    value = (match["value"] if match["name"] else match["count"]).strip()
    if name == "kernel_name":
        log.statistics.append(_Statistics(value, line))
        return
    if not log.statistics:
        raise FormatError(f"{name} comes before any kernel_name", place=place, remedy="give the log from its beginning")
    last = log.statistics[-1]
    if name == "kernel_launch_uid":
        last.uid = value
    elif name == "kernel_stream_id":
        last.stream = value
    elif not re.fullmatch(r"\d{1,20}", value):
        raise FormatError(f'{name} is "{value[:40]}", which is not a count', place=place, remedy=_REMEDY)
    else:
        last.counts[name] = int(value)


_SINGLE = ("gpu_sim_cycle", "gpu_sim_insn")


def _since(statistics: _Statistics, printed: dict[str, dict[str, int]]) -> dict[str, int]:
    """The counts of one kernel: those printed less those printed after the previous kernel, for caches of the same stream."""
    counts: dict[str, int] = {}
    for name, count in statistics.counts.items():
        # Versions that print the stream print the counts of that stream's caches.
        before = printed.setdefault(statistics.stream if "_ACC" in name else "", {})
        counts[name] = count if name in _SINGLE else count - before.get(name, 0)
        before[name] = count
    return counts


def _launch(statistics: _Statistics, counts: dict[str, int], log: _Log, origin: str) -> MeasuredLaunch:
    place = f"{origin}:{statistics.line}"
    for name, count in counts.items():
        if count < 0:
            raise FormatError(f"{name} is less than after the kernel before", place=place, remedy="keep one run in a file")
    kernel, uid = statistics.kernel.strip(), statistics.uid.strip()
    sizes = log.sizes.get(uid)
    if sizes is None and log.waiting.get(kernel):
        sizes = log.waiting[kernel].pop(0)
    grid, block = sizes if sizes else (None, None)
    measures = {name: measure for name, measure in _measures(counts, log) if measure is not None}
    return MeasuredLaunch(
        number=uid or str(statistics.line), kernel=kernel, device="", grid=grid, block=block, invocations=1, measures=measures,
        stalls=(), absent=(), place=place,
    )


def _measures(counts: dict[str, int], log: _Log) -> Iterator[tuple[str, Measure | None]]:
    """Fields of `launch.FIELDS`; None for those that the log does not have."""
    latency, cycles = log.latency, counts.get("gpu_sim_cycle")
    if cycles is not None:
        # Below the latency, the launch began while the previous one was running.
        whole = cycles > latency
        yield "cycles", Measure(cycles - latency * whole, f"gpu_sim_cycle less {latency}" if latency and whole else "gpu_sim_cycle")
    if "gpgpu_clock_domains" in log.options:
        yield "sm_clock", _clock(*log.options["gpgpu_clock_domains"])
    yield "thread_instructions", _plain(counts, "gpu_sim_insn")
    yield "warp_instructions", _plain(counts, "gpgpu_n_tot_w_icount")
    yield from _cache_measures(counts, log.option("gpgpu_coalesce_arch"))
    factors = [log.option(f"gpgpu_{name}") for name in ("n_mem_per_ctrlr", "dram_buswidth", "dram_burst_length")]
    reads, writes = counts.get("total dram reads"), counts.get("total dram writes")
    if reads is not None and writes is not None and None not in factors:
        atom = math.prod(factor or 0 for factor in factors)
        yield "dram_read_bytes", Measure(float(reads * atom), f"total dram reads x {atom} B")
        yield "dram_write_bytes", Measure(float(writes * atom), f"total dram writes x {atom} B")
        yield "dram_bytes", Measure(float((reads + writes) * atom), f"total dram reads and writes x {atom} B")


def _cache_measures(counts: dict[str, int], arch: int | None) -> Iterator[tuple[str, Measure | None]]:
    """Hit rates of lookups, and sectors if the simulated GPU's accesses have 32 B."""
    yield "l1_hit_rate", _rate(counts, "Total_core", _L1)
    yield "l1_load_hit_rate", _rate(counts, "Total_core", _L1[:1])
    yield "l2_lookup_hit_rate", _rate(counts, "L2", (*_L2_READS, *_L2_WRITES))
    if arch is None or arch < _BY_SECTOR:
        return
    yield "l1_load_sectors", _lookups(counts, "Total_core", _L1[:1])
    yield "l1_store_sectors", _lookups(counts, "Total_core", _L1[1:2])
    yield "l2_sectors", _lookups(counts, "L2", (*_L2_READS, *_L2_WRITES))
    yield "l2_read_sectors", _lookups(counts, "L2", _L2_READS)
    yield "l2_write_sectors", _lookups(counts, "L2", _L2_WRITES)


def _lookups(counts: dict[str, int], cache: str, accesses: tuple[str, ...], statuses: tuple[str, ...] = _LOOKUPS) -> Measure | None:
    lookups = [counts[name] for a in accesses for s in statuses if (name := f"{cache} {a} {s}") in counts]
    shown = accesses[0] if len(accesses) == 1 else "of all accesses"
    return Measure(float(sum(lookups)), f"{cache}_cache_stats_breakdown {shown}") if lookups else None


def _rate(counts: dict[str, int], cache: str, accesses: tuple[str, ...]) -> Measure | None:
    whole, hits = _lookups(counts, cache, accesses), _lookups(counts, cache, accesses, ("HIT",))
    if whole is None or hits is None or not whole.value:
        return None
    return Measure(hits.value / whole.value, f"HIT of {whole.metric}")


def _plain(counts: dict[str, int], name: str) -> Measure | None:
    return Measure(float(counts[name]), name) if name in counts else None


def _clock(text: str, place: str) -> Measure:
    first = text.split(":", maxsplit=1)[0]
    if not re.fullmatch(r"\d+(\.\d+)?", first):
        raise FormatError(f'-gpgpu_clock_domains is "{text[:40]}"', place=place, remedy=_REMEDY)
    return Measure(float(first) * _MEGA, "-gpgpu_clock_domains")


def _size(text: str, place: str) -> _Size:
    numbers = [int(part) for part in text.split(",") if part]
    if len(numbers) != 3 or min(numbers) < 1:
        raise FormatError(f'a size is "({text[:60]})", not three counts', place=place, remedy=_REMEDY)
    x, y, z = numbers
    return x, y, z
