"""Metrics of Nsight Compute that a prediction does not have, and why."""

from __future__ import annotations

import re

# Stall reasons that have no counterpart in a prediction, by a regular expression, and why.
UNKNOWN_STALLS = {
    "branch_resolving": "a branch takes only its issue slot; its target is known at once",
    "(no_instruction|imc_miss)": "instructions and constants always hit in their caches",
    "dispatch_stall": "the dispatch unit accepts every selected instruction",
    "membar": "a fence takes only its issue slot; if copying warps wait for computing warps, that wait counts under their reasons",
    "sleeping": "`nanosleep` takes only its issue slot",
    "(gmma|warpgroup_arrive)": "the wait for the products of a warpgroup counts as wait, short_scoreboard and math_pipe_throttle",
}

# Metrics of Nsight Compute that a prediction cannot have, by a regular expression, and why.
ABSENT = {
    r"dram__cycles.*|.*fbpa__.*": "a GPU's description has the bandwidth of its memory, not the clock",
    r".*pcsamp.*|.*pmsampling.*|.*[._]Triage.*": "it is sampled over the time of a run",
    r".*\.(min|max)(\..*)?": "all SMs, slices and channels are predicted as one mean",
    r".*pred_on.*": "a trace has the lanes at the beginning of a basic block, without predicates; only additions, multiplications "
    "and fused multiply-adds of floating-point numbers are counted",
    r".*(branch_targets|divergent_branch).*": "a trace has the paths of warps, not the targets of each branch",
    r".*(_tex_|texture|surface|pipe_tex|texin).*": "textures and surfaces take the path of global memory here",
    r".*(nvlink|pcie|peer|sysmem|ltc__|c2clink|gcomp|ecc).*": "the models end at the GPU's own memory, without ECC and compression",
    r"(device__|nvtx__|profiler__|launch__func|launch__uses|launch__stack).*": "it is a property of a driver or device at hand",
    **{rf".*_stalled_{reasons}_per_.*": why for reasons, why in UNKNOWN_STALLS.items()},
    r"idc__.*": "constants always hit in their cache",
    r"(gr|fe|sys|lrc|crop|zrop|raster|vaf|pda|vpc|tpc|idc|gcc)__.*": "the models have no such unit",
    r"lts__(d_|t_tag|t_requests|average_t_|xbar|lts2xbar).*": "the simulated L2 counts sectors of the SMs, not what passes between "
    "its stages",
    r"l1tex__(lsuin|lsu_writeback|f_wavefronts|m_|data_pipe_lsu_wavefronts\.|data_bank_(reads|writes)).*": "the load-store unit "
    "and the L1 are one resource of the models; see `l1tex__throughput`",
    r"sm(sp)?__inst_executed_pipe_(cbu|adu|fmaheavy|fmalite|ipa|lsu_heavy).*": "the op classes of the models do not tell this pipe "
    "apart",
    r"sm__pipe_(shared|tensor_op).*|sm__inst_executed_pipe_tensor_op.*": "the tensor cores are one pipe of the models, whatever "
    "the type of the numbers",
    r".*(data_bytes|ldgsts|integer).*": "a trace has the sectors of accesses, not the bytes that each lane uses or the parts of an "
    "op class",
    r"memory_.*_ideal|derived__memory_l2_.*|derived__memory_l1_conflicts.*|memory_l1_tag.*": "what an ideal access needs is "
    "advice here: `warpsight advise`",
    r"launch__(context_id|stream_id|device_id|function.*|barrier_count|occupancy_(limit_barriers|per_|cluster).*|.*_allocated|"
    r"preferred_cluster.*|sub_launch.*)": "a launch has no context here, and resources are those of CUDA's occupancy rules",
    r".*_internal_activity\..*|sm__mio.*|smsp__issue_inst0\.sum": "it is a signal within a unit of the hardware; see the "
    "throughput of the unit",
    r"(sm|smsp|sass)__(sass_)?(inst_executed|pipe)_(pipe_|op_)?(tma|tmem|fmaheavy|fmalite|fma_type|fp64_op|ldsm|shared|global|"
    r"generic|memory|ld|st|branch).*|sm__pipe_.*|sass__.*|smsp__sass_(l1tex|inst).*|sm__inst_executed_pipe_tensor.*":
    "op classes and spaces are counted, not the kinds of one; the report has executions, sectors and conflicts by instruction",
    r"l1tex__(t_set|t_output|t_sectors_.*lookup|t_sectors_lookup|data_pipe|data_bank).*|derived__l1tex.*": "what passes between "
    "the stages of the L1 is not modelled; its lookups are predicted for loads, and its banks for shared memory",
    r"lts__.*(ltcfabric|srcnode|cycles).*|derived__lts.*|lts__.*\.(avg|sum)\.(pct|per|peak).*|dram__.*peak_sustained":
    "the models have the bandwidths of the description (`warpsight gpus show`), not this counter",
    r"launch__(tpc_count|enabled_tpc|cluster_|persisting|graph|kernel_name).*|(ctc|numa)__.*": "it is a property of a driver, "
    "a device or a launch API, which a prediction does not have",
    r"(derived__(avg_thread|local_spilling|shared_spilling)|memory_(access_|type)|thread_inst_executed_true).*": "it is a value of "
    "each instruction: the report's code and loads have these",
    r"(gpu|gpc)__(cycles|engine|time_active).*|sm__ctas_active.*|sm__(issue_active|memory_throughput|inst_executed)\..*|"
    r"smsp__(average_|maximum_|warps_eligible).*": "it is not tabulated; near ones are `sm__cycles_active.avg`, "
    "`sm__inst_issued.sum`, `smsp__average_warps_issue_stalled_wait_per_issue_active.ratio`",
    r"sm__ops_path.*": "the tensor cores are one pipe of the models: see `sm__inst_executed_pipe_tensor`",
    r"(breakdown|group|pmsampling):.*": "groups of metrics are not known; name the metrics",
}


def why_absent(name: str) -> str:
    """Why a prediction does not have a metric of this name; "" if that is not known."""
    return next((reason for pattern, reason in ABSENT.items() if re.fullmatch(pattern, name)), "")
