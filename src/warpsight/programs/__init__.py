"""Whole CUDA programs on a machine without a GPU: the runtime library in C, and the host that executes its kernels."""
