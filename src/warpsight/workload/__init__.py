"""Kernel, launch and arguments: what is to be run. Nothing here loads a compiler until one is needed."""
