"""Which line the cycles of a prediction come from."""
