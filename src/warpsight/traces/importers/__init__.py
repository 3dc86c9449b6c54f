"""Traces that other tools have made, read into the trace of `traces/schema.py`: a common core, and one folder a format."""
