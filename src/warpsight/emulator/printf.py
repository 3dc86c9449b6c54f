"""What a kernel's `printf` prints: the conversions of C's `printf` over the argument buffer that the compiler lays out.

CUDA C++ Programming Guide, "Formatted Output"; ISO C, "The fprintf function". Widths and precisions end at 2^20 characters, the
size of CUDA's whole buffer. `%n` writes nothing. Where C leaves the text open it is that of the GNU C library.
"""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass
from typing import Protocol

MOST_ARGUMENTS = 32
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
class _Spec:
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
            whole = sign + body
            return whole.ljust(self.width) if self.has("-") else whole.rjust(self.width)
        return sign + b"0" * missing + body

    def sign(self, negative: bool) -> bytes:
        return b"-" if negative else b"+" if self.has("+") else b" " if self.has(" ") else b""


def format_printf(form: bytes, arguments: ArgumentReader) -> tuple[bytes, int]:
    """The text that the format makes of the arguments, and how many it took. What is no conversion stays as it is.

    Conversions past the 32nd argument stay as they are too, as CUDA has it.
    """
    pieces: list[bytes] = []
    taken = at = 0
    for match in _CONVERSION.finditer(form):
        pieces.append(form[at : match.start()])
        at = match.end()
        flags, width, dot, precision, length, kind = match.groups()
        if kind == b"%":
            pieces.append(b"%")
            continue
        needs = 1 + (width == b"*") + (precision == b"*")
        if taken + needs > MOST_ARGUMENTS:
            pieces.append(match[0])
            continue
        taken += needs
        pieces.append(_converted(flags, width, precision if dot else None, length or b"", kind.decode(), arguments))
    pieces.append(form[at:])
    return b"".join(pieces), taken


def _converted(
    flags: bytes, width: bytes, precision: bytes | None, length: bytes, kind: str, arguments: ArgumentReader
) -> bytes:
    wide = _signed(arguments.word(4), 32) if width == b"*" else int(width or b"0")
    if wide < 0:
        flags, wide = flags + b"-", -wide
    exact = -1
    if precision is not None:
        exact = _signed(arguments.word(4), 32) if precision == b"*" else int(precision) if precision not in (b"", b"-") else 0
    spec = _Spec(flags, min(wide, _WIDEST), max(-1, min(exact, _WIDEST)), length, kind)
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
    value = struct.unpack("<d", struct.pack("<Q", arguments.word(8)))[0]
    return _float(spec, value)


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _integer(spec: _Spec, value: int) -> bytes:
    bits = {b"hh": 8, b"h": 16}.get(spec.length, 64 if spec.length in _LONG else 32)
    value &= (1 << bits) - 1
    sign = b""
    if spec.kind in "di":
        value = _signed(value, bits)
        sign = spec.sign(value < 0)
    digits = format(abs(value), {"d": "d", "i": "d", "u": "d"}.get(spec.kind, spec.kind)).encode()
    if spec.precision >= 0:
        digits = b"" if value == 0 and spec.precision == 0 else digits.rjust(spec.precision, b"0")
    if spec.has("#") and spec.kind == "o" and not digits.startswith(b"0"):
        digits = b"0" + digits
    if spec.has("#") and spec.kind in "xX" and value:
        sign = b"0" + spec.kind.encode()
    return spec.padded(digits, sign, zeros=spec.precision < 0)


def _float(spec: _Spec, value: float) -> bytes:
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
