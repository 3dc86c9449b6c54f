"""The simulator: a cycle-level simulation of a launch on a GPU description, independent of every analytical model."""
