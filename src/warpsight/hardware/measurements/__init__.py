"""Figures that profilers measured on a GPU, launch by launch, from the files that they write."""
