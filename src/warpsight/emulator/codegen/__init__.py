"""LLVM code for one kernel, at either level: lanes, frames, accesses, control flow, compilation."""
