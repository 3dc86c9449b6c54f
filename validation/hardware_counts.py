"""Counts instructions of programs that were traced on real GPUs, in the traces and as machine code executed here, side by side.

    python validation/hardware_counts.py --sources FOLDER --traces FOLDER [--write]

FOLDER of `--sources` holds checkouts of `cuda-samples` (NVIDIA) and `gpu-app-collection` (accel-sim), that of `--traces` the
folders `vectoradd_v5`, `bfs_v3` and `btree_v5_sm90` of traces that Accel-Sim's tracer (NVBit) made.

What a launch was given is in no file. It is read from the trace: the addresses and the active lanes of its loads say what they
loaded. The traces are read here by a small reader of their own, so that what is compared shares nothing with Warpsight's importer.
"""

from __future__ import annotations

import argparse
import lzma
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import warpsight  # noqa: E402
from marked_page import put  # noqa: E402  found by the line above
from warpsight.traces.events import EventReader  # noqa: E402
from warpsight.traces.schema import KernelTrace  # noqa: E402

PAGE = HERE / "hardware" / "counts.md"
COMMAND = "python validation/hardware_counts.py --sources FOLDER --traces FOLDER --write"
SECTOR = 32


# -- A trace of real hardware.


@dataclass(frozen=True)
class Executed:
    """A warp instruction: the lanes that it had an effect for, in order, and their addresses if it accesses memory."""

    warp: int
    pc: int
    opcode: str
    lanes: tuple[int, ...]
    addresses: tuple[int, ...]


def _addresses(words: list[str], count: int) -> tuple[int, ...]:
    """The addresses behind an access width: a list, a base and a stride, or a base and differences."""
    mode, base = int(words[0]), int(words[1], 16) if count else 0
    if mode == 0:
        return tuple(int(word, 16) for word in words[1 : 1 + count])
    if mode == 1:
        return tuple(base + k * int(words[2]) for k in range(count))
    return tuple(int(total) for total in np.cumsum([base, *map(int, words[2 : 1 + count])])[:count])


def executed(path: Path) -> Iterator[Executed]:
    """The instructions of a trace; a warp's own are in order."""
    block = warp = -1
    with lzma.open(path, "rt") as lines:
        for line in lines:
            words = line.split()
            if line.startswith("thread block"):
                block += 1
            elif line.startswith("warp ="):
                warp = int(words[-1])
            elif len(words) > 4 and len(words[0]) == 4 and len(words[1]) == 8 and "=" not in words:
                mask = int(words[1], 16)
                lanes = tuple(k for k in range(32) if mask >> k & 1)
                rest = words[3 + int(words[2]) :]
                opcode, rest = rest[0], rest[2 + int(rest[1]) :]
                addresses = _addresses(rest[1:], len(lanes)) if int(rest[0]) and lanes else ()
                yield Executed(1000 * block + warp, int(words[0], 16), opcode, lanes, addresses)


# -- Counts of either side.


@dataclass
class Counts:
    """By opcode without modifiers: `warp` and thread instructions. By space and access: how often, and sectors."""

    warp: Counter[str] = field(default_factory=Counter)
    threads: Counter[str] = field(default_factory=Counter)
    accesses: Counter[str] = field(default_factory=Counter)
    sectors: Counter[str] = field(default_factory=Counter)


_SPACES = {"LDG": "global load", "STG": "global store", "LDL": "local load", "STL": "local store"}


def of_hardware(path: Path) -> Counts:
    """The counts of a trace of hardware. An access counts if a lane makes it."""
    counts = Counts()
    for each in executed(path):
        base = each.opcode.partition(".")[0]
        counts.warp[base] += 1
        counts.threads[base] += len(each.lanes)
        if each.addresses and base in _SPACES:
            kind = _SPACES[base]
            counts.accesses[kind] += 1
            if "global" in kind:
                counts.sectors[kind] += len({a // SECTOR for a in each.addresses})
    return counts


def of_trace(trace: KernelTrace) -> Counts:
    """The counts of a trace of ours: of each path as often as warps took it."""
    counts, taken = Counts(), np.zeros(len(trace.paths), dtype=np.int64)
    instructions, reader = trace.instructions, EventReader(trace)
    for chunk in trace.chunks:
        taken += np.bincount(chunk.path, minlength=len(taken))
        events = reader.read(chunk)
        for pc, sectors in zip(events.pc.tolist(), events.sectors.tolist(), strict=True):
            one = instructions[pc]
            kind = f"{one.space} {one.access}"
            if kind in _SPACES.values() and sectors:
                counts.accesses[kind] += 1
                if one.space == "global":
                    counts.sectors[kind] += sectors
    for path, times in enumerate(taken.tolist()):
        for run in range(int(trace.paths.offset[path]), int(trace.paths.offset[path + 1])):
            block, lanes = int(trace.paths.block[run]), int(trace.paths.lanes[run])
            for pc in range(int(trace.block_start[block]), int(trace.block_start[block + 1])):
                base, often = instructions[pc].opcode.partition(".")[0], times * int(trace.paths.repeat[run])
                counts.warp[base] += often
                counts.threads[base] += often * lanes
    return counts


# -- What the launches were given.


def _vector_add(traces: Path) -> tuple[Any, ...]:
    """50,000 elements: the sample has that number in its code, and the trace's copies have 200,000 bytes."""
    zeros = [np.zeros(50_000, np.float32) for _ in range(3)]
    return (*zeros, 50_000)


# Places in the code of the traced `Kernel` of bfs, as the opcodes around them show: the store that clears a node's mark, which
# only nodes of the frontier reach; the load of an edge, and of the mark of the node that it leads to; the store for a node without
# it. In `Kernel2` the load of a node's mark, and the stores for nodes that have one: mask, visited, over, and the mark itself.
_CLEARED, _EDGE, _MARK, _COST = 0xD0, 0x190, 0x1D0, 0x270
_NEXT, _STORES = 0xA0, (0x150, 0x180, 0x190, 0x1A0)
_NODES, _BLOCK, _ALLOCATION = 4096, 512, 512  # nodes, threads in a block, bytes of which the addresses of allocations are multiples


def _thread(each: Executed, lane: int, block: int) -> int:
    return each.warp // 1000 * block + each.warp % 1000 * 32 + lane


def _by_thread(trace: list[Executed], pc: int, block: int = _BLOCK) -> dict[int, list[int]]:
    """The addresses that each thread's instruction at `pc` had, in order."""
    found: dict[int, list[int]] = defaultdict(list)
    for each in trace:
        if each.pc == pc:
            for lane, address in zip(each.lanes, each.addresses, strict=True):
                found[_thread(each, lane, block)].append(address)
    return found


def _array_of_threads(found: Mapping[int, list[int]]) -> int:
    """Where an array of bytes begins whose element each thread accesses; -1 if that is not what the addresses are."""
    places = {addresses[0] - thread for thread, addresses in found.items()}
    return places.pop() if len(places) == 1 else -1


def _bfs_first(traces: Path, number: int) -> tuple[Any, ...]:
    """Arguments of `Kernel`: nodes of the frontier with their edges, and which nodes have been visited."""
    trace, second = (list(executed(traces / "bfs_v3" / f"kernel-{k}.traceg.xz")) for k in (number, 10))
    stores = {_array_of_threads(_by_thread(second, pc)) for pc in _STORES}
    (visited_at,) = stores - {-1, _array_of_threads(_by_thread(second, _NEXT)), _array_of_threads(_by_thread(trace, _CLEARED))}
    edges, ends = _by_thread(trace, _EDGE), _by_thread(trace, _MARK)
    first = min(min(places) for places in edges.values()) // _ALLOCATION * _ALLOCATION
    nodes, mask, visited = np.zeros((_NODES, 2), np.int32), np.zeros(_NODES, np.uint8), np.ones(_NODES, np.uint8)
    targets = np.zeros((max(max(places) for places in edges.values()) - first) // 4 + 1, np.int32)
    mask[list(_by_thread(trace, _CLEARED))] = 1
    for thread, places in edges.items():
        nodes[thread] = (places[0] - first) // 4, len(places)
        targets[[(a - first) // 4 for a in places]] = [a - visited_at for a in ends[thread]]
    reached: dict[int, int] = {}
    for each in trace:
        if each.pc == _MARK:
            reached = {lane: a - visited_at for lane, a in zip(each.lanes, each.addresses, strict=True)}
        elif each.pc == _COST:
            visited[[reached[lane] for lane in each.lanes]] = 0
    return nodes.reshape(-1), targets, mask, np.zeros(_NODES, np.uint8), visited, np.zeros(_NODES, np.int32), _NODES


def _bfs_second(traces: Path) -> tuple[Any, ...]:
    """Arguments of `Kernel2`: the nodes that the next step begins from."""
    updating = np.zeros(_NODES, np.uint8)
    updating[list(_by_thread(list(executed(traces / "bfs_v3" / "kernel-10.traceg.xz")), _STORES[0]))] = 1
    return np.zeros(_NODES, np.uint8), updating, np.zeros(_NODES, np.uint8), np.zeros(1, np.uint8), _NODES


# The b+tree of the traces is not Rodinia's own, whose threads search one key together; its source is not public. This kernel is
# written from the trace: the types of its parameters, 264 bytes for a node that are copied to local memory, where the loops
# leave, and what they load.
_TREE = """
struct knode { int is_leaf; int num_keys; int keys[32]; int indices[32]; };
__global__ void find_key_kernel(const knode* nodes, int count, const int* keys, int* results, int num_keys)
{
    int tid = blockIdx.x * blockDim.x + threadIdx.x;
    if (tid >= num_keys) return;
    int key = keys[tid];
    knode node = nodes[0];
    while (!node.is_leaf) {
        int next = node.indices[node.num_keys - 1];
        for (int i = 0; i < node.num_keys; ++i)
            if (key <= node.keys[i]) { next = node.indices[i]; break; }
        node = nodes[next];
    }
    int found = -1;
    for (int i = 0; i < node.num_keys; ++i)
        if (node.keys[i] == key) { found = node.indices[i]; break; }
    results[tid] = found;
}
"""
# The first load of a node, the load of a key of an inner node (once for each turn of the loop), of a leaf; the store of the result.
_NODE, _INNER, _LEAF, _RESULT = 0x8B0, 0x800, 0xF90, 0x1050
_NODE_BYTES, _THREADS, _TREE_NODES = 264, 128, 165  # the trace's copies have 43,560 bytes of nodes


def _tree(traces: Path) -> tuple[Any, ...]:
    """A tree in which each thread's key takes the way that it took: which child of which node, and which place of which leaf."""
    trace = list(executed(next((traces / "btree_v5_sm90").glob("kernel-1-*.xz"))))
    root = min(a for each in trace for a in each.addresses if each.opcode.startswith("LDG")) // _ALLOCATION * _ALLOCATION
    ways: dict[int, list[tuple[int, int]]] = defaultdict(lambda: [(0, 0)])  # (node, turns of its loop) of each thread
    for each in trace:
        for k, lane in enumerate(each.lanes):
            way = ways[_thread(each, lane, _THREADS)]
            if each.pc == _NODE:
                way.append(((each.addresses[k] - root) // _NODE_BYTES, 0))
            elif each.pc in (_INNER, _LEAF):
                way[-1] = way[-1][0], way[-1][1] + 1
    asked = {thread for each in trace if each.pc == _RESULT for thread in (_thread(each, lane, _THREADS) for lane in each.lanes)}
    nodes = np.zeros((_TREE_NODES, 2 + 2 * 32), np.int32)
    keys = np.zeros(max(asked) + 1, np.int32)
    leaves = {ways[thread][-1][0] for thread in asked}
    most: dict[int, int] = defaultdict(int)
    for thread in sorted(asked):
        keys[thread] = sum(turns * 64 ** (3 - depth) for depth, (_, turns) in enumerate(ways[thread]))
        for (node, turns), (child, _) in pairwise([*ways[thread], (0, 0)]):
            most[node] = max(most[node], turns)
            at = nodes[node, 2 + turns - 1]
            nodes[node, 2 + turns - 1] = keys[thread] if node in leaves else max(at, keys[thread])
            nodes[node, 34 + turns - 1] = child
    for node, turns in most.items():
        nodes[node, 0], nodes[node, 1] = node in leaves, turns
        nodes[node, 2 : 2 + turns] = np.maximum.accumulate(nodes[node, 2 : 2 + turns])
    return nodes.reshape(-1), _TREE_NODES, keys, np.zeros(len(keys), np.int32), len(keys)


# -- The launches, and the tables.


@dataclass(frozen=True)
class Case:
    """A launch: its trace, its source (files of the checkouts, or text), its shape and its arguments."""

    name: str
    trace: str
    files: tuple[str, ...]
    text: str
    kernel: str
    grid: int
    block: int
    gpu: str
    given: Callable[[Path], tuple[Any, ...]]


_BFS = tuple(f"gpu-app-collection/src/cuda/rodinia/3.1/cuda/bfs/{name}.cu" for name in ("kernel", "kernel2"))
_BFS_HEAD = "#define MAX_THREADS_PER_BLOCK 512\nstruct Node { int starting; int no_of_edges; };\n"
_SAMPLE = ("cuda-samples/Samples/0_Introduction/vectorAdd/vectorAdd.cu",)
CASES = (
    Case("vectorAdd", "vectoradd_v5/kernel-1.traceg.xz", _SAMPLE, "", "vectorAdd", 196, 256, "a100", _vector_add),
    Case("bfs, Kernel, first step", "bfs_v3/kernel-1.traceg.xz", _BFS, _BFS_HEAD, "Kernel", 8, 512, "a100",
         lambda traces: _bfs_first(traces, 1)),
    Case("bfs, Kernel, last step", "bfs_v3/kernel-13.traceg.xz", _BFS, _BFS_HEAD, "Kernel", 8, 512, "a100",
         lambda traces: _bfs_first(traces, 13)),
    Case("bfs, Kernel2", "bfs_v3/kernel-10.traceg.xz", _BFS, _BFS_HEAD, "Kernel2", 8, 512, "a100", _bfs_second),
    Case("b+tree", "btree_v5_sm90/kernel-1-ctx_0x5607b0e17740.traceg.xz", (), _TREE, "find_key_kernel", 8, 128,
         "h100-pcie", _tree),
)  # fmt: skip


def _source(folder: Path, case: Case) -> str:
    """The kernels of the files: what stands before `main`, without includes."""
    parts = [case.text]
    for name in case.files:
        lines = (folder / name).read_text().partition("\nint main(")[0].splitlines()
        parts += ["\n".join("" if line.lstrip().startswith("#include") else line for line in lines)]
    return "\n".join(parts)


def measured(sources: Path, traces: Path, case: Case) -> tuple[Counts, Counts]:
    """Counts of the hardware's trace, and of ours."""
    trace = warpsight.trace(_source(sources, case), kernel=case.kernel, grid=case.grid, block=case.block, args=case.given(traces),
                            gpu=case.gpu, level="sass")  # fmt: skip
    return of_hardware(traces / case.trace), of_trace(trace)


def _row(name: str, here: int, there: int) -> str:
    ratio = f"{here / there:.3f}" if there else ""
    return f"| {name} | {there:,} | {here:,} | {ratio} |"


def tables(sources: Path, traces: Path) -> dict[str, str]:
    """A summary, and opcode by opcode."""
    summary = ["| launch | what | hardware | here | ratio |", "|---|---|---:|---:|---:|"]
    opcodes = []
    for case in CASES:
        there, here = measured(sources, traces, case)
        pairs = [("warp instructions", here.warp.total(), there.warp.total()),
                 ("thread instructions", here.threads.total(), there.threads.total()),
                 *((f"{kind}s", here.accesses[kind], there.accesses[kind]) for kind in _SPACES.values()),
                 *((f"{kind} sectors", here.sectors[kind], there.sectors[kind]) for kind in _SPACES.values())]  # fmt: skip
        summary += [f"| {case.name} {_row(*pair)}" for pair in pairs if any(pair[1:])]
        opcodes += ["", f"**{case.name}**", "", "| opcode | hardware | here | ratio |", "|---|---:|---:|---:|"]
        opcodes += [_row(base, here.warp[base], there.warp[base]) for base in sorted(here.warp | there.warp)]
    return {"summary": "\n".join(summary), "opcodes": "\n".join(opcodes[1:])}


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sources", type=Path, required=True, help="folder with the two checkouts")
    parser.add_argument("--traces", type=Path, required=True, help="folder with the three folders of traces")
    parser.add_argument("--write", action="store_true", help=f"write the tables into {PAGE.name}")
    options = parser.parse_args()
    made = tables(options.sources, options.traces)
    print(*made.values(), sep="\n\n")
    if options.write:
        put(PAGE, COMMAND, made)


if __name__ == "__main__":
    main()
