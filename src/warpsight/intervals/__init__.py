"""Dependences, intervals and the representative warp: a kernel on a machine, before any model."""
