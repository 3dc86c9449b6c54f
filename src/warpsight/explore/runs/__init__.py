"""Many computations: who runs them, where their results are kept, and what these depend on."""
