"""A launch at run time: workers, device memory, scheduling of blocks, faults, output of the kernel."""
