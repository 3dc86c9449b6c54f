"""Benchmark suites: folders of kernels, each with a manifest that says what it is, how it is launched and how it is checked."""
