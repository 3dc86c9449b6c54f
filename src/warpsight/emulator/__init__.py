"""The functional simulator: instructions to native code to a trace. `run.launch.emulate` is the entry point."""
