"""The exact set-associative hierarchy: L1 per SM and shared L2, all warps of a launch."""
