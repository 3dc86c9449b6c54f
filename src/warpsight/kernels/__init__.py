"""Kernel, launch and arguments: what is to be run, and how it is compiled and assembled."""
