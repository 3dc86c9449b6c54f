"""Which metrics of Nsight Compute and nvprof say what: per field of `launch.FIELDS` the metrics that are it, the best first.

Names and meanings: Nsight Compute documentation ("Metrics Decoder", "nvprof metric comparison" and the section files), nvprof's
`--query-metrics`. The names with blanks are those of Nsight Compute's details page, those without of its raw page and of nvprof.
A metric of which only the meaning is near is not in the table: `sm__cycles_active` are no elapsed cycles, and nvprof's event
`elapsed_cycles_sm` is summed over SMs whose number the file does not say.
"""

from __future__ import annotations

from dataclasses import dataclass

from warpsight.explore.measurements.notation import BYTES, CLOCK, COUNT, CYCLES, PERCENT, RATE, RATIO, TIME

SECTOR = 32.0
_LOAD, _STORE = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld", "l1tex__t_sectors_pipe_lsu_mem_global_op_st"


@dataclass(frozen=True)
class Source:
    """A metric: `kind` of its unit (module `notation`), and what its base unit is multiplied by for the field's."""

    metric: str
    kind: str
    scale: float = 1.0


@dataclass(frozen=True)
class Quotient:
    """A field that is the product or the quotient of two metrics, where none gives it whole."""

    first: Source
    second: Source
    times: bool = False


def _counts(*metrics: str, scale: float = 1.0) -> tuple[Source, ...]:
    return tuple(Source(metric, COUNT, scale) for metric in metrics)


def _shares(*metrics: str) -> tuple[Source, ...]:
    return tuple(Source(metric, PERCENT) for metric in metrics)


_BYTES_READ = (Source("dram__bytes_read.sum", BYTES), Source("dram__sectors_read.sum", COUNT, SECTOR))
_BYTES_WRITTEN = (Source("dram__bytes_write.sum", BYTES), Source("dram__sectors_write.sum", COUNT, SECTOR))
_DURATION = Source("Duration", TIME)

SOURCES: dict[str, tuple[Source | Quotient, ...]] = {
    "cycles": tuple(
        Source(metric, CYCLES)
        for metric in ("gpc__cycles_elapsed.max", "sm__cycles_elapsed.max", "smsp__cycles_elapsed.max", "Elapsed Cycles",
                       "gpc__cycles_elapsed.avg", "sm__cycles_elapsed.avg", "smsp__cycles_elapsed.avg")
    ),
    "seconds": (Source("gpu__time_duration.sum", TIME), Source("gpu__time_duration_measured_user.sum", TIME), _DURATION,
                Source("gpu__time_duration.avg", TIME), Source("gpu__time_duration.max", TIME)),
    "sm_clock": tuple(
        Source(metric, CLOCK)
        for metric in ("smsp__cycles_elapsed.avg.per_second", "sm__cycles_elapsed.avg.per_second",
                       "gpc__cycles_elapsed.avg.per_second", "SM Frequency")
    ),
    "warp_instructions": _counts("smsp__inst_executed.sum", "sm__inst_executed.sum", "Executed Instructions", "inst_executed"),
    "thread_instructions": _counts("smsp__thread_inst_executed.sum", "sm__thread_inst_executed.sum",
                                   "smsp__sass_thread_inst_executed.sum", "thread_inst_executed"),
    "ipc": tuple(Source(metric, RATIO) for metric in ("sm__inst_executed.avg.per_cycle_elapsed", "Executed Ipc Elapsed")),
    "ipc_active": tuple(
        Source(metric, RATIO) for metric in ("sm__inst_executed.avg.per_cycle_active", "Executed Ipc Active", "ipc")
    ),
    "l1_hit_rate": (
        *_shares("l1tex__t_sector_hit_rate.pct", "L1/TEX Hit Rate", "L1 Hit Rate", "tex_cache_hit_rate"),
        Quotient(Source("l1tex__t_sectors_lookup_hit.sum", COUNT), Source("l1tex__t_sectors.sum", COUNT)),
    ),
    "l1_load_hit_rate": (
        *_shares("l1tex__t_sector_pipe_lsu_mem_global_op_ld_hit_rate.pct", "global_hit_rate", "l1_cache_global_hit_rate"),
        Quotient(Source(f"{_LOAD}_lookup_hit.sum", COUNT), Source(f"{_LOAD}.sum", COUNT)),
    ),
    "l2_hit_rate": (
        *_shares("lts__t_sector_hit_rate.pct", "L2 Hit Rate", "l2_tex_hit_rate"),
        Quotient(Source("lts__t_sectors_lookup_hit.sum", COUNT), Source("lts__t_sectors.sum", COUNT)),
    ),
    "l1_load_sectors": _counts(f"{_LOAD}.sum", "gld_transactions"),
    "l1_store_sectors": _counts(f"{_STORE}.sum", "gst_transactions"),
    "l2_sectors": _counts("lts__t_sectors.sum"),
    "l2_read_sectors": _counts("lts__t_sectors_op_read.sum", "lts__t_sectors_srcunit_tex_op_read.sum", "l2_read_transactions"),
    "l2_write_sectors": _counts("lts__t_sectors_op_write.sum", "lts__t_sectors_srcunit_tex_op_write.sum", "l2_write_transactions"),
    "dram_bytes": (
        Source("dram__bytes.sum", BYTES),
        Source("dram__sectors.sum", COUNT, SECTOR),
        Quotient(Source("Memory Throughput", RATE), _DURATION, times=True),
    ),
    "dram_read_bytes": (*_BYTES_READ, *_counts("dram_read_transactions", scale=SECTOR), Source("dram_read_bytes", BYTES)),
    "dram_write_bytes": (*_BYTES_WRITTEN, *_counts("dram_write_transactions", scale=SECTOR), Source("dram_write_bytes", BYTES)),
    "occupancy": (
        *_shares("sm__warps_active.avg.pct_of_peak_sustained_active", "Achieved Occupancy"),
        Source("achieved_occupancy", RATIO),
    ),
}  # fmt: skip

# nvprof's own words for its metrics where a table has those in place of names
DESCRIPTIONS = {
    "Instructions Executed": "inst_executed", "Executed IPC": "ipc", "Achieved Occupancy": "achieved_occupancy",
    "Unified Cache Hit Rate": "tex_cache_hit_rate", "Texture Cache Hit Rate": "tex_cache_hit_rate",
    "Global Hit Rate in unified l1/tex": "global_hit_rate", "L1 Global Hit Rate": "l1_cache_global_hit_rate",
    "L2 Hit Rate (Texture Reads)": "l2_tex_hit_rate", "L2 Cache Hit Rate": "l2_tex_hit_rate",
    "Global Load Transactions": "gld_transactions", "Global Store Transactions": "gst_transactions",
    "L2 Read Transactions": "l2_read_transactions", "L2 Write Transactions": "l2_write_transactions",
    "Device Memory Read Transactions": "dram_read_transactions",
    "Device Memory Write Transactions": "dram_write_transactions",
}  # fmt: skip


def wanted() -> dict[str, str]:
    """Every metric that a field is made of, and the kind of its unit."""
    parts = [part for sources in SOURCES.values() for source in sources for part in _parts(source)]
    return {part.metric: part.kind for part in parts}


def _parts(source: Source | Quotient) -> tuple[Source, ...]:
    return (source,) if isinstance(source, Source) else (source.first, source.second)
