"""Where code is being emitted: the builder, the context, the active lanes and the way out on a fault.

An instruction emitted in line and a helper function that does its slow path look alike to the code that emits memory accesses.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir

from warpsight.emulator.codegen.lanes import (
    I32,
    I64,
    PTR,
    Builder,
    Value,
    at,
    get_slot,
    internal_function,
    intrinsic,
    load_as,
    mask_to_lanes,
    set_slot,
    store_as,
    trailing_zeros,
)
from warpsight.emulator.codegen.layout import Fault, Slot


def record_fault(builder: Builder, context: Value, kind: int, pc: Value, lane: Value, address: Value) -> None:
    """Write a fault of `kind` into the context; the numbers are i32 or i64."""
    fault = ((Slot.FAULT_KIND, I64(kind)), (Slot.FAULT_PC, pc), (Slot.FAULT_LANE, lane), (Slot.FAULT_ADDRESS, address))
    for slot, value in fault:
        set_slot(builder, context, slot, value if value.type == I64 else builder.zext(value, I64))


class Frame(ABC):
    """Base of everything that emits code. Subclasses say which lanes are active and which instruction is being done.

    `active` are the lanes for which the current instruction takes effect (<32 x i1>), `active_mask` the same as an i32, `pc` (i64)
    is the index of that instruction.
    """

    builder: Builder
    context: Value
    fault_block: Any
    active: Value
    active_mask: Value
    pc: Value
    checks: frozenset[str] = frozenset()  # what watches the launch: see `watching.py`
    is_compact = False  # accesses call functions, rather than being in line
    moves = True  # accesses move data; where not, they are checked and recorded, and give zeros
    clustered = False  # for launches in clusters of several blocks: addresses in shared memory have the rank of a block

    def keep_lanes(self, mask: Value) -> None:
        """From here on only lanes of the i32 mask are active."""
        self.active_mask, self.active = mask, mask_to_lanes(self.builder, mask)

    @contextmanager
    def on_a_branch(self) -> Iterator[None]:
        """What is emitted is reached on one way alone: lanes that are left out there are active again behind it."""
        before = self.active_mask, self.active
        yield
        self.active_mask, self.active = before

    def slot(self, slot: Slot) -> Value:
        """Load a context slot as i64."""
        return get_slot(self.builder, self.context, slot)

    def slot_pointer(self, slot: Slot) -> Value:
        """Load a context slot as a pointer."""
        return load_as(self.builder, at(self.builder, self.context, 8 * slot), PTR, 8)

    @abstractmethod
    def buffer(self, name: str, kind: Any) -> Value:
        """A named stack slot of LLVM type `kind`, made once per function."""

    def spill(self, value: Value, name: str) -> Value:
        """Store a vector in the stack slot `name` and return the pointer, for code that visits lanes one by one."""
        pointer = self.buffer(name, value.type)
        store_as(self.builder, value, pointer, 64)
        return pointer

    def leave_if(self, failed: Value) -> None:
        """Take the way out when the i1 holds: the fault is already in the context. Continues in a new LLVM block."""
        following = self.builder.append_basic_block("ok")
        self.builder.cbranch(failed, self.fault_block, following).set_weights([1, 1000])
        self.builder.position_at_end(following)

    def stop_if(self, failed: Value, kind: int, details: Callable[[], tuple[Value, Value]]) -> None:
        """When the i1 holds, record a fault of `kind` and leave. `details()` emits lane (i32) and address (i64) there."""
        failing, following = self.builder.append_basic_block("fault"), self.builder.append_basic_block("ok")
        self.builder.cbranch(failed, failing, following).set_weights([1, 1000])
        self.builder.position_at_end(failing)
        record_fault(self.builder, self.context, kind, self.pc, *details())
        self.builder.branch(self.fault_block)
        self.builder.position_at_end(following)

    def stop_lanes(self, lanes: Value, kind: Fault, address: Callable[[Value], Value] = lambda lane: I64(0)) -> None:
        """When a lane is in the i32 mask, record a fault of the first one and leave. `address(lane)` emits its i64 there."""

        def details() -> tuple[Value, Value]:
            lane = trailing_zeros(self.builder, lanes)
            return lane, address(lane)

        self.stop_if(self.builder.icmp_signed("!=", lanes, I32(0)), kind, details)


class HelperFrame(Frame):
    """The body of an out-of-line function `(context, mask, pc, site, arguments...)`. It returns early on a fault."""

    def __init__(self, function: ir.Function) -> None:
        self.function = function
        self.context, self.active_mask, self.pc, self.site, *self.arguments = function.args
        self._entry = ir.IRBuilder(function.append_basic_block("entry"))
        body = function.append_basic_block("body")
        self.builder = ir.IRBuilder(body)
        self.active = mask_to_lanes(self.builder, self.active_mask)
        self._buffers: dict[str, Value] = {}
        self._body = body
        self.fault_block = function.append_basic_block("faulted")
        failing = ir.IRBuilder(self.fault_block)
        result = function.function_type.return_type
        if isinstance(result, ir.VoidType):
            failing.ret_void()
        else:
            failing.ret(ir.Constant(result, None))

    def narrow(self, lanes: int) -> None:
        """From here on only those active lanes count that are in the constant mask `lanes`."""
        self.keep_lanes(self.builder.and_(self.active_mask, I32(lanes)))

    def buffer(self, name: str, kind: Any) -> Value:
        """A stack slot of this function."""
        key = f"{name} {kind}"
        if key not in self._buffers:
            self._buffers[key] = self._entry.alloca(kind)
            self._buffers[key].align = 64
        return self._buffers[key]

    def close(self, results: list[Value]) -> None:
        """Return nothing, one vector, or several as a struct."""
        if not results:
            self.builder.ret_void()
        elif len(results) == 1:
            self.builder.ret(results[0])
        else:
            whole = ir.Constant(self.function.function_type.return_type, ir.Undefined)
            for k, value in enumerate(results):
                whole = self.builder.insert_value(whole, value, k)
            self.builder.ret(whole)
        self._entry.branch(self._body)


def call_helper(
    frame: Frame, name: str, site: Value | int, arguments: list[Value], results: list[Any],
    body: Callable[[HelperFrame], list[Value]],
) -> list[Value]:
    """Call the module's function `name`, made by `body` on first use, and leave if it recorded a fault.

    `results` are the LLVM types it returns; `site` (a number, or an i64) is the memory instruction's, for its caches.
    """
    module = frame.builder.module
    name += "" if frame.moves else "_recorded"
    function, fresh = internal_function(module, name, helper_type([a.type for a in arguments], results))
    if fresh:
        helper = HelperFrame(function)
        helper.checks, helper.clustered, helper.moves = frame.checks, frame.clustered, frame.moves
        helper.close(body(helper))
    return _call(frame, function, site, arguments, results)


def call_library(frame: Frame, name: str, site: Value | int, arguments: list[Value]) -> None:
    """Call the function `name` of `library`, which all kernels share and which returns nothing; leave if it recorded a fault."""
    function = intrinsic(frame.builder.module, name, ir.VoidType(), helper_type([a.type for a in arguments], []).args)
    _call(frame, function, site, arguments, [])


def helper_type(arguments: list[Any], results: list[Any]) -> ir.FunctionType:
    """The type of a function whose body is a `HelperFrame`: from the LLVM types of its own arguments and of its results."""
    kind = ir.VoidType() if not results else results[0] if len(results) == 1 else ir.LiteralStructType(results)
    return ir.FunctionType(kind, [PTR, I32, I64, I64, *arguments])


def _call(frame: Frame, function: ir.Function, site: Value | int, arguments: list[Value], results: list[Any]) -> list[Value]:
    number = I64(site) if isinstance(site, int) else site
    value = frame.builder.call(function, [frame.context, frame.active_mask, frame.pc, number, *arguments])
    frame.leave_if(frame.builder.icmp_signed("!=", frame.slot(Slot.FAULT_KIND), I64(0)))
    if len(results) <= 1:
        return [value] if results else []
    return [frame.builder.extract_value(value, k) for k in range(len(results))]


# -- A part of the active lanes: code that is the same for fewer lanes of the instruction being emitted.

class PartFrame(Frame):
    """`whole`, with only the lanes of an i32 mask active."""

    def __init__(self, whole: Frame, mask: Value) -> None:
        self._whole = whole
        self.builder, self.context, self.fault_block, self.pc = whole.builder, whole.context, whole.fault_block, whole.pc
        self.checks, self.clustered, self.moves = whole.checks, whole.clustered, whole.moves
        self.keep_lanes(mask)

    def buffer(self, name: str, kind: Any) -> Value:
        """A stack slot of the same function."""
        return self._whole.buffer(name, kind)
