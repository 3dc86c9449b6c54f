"""Executes kernels on this machine: code generation with LLVM, what the instructions of a level emit, and running launches.

`codegen` makes the function that runs a warp, at any level; `ptx` is the first level, described to it by an `InstructionSet`; a
second one, `sass`, will stand beside it. `textures` holds descriptors and texel access; `run` executes launches.
"""
