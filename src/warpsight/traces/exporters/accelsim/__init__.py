"""Traces as Accel-Sim reads them: a list of kernels and a text file of native instructions for each launch."""
