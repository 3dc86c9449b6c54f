"""nvJitLink in a separate process, because it crashes on some damaged PTX with a segmentation fault.

    python nvjitlink_process.py LIBRARY PATH OPTION... < images > cubin

Each image has a head of two int64: its kind (`nvJitLinkInputType`) and its bytes. Exit code 0: stdout is the cubin. 1: stdout is
the assembler's log. 2: it does not know the architecture. It is run as a file, so
that nothing of the package is imported.
"""

from __future__ import annotations

import ctypes
import struct
import sys

VERSION = "_13_0"
PTX_INPUT = 2


def main() -> int:
    """See the module's text."""
    library, path, *options = sys.argv[1:]
    linker = ctypes.CDLL(library)

    def call(name: str, *arguments: object) -> int:
        # The header's functions are wrappers around exported names that carry the toolkit's version.
        return int(getattr(linker, f"__nvJitLink{name}{VERSION}")(*arguments))

    def text_of(name: str, handle: ctypes.c_void_p) -> bytes:
        size = ctypes.c_size_t()
        if call(f"Get{name}Size", handle, ctypes.byref(size)) != 0:
            return b""
        buffer = ctypes.create_string_buffer(size.value + 1)
        call(f"Get{name}", handle, buffer)
        return buffer.raw[: size.value]

    handle, words = ctypes.c_void_p(), [option.encode() for option in options]
    if call("Create", ctypes.byref(handle), ctypes.c_uint32(len(words)), (ctypes.c_char_p * len(words))(*words)) != 0:
        return 2
    status, name = 0, path.encode(errors="replace")  # nvJitLink keeps the pointers to names, which are only for its messages
    while (head := sys.stdin.buffer.read(16)) and not status:
        kind, size = struct.unpack("<2q", head)
        image = sys.stdin.buffer.read(size) + b"\0" * (kind == PTX_INPUT)
        status = call("AddData", handle, ctypes.c_int(kind), image, ctypes.c_size_t(len(image)), name)
    status = status or call("Complete", handle)
    sys.stdout.buffer.write(text_of("ErrorLog", handle).rstrip(b"\0") if status else text_of("LinkedCubin", handle))
    return 1 if status else 0


if __name__ == "__main__":
    sys.exit(main())
