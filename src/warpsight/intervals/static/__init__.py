"""Instruction counts and coalescing from a kernel's program text and its launch alone: nothing is executed, no memory is read."""
