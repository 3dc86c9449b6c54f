"""The functional simulator: PTX to native code to a trace. `launch.emulate` is the way in."""
