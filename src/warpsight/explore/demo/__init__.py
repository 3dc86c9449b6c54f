"""The demonstration's kernel and launches (package data), and how they are run."""
