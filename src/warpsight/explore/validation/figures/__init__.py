"""One module for each kind of figure, one entry in `registry.py` for each figure."""
