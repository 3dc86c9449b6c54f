"""What the functions of the device runtime do: `printf`, `malloc`, `free`, a failed `assert`. Native code calls them.

CUDA C++ Programming Guide, "Formatted Output"; ISO C, "The fprintf function". Widths and precisions end at 2^20 characters, the
size of CUDA's whole buffer. `%n` writes nothing. Where C leaves the text open it is that of the GNU C library.
"""

from __future__ import annotations

import ctypes
import math
import re
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TextIO

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import Assertion
from warpsight.emulator.codegen.layout import (
    CLUSTER_WINDOW,
    LOCAL_WINDOW,
    RANK_SHIFT,
    SHARED_WINDOW,
    WARP,
    WINDOW_BYTES,
    Fault,
    Slot,
)
from warpsight.emulator.codegen.symbols import align_up
from warpsight.emulator.ptx.system import MOST_EXTERNAL_ARGUMENTS
from warpsight.emulator.run.faults import place_of, thread_of
from warpsight.emulator.run.memory import HEAP_ALIGN, Memory
from warpsight.isa.ptx.linking import ALIGNED_MALLOCS, ASSERTION, EXTERNALS, FREE, MALLOC, PRINTF
from warpsight.isa.ptx.program import Function
from warpsight.kernels.cubin import undefined_names
from warpsight.kernels.launch import KernelSource, Launch

MOST_PRINTF_ARGUMENTS = 32
_WIDEST = 1 << 20
_CONVERSION = re.compile(rb"%([-+ #0]*)(\*|\d{0,9})(?:(\.)(\*|-?\d{0,9}))?(hh|h|ll|l|j|z|t|q|L)?([diouxXcspneEfFgGaA%])")
_LONG = (b"l", b"ll", b"j", b"z", b"t", b"q")


class ArgumentReader(Protocol):
    """The arguments of one call, in order."""

    def word(self, size: int) -> int:
        """The next argument of 4 or 8 bytes, unsigned."""

    def text(self, address: int, limit: int | None) -> bytes:
        """The bytes before the zero byte at a device address, at most `limit`."""


@dataclass(frozen=True)
class _Conversion:
    """One conversion with its stars filled in; `precision` is -1 when not given."""

    flags: bytes
    width: int
    precision: int
    length: bytes
    kind: str

    def has(self, flag: str) -> bool:
        return flag.encode() in self.flags

    def padded(self, body: bytes, sign: bytes = b"", zeros: bool = False) -> bytes:
        """`sign` and `body` in the field: zeros go between them."""
        missing = self.width - len(sign) - len(body)
        if missing <= 0 or not (zeros and self.has("0") and not self.has("-")):
            return (sign + body).ljust(self.width) if self.has("-") else (sign + body).rjust(self.width)
        return sign + b"0" * missing + body

    def sign(self, negative: bool) -> bytes:
        return b"-" if negative else b"+" if self.has("+") else b" " if self.has(" ") else b""


def format_printf(form: bytes, arguments: ArgumentReader) -> tuple[bytes, int]:
    """The text that the format makes of the arguments, and how many it took. Other text is copied.

    Conversions past the 32nd argument stay as they are too, as CUDA has it.
    """
    pieces: list[bytes] = []
    taken = end = 0
    for match in _CONVERSION.finditer(form):
        pieces.append(form[end : match.start()])
        end = match.end()
        flags, width, dot, precision, length, kind = match.groups()
        if kind == b"%":
            pieces.append(b"%")
            continue
        needs = 1 + (width == b"*") + (precision == b"*")
        if taken + needs > MOST_PRINTF_ARGUMENTS:
            pieces.append(match[0])
            continue
        taken += needs
        pieces.append(_converted(flags, width, precision if dot else None, length or b"", kind.decode(), arguments))
    pieces.append(form[end:])
    return b"".join(pieces), taken


def _converted(flags: bytes, width: bytes, precision: bytes | None, length: bytes, kind: str, arguments: ArgumentReader) -> bytes:
    wide = _signed(arguments.word(4), 32) if width == b"*" else int(width or b"0")
    if wide < 0:
        flags, wide = flags + b"-", -wide
    exact = -1
    if precision is not None:
        exact = _signed(arguments.word(4), 32) if precision == b"*" else int(precision) if precision not in (b"", b"-") else 0
    spec = _Conversion(flags, min(wide, _WIDEST), max(-1, min(exact, _WIDEST)), length, kind)
    if kind in "diouxX":
        return _integer(spec, arguments.word(8 if length in _LONG else 4))
    if kind == "c":
        return spec.padded(bytes([arguments.word(4) & 255]))
    if kind == "s":
        return spec.padded(arguments.text(arguments.word(8), None if spec.precision < 0 else spec.precision))
    if kind == "p":
        address = arguments.word(8)
        return spec.padded(b"0x%x" % address if address else b"(nil)")
    if kind == "n":
        arguments.word(8)
        return b""
    return _float(spec, struct.unpack("<d", struct.pack("<Q", arguments.word(8)))[0])


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _integer(spec: _Conversion, value: int) -> bytes:
    bits = {b"hh": 8, b"h": 16}.get(spec.length, 64 if spec.length in _LONG else 32)
    value &= (1 << bits) - 1
    sign = b""
    if spec.kind in "di":
        value = _signed(value, bits)
        sign = spec.sign(value < 0)
    digits = format(abs(value), "d" if spec.kind in "diu" else spec.kind).encode()
    if spec.precision >= 0:
        digits = b"" if value == 0 and spec.precision == 0 else digits.rjust(spec.precision, b"0")
    if spec.has("#") and spec.kind == "o" and not digits.startswith(b"0"):
        digits = b"0" + digits
    if spec.has("#") and spec.kind in "xX" and value:
        sign = b"0" + spec.kind.encode()
    return spec.padded(digits, sign, zeros=spec.precision < 0)


def _float(spec: _Conversion, value: float) -> bytes:
    negative = math.copysign(1.0, value) < 0
    sign, size = spec.sign(negative), abs(value)
    if not math.isfinite(value):
        name = b"inf" if math.isinf(value) else b"nan"
        return spec.padded(sign + (name.upper() if spec.kind.isupper() else name))
    if spec.kind in "aA":
        body = _hexadecimal(size, spec.precision, spec.has("#"))
        body = body.upper() if spec.kind == "A" else body
        return spec.padded(body[2:], sign + body[:2], zeros=True)
    precision = 6 if spec.precision < 0 else spec.precision
    body = (f"%{'#' if spec.has('#') else ''}.{precision}{spec.kind}" % size).encode()
    return spec.padded(body, sign, zeros=True)


def _hexadecimal(size: float, precision: int, point: bool) -> bytes:
    """`0x1.8p+1`: the leading digit is 0 for zero and denormals, else 1; ties go to even."""
    bits = int(struct.unpack("<Q", struct.pack("<d", size))[0])
    exponent, fraction = bits >> 52, bits & ((1 << 52) - 1)
    lead = int(exponent > 0)
    power = exponent - 1023 if exponent else -1022 if fraction else 0
    digits = f"{fraction:013x}"
    if precision < 0:
        digits = digits.rstrip("0")
    elif precision >= 13:
        digits = digits.ljust(precision, "0")
    else:
        drop = 4 * (13 - precision)
        whole = (lead << 52) | fraction
        kept, rest, half = whole >> drop, whole & ((1 << drop) - 1), 1 << (drop - 1)
        kept += rest > half or (rest == half and kept & 1)
        lead, digits = kept >> (4 * precision), f"{kept & ((1 << (4 * precision)) - 1):0{precision}x}" if precision else ""
    return f"0x{lead}{'.' if digits or point else ''}{digits}p{power:+d}".encode()


# -- Native code calls back with a warp. Lanes are served in order, each as if it had called alone.

_Rows = npt.NDArray[np.int64]
_STEP = 64  # bytes read first while looking for the end of a string, then as many again


class DeviceStop(Exception):
    """A lane did what a GPU would not allow."""

    def __init__(self, kind: Fault, address: int) -> None:
        super().__init__(kind, address)
        self.kind, self.address = kind, address


class _Arguments:
    """The buffer of one `printf` call: each argument at the next multiple of its size."""

    def __init__(self, read: Callable[[int, int], bytes], text: Callable[[int, int | None], bytes], address: int) -> None:
        self._read, self._next, self.text = read, address, text

    def word(self, size: int) -> int:
        start = align_up(self._next, size)
        self._next = start + size
        return int.from_bytes(self._read(start, size), "little")


class Externals:
    """The device runtime of one launch. `assertion` describes a failed assertion, `freed` the block of a fault."""

    def __init__(
        self, context: npt.NDArray[np.int64], memory: Memory, sites: npt.NDArray[np.int64], function: Function, path: str,
        launch: Launch, output: TextIO | None,
    ) -> None:
        self._context, self._memory, self._sites, self._function = context, memory, sites, function
        self._path, self._launch, self._output = path, launch, output
        self.assertion: Assertion | None = None
        # Functions, not this object's methods: an object that holds itself keeps the launch's memory until it is looked for.
        calls = {PRINTF: Externals._printf, MALLOC: Externals._malloc, FREE: Externals._free, ASSERTION: Externals._assert}
        self._calls = [calls.get(name, Externals._aligned_malloc) for name in EXTERNALS]
        self._lane = self._pc = 0

    def call(self, number: int, mask: int, pc: int, arguments: int) -> int:
        """Do function `number` for each lane of `mask`: 1 to go on, 0 with the fault in the context."""
        rows: _Rows = np.ctypeslib.as_array((ctypes.c_int64 * (MOST_EXTERNAL_ARGUMENTS * WARP)).from_address(arguments))
        rows = rows.reshape(MOST_EXTERNAL_ARGUMENTS, WARP)
        self._pc = pc
        for lane in range(WARP):
            if mask >> lane & 1:
                self._lane = lane
                try:
                    rows[0, lane] = self._calls[number](self, rows[:, lane])
                except DeviceStop as stop:
                    self._context[Slot.FAULT_KIND : Slot.FAULT_ADDRESS + 1] = stop.kind, pc, lane, _signed(stop.address, 64)
                    return 0
        return 1

    def _where(self) -> str:
        """The calling thread and its line, for the name of an allocation."""
        thread = int(self._context[Slot.WARP]) * WARP + self._lane
        *_, text = thread_of(int(self._context[Slot.BLOCK]), thread, self._launch)
        return f"{place_of(self._path, self._function.instructions[self._pc])}, {text}"

    # -- device memory -------------------------------------------------------------------------------------------------------

    def _room(self, address: int) -> tuple[int, int]:
        """The host address for a generic address of the lane, and how many bytes from there on are its own."""
        c = self._context
        own = address - CLUSTER_WINDOW - (int(c[Slot.CLUSTER_RANK]) << RANK_SHIFT)  # in a cluster of several blocks
        if 0 <= own < WINDOW_BYTES:
            address = SHARED_WINDOW + own
        offset, size = address - SHARED_WINDOW, int(c[Slot.SHARED_SIZE])
        if 0 <= offset < size:
            return int(c[Slot.SHARED_PTR]) + offset, size - offset
        offset, size = address - LOCAL_WINDOW, int(c[Slot.LOCAL_SIZE])
        if 0 <= offset < size:
            return int(c[Slot.LOCAL_PTR]) + (int(c[Slot.WARP]) * WARP + self._lane) * size + offset, size - offset
        return self._memory.delta + address, self._memory.table.room_at(address)

    def _read(self, address: int, size: int) -> bytes:
        host, room = self._room(address)
        if room < size:
            raise DeviceStop(Fault.OUT_OF_BOUNDS, address)
        return ctypes.string_at(host, size)

    def _text(self, address: int, limit: int | None) -> bytes:
        """The string at an address: up to its zero byte, or `limit` bytes."""
        text = bytearray()
        while limit is None or len(text) < limit:
            host, room = self._room(address + len(text))
            if room < 1:
                raise DeviceStop(Fault.OUT_OF_BOUNDS, address + len(text))
            step = max(_STEP, len(text)) if limit is None else limit - len(text)
            piece, zero, _ = ctypes.string_at(host, min(room, step)).partition(b"\0")
            text += piece
            if zero:
                break
        return bytes(text)

    # -- the functions -------------------------------------------------------------------------------------------------------

    def _printf(self, row: _Rows) -> int:
        """`int vprintf(const char *format, void *arguments)`: the number of arguments, -1 without a format."""
        form, buffer = _unsigned(row[0]), _unsigned(row[1])
        if not form:
            return -1
        text, taken = format_printf(self._text(form, None), _Arguments(self._read, self._text, buffer))
        (self._output or sys.stdout).write(text.decode("utf-8", "replace"))
        return taken

    def _malloc(self, row: _Rows) -> int:
        """`void *malloc(size_t size)`: 0 where there is no room, and for 0 bytes."""
        return self._allocate(_unsigned(row[0]), HEAP_ALIGN)

    def _aligned_malloc(self, row: _Rows) -> int:
        """The same with an alignment, also 0 for one that is not a power of two."""
        return self._allocate(_unsigned(row[0]), _unsigned(row[1]))

    def _allocate(self, size: int, align: int) -> int:
        if align < 1 or align & (align - 1):
            return 0
        allocation = self._memory.heap.allocate(size, max(align, HEAP_ALIGN), f"{size:,} bytes from malloc at {self._where()},")
        if allocation is None:
            return 0
        self._memory.table.add(allocation)
        if self._memory.watch is not None:
            self._memory.watch.set_written(allocation.address, size, written=False)
        self._publish()
        return allocation.address

    def _free(self, row: _Rows) -> int:
        """`void free(void *address)`: nothing for 0; a fault for an address that `malloc` did not give, or that is free already."""
        address = _unsigned(row[0])
        if not address:
            return 0
        if self._memory.heap.free(address, self._where()) is None:
            raise DeviceStop(Fault.DOUBLE_FREE if self._memory.heap.freed_at(address) else Fault.BAD_FREE, address)
        self._memory.table.remove(address)
        self._sites[self._sites[:, 0] == address] = 0  # no memory instruction may remember it
        self._publish()
        return 0

    def _publish(self) -> None:
        self._context[Slot.ALLOC_PTR], self._context[Slot.ALLOC_COUNT] = self._memory.table.pointer, self._memory.table.count

    def _assert(self, row: _Rows) -> int:
        """`void __assertfail(message, file, line, function, size of a character)`."""
        texts = [self._text(_unsigned(row[k]), None).decode("utf-8", "replace") if row[k] else "" for k in (0, 1, 3)]
        self.assertion = Assertion(texts[0], texts[1], _unsigned(row[2]) & 0xFFFFFFFF, texts[2])
        raise DeviceStop(Fault.ASSERTION, 0)


def _unsigned(value: np.int64) -> int:
    return int(value) & ((1 << 64) - 1)


def uses_heap(function: Function, source: KernelSource) -> bool:
    """Does a kernel, or a function of its module, call `malloc`? Of machine code that was given as such: may its module?"""
    if source.cubin:
        return not undefined_names(source.cubin).isdisjoint((MALLOC, *ALIGNED_MALLOCS))
    calls = (i for f in (function, *source.module.functions.values()) for i in f.instructions if i.opcode == "call")
    return any(getattr(call.operands[1], "name", "") in (MALLOC, *ALIGNED_MALLOCS) for call in calls if len(call.operands) > 1)


def show_printed(output: TextIO | None) -> None:
    """Let a reader see what was printed so far."""
    stream = output or sys.stdout
    if stream is not None and not stream.closed:
        stream.flush()
