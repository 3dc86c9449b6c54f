"""The demonstration: its kernel and launches (package data), and how they are run."""
