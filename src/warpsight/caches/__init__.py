"""Caches of a launch: the exact hierarchy (L1 per SM and shared L2, all warps), and the reuse-distance model."""
