"""Many computations: the executors that run them, the store that keeps their results, and what these depend on."""
