"""The native instructions of NVIDIA GPUs (SASS), by opcode: op class, memory access, registers."""
