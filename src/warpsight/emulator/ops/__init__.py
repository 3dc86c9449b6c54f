"""What each PTX instruction computes, by family. Each module's `HANDLERS` maps opcodes to emitting functions."""
