"""Which functions a compiled object expects from the process. LLVM turns some operations into calls, to 0 if one is missing."""

from __future__ import annotations

import struct

import llvmlite.binding as llvm

from warpsight.base.errors import UnsupportedError

_SECTION = struct.Struct("<IIQQQQIIQQ")  # ELF-64: name, type, flags, address, offset, size, link, info, align, entry size
_SYMBOL = struct.Struct("<IBBHQQ")  # name, info, other, section, value, size
_SYMBOL_TABLE = 2
_HEADER = struct.Struct("<Q10xHHH")  # at byte 40: section table offset, then at 58 the size and number of its entries


def undefined_functions(code: bytes) -> list[str]:
    """Names of the symbols that an ELF-64 object uses and does not define; nothing for another format."""
    if code[:5] != b"\x7fELF\x02":
        return []
    table, size, count, _ = _HEADER.unpack_from(code, 40)
    sections = [_SECTION.unpack_from(code, table + k * size) for k in range(count)]
    names = []
    for section in sections:
        if section[1] != _SYMBOL_TABLE:
            continue
        strings = sections[section[6]][4]
        for at in range(section[4], section[4] + section[5], _SYMBOL.size):
            name, _, _, home, _, _ = _SYMBOL.unpack_from(code, at)
            if name and home == 0:
                names.append(code[strings + name : code.index(b"\0", strings + name)].decode())
    return sorted(names)


def check_resolved(code: bytes, kernel: str, path: str) -> None:
    """Raise UnsupportedError when the object calls a function that this process does not have."""
    missing = [name for name in undefined_functions(code) if not name.startswith("_GLOBAL_") and not llvm.address_of_symbol(name)]
    if missing:
        raise UnsupportedError(
            f"kernel {kernel} needs an operation that neither this processor nor the C library has ({', '.join(missing)})",
            place=path,
            remedy="run it on an x86-64 processor with AVX2, FMA and F16C",
        )
