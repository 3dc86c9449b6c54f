"""`warpsight cache`: L1 misses by class from reuse distances."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from warpsight.base.errors import UsageError
from warpsight.caches.reuse.access_list import is_access_list
from warpsight.cli import options
from warpsight.cli.output import ProgressBar, print_result, terminal_style
from warpsight.gpu.loader import load_gpu
from warpsight.pipeline.cache_model import (
    CacheOptions,
    accesses_of,
    cache_result,
    cache_sweep,
    line_bits,
    parse_axes,
    parse_index_bits,
)
from warpsight.reports.formats import csv_table, write_parquet, write_text
from warpsight.reports.intermediate import cache_sweep_svg, cache_sweep_text, cache_text, curve_svg
from warpsight.reports.next_step import line

EXAMPLES = """\
examples:
  warpsight cache launch.yaml --gpu gtx470-16k
  warpsight cache accesses.trc.gz --gpu gtx470-16k --set l1.ways=8 --sigma 0 --json
  warpsight cache saxpy.trace --without latency,mshr --curve curve.svg
  warpsight cache saxpy.trace --sweep size=4K:64K ways=1,2,4,8 --picture sweep.svg
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    options.add_kernel(parser)
    options.add_gpu(parser)
    group = parser.add_argument_group("the cache model (--seed also seeds the latencies, default 1 there)")
    group.add_argument("--miss-latency", metavar="N", type=options.whole, help="minimum miss latency in time stamps (default 100)")
    group.add_argument("--hit-latency", metavar="N", type=options.whole, help="hit latency in time stamps (default 0)")
    group.add_argument("--sigma", metavar="X", type=float, help="sigma of the half-normal miss latency (default 5)")
    group.add_argument("--without", metavar="NAME[,NAME]", default="", help="disable: latency, mshr, associativity, divergence")
    group.add_argument("--no-clip", action="store_true", help="a request for a line in flight takes a full latency of its own")
    group.add_argument("--index-bits", metavar="BITS", help="address bits that form the set index, lowest index bit first, as "
                       "7^13,8^14,9^15,10^17,11^19,12")
    group.add_argument("--issue", choices=("access", "request"), help="all transactions of an access at one time stamp, or one "
                       "per time stamp (default: access for a list, else request)")
    group.add_argument("--stores", action="store_true", help="count stores like loads")
    group.add_argument("--cores", metavar="N", type=options.whole, help="SMs that execute the blocks (default: all; 1 for a list)")
    group.add_argument("--max-threads", metavar="N", type=options.whole, help="only the first blocks with N threads in total")
    group.add_argument("--l2", action="store_true", help="feed the misses of all SMs to the L2")
    output = parser.add_argument_group("output")
    output.add_argument("--sweep", metavar="AXIS=VALUES", nargs="+", help="a row for each value of size, ways, line, mshrs, as "
                        "size=4K:64K (doubling) ways=1,2,4,8")
    output.add_argument("--curve", metavar="FILE.svg", help="write the cumulative curve of reuse distances")
    output.add_argument("--picture", metavar="FILE.svg", help="draw the sweep")
    output.add_argument("--csv", action="store_true", help="print the sweep, or the histogram, as CSV")
    output.add_argument("--parquet", metavar="FILE", help="write the sweep, or the histogram, as Parquet")
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Model and print."""
    axes = parse_axes(arguments.sweep) if arguments.sweep else {}
    if arguments.picture and not axes:
        raise UsageError("needs a sweep", place="--picture", remedy="add --sweep, or use --curve")
    if arguments.curve and axes:
        raise UsageError("is for one cache, not for a sweep", place="--curve", remedy="use --picture, or leave out --sweep")
    if arguments.l2 and axes:
        raise UsageError("is for one cache, not for a sweep", place="--l2", remedy="leave out --sweep")
    if arguments.index_bits is not None and "line" in axes:
        what = "selects address bits that a larger line size would remove"
        raise UsageError(what, place="--index-bits", remedy="sweep one line size at a time, with --set l1.line=")
    gpu = load_gpu(arguments.gpu, overrides=arguments.overrides)
    chosen = _options(arguments, gpu.l1.line_bytes)
    request = options.kernel_request(arguments)
    with ProgressBar() as bar:
        accesses = accesses_of(request, gpu, chosen, watch=bar.watch)
    text: Callable[[], str]
    if axes:
        rows = cache_sweep(accesses, axes)
        if arguments.picture:
            write_text(arguments.picture, cache_sweep_svg(rows, list(axes), accesses.name))
        document = {"kernel": accesses.name, "gpu": accesses.gpu.name, "rows": rows}
        text = partial(cache_sweep_text, rows, accesses.name, accesses.gpu.name)
        following = line([*arguments.command_line, "--picture", "sweep.svg"], "the same as a picture")
    else:
        result = cache_result(accesses)
        rows = [{"distance": distance, "transactions": count} for distance, count in result.histogram.items()]
        if arguments.curve:
            write_text(arguments.curve, curve_svg(result.curve(), result.kernel, result.settings))
        document = result.to_json()
        text = partial(cache_text, document, terminal_style())
        following = line([*arguments.command_line, "--sweep", "size=4K:64K"], "what other sizes would miss")
    if arguments.parquet:
        write_parquet(arguments.parquet, rows)
    if arguments.csv and not arguments.json:
        print(csv_table(rows), end="")
        return 0
    return print_result(arguments, document, text, following)


def _options(arguments: argparse.Namespace, line_bytes: int) -> Any:
    """The cache model's options. For a list or a trace --seed is not a launch option, so it is removed here."""
    changes: dict[str, Any] = {"without": frozenset(name for name in arguments.without.split(",") if name)}
    for name in ("miss_latency", "hit_latency", "sigma", "seed", "issue"):
        if getattr(arguments, name) is not None:
            changes[name] = getattr(arguments, name)
    if arguments.no_clip:
        changes["clip"] = False
    if arguments.index_bits is not None:
        changes.update(index="bits", index_bits=line_bits(parse_index_bits(arguments.index_bits), line_bytes))
    if is_access_list(arguments.path) or Path(arguments.path).is_dir():
        arguments.seed = None
    return CacheOptions(arguments.cores, arguments.max_threads, arguments.stores, arguments.l2, changes)
