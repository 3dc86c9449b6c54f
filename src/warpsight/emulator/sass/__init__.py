"""Machine code (SASS) as an instruction set of the emulator: a family of opcodes a file."""
