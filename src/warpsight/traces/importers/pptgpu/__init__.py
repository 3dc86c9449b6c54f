"""Traces of PPT-GPU's tracer and of AMALI's, which is made from it (NVBit): `app_config.py`, `sass_traces`, `memory_traces`."""
