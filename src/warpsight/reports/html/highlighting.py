"""Syntax colours of the code section: CUDA C++, Python, PTX and SASS as HTML, by Pygments.

Pygments knows CUDA's names, C++ and Python; the two small lexers for PTX and SASS are here. Marks are short elements without
attributes where they are frequent, since a page has thousands of lines: `b` keywords and opcodes, `i` types and registers, `u`
numbers and constant banks; the others are `b` with a class: `c` comments, `s` strings, `p` the preprocessor, `v` CUDA's variables
and special registers, `l` labels. `code.css` gives them their colours.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import accumulate, groupby
from operator import itemgetter

from markupsafe import Markup, escape
from pygments.lexer import Lexer, RegexLexer
from pygments.lexers.c_like import CudaLexer
from pygments.lexers.python import PythonLexer
from pygments.token import Comment, Keyword, Name, Number, String, Text, _TokenType

from warpsight.kernels.mangling import display_name

# A line beyond this is data or generated text, which is shown without colours: a lexer's time may grow faster than the line.
_LONGEST = 2000
_ORDINARY = frozenset({"naked", "thread"})  # words that Pygments takes for keywords, as some compilers for Windows do
_MANGLED = re.compile(r"\b(_Z\w+?)(_param_\d+)?\b")


class _Ptx(RegexLexer):
    """A line of PTX: directives and opcodes, registers, immediates, labels."""

    tokens = {
        "root": [
            (r"//.*|/\*.*?\*/", Comment),
            (r'"[^"\n]*"', String),
            (r"@!?(?=%)", Text),
            (r"%(?:n?tid|n?ctaid|laneid|warpid|nwarpid|smid|nsmid|gridid|clock(?:64|_hi)?|lanemask_\w+|globaltimer\w*|dynamic_smem_size"
             r"|total_smem_size|cluster\w*|is_explicit_cluster|envreg\d+|pm\d+\w*)(?:\.[xyz])?\b", Name.Builtin),
            (r"%\w+", Keyword.Type),
            (r"\$[\w$]+", Name.Label),
            (r"0[fFdD][0-9a-fA-F]+\b|(?<![\w.])-?(?:0[xX][0-9a-fA-F]+|\d+(?:\.\d+)?)U?\b", Number),
            (r"\.[A-Za-z_]\w*", Keyword),
            (r"[a-z]\w*(?:\.\w+|::\w+)*(?=[\s;])", Keyword),
            (r"[\w$.]+", Text),
            (r"\s+|.", Text),
        ],
    }  # fmt: skip


class _Sass(RegexLexer):
    """A line of SASS: predicate, opcode with its modifiers, registers, immediates and constant banks, special registers, labels."""

    tokens = {
        "root": [
            (r"//.*|/\*.*?\*/", Comment),
            (r"@!?(?=U?P)", Text),
            (r"`\([^)\n]*\)|\.L_\w+", Name.Label),
            (r"SR_[\w.]+", Name.Builtin),
            (r"c[x]?\[[^\]\n]*\](?:\[[^\]\n]*\])?", Number),
            (r"(?:UR|UP|R|P|B|SB)(?:\d+|Z|T)(?:\.\w+)*\b", Keyword.Type),
            (r"-?(?:0x[0-9a-f]+|\d+(?:\.\d+)?(?:e[+-]?\d+)?|INF|QNAN)\b", Number),
            (r"[A-Z][A-Z0-9_]*(?:\.\w+)*", Keyword),
            (r"[\w.]+", Text),
            (r"\s+|.", Text),
        ],
    }  # fmt: skip


_LEXERS: dict[str, type[Lexer]] = {"CUDA": CudaLexer, "Python": PythonLexer, "PTX": _Ptx, "SASS": _Sass}
# The first that a token belongs to decides.
_MARKS: tuple[tuple[_TokenType, str], ...] = (
    (Comment.Preproc, "b class=p"), (Comment.PreprocFile, "b class=s"), (Comment, "b class=c"), (String, "b class=s"),
    (Number, "u"), (Keyword.Type, "i"), (Keyword, "b"), (Name.Builtin, "b class=v"), (Name.Label, "b class=l"),
    (Name.Decorator, "b class=p"), (Name.Class, "i"),
)  # fmt: skip


def language_of(file: str) -> str:
    """The language of a source file, by its name: Python for kernels of Numba and Triton, else CUDA C++."""
    name = file.lower()
    return "Python" if name.endswith(".py") else "PTX" if name.endswith(".ptx") else "CUDA"


def highlighted(lines: Sequence[str], language: str, *, few: bool = False) -> list[Markup]:
    """Consecutive lines of a language of `language_of`, or SASS, as HTML, escaped. Their text is not changed.

    With `few` marks registers, types and numbers have none, as in code so long that marks would fill the page.
    """
    if any(len(line) > _LONGEST for line in lines):
        return [escape(line) for line in lines]
    text, starts = "".join(f"{line}\n" for line in lines), [0, *accumulate(len(line) + 1 for line in lines)]
    parts: list[list[tuple[str, str]]] = [[] for _ in lines]
    for at, kind, value in _lexer(language).get_tokens_unprocessed(text):
        mark = _mark(kind)
        if value in _ORDINARY or (few and mark in ("i", "u")):
            mark = ""
        line, end = bisect_right(starts, at) - 1, at + len(value)
        while (start := max(at, starts[line])) < end:  # a comment may go over several lines
            piece = text[start : min(end, starts[line + 1] - 1)]
            parts[line].append((mark if piece.strip() else "", piece))
            line += 1
    return [Markup("".join(_marked(mark, pieces) for mark, pieces in groupby(each, key=itemgetter(0)))) for each in parts]


def _marked(mark: str, pieces: Iterable[tuple[str, str]]) -> str:
    text = escape("".join(piece for _, piece in pieces))
    return f"<{mark}>{text}</{mark[0]}>" if mark else str(text)


@cache
def _lexer(language: str) -> Lexer:
    return _LEXERS[language]()


@cache
def _mark(kind: _TokenType) -> str:
    return next((mark for above, mark in _MARKS if kind in above), "")


def demangled(text: str) -> str:
    """A line of PTX or SASS, or the name of a section, with names of kernels and functions as in the source."""
    return _MANGLED.sub(lambda found: display_name(found[1]) + (found[2] or ""), text) if "_Z" in text else text
