"""A GPGPU-Sim or Accel-Sim configuration as a GPU description, and the reasons why some options have no key."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from warpsight.base.errors import UsageError
from warpsight.gpu.describe import Imported
from warpsight.gpu.document import check_sizes
from warpsight.gpu.importers.gpgpusim_files import Option, Options, looks_like_network, read_network, read_options, read_text
from warpsight.gpu.importers.gpgpusim_memory import put_dram, put_l1, put_l2, put_noc
from warpsight.gpu.importers.gpgpusim_sm import Choices, Draft, put_ops, put_sms
from warpsight.gpu.spec import KEYS

# options of the simulation, not of the machine: functional simulation, statistics, traces, power
_NOT_THE_GPU = (
    "-gpgpu_ptx_", "-gpgpu_stack_size_limit", "-gpgpu_heap_size_limit", "-gpgpu_runtime_", "-gpgpu_memlatency_stat", "-visualizer_",
    "-enable_ptx_file_line_stats", "-power_", "-gpuwattch_", "-accelwattch_", "-trace_enabled", "-trace_components",
    "-trace_sampling_core", "-save_embedded_ptx", "-keep", "-gpgpu_flush_", "-gpgpu_perf_sim_memcpy", "-gpgpu_deadlock_detect",
    "-gpgpu_max_cycle", "-gpgpu_max_insn", "-gpgpu_max_cta", "-gpgpu_max_completed_cta", "-gpgpu_cflog_interval",
    "-liveness_message_freq",
    "-gpgpu_compute_capability_", "-gpgpu_occupancy_sm_number", "-gpgpu_ignore_resources_limitation", "-steady_power", "-dvfs_",
    "-gpgpu_clock_gated_", "-hw_perf_", "-aggregate_power_stats", "-gpu_icnt_", "-inter_config_file",
)  # fmt: skip

_REASONS = (
    ("-gpgpu_registers_per_block", "a block may have all registers of an SM"),
    ("-gpgpu_kernel_launch_latency", "a description has no launch latency"),
    ("-gpgpu_TB_launch_latency", "blocks start without delay"),
    ("-gpgpu_max_concurrent_kernel", "launches run one at a time"),
    ("-gpgpu_pipeline_widths", "pipeline registers are not described; initiation intervals stand for them"),
    ("-gpgpu_sub_core_model", "units are split evenly among the schedulers in any case"),
    ("-gpgpu_simd_model", "the reconvergence stack cannot be changed"),
    ("-gpgpu_enable_specialized_operand_collector", "operand collectors are not described"),
    ("-gpgpu_operand_collector_", "operand collectors are not described"),
    ("-gpgpu_num_reg_banks", "register banks are not described"),
    ("-gpgpu_reg_", "register banks are not described"),
    ("-gpgpu_shmem_size", "the division is that of sm.shared_memory and l1.size"),
    ("-gpgpu_shmem_option", "the division is that of sm.shared_memory and l1.size"),
    ("-gpgpu_unified_l1d_size", "the division is that of sm.shared_memory and l1.size"),
    ("-gpgpu_cache:dl1Pref", "another division of L1 and shared memory; import it as a file of its own"),
    ("-gpgpu_shmem_limited_broadcast", "a broadcast reaches all lanes"),
    ("-gpgpu_shmem_warp_parts", "a warp is served as a whole"),
    ("-gpgpu_coalesce_arch", "lanes are coalesced by sector, as from sm_30 on"),
    ("-gpgpu_l1_banks", "L1 banks are not described"),
    ("-gpgpu_l1_cache_write_ratio", "L1 eviction does not depend on the number of written lines"),
    ("-gpgpu_n_cluster_ejection_buffer_size", "noc.buffer holds for both ends of the network"),
    ("-gpgpu_cache:il1", "the instruction cache is not described"),
    ("-gpgpu_tex_cache:l1", "textures go through the L1"),
    ("-gpgpu_const_cache:l1", "constants always hit"),
    ("-gpgpu_perfect_inst_const_cache", "instructions and constants always hit"),
    ("-gpgpu_cache:dl2_texture_only", "the L2 serves everything"),
    ("-icnt_", "buffers, subnets and arbitration of the crossbar are not described"),
    ("-gpgpu_dram_scheduler", "DRAM serves open rows first (FR-FCFS) where dram.row is given, else in order"),
    ("-gpgpu_dram_return_queue_size", "data from DRAM never waits for space"),
    ("-gpgpu_lrc_", "a coalescer of requests before the L2 is not described"),
    ("-gpgpu_simple_dram_", "DRAM is as in section dram"),
    ("-gpgpu_n_chiplet", "the L2 is one, not two halves"),
    ("-gpgpu_chiplet", "the L2 is one, not two halves"),
    ("-inter_chiplet", "the L2 is one, not two halves"),
    ("-gpgpu_n_ldst_response_buffer_size", "noc.buffer holds for both ends of the network"),
    ("-gpgpu_opndcoll_", "operand collectors are not described"),
    ("-gpgpu_shmem_per_block", "the division is that of sm.shared_memory and l1.size"),
    ("-gpgpu_dram_burst_length", "an access occupies the bus for the length of its data"),
    ("-gpgpu_mem_address_mask", "the address mapping determines it"),
    ("-dram_dual_bus_interface", "row and column commands never wait for each other"),
    ("-dram_bnk", "rows are interleaved over banks"),
    ("-dram_seperate_write_queue_enable", "reads and writes share a queue"),
    ("-dram_write_queue_size", "reads and writes share a queue"),
    ("-trace_opcode_latency_initiation_", "no separate op class"),
    ("-ptx_opcode_", "trace.config takes precedence, for traces of native instructions"),
)


def rest(options: Options) -> list[str]:
    """One line for each reason why options are not in the description, with these options."""
    by_reason: dict[str, list[str]] = {}
    unused = {name: option for name, option in options.given.items() if name not in options.used}
    described = {name: option for name, option in unused.items() if not name.startswith(_NOT_THE_GPU)}
    for name, option in described.items():
        reason = next((reason for prefix, reason in _REASONS if name.startswith(prefix)), "not known to this import")
        by_reason.setdefault(reason, []).append(f"{option.cite} {option.value}")
    notes = [f"{'; '.join(cites)}: {reason}" for reason, cites in by_reason.items()]
    if len(unused) > len(described):
        notes.append(f"{len(unused) - len(described)} options of the simulation only: functional model, statistics, power")
    return [*notes, *options.repeated]


def import_configuration(paths: Sequence[str | Path], *, name: str = "", choices: Choices | None = None) -> Imported:
    """Read `gpgpusim.config`, `trace.config` and interconnect files, in any order; their content tells which is which.

    With `-network_mode 1`, the interconnect file that the configuration names is read from the same folder if none is given.
    Latencies and times are in core cycles; the source of each number says how it follows from which line. `name` is by default that
    of the folder of the first file. Raises UsageError (no file, unreadable file), FormatError (`file:line`: damaged, or something
    is missing), SpecError (a number out of range, inconsistent sizes).
    """
    if not paths:
        raise UsageError("no configuration", remedy="name gpgpusim.config, and trace.config with it if there is one")
    options, network = _read([Path(path) for path in paths])
    draft = Draft(options, choices or Choices())
    for put in (put_sms, put_ops, put_l1, put_l2):
        put(draft)
    put_noc(draft, network)
    put_dram(draft)
    check_sizes(draft.values)
    folder = Path(paths[0]).resolve().parent.name or Path(paths[0]).stem
    values = {key: draft.values[key] for key in KEYS if key in draft.values}
    title = f"imported from the GPGPU-Sim configuration {folder}"
    notes = tuple(dict.fromkeys((*draft.notes, *rest(options))))
    return Imported(name or re.sub(r"[^a-z0-9.]+", "-", folder.lower()), title, tuple(options.files), values, notes)


def _read(paths: list[Path]) -> tuple[Options, dict[str, Option]]:
    """The options of all files, and the settings of the network."""
    options, network = Options([str(path) for path in paths]), dict[str, Option]()
    for path in paths:
        text = read_text(path)
        if looks_like_network(text):
            network |= read_network(path, text)
        else:
            read_options(path, text, options)
    named = options.get("-inter_config_file")
    if not network and named is not None and options.default("1", "-network_mode").value == "1":
        beside = Path(named.place.rpartition(":")[0]).parent / named.value
        if beside.is_file():
            options.files.append(str(beside))
            network = read_network(beside, read_text(beside))
    return options, network
