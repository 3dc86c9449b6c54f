"""Several models on several kernels, beside each other and beside a reference."""
