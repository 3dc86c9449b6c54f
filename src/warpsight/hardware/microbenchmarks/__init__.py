"""Micro-benchmarks that are run where a GPU is, and the fit of a GPU description to their timings, on any machine."""
