"""The reuse-distance cache model of GPUs (Nugteren, van den Braak, Corporaal, Bal, HPCA 2014)."""
