"""Small simulator configurations, written for the tests. The facts of two real ones are those that the formats' notes list."""

from __future__ import annotations

BASE = {
    "-gpgpu_n_clusters": "80",
    "-gpgpu_n_cores_per_cluster": "1",
    "-gpgpu_n_mem": "32",
    "-gpgpu_n_sub_partition_per_mchannel": "2",
    "-gpgpu_clock_domains": "1132.0:1132.0:1132.0:850.0",
    "-gpgpu_shader_registers": "65536",
    "-gpgpu_shader_core_pipeline": "2048:32",
    "-gpgpu_shader_cta": "32",
    "-gpgpu_num_sp_units": "4",
    "-gpgpu_num_sfu_units": "4",
    "-gpgpu_num_dp_units": "4",
    "-gpgpu_num_int_units": "4",
    "-gpgpu_tensor_core_avail": "1",
    "-gpgpu_num_tensor_core_units": "4",
    "-ptx_opcode_latency_int": "4,13,4,5,145,21",
    "-ptx_opcode_initiation_int": "2,2,2,2,8,4",
    "-ptx_opcode_latency_fp": "4,13,4,5,39",
    "-ptx_opcode_initiation_fp": "2,2,2,2,4",
    "-ptx_opcode_latency_dp": "8,19,8,8,330",
    "-ptx_opcode_initiation_dp": "4,4,4,4,130",
    "-ptx_opcode_latency_sfu": "100",
    "-ptx_opcode_initiation_sfu": "8",
    "-ptx_opcode_latency_tesnor": "64",
    "-ptx_opcode_initiation_tensor": "64",
    "-gpgpu_num_sched_per_core": "4",
    "-gpgpu_scheduler": "lrr",
    "-gpgpu_max_insn_issue_per_warp": "1",
    "-gpgpu_inst_fetch_throughput": "4",
    "-gpgpu_adaptive_cache_config": "1",
    "-gpgpu_shmem_option": "0,8,16,32,64,96",
    "-gpgpu_unified_l1d_size": "128",
    "-gpgpu_cache:dl1": "S:4:128:64,L:T:m:L:L,A:512:8,16:0,32",
    "-gpgpu_l1_latency": "20",
    "-gpgpu_shmem_size": "98304",
    "-gpgpu_shmem_per_block": "65536",
    "-gpgpu_shmem_num_banks": "32",
    "-gpgpu_smem_latency": "20",
    "-gpgpu_cache:dl2": "S:32:128:24,L:B:m:L:P,A:192:4,32:0,32",
    "-gpgpu_dram_partition_queues": "64:64:64:64",
    "-network_mode": "2",
    "-icnt_flit_size": "40",
    "-gpgpu_l2_rop_latency": "160",
    "-dram_latency": "100",
    "-gpgpu_frfcfs_dram_sched_queue_size": "64",
    "-gpgpu_n_mem_per_ctrlr": "1",
    "-gpgpu_dram_buswidth": "16",
    "-dram_data_command_freq_ratio": "2",
    "-gpgpu_mem_addr_mapping": "dramid@8;00000000.0000RRRR.RRRRRRRR.RBBBCCCB.CCCSSSSS",
    "-gpgpu_dram_timing_opt": "nbk=16:CCD=1:RRD=3:RCD=12:RAS=28:RP=12:RC=40:CL=12:WL=2:CDLR=3:WR=10:nbkgrp=4:CCDL=2:RTPL=3",
}
"""The values that the notes give for a QV100, one option a line."""

RTX2060 = {
    "-gpgpu_n_clusters": "30", "-gpgpu_n_mem": "12", "-gpgpu_clock_domains": "1365:1365:1365:3500.5",
    "-gpgpu_shader_core_pipeline": "1024:32", "-gpgpu_shader_cta": "16", "-gpgpu_shmem_option": "32,64",
    "-gpgpu_unified_l1d_size": "96", "-gpgpu_shmem_size": "65536", "-gpgpu_cache:dl2": "S:64:128:16,L:B:m:L:P,A:192:4,32:0,32",
    "-gpgpu_l1_latency": "32", "-gpgpu_l2_rop_latency": "194", "-dram_latency": "96", "-gpgpu_dram_buswidth": "2",
    "-dram_data_command_freq_ratio": "4",
}  # fmt: skip
"""What differs on an RTX 2060."""

TRACE = """\
-trace_opcode_latency_initiation_int 2,2
-trace_opcode_latency_initiation_sp 2,2
-trace_opcode_latency_initiation_dp 8,4
-trace_opcode_latency_initiation_sfu 20,8
-trace_opcode_latency_initiation_tensor 2,2
-specialized_unit_1 1,4,4,4,4,BRA
-trace_opcode_latency_initiation_spec_op_1 4,4
-specialized_unit_3 1,4,8,4,4,TENSOR
-trace_opcode_latency_initiation_spec_op_3 8,4
"""

NETWORK = """\
// a network of the tests
use_map = 0;
flit_size = 72; // data and header
topology = fly;
k = 144;
"""


def configuration(**changes: str | None) -> str:
    """BASE as text, one option a line, with `changes` by option name without its dash; None leaves an option out."""
    options: dict[str, str | None] = BASE | {f"-{name.replace('__', ':')}": value for name, value in changes.items()}
    return "".join(f"{name} {value}\n" for name, value in options.items() if value is not None)


def line_of(text: str, option: str) -> int:
    """The line on which `option` stands."""
    return 1 + [line.split()[0] if line.split() else "" for line in text.splitlines()].index(option)
