"""Equations that several models share: pure functions, each with its number in its paper."""
