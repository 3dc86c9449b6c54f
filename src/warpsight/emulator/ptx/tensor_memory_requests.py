"""Operations on tensor memory that PTX and machine code share: each is a request to `tensor_memory_engine.py`.

Of a pair of blocks, those of a cluster with ranks 2 n and 2 n + 1, one thread issues products, which use the memory of both, and
copies, which are made in each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from llvmlite import ir

from warpsight.base.findings import RACECHECK
from warpsight.emulator.codegen import watcher
from warpsight.emulator.codegen.emitter import Emitter
from warpsight.emulator.codegen.frame import Frame, HelperFrame, call_helper
from warpsight.emulator.codegen.helpers import for_each_lane
from warpsight.emulator.codegen.lanes import (
    I8,
    I32,
    I64,
    PTR,
    Builder,
    Value,
    at,
    intrinsic,
    load_as,
    store_as,
    trailing_zeros,
    vector,
)
from warpsight.emulator.codegen.layout import TENSOR_BYTES, WARP, Fault, Slot
from warpsight.emulator.codegen.watching import note_listed, note_objects, tell
from warpsight.emulator.ptx import tensor_memory_accesses as accesses
from warpsight.emulator.ptx import tensor_memory_engine as engine
from warpsight.emulator.ptx.matrix_shapes import need_whole_warp

_FAILURES = (Fault.TENSOR_MEMORY, Fault.SHARED_BOUNDS, Fault.TENSOR_COLUMNS, Fault.PRODUCT_FORM)
MOST_REGISTERS = 128
_REGISTER = 4 * WARP  # bytes
Words = dict[int, Value]


def operate(frame: Frame, words: Words, lane: Value, until: int = watcher.BY_PRODUCTS) -> None:
    """Ask the engine; stop on a failure, which is that of `lane` (i32). `until`: what racecheck has to wait for."""
    builder = frame.builder
    request = frame.buffer("tensor memory request", ir.ArrayType(I64, engine.REQUEST_WORDS))
    common = {
        engine.TENSOR: frame.slot(Slot.TENSOR_PTR), engine.BLOCK: frame.slot(Slot.BLOCK), engine.WARP_NUMBER: frame.slot(Slot.WARP),
        engine.SHARED: frame.slot(Slot.SHARED_PTR), engine.LIMIT: frame.slot(Slot.SHARED_SIZE), engine.PEER: I64(0),
        engine.METADATA: I64(-1), engine.STATIONARY: I64(0), engine.PACKED: I64(0), engine.SHIFTS: I64(0),
        engine.AWAY: I64(0), engine.SPLIT: I64(0),
    }  # fmt: skip
    for word, value in (common | words).items():
        store_as(builder, value, at(builder, request, 8 * word), 8)
    if RACECHECK in frame.checks:
        room = frame.buffer("accesses", ir.ArrayType(I64, accesses.RUN_WORDS * accesses.MOST_RUNS))
        store_as(builder, builder.ptrtoint(room, I64), at(builder, request, 8 * engine.RUNS), 8)
        builder.call(intrinsic(builder.module, "warpsight_tensor_accesses", ir.VoidType(), [PTR]), [at(builder, request, 0)])
        note_listed(frame, lane, room, load_as(builder, at(builder, request, 8 * engine.COUNT_RUNS), I64, 8), until)
    builder.call(intrinsic(builder.module, "warpsight_tensor_memory", ir.VoidType(), [PTR]), [at(builder, request, 0)])
    failure, address = (load_as(builder, at(builder, request, 8 * k), I64, 8) for k in (engine.FAILURE, engine.ADDRESS))
    for kind in _FAILURES:
        frame.stop_if(builder.icmp_signed("==", failure, I64(kind)), kind, lambda: (lane, address))


def by_warp(
    emitter: Emitter, name: str, arguments: list[Value], fill: Callable[[HelperFrame], Words], until: int = watcher.AT_ONCE
) -> None:
    """An operation of a whole warp, unless its guard holds nowhere."""

    def body(helper: HelperFrame) -> list[Value]:
        need_whole_warp(helper)
        with helper.builder.if_then(helper.builder.icmp_signed("!=", helper.active_mask, I32(0))):
            operate(helper, fill(helper), I32(0), until)
        return []

    call_helper(emitter, f"tcgen05_{name}", I64(0), arguments, [], body)


def _by_lane(
    frame: Frame, name: str, arguments: list[Value], words: tuple[int, ...], constants: dict[int, int], blocks: int
) -> None:
    """An operation that each active lane issues, of one block or a pair: `arguments` (<32 x i64>) are the words that differ."""

    def body(helper: HelperFrame) -> list[Value]:
        held = [helper.spill(value, f"word{k}") for k, value in enumerate(helper.arguments)]

        def each(inner: Builder, lane: Value) -> None:
            offset = inner.shl(inner.zext(lane, I64), I64(3))
            mine = [load_as(inner, at(inner, pointer, offset), I64, 8) for pointer in held]
            given = {word: I64(number) for word, number in constants.items()}
            given[engine.SEEN] = inner.add(helper.slot(Slot.PRODUCT_PTR), inner.shl(helper.pc, I64(3)))
            given |= dict(zip(words, mine, strict=True))
            if blocks == 1:
                operate(helper, given, lane)
            elif constants[engine.WHAT] == engine.MULTIPLY:
                first, second = _pair(helper)
                peer = {engine.PEER: second[engine.TENSOR], engine.PEER_SHARED: second[engine.SHARED]}
                operate(helper, given | first | peer, lane)
            else:
                for block in _pair(helper):
                    operate(helper, given | block, lane)

        for_each_lane(helper.builder, helper.active_mask, each)
        return []

    call_helper(frame, f"tcgen05_{name}", I64(0), arguments, [], body)


def _pair(frame: Frame) -> tuple[Words, Words]:
    """The blocks of a pair, that with the even rank first: their numbers, and where their tensor memory and shared memory lie."""
    builder, rank = frame.builder, frame.slot(Slot.CLUSTER_RANK)
    first = builder.and_(rank, I64(-2))
    origin = builder.sub(frame.slot(Slot.BLOCK), _place_of_rank(frame, rank))
    blocks = []
    for number in (first, builder.add(first, I64(1))):
        away = builder.sub(number, rank)
        block = builder.add(origin, _place_of_rank(frame, number))
        tensor = builder.add(frame.slot(Slot.TENSOR_PTR), builder.mul(away, I64(TENSOR_BYTES)))
        shared = builder.add(frame.slot(Slot.SHARED_PTR), builder.mul(away, frame.slot(Slot.CLUSTER_STRIDE)))
        blocks.append({engine.BLOCK: block, engine.TENSOR: tensor, engine.SHARED: shared, engine.AWAY: away})
    return blocks[0], blocks[1]


def _place_of_rank(frame: Frame, rank: Value) -> Value:
    """How far the number of the block of a rank is from that of rank 0; both count x fastest."""
    builder, (across, down, wide, high) = frame.builder, (
        frame.slot(slot) for slot in (Slot.CLUSTER_X, Slot.CLUSTER_Y, Slot.NCTAID_X, Slot.NCTAID_Y)
    )
    row = builder.udiv(rank, across)
    planes = builder.mul(high, builder.udiv(row, down))
    return builder.add(builder.urem(rank, across), builder.mul(wide, builder.add(builder.urem(row, down), planes)))


# -- Allocation.


def allocate(frame: Frame, columns: Value, blocks: int) -> Value:
    """Columns (<32 x i64>) for the first active lane, in one block or at the same place in both of a pair: their address (i64)."""

    def body(helper: HelperFrame) -> list[Value]:
        builder, (many,) = helper.builder, helper.arguments
        request = helper.buffer("tensor memory request", ir.ArrayType(I64, engine.REQUEST_WORDS))
        made = at(builder, request, 8 * engine.TARGET)
        store_as(builder, I64(0), made, 8)
        with builder.if_then(builder.icmp_signed("!=", helper.active_mask, I32(0))):
            lane = builder.and_(trailing_zeros(builder, helper.active_mask), I32(WARP - 1))
            count = builder.extract_element(many, lane)
            places = []
            for block in _pair(helper) if blocks > 1 else ({},):
                operate(helper, {engine.WHAT: I64(engine.ALLOCATE), engine.COLUMNS: count} | block, lane)
                places.append(load_as(builder, made, I64, 8))
            differ = builder.icmp_signed("!=", places[0], places[-1])
            helper.stop_if(differ, Fault.TENSOR_COLUMNS, lambda: (lane, count))
        return [load_as(builder, made, I64, 8)]

    return call_helper(frame, f"tcgen05_allocate_{blocks}", I64(0), [columns], [I64], body)[0]


def free(frame: Frame, address: Value, columns: Value) -> None:
    """Each active lane gives back columns (<32 x i64>)."""
    words = (engine.TARGET, engine.COLUMNS)
    _by_lane(frame, "free", [address, columns], words, {engine.WHAT: engine.FREE}, 1)


# -- Loads, stores, copies and products.


@dataclass(frozen=True)
class Move:
    """A load or store of `count` registers of each lane of a warp; `shape` is one of `engine.SHAPES`, `split` that of 16x32bx2."""

    shape: str
    count: int
    split: int = 0
    packed: bool = False
    waits: bool = False  # machine code: what reads its registers waits for it

    def load(self, emitter: Emitter, address: Value) -> list[Value]:
        """The registers (<32 x i32>) from an address (<32 x i64>, the same in all lanes) on."""
        self._call(emitter, engine.LOAD, address)
        return [load_as(emitter.builder, self._register(emitter, k), vector(I32), 64) for k in range(self.count)]

    def store(self, emitter: Emitter, address: Value, values: Sequence[Value]) -> None:
        """The inverse."""
        for k, value in enumerate(values):
            store_as(emitter.builder, value, self._register(emitter, k), 64)
        self._call(emitter, engine.STORE, address)

    def _register(self, emitter: Emitter, number: int) -> Value:
        room = emitter.buffer("tensor registers", ir.ArrayType(I8, _REGISTER * MOST_REGISTERS))
        return at(emitter.builder, room, number * _REGISTER)

    def _call(self, emitter: Emitter, what: int, address: Value) -> None:
        def fill(helper: HelperFrame) -> Words:
            place, pointer = helper.arguments
            return {
                engine.WHAT: I64(what), engine.TARGET: place, engine.COUNT: I64(self.count),
                engine.REGISTERS: helper.builder.ptrtoint(pointer, I64), engine.SHAPE: I64(engine.SHAPES.index(self.shape)),
                engine.SPLIT: I64(self.split), engine.PACKED: I64(int(self.packed)),
            }  # fmt: skip

        name = f"move_{what}_{self.shape}_{self.count}_{self.split}_{int(self.packed)}_{int(self.waits)}"
        until = watcher.AT_ONCE if self.waits else watcher.BY_LOADS if what == engine.LOAD else watcher.BY_STORES
        by_warp(emitter, name, [emitter.builder.extract_element(address, I32(0)), self._register(emitter, 0)], fill, until)


def copy(frame: Frame, name: str, place: Value, descriptor: Value, blocks: int, bits: int = 0) -> None:
    """A copy that is one of `engine.COPIES`, by each active lane (<32 x i64>), in one block or in each of a pair. It makes bytes of
    elements of so many `bits`, if they are given.
    """
    number = engine.COPIES.index(name)
    words = {engine.WHAT: engine.COPY, engine.SHAPE: number, engine.PACKED: bits}
    _by_lane(frame, f"cp_{number}_{bits}_{blocks}", [place, descriptor], (engine.TARGET, engine.RIGHT), words, blocks)


def shift(frame: Frame, place: Value, blocks: int) -> None:
    """Rows of a quarter of the lanes move by one, in 8 columns from an address (<32 x i64>) on, in one block or each of a pair."""
    _by_lane(frame, f"shift_{blocks}", [place], (engine.TARGET,), {engine.WHAT: engine.SHIFT}, blocks)


def multiply(frame: Frame, words: dict[int, Value], constants: dict[int, int], blocks: int) -> None:
    """A product by each active lane, of one block or a pair: words of its request that differ (<32 x i64>), and that do not."""
    name = "_".join(["mma", *(str(word) for word in words), *(f"{word}={number}" for word, number in constants.items())])
    given = constants | {engine.WHAT: engine.MULTIPLY}
    _by_lane(frame, f"{name}_{blocks}", list(words.values()), tuple(words), given, blocks)


def note_commit(frame: Frame, offsets: Value) -> None:
    """Tell racecheck that what each active lane has issued is committed to the object at its offset (<32 x i32>)."""
    if RACECHECK in frame.checks and frame.clustered:
        tell(frame, watcher.COMMITTED, I64(0))
    else:
        note_objects(frame, frame.active_mask, offsets, watcher.COMMITTED)
