"""Textures and surfaces: descriptors and the functions compiled by Numba that access them."""
