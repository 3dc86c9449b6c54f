"""Which kernel on which inputs: the hashes by which what was recorded or computed of a launch is found again."""

from __future__ import annotations

import hashlib

import numpy as np

from warpsight.workload.images import Image
from warpsight.workload.launch import ArrayArgument, Launch


def kernel_hash(kernel: str, ptx: str) -> str:
    """SHA-256 (64 hexadecimal digits) of a kernel's name and its text."""
    return hashlib.sha256(f"{kernel}\n{ptx}".encode()).hexdigest()


def input_hash(launch: Launch) -> str:
    """BLAKE2b (64 hexadecimal digits) of the launch's shape and of every argument, arrays byte by byte."""
    digest = hashlib.blake2b(repr((launch.grid, launch.block, launch.shared_bytes)).encode(), digest_size=32)
    for argument in launch.arguments:
        if isinstance(argument, Image):
            settings = [(name, value) for name, value in vars(argument).items() if name != "array"]
            shape = (type(argument).__name__, argument.array.shape, argument.array.dtype.str, settings)
            digest.update(repr(shape).encode())
            digest.update(argument.array.reshape(-1).view(np.uint8).data)
        elif isinstance(argument, ArrayArgument):
            digest.update(f"array {argument.array.nbytes}".encode())
            digest.update(argument.array.reshape(-1).view(np.uint8).data)
        else:
            digest.update(b"scalar " + argument.data)
    return digest.hexdigest()
