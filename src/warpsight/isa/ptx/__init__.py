"""The virtual instruction set PTX: parser, opcode table, control flow and data flow."""
