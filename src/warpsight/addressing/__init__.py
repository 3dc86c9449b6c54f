"""Definitions that every part of Warpsight shares: coalescing, banks, set index, slices, block placement. No estimates here."""
