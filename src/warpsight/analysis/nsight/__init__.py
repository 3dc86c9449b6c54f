"""A prediction in the terms of Nsight Compute: its metrics, by the names that `ncu` gives them."""
