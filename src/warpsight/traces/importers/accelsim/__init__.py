"""Traces of Accel-Sim's tracer (NVBit): native instructions of kernels that ran on a real GPU, a folder of text files."""
