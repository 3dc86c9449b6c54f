"""Real GPUs: profilers' measurements, kernels run on them, micro-benchmarks, calibration, and comparison with predictions."""
