"""Where an instruction or a line stands, as people say it; and what it is written in."""

from __future__ import annotations

import re

_COMMENT = re.compile(r"/\*.*?\*/")  # of native instructions, their place


def language(text: str) -> str:
    """`SASS` of a native instruction, whose opcode is written in capitals; else `PTX`, also where there is no text."""
    opcode = next((word for word in _COMMENT.sub("", text).split() if not word.startswith("@")), "")
    return "SASS" if opcode[:1].isupper() else "PTX"


def place_of(file: str, line: int, instruction_line: int, text: str) -> str:
    """`kernel.cu:27`, or `PTX line 63` of an instruction without a source line: its own, in what `text` is written in."""
    name = file.replace("\\", "/").rpartition("/")[2]
    return f"{name}:{line}" if file else f"{language(text)} line {instruction_line}"
