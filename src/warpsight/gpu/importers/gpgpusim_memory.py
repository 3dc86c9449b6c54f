"""From GPGPU-Sim options to the keys of L1, network, L2 and DRAM: cache strings, DRAM timings, address mappings."""

from __future__ import annotations

import re
from dataclasses import dataclass

from warpsight.base.errors import FormatError, SpecError
from warpsight.gpu.importers.gpgpusim_files import Option
from warpsight.gpu.importers.gpgpusim_sm import Draft, clocks

SECTOR_BYTES, SECTORS = 32, 4
_FORM = re.compile(
    r"(?:(?P<kind>[A-Z]):)?(?P<sets>\d{1,9}):(?P<line>\d{1,9}):(?P<ways>\d{1,9}),"
    r"(?P<replacement>\w):(?P<write>\w):(?P<allocation>\w):(?P<write_allocation>\w):(?P<index>\w),"
    r"(?P<mshr>\w):(?P<entries>\d{1,9}):(?P<merge>\d{1,9})"
    r"(,(?P<queue>\d{1,9})(:(?P<fifo>\d{1,9}))?(,(?P<port>\d{1,9}))?)?",
    re.ASCII,
)
_LETTERS: dict[str, dict[str, str]] = {
    "kind": {"N": "normal", "S": "sectored"},
    "replacement": {"L": "LRU", "F": "FIFO"},
    "write": {
        "R": "read-only", "B": "write-back", "T": "write-through", "E": "write-evict", "L": "local write-back, global write-through"
    },
    "allocation": {"m": "on-miss", "f": "on-fill", "s": "streaming"},
    "write_allocation": {"N": "no", "W": "write-allocate", "F": "fetch on write", "L": "lazy fetch on read"},
    "index": {"L": "linear", "H": "Fermi hash", "P": "IPOLY", "X": "xor", "C": "custom"},
    "mshr": {"A": "associative", "S": "sector-associative", "F": "texture FIFO", "T": "sectored texture FIFO"},
}


@dataclass(frozen=True)
class CacheText:
    """A decoded cache string, in the words of `_LETTERS`. `port` is the width of the data port in bytes, 0: a line."""

    kind: str
    sets: int
    line: int
    ways: int
    replacement: str
    write: str
    allocation: str
    write_allocation: str
    index: str
    mshr: str
    entries: int
    merge: int
    queue: int
    port: int

    @property
    def sector(self) -> int:
        """Bytes that a miss fetches."""
        return SECTOR_BYTES if self.kind == "sectored" else self.line

    @property
    def bytes(self) -> int:
        """Capacity in bytes."""
        return self.sets * self.line * self.ways


def parse_cache(option: Option) -> CacheText:
    """Decode a cache string. Raises FormatError: `none`, another form, an unknown letter, an invalid number."""
    remedy = "the form is type:sets:line:ways,repl:write:alloc:write_alloc:index,mshr:entries:merge,queue:fifo,port"
    if option.value == "none":
        raise option.wrong("a GPU without this cache cannot be described", "give a cache string")
    match = _FORM.fullmatch(option.value.replace(" ", ""))
    if match is None:
        raise option.wrong("is not a cache string", remedy)
    words: dict[str, str] = {}
    for part, letters in _LETTERS.items():
        letter = match[part] or "N"  # GPGPU-Sim 3 has no sectored caches and writes no type
        if letter not in letters:
            known = ", ".join(f"{known} {word}" for known, word in letters.items())
            raise option.wrong(f'"{letter}" is not a known {part.replace("_", " ")}', f"known: {known}")
        words[part] = letters[letter]
    numbers = {part: int(match[part] or 0) for part in ("sets", "line", "ways", "entries", "merge", "queue", "port")}
    for part in ("sets", "line", "ways", "entries", "merge"):
        if numbers[part] == 0:
            raise option.wrong(f"{part} is 0", remedy)
    if words["kind"] == "sectored" and numbers["line"] != SECTOR_BYTES * SECTORS:
        raise option.wrong("a sectored cache has lines of 128 B, four sectors of 32 B", "write S:sets:128:ways")
    return CacheText(**words, **numbers)  # type: ignore[arg-type]


# -- DRAM timing and address mapping.

_ORDER = ("nbk", "CCD", "RRD", "RCD", "RAS", "RP", "RC", "CL", "WL", "CDLR", "WR", "nbkgrp", "CCDL", "RTPL")
_NEEDED = ("nbk", "RCD", "RP", "CL", "CDLR")
_MAPPING = re.compile(r"(?:dramid@(\d{1,2});)?([01DBRCSX.]+)", re.IGNORECASE)


def parse_timing(option: Option) -> dict[str, int]:
    """Parse `nbk=16:CCD=2:...`, or only the numbers in this order: cycles of the DRAM's command clock, by the simulator's names.

    Raises FormatError for another form and missing values.
    """
    parts = [part for part in option.value.replace(" ", "").split(":") if part]
    named = [part.partition("=") for part in parts]
    if all(not equals for _, equals, _ in named) and len(parts) in (len(_ORDER), len(_ORDER) - 3):
        named = [(name, "=", part) for name, part in zip(_ORDER, parts, strict=False)]
    values: dict[str, int] = {}
    for name, equals, number in named:
        if not equals or not re.fullmatch(r"\d{1,6}", number, re.ASCII):
            raise option.wrong(f'"{name}{equals}{number}" is not NAME=CYCLES', f"write {'=..:'.join(_ORDER)}=..")
        values[name] = int(number)
    missing = [name for name in _NEEDED if name not in values]
    if missing:
        raise option.wrong(f"{', '.join(missing)} is missing", f"write {'=..:'.join(_ORDER)}=..")
    return values


@dataclass(frozen=True)
class Mapping:
    """`row_bytes` of an open row of a channel; bits of the byte address without those of the channel: where those were, and
    the lowest bit of the bank, which selects the slice of a channel. None: the mapping does not contain it.
    """

    row_bytes: int
    channel_bit: int | None
    bank_bit: int | None

    def interleave(self, slices_per_channel: int) -> int:
        """Consecutive bytes in one slice, 0 if the mapping does not contain them."""
        bits = [self.channel_bit, self.bank_bit if slices_per_channel > 1 else self.channel_bit]
        known = [bit for bit in bits if bit is not None]
        return 1 << min(known) if known else 0


def parse_mapping(option: Option) -> Mapping:
    """`dramid@8;0000RRRR...CCCSSSSS`: columns (C) and bytes within one (S) make a row. Raises FormatError for another form."""
    match = _MAPPING.fullmatch(option.value.replace(" ", ""))
    if match is None:
        raise option.wrong("is not an address mapping", "write dramid@BIT;BITS, the bits as 0, D, B, R, C or S")
    bits = match[2].replace(".", "").upper()
    channel = int(match[1]) if match[1] is not None else _lowest(bits, "D")
    return Mapping(1 << (bits.count("C") + bits.count("S")), channel, _lowest(bits, "B"))


def _lowest(bits: str, letter: str) -> int | None:
    """The lowest bit of a letter; the bits are written from the highest."""
    return len(bits) - 1 - bits.rindex(letter) if letter in bits else None


_HEADER_BYTES = 8
_KIB = 1024
_WRITE_POLICY = {
    "write-back": "write-back", "write-through": "write-through", "write-evict": "write-through",
    "local write-back, global write-through": "write-through",
}  # fmt: skip
_INDEX = {"linear": "modulo", "Fermi hash": "fermi", "xor": "xor"}


def put_l1(draft: Draft) -> None:
    """Section `l1`, and the keys of `sm` that follow from the division of an SM's memory."""
    option = draft.options.need("-gpgpu_cache:dl1")
    cache = parse_cache(option)
    size, ways, how = _divide(draft, option, cache)
    draft.put("l1.size", size, option, how)
    draft.put("l1.ways", ways, option, "" if ways == cache.ways else f"{ways} instead of {cache.ways}, with the size")
    _put_cache(draft, "l1", option, cache, size // (cache.line * ways))
    if cache.queue:
        draft.put("l1.miss_queue", cache.queue, option, "miss queue")
    draft.put("l1.allocation", "on-miss" if cache.allocation == "on-miss" else "on-fill", option)
    if cache.allocation == "streaming":
        draft.note(option, "streaming: lines are allocated on fill; the simulator also ties MSHRs to lines")
    latency = draft.options.default("1", "-gpgpu_l1_latency")
    draft.put("l1.latency", latency.whole(1), latency, "core cycles, the round trip of a hit as the simulator's tuner measures it")
    skipped = draft.options.get("-gpgpu_gmem_skip_L1D")
    if skipped is not None and skipped.flag():
        draft.note(skipped, "global loads bypass the L1 there; in a description they use it")


def _divide(draft: Draft, option: Option, cache: CacheText) -> tuple[int, int, str]:
    """Size and ways of the L1 and how they follow; sets `sm.shared_memory` and the limit of a block."""
    options, chosen = draft.options, draft.choices.carve_out
    shared, block = options.need("-gpgpu_shmem_size"), options.get("-gpgpu_shmem_per_block")
    size, ways, derived = cache.bytes, cache.ways, "sets x line x ways"
    if options.flag("-gpgpu_adaptive_cache_config"):
        carve, unified = options.need("-gpgpu_shmem_option"), options.need("-gpgpu_unified_l1d_size")
        steps = [kib * _KIB for kib in carve.wholes(",")]
        taken = max(steps) if chosen is None else chosen
        if taken not in steps:
            sizes = ", ".join(f"{step // _KIB} KiB" for step in steps)
            raise SpecError("is not a division that this GPU has", place=carve.place, remedy=f"`carve_out` takes {sizes}")
        whole = unified.whole(1) * _KIB
        ways = int((whole - taken) / (cache.sets * cache.line) + 0.5) if taken < whole else 0
        if ways < 1:
            raise carve.wrong(f"{taken // _KIB} KiB leave no L1 of {whole // _KIB} KiB", "choose a smaller `carve_out`")
        size = cache.sets * cache.line * ways
        how = f"carve-out of {taken // _KIB} KiB ({'the most' if chosen is None else 'chosen'}), the rest is L1"
        derived = f"{unified.cite} {unified.value} less a carve-out of {taken // _KIB} KiB"
        draft.put("sm.shared_memory", taken, [carve, unified], how)
        shares = f"{taken // _KIB} KiB of {whole // _KIB} KiB are shared memory"
        draft.note(carve, f"the simulator divides it for each kernel; here {shares}")
    elif chosen is not None:
        raise SpecError("the division of L1 and shared memory is fixed here", place=option.place, remedy="leave out `carve_out`")
    else:
        draft.put("sm.shared_memory", shared.whole(), shared)
    if block is not None:
        most, there = block.whole(1), draft.number("sm.shared_memory")
        how = "" if most <= there else "more than the carve-out: all of it"
        draft.put("sm.max_shared_memory_per_block", min(most, there), block, how)
    return size, ways, derived


def _put_cache(draft: Draft, level: str, option: Option, cache: CacheText, sets: int) -> None:
    """Keys that L1 and L2 share. `sets` are those of an L1 or a slice."""
    if cache.replacement != "LRU":
        raise option.wrong(f"a description has no {cache.replacement} replacement", "write L for LRU, if that is close enough")
    if cache.write == "read-only" or cache.mshr not in ("associative", "sector-associative"):
        raise option.wrong(f"a data cache is not {cache.write} with {cache.mshr} MSHRs", "give the string of a data cache")
    draft.put(f"{level}.line", cache.line, option, "line")
    sectors = "four sectors of 32 B in a line" if cache.kind == "sectored" else "not sectored"
    draft.put(f"{level}.sector", cache.sector, option, sectors)
    per = f" of {cache.sector} B each; a description counts lines" if cache.kind == "sectored" else ""
    draft.put(f"{level}.mshrs", cache.entries, option, f"{cache.mshr} MSHRs{per}")
    # A sectored cache has an MSHR for each outstanding sector, with its own list of requests.
    sectors_of_line = cache.line // cache.sector
    how = f"{cache.merge} requests per MSHR" + (f" x {sectors_of_line} sectors of a line" if per else "")
    draft.put(f"{level}.targets", cache.merge * sectors_of_line, option, how)
    _put_writes(draft, level, option, cache)
    _put_index(draft, level, option, cache, sets)
    if cache.port:
        draft.note(option, f"the data port of {cache.port} B has no key")


def _put_writes(draft: Draft, level: str, option: Option, cache: CacheText) -> None:
    """Write policy and allocation. An L1 writes through and allocates no line for a write, as Warpsight simulates it."""
    policy = "write-through" if level == "l1" else _WRITE_POLICY[cache.write]
    draft.put(f"{level}.write_policy", policy, option)
    if policy != cache.write:
        draft.note(option, f"{level}.write_policy: {cache.write} is not supported; {policy} is used")
    allocates = level == "l2" and cache.write_allocation != "no"
    draft.put(f"{level}.write_allocate", allocates, option)
    if level == "l1" and cache.write_allocation != "no":
        draft.note(option, f"l1.write_allocate: {cache.write_allocation} is not simulated; a write allocates no line")
    elif cache.write_allocation not in ("no", "write-allocate"):
        draft.note(option, f"{level}.write_allocate: no key says when the rest of a line is fetched ({cache.write_allocation})")


def _put_index(draft: Draft, level: str, option: Option, cache: CacheText, sets: int) -> None:
    """The set index. IPOLY and custom functions have no counterpart; xor, which also folds higher bits in, replaces IPOLY."""
    index = _INDEX.get(cache.index, "xor" if cache.index == "IPOLY" else "modulo")
    if index != "modulo" and sets & (sets - 1):
        draft.note(option, f"{level}.index: {index} needs a power-of-two number of sets, but there are {sets}; modulo is used")
        index = "modulo"
    elif cache.index not in _INDEX:
        draft.note(option, f"{level}.index: {cache.index} is not supported; {index} is used")
    draft.put(f"{level}.index", index, option)


def put_l2(draft: Draft) -> None:
    """Section `l2`."""
    options = draft.options
    option = options.need("-gpgpu_cache:dl2")
    cache = parse_cache(option)
    channels, per = options.need("-gpgpu_n_mem"), options.default("1", "-gpgpu_n_sub_partition_per_mchannel")
    slices = channels.whole(1) * per.whole(1)
    draft.put("l2.slices", slices, [channels, per], "memory channels x sub-partitions")
    draft.put("l2.size", cache.bytes * slices, [option, channels, per], "sets x line x ways of every slice")
    draft.put("l2.ways", cache.ways, option)
    _put_cache(draft, "l2", option, cache, cache.sets)
    rop, l1 = options.default("85", "-gpgpu_l2_rop_latency"), options.default("1", "-gpgpu_l1_latency")
    how = "the sum: the simulator's tuner defines ROP latency as that of an L2 hit less that of an L1 hit. Core cycles"
    draft.put("l2.latency", l1.whole() + rop.whole(), [rop, l1], how)
    mapping = options.get("-gpgpu_mem_addr_mapping")
    interleave = parse_mapping(mapping).interleave(per.whole()) if mapping is not None else 0
    if mapping is not None and interleave:
        draft.put("l2.slice_interleave", interleave, mapping, "lowest bit of the channel or (slices of one channel) bank")
    hashed = options.get("-gpgpu_memory_partition_indexing")
    if hashed is not None and hashed.whole():
        draft.note(hashed, "channels are hashed there; in a description, slices are interleaved")


def put_noc(draft: Draft, network: dict[str, Option]) -> None:
    """Section `noc`, from the built-in crossbar's options or the interconnect file."""
    options = draft.options
    mode = options.default("1", "-network_mode")
    flit = options.default("32", "-icnt_flit_size")
    if mode.value == "1" and "flit_size" in network:
        flit = network["flit_size"]
    elif mode.value == "1":
        draft.note(mode, "no interconnect file was given; -icnt_flit_size replaces its flit_size")
    elif mode.value != "2":
        raise mode.wrong("is neither 1 (interconnect file) nor 2 (local crossbar)", "write 1 or 2")
    elif network:
        draft.note(mode, "the simulator reads no interconnect file in this mode; the given one is not used")
        network = {}
    data = flit.whole(1) - _HEADER_BYTES
    if data < 1:
        raise flit.wrong(f"a flit of {flit.whole()} B has no room behind a header of {_HEADER_BYTES} B", "check the flit size")
    clusters, slices = options.need("-gpgpu_n_clusters"), draft.number("l2.slices")
    ports = min(clusters.whole(), slices)
    clock = clocks(draft)["icnt"]
    how = (
        f"{ports} ports, of the fewer of {clusters.whole()} clusters and {slices} slices, x {data} B of a flit less its "
        f"header of {_HEADER_BYTES} B x {clock / 1e6:g} MHz of the interconnect domain"
    )
    draft.put("noc.bandwidth", ports * data * clock, [flit, options.need("-gpgpu_clock_domains")], how)
    draft.put("noc.flit", data, flit, f"a flit less its header of {_HEADER_BYTES} B")
    _check_nodes(draft, network, clusters.whole() + slices)
    queues = options.get("-gpgpu_dram_partition_queues")
    if queues is not None:
        rooms = queues.wholes(":")
        if len(rooms) != 4:
            raise queues.wrong("is not four numbers", "write icnt-to-L2:L2-to-DRAM:DRAM-to-L2:L2-to-icnt")
        if rooms[0]:
            draft.put("noc.buffer", rooms[0], queues, "requests from the network that can wait at a slice")
        draft.note(queues, "only the first of these queues has a key (noc.buffer)")


def _check_nodes(draft: Draft, network: dict[str, Option], nodes: int) -> None:
    """The network has a node for every cluster and slice. Its other settings are in one note."""
    if "k" in network and network.get("topology", network["k"]).value == "fly" and network["k"].whole() != nodes:
        message = f"a network of {network['k'].whole()} nodes for {nodes} clusters and slices"
        raise FormatError(message, place=network["k"].place, remedy="give the interconnect file of the configuration")
    others = sorted(set(network) - {"flit_size", "k"})
    if others:
        shown = ", ".join(others[:6]) + (", ..." if len(others) > 6 else "")
        draft.notes.append(f"the interconnect file's {shown}: the network is a crossbar")


def put_dram(draft: Draft) -> None:
    """Section `dram`. Times in the DRAM's command clock become core cycles."""
    options = draft.options
    channels, width = options.need("-gpgpu_n_mem"), options.need("-gpgpu_dram_buswidth")
    chips, ratio = options.default("1", "-gpgpu_n_mem_per_ctrlr"), options.default("2", "-dram_data_command_freq_ratio")
    clock = clocks(draft)
    rate = channels.whole(1) * chips.whole(1) * width.whole(1) * ratio.whole(1) * clock["dram"]
    used = [channels, chips, width, ratio, options.need("-gpgpu_clock_domains")]
    draft.put("dram.bandwidth", rate, used, "channels x chips x bus width in B x data per command clock x MHz of the DRAM domain")
    draft.put("dram.channels", channels.whole(), channels)
    latency = options.default("30", "-dram_latency")
    how = "core cycles in any domain; in the simulator's tuner, the latency of DRAM less that of an L2 hit"
    draft.put("dram.latency", latency.whole(), latency, how)
    queue = options.get("-gpgpu_frfcfs_dram_sched_queue_size")
    if queue is not None and queue.whole():
        draft.put("dram.queue", queue.whole(), queue)
    _put_rows(draft, clock["core"] / clock["dram"])


def _put_rows(draft: Draft, ratio: float) -> None:
    """The row model. `ratio` core cycles are one of the DRAM's."""
    mapping, timing = draft.options.get("-gpgpu_mem_addr_mapping"), draft.options.get("-gpgpu_dram_timing_opt")
    if mapping is None or timing is None:
        draft.notes.append("no rows: they need both -gpgpu_mem_addr_mapping and -gpgpu_dram_timing_opt")
        return
    times = parse_timing(timing)
    draft.put("dram.row", parse_mapping(mapping).row_bytes, mapping, "columns (C) and bytes within one (S)")
    draft.put("dram.banks", times["nbk"], timing, "nbk")
    # From read to write the simulator waits CL + BL/ratio + 2 - WL cycles between commands, which leaves the data bus idle for 2;
    # from write to read WL + BL/ratio + CDLR, which leaves it idle for CDLR + CL (gpu-sim.h, tRTW and tWTR).
    turnaround = (2 + times["CDLR"] + times["CL"]) / 2
    domain = f"x {ratio:.4g} core cycles of a DRAM cycle, to the nearest"
    for key, cycles, name in (
        ("dram.activate", times["RCD"], "RCD"),
        ("dram.precharge", times["RP"], "RP"),
        ("dram.turnaround", turnaround, "(2 + CDLR + CL) / 2, idle time of the data bus when it turns, mean of both ways"),
    ):
        draft.put(key, int(cycles * ratio + 0.5), timing, f"{name} {domain}")
    kept = {"nbk", "RCD", "RP", "CDLR", "CL"}
    draft.note(timing, f"{', '.join(name for name in times if name not in kept)} have no key")
