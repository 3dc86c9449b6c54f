"""Runs of the pipeline: one kernel, or many."""
