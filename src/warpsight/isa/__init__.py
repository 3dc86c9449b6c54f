"""What an instruction means: PTX parser, opcode table, control flow and data flow."""
