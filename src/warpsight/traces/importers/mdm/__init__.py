"""Text traces of the tools that come with MDM (NVBit): `instruction_trace_<k>.txt` and `mem_trace_<k>.txt`."""
