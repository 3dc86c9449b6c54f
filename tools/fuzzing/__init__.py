"""The parts of tools/fuzz.py: coverage, mutations, what a case does, and the process in which cases run."""
