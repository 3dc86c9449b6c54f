"""PTX text to `Module`: the directives of a translation unit and the headers of its functions.

Reads PTX as nvcc, NVRTC, Numba and Triton write it (PTX ISA, "Directives"). What a compiler may write but no model needs (DWARF
sections, pragmas) is passed over; what is not PTX is refused with its line.
"""

from __future__ import annotations

import re
from dataclasses import replace

from warpsight.base.compile_budget import check, compiling
from warpsight.base.errors import FormatError
from warpsight.isa.ptx.declarations import read_variables
from warpsight.isa.ptx.functions import STATIC_SPACES, BodyReader, Header, read_header
from warpsight.isa.ptx.lexer import CUT, IDENTIFIER, Source
from warpsight.isa.ptx.program import Function, Module, Variable

_FIX = "correct this line, or compile the kernel again"
_WORD = re.compile(r"\s*(\.[A-Za-z_]\w*|@@)")
_LINKING = frozenset({".visible", ".weak", ".extern", ".common"})
_SPACES = frozenset({".global", ".const", ".shared", ".tex", ".local", ".param"})
_FILE = re.compile(r'\.file\s+(\d{1,9})\s+"((?:[^"\\\n]|\\.)*)"[^\n]*')
_VERSION = re.compile(r"\.version\s+(\d{1,4})\.(\d{1,4})\s*(?:\n|$)")
_TARGET = re.compile(r"\.target\s+((?:sm|compute)_\w+|[a-z_0-9]+)([^\n]*)")
_ADDRESS_SIZE = re.compile(r"\.address_size\s+(32|64)\b")
_ALIAS = re.compile(rf"\s*({IDENTIFIER})\s*,\s*({IDENTIFIER})\s*")
_STRINGS = re.compile(r"\.section\s+\.debug_str\s*\{([^{}]*)\}")
_STRING = re.compile(rf"({IDENTIFIER})\s*:|\.b8\s+([\d,\s]+)")
_QUOTED_STATEMENT = re.compile(r'[^;"]*(?:"(?:[^"\\\n]|\\.)*"[^;"]*)*;')


def parse_module(text: str, path: str = "<ptx>") -> Module:
    """Parse a PTX translation unit. `path` names it in messages.

    Every instruction, also of device functions, is parsed; declarations without a body (`vprintf`) are not in `functions`. An alias
    stands in `functions` under its own name. `Function.registers` holds the registers that the body names; those declared again in
    an inner `{ }` are renamed `t$1`. Raises FormatError, placed `path:line`, for text that is not PTX, or that is cut.
    """
    with compiling(path):
        return _ModuleReader(text, path).read()


class _ModuleReader:
    def __init__(self, text: str, path: str) -> None:
        self._source = Source(text, path)
        self._position = 0
        self._version: tuple[int, int] | None = None
        self._target = ""
        self._address_size = 32
        self._files: dict[int, str] = {}
        self._strings: dict[str, str] = {}
        self._functions: dict[str, Function] = {}
        self._declared: set[str] = set()
        self._variables: dict[str, Variable] = {}
        self._used: dict[str, int] = {}

    def read(self) -> Module:
        source = self._source
        if not source.text.strip():
            raise source.error_at(1, "the file is empty", "pass PTX text, for example from nvcc -ptx kernel.cu")
        # Compilers write .file after the functions that use it.
        for match in _FILE.finditer(source.text):
            self._files[int(match[1])] = match[2].replace('\\"', '"').replace("\\\\", "\\")
        if "inlined_at" in source.text:
            self._strings = _debug_strings(source.text)
        while (position := source.skip(self._position)) < len(source.text):
            self._position = position
            check("parsing PTX")
            self._statement()
        if self._version is None or not self._target:
            missing = ".version" if self._version is None else ".target"
            raise source.error_at(1, f"there is no {missing} directive, so this is not a whole PTX file", CUT)
        self._check_symbols()
        return Module(source.path, self._version, self._target, self._address_size, self._functions, self._variables, self._files)

    def _fail(self, what: str, remedy: str = _FIX) -> FormatError:
        return self._source.error(self._position, what, remedy)

    def _statement(self) -> None:
        source, begin = self._source, self._position
        word = _WORD.match(source.text, begin)
        if word is None:
            if self._version is None:
                raise self._fail(f'"{source.excerpt(begin)}" is not PTX', "pass PTX text, for example from nvcc -ptx kernel.cu")
            raise self._fail(f'"{source.excerpt(begin)}" is not a PTX directive')
        name = word[1]
        if self._version is None and name != ".version":
            raise self._fail("PTX begins with .version, which is missing", CUT)
        if name in {".version", ".target", ".address_size"}:
            self._preamble(name)
        elif name in {".file", ".loc", "@@"}:
            self._line_directive(name)
        elif name == ".section":
            self._section()
        elif name in {".pragma", ".alias"}:
            end = self._end_of_statement(begin)
            if name == ".alias":
                self._alias(source.text[word.end() : end - 1])
            self._position = end
        else:
            self._declaration()

    def _preamble(self, name: str) -> None:
        text, begin = self._source.text, self._position
        pattern = {".version": _VERSION, ".target": _TARGET, ".address_size": _ADDRESS_SIZE}[name]
        match = pattern.match(text, begin)
        if match is None:
            raise self._fail(f'"{self._source.excerpt(begin)}" is not recognized')
        if name == ".version":
            self._version = (int(match[1]), int(match[2]))
        elif name == ".target":
            self._target = match[1]
        else:
            self._address_size = int(match[1])
        self._position = match.end()

    def _line_directive(self, name: str) -> None:
        if name == ".file" and _FILE.match(self._source.text, self._position) is None:
            raise self._fail(f'"{self._source.excerpt(self._position)}" is not recognized')
        self._position = self._source.end_of_line(self._position)

    def _section(self) -> None:
        source = self._source
        brace = source.text.find("{", self._position)
        end = source.closing_brace(brace) if brace >= 0 else -1
        if end < 0 or ";" in source.text[self._position : brace]:
            raise self._fail("this section has no end", CUT)
        self._position = end + 1

    def _end_of_statement(self, begin: int) -> int:
        match = _QUOTED_STATEMENT.match(self._source.text, begin)
        if match is None:
            raise self._fail(f'"{self._source.excerpt(begin)}" has no closing semicolon', CUT)
        return match.end()

    def _alias(self, text: str) -> None:
        match = _ALIAS.fullmatch(text)
        if match is None or match[2] not in self._functions:
            raise self._fail("an .alias does not name a function that is defined before it")
        self._functions[match[1]] = self._functions[match[2]]

    def _declaration(self) -> None:
        """`[linking] .entry|.func ...` or `[linking] .space variables;`."""
        source = self._source
        linking: set[str] = set()
        position = self._position
        while (word := _WORD.match(source.text, position)) is not None and word[1] in _LINKING:
            linking.add(word[1])
            position = word.end()
        if word is not None and word[1] in {".entry", ".func"}:
            self._function(read_header(source, position))
        elif word is not None and word[1] in _SPACES:
            end = self._end_of_statement(position)
            space = "global" if word[1] == ".tex" else word[1][1:]
            for variable in read_variables(source.text[word.end() : end - 1], space, ".extern" in linking, self._fail):
                self._add_variable(variable)
            self._position = end
        else:
            raise self._fail(f'"{source.excerpt(self._position)}" is not recognized outside a function')

    def _add_variable(self, variable: Variable) -> None:
        known = self._variables.get(variable.name)
        if known is not None and not (known.extern or variable.extern):
            raise self._fail(f'"{variable.name}" is declared twice')
        if known is None or known.extern:
            self._variables[variable.name] = variable
        line = self._source.line(self._position)
        for _, symbol, _ in variable.initial_symbols:
            self._used.setdefault(symbol, line)

    def _function(self, header: Header) -> None:
        source = self._source
        name = header.function.name
        self._declared.add(name)
        if not header.has_body:
            self._position = header.end
            return
        if name in self._functions:
            raise self._fail(f'"{name}" is defined twice')
        end = source.closing_brace(header.end)
        if end < 0:
            kind = "kernel" if header.function.is_entry else "function"
            raise self._fail(f'the body of {kind} "{name}" has no closing brace', CUT)
        function = replace(header.function, ptx_line=source.line(self._position))
        read, used = self._body(function).read(header.end + 1, end)
        own = {n: v for n, v in read.variables.items() if v.space not in STATIC_SPACES}
        for variable in read.variables.values():
            if variable.name not in own:
                self._add_variable(variable)
        self._functions[name] = replace(read, variables=own)
        self._used |= {symbol: line for symbol, line in used.items() if symbol not in self._used}
        self._position = end + 1

    def _body(self, function: Function) -> BodyReader:
        return BodyReader(self._source, self._files, function, self._variables, self._strings)

    def _check_symbols(self) -> None:
        for symbol, line in self._used.items():
            if symbol not in self._functions and symbol not in self._declared and symbol not in self._variables:
                raise self._source.error_at(line, f'"{symbol}" is neither a label, a variable nor a function of this file', CUT)


def _debug_strings(text: str) -> dict[str, str]:
    """The strings of the sections `.debug_str`, by label: names of functions, which `.loc` names."""
    strings: dict[str, str] = {}
    for section in _STRINGS.finditer(text):
        label, data = "", bytearray()
        for match in (*_STRING.finditer(section[1]), None):
            if match is not None and match[1] is None:
                data += bytes(int(byte) & 0xFF for byte in match[2].replace(",", " ").split() if len(byte) < 4)
                continue
            if label:
                strings[label] = data.partition(b"\0")[0].decode("utf-8", "replace")
            label, data = match[1] if match is not None else "", bytearray()
    return strings
