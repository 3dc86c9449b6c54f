"""Logs of Accel-Sim and GPGPU-Sim: what the simulator prints after each kernel.

Statistics follow a line `kernel_name = ...`. Cycles and thread instructions are of that kernel alone; warp instructions, cache and
DRAM counts add up from kernel to kernel, the caches' of each stream apart in versions that print `kernel_stream_id`
(from 2024 on). Grid and block are what the simulator said when it read or launched the kernel, and options what it echoes when it
starts. Facts from the simulator's sources (gpu-sim.cc, gpu-cache.cc, mem_latency_stat.cc).
"""

from __future__ import annotations

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
_LOOKUPS = ("HIT", "HIT_RESERVED", "MISS", "SECTOR_MISS")  # MSHR_HIT is one of SECTOR_MISS, and a RESERVATION_FAIL comes again
_L1 = ("GLOBAL_ACC_R", "GLOBAL_ACC_W", "LOCAL_ACC_R", "LOCAL_ACC_W")
_L2_READS = ("GLOBAL_ACC_R", "LOCAL_ACC_R", "CONST_ACC_R", "TEXTURE_ACC_R", "INST_ACC_R")
_L2_WRITES = ("GLOBAL_ACC_W", "LOCAL_ACC_W", "L1_WRBK_ACC")
_BY_SECTOR = 40  # from this -gpgpu_coalesce_arch on an access is one of 32 B
_MEGA = 1e6

_Size = tuple[int, int, int]


@dataclass
class _Statistics:
    """What follows one `kernel_name`: counts by their names, of caches by cache, access and status; `line` of each kernel."""

    kernel: str
    line: int
    uid: str = ""
    stream: str = ""
    counts: dict[str, int] = field(default_factory=dict)
    ends: int = 0


@dataclass
class _Log:
    """All that was found. `options` with their places; `sizes`: grid and block by uid, else in turn by kernel (`waiting`)."""

    options: dict[str, tuple[str, str]] = field(default_factory=dict)
    sizes: dict[str, tuple[_Size, _Size]] = field(default_factory=dict)
    waiting: dict[str, list[tuple[_Size, _Size]]] = field(default_factory=dict)
    statistics: list[_Statistics] = field(default_factory=list)
    launched: int = 0


def is_accelsim(text: str) -> bool:
    """Whether `text` has the statistics of a simulated kernel."""
    return _CYCLES.search(text) is not None


def read_accelsim(text: str, origin: str) -> Measurements:
    """The launches of a log. Raises FormatError with `file:line`."""
    log = _collect(text, origin)
    made: list[MeasuredLaunch] = []
    together = 0
    shown: dict[str, dict[str, int]] = {}
    for found in log.statistics:
        one = len(found.kernel.split()) == 1
        together += not one
        counts = _since(found, shown)
        if one:
            made.append(_launch(found, counts, log, origin))
    notes = [_latency_note(log)] if _latency(log) else []
    if together:
        notes.append(f"{together} statistics of several kernels that ran at once are passed over")
    unfinished = log.launched - sum(len(found.kernel.split()) for found in log.statistics)
    if unfinished > 0:
        notes.append(f"the log ends before the statistics of {unfinished} launch{'es' if unfinished > 1 else ''}")
    if not made:
        raise FormatError("has no statistics of a kernel by itself", place=origin, remedy="simulate one kernel at a time")
    return Measurements(TOOL, origin, tuple(made), tuple(notes))


def _collect(text: str, origin: str) -> _Log:
    log = _Log()
    line, at = 1, 0
    pending: dict[str, tuple[str, dict[str, _Size]]] = {}
    for found in _LINE.finditer(text):
        line += text.count("\n", at, found.start())
        at = found.start()
        if found["name"] or found["cache"]:
            _statistic(log, found, f"{origin}:{line}", line)
        elif found["option"]:
            log.options[found["option"]] = (found["setting"], f"{origin}:{line}")
        else:
            _launch_line(log, found, pending, f"{origin}:{line}")
    return log


def _launch_line(log: _Log, found: re.Match[str], pending: dict[str, tuple[str, dict[str, _Size]]], place: str) -> None:
    """A line of a trace's header, or of a launch."""
    if found["read"] is not None:
        pending["read"] = (found["read"].strip(), {})
    elif found["what"] and "read" in pending:
        kernel, sizes = pending["read"]
        sizes[found["what"]] = _size(found["size"], place)
        if len(sizes) == 2:
            log.waiting.setdefault(kernel, []).append((sizes["grid"], sizes["block"]))
    elif found["launched"] is not None:
        log.launched += 1
        kernel = found["launched"].strip()
        if log.waiting.get(kernel):
            log.sizes[found["uid"]] = log.waiting[kernel].pop(0)
    elif found["pushed"] is not None:
        log.launched += 1
        log.waiting.setdefault(found["pushed"], []).append((_size(found["grid"], place), _size(found["block"], place)))


def _statistic(log: _Log, found: re.Match[str], place: str, line: int) -> None:
    """A line of the statistics of a kernel."""
    name = found["name"] or f"{found['cache']} {found['access']} {found['status']}"
    value = (found["value"] if found["name"] else found["count"]).strip()
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
        raise FormatError(f'{name} is "{value[:40]}", which is no count', place=place, remedy="give the log as it was written")
    else:
        last.counts[name] = int(value)


_SINGLE = ("gpu_sim_cycle", "gpu_sim_insn")


def _since(found: _Statistics, shown: dict[str, dict[str, int]]) -> dict[str, int]:
    """The counts of one kernel: what was printed less what was printed after the kernel before, of the same stream for caches."""
    counts: dict[str, int] = {}
    for name, count in found.counts.items():
        # which stream: versions that name it print a stream's caches
        before = shown.setdefault(found.stream if "_ACC" in name else "", {})
        counts[name] = count if name in _SINGLE else count - before.get(name, 0)
        before[name] = count
    return counts


def _launch(found: _Statistics, counts: dict[str, int], log: _Log, origin: str) -> MeasuredLaunch:
    place = f"{origin}:{found.line}"
    wrong = [name for name, count in counts.items() if count < 0]
    if wrong:
        what = f"{wrong[0]} is less than after the kernel before"
        raise FormatError(what, place=place, remedy="keep one run in a file")
    kernel, uid = found.kernel.strip(), found.uid.strip()
    sizes = log.sizes.get(uid)
    if sizes is None and log.waiting.get(kernel):
        sizes = log.waiting[kernel].pop(0)
    grid, block = sizes if sizes else (None, None)
    return MeasuredLaunch(
        number=uid or str(found.line),
        kernel=kernel,
        device="",
        grid=grid,
        block=block,
        invocations=1,
        measures={name: measure for name, measure in _measures(counts, log) if measure is not None},
        stalls=(),
        absent=(),
        place=place,
    )


def _measures(counts: dict[str, int], log: _Log) -> Iterator[tuple[str, Measure | None]]:
    """Fields of `launch.FIELDS`; None for what the log does not have."""
    latency = _latency(log)
    cycles = counts.get("gpu_sim_cycle")
    if cycles is not None:
        # less than the latency: the launch began while the one before still ran
        whole = cycles > latency
        yield "cycles", Measure(cycles - latency * whole, f"gpu_sim_cycle less {latency}" if latency and whole else "gpu_sim_cycle")
    if "gpgpu_clock_domains" in log.options:
        yield "sm_clock", _clock(*log.options["gpgpu_clock_domains"])
    yield "thread_instructions", _plain(counts, "gpu_sim_insn")
    yield "warp_instructions", _plain(counts, "gpgpu_n_tot_w_icount")
    yield from _cache_measures(counts, _option(log, "gpgpu_coalesce_arch"))
    parts = [_option(log, f"gpgpu_{name}") for name in ("n_mem_per_ctrlr", "dram_buswidth", "dram_burst_length")]
    reads, writes = counts.get("total dram reads"), counts.get("total dram writes")
    if reads is not None and writes is not None and all(part is not None for part in parts):
        atom = 1
        for part in parts:
            atom *= part or 0
        yield "dram_read_bytes", Measure(float(reads * atom), f"total dram reads x {atom} B")
        yield "dram_write_bytes", Measure(float(writes * atom), f"total dram writes x {atom} B")
        yield "dram_bytes", Measure(float((reads + writes) * atom), f"total dram reads and writes x {atom} B")


def _cache_measures(counts: dict[str, int], arch: int | None) -> Iterator[tuple[str, Measure | None]]:
    """Hit rates of lookups, and sectors where the simulated GPU's accesses are of 32 B."""
    yield "l1_hit_rate", _rate(counts, "Total_core", _L1)
    yield "l1_load_hit_rate", _rate(counts, "Total_core", _L1[:1])
    yield "l2_hit_rate", _rate(counts, "L2", (*_L2_READS, *_L2_WRITES))
    if arch is None or arch < _BY_SECTOR:
        return
    yield "l1_load_sectors", _lookups(counts, "Total_core", _L1[:1])
    yield "l1_store_sectors", _lookups(counts, "Total_core", _L1[1:2])
    yield "l2_sectors", _lookups(counts, "L2", (*_L2_READS, *_L2_WRITES))
    yield "l2_read_sectors", _lookups(counts, "L2", _L2_READS)
    yield "l2_write_sectors", _lookups(counts, "L2", _L2_WRITES)


def _lookups(counts: dict[str, int], cache: str, accesses: tuple[str, ...], statuses: tuple[str, ...] = _LOOKUPS) -> Measure | None:
    found = [counts[name] for a in accesses for s in statuses if (name := f"{cache} {a} {s}") in counts]
    shown = accesses[0] if len(accesses) == 1 else "of all accesses"
    return Measure(float(sum(found)), f"{cache}_cache_stats_breakdown {shown}") if found else None


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
        raise FormatError(f'-gpgpu_clock_domains is "{text[:40]}"', place=place, remedy="give the log as it was written")
    return Measure(float(first) * _MEGA, "-gpgpu_clock_domains")


def _option(log: _Log, name: str) -> int | None:
    if name not in log.options:
        return None
    text, place = log.options[name]
    if not re.fullmatch(r"\d{1,9}", text):
        raise FormatError(f'-{name} is "{text[:40]}", which is no count', place=place, remedy="give the log as it was written")
    return int(text)


def _latency(log: _Log) -> int:
    return _option(log, "gpgpu_kernel_launch_latency") or 0


def _latency_note(log: _Log) -> str:
    return f"{_latency(log):,} cycles of -gpgpu_kernel_launch_latency are taken off each launch: predictions have no such latency"


def _size(text: str, place: str) -> _Size:
    numbers = [int(part) for part in text.split(",") if part]
    if len(numbers) != 3 or min(numbers) < 1:
        raise FormatError(f'a size is "({text[:60]})", not three counts', place=place, remedy="give the log as it was written")
    x, y, z = numbers
    return x, y, z
