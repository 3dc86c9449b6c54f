"""Warpsight predicts how fast a CUDA kernel runs on a GPU that you do not have, and shows where its cycles go."""

from warpsight._version import __version__

__all__ = ["__version__"]
