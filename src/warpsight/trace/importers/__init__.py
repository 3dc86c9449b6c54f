"""Traces that other tools have made, read into the trace of `trace/schema.py`."""
