"""Kernels and device functions as PTX writes them: the header, then the body, statement by statement."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from warpsight.base.compile_budget import check
from warpsight.base.errors import FormatError
from warpsight.isa.ptx.declarations import declare_register, declare_registers, read_variables
from warpsight.isa.ptx.lexer import CUT, IDENTIFIER, STATEMENT, Source, split_top
from warpsight.isa.ptx.names import SINK, Names, Scope
from warpsight.isa.ptx.operands import OperandReader
from warpsight.isa.ptx.program import (
    Address,
    ExpandedCall,
    Function,
    Guard,
    Instruction,
    Negated,
    Operand,
    Prototype,
    Register,
    Symbol,
    Variable,
    Vector,
)

_FIX = "correct this line, or compile the kernel again"
_KIND = re.compile(r"\s*\.(entry|func)\b\s*")
_NAME = re.compile(rf"\s*({IDENTIFIER})\s*")
_LIST = re.compile(r"\s*\(([^(){};]*)\)\s*")
_PARAMETER = re.compile(r"\.(param|reg)\b(.*)", re.DOTALL)
_ATTRIBUTE = re.compile(r"\s*\.attribute\s*\((?:[^()]|\([^()]*\))*\)\s*")
_NUMBERED = re.compile(r"\s*\.(maxntid|reqntid|minnctapersm|maxnctapersm|maxnreg|maxclusterrank|reqnctapercluster"
                       r"|abi_preserve(?:_control)?)\s+(\d{1,9})(?:\s*,\s*(\d{1,9}))?(?:\s*,\s*(\d{1,9}))?")
_FLAG = re.compile(r'\s*(?:\.(?:noreturn|explicitcluster|blocksareclusters|unique)\b|'
                   r'\.pragma\s+"[^"\n]*"(?:\s*,\s*"[^"\n]*")*\s*;|\.loc[^\n]*)')
_PROTOTYPE = re.compile(
    r"\s*(?:\((?P<returns>[^(){}]*)\))?\s*[A-Za-z_$%][\w$]*\s*(?:\((?P<parameters>[^(){}]*)\))?"
    r"\s*(?:\.noreturn\b|\.abi_preserve(?:_control)?\s+\d+|\s)*"
)
_END = re.compile(r"\s*([{;])")


@dataclass(frozen=True)
class Header:
    """A function without its body. `end` is the position of its `{`, or after the `;` of a declaration without body."""

    function: Function
    has_body: bool
    end: int


def read_header(source: Source, begin: int) -> Header:
    """Read from `.entry` or `.func` at `begin`. Raises FormatError where it is not a header, or is cut."""
    text = source.text
    kind = _KIND.match(text, begin)
    if kind is None:
        raise source.error(begin, "a function header is not recognized", _FIX)
    returns: tuple[Variable, ...] = ()
    position = _after_attributes(text, kind.end())
    listed = _LIST.match(text, position)
    if listed is not None:
        returns, position = _parameters(source, listed), listed.end()
    name = _NAME.match(text, position)
    if name is None:
        raise source.error(source.skip(begin), "a function has no name", CUT)
    position = name.end()
    parameters: tuple[Variable, ...] = ()
    if position < len(text) and text[position] == "(":
        listed = _LIST.match(text, position)
        if listed is None:
            raise source.error(source.skip(begin), f'the parameters of "{name[1]}" are not a closed list', CUT)
        parameters, position = _parameters(source, listed), listed.end()
    threads, position = _directives(text, position)
    end = _END.match(text, position)
    if end is None:
        what = f'"{source.excerpt(source.skip(position))}" is not recognized in the header of "{name[1]}"'
        if source.skip(position) >= len(text):
            what = f'the header of "{name[1]}" has no body and no semicolon'
        raise source.error(min(source.skip(position), len(text) - 1), what, CUT)
    function = Function(
        name[1], kind[1] == "entry", parameters, (), {}, {}, returns=returns, max_threads=threads.get("maxntid"),
        required_threads=threads.get("reqntid"), required_cluster=threads.get("reqnctapercluster"),
        max_cluster_blocks=threads["maxclusterrank"][0] if "maxclusterrank" in threads else None,
    )
    has_body = end[1] == "{"
    return Header(function, has_body, end.start(1) if has_body else end.end())


def _after_attributes(text: str, position: int) -> int:
    while (match := _ATTRIBUTE.match(text, position) or _FLAG.match(text, position)) is not None:
        position = match.end()
    return position


def _directives(text: str, position: int) -> tuple[dict[str, tuple[int, int, int]], int]:
    threads: dict[str, tuple[int, int, int]] = {}
    while True:
        position = _after_attributes(text, position)
        match = _NUMBERED.match(text, position)
        if match is None:
            return threads, position
        threads[match[1]] = (int(match[2]), int(match[3] or 1), int(match[4] or 1))
        position = match.end()


def read_prototype(text: str, fail: Callable[[str], FormatError]) -> Prototype:
    """What follows `.callprototype`: `(results) _ (parameters)`. Raises FormatError, made by `fail`, for anything else."""
    match = _PROTOTYPE.fullmatch(text)
    if match is None:
        raise fail("a .callprototype is not recognized")
    return Prototype(_listed(match["returns"] or "", fail), _listed(match["parameters"] or "", fail))


def _parameters(source: Source, listed: re.Match[str]) -> tuple[Variable, ...]:
    begin = listed.start(1)
    return _listed(listed[1], lambda what: source.error(source.skip(begin), what, _FIX))


def _listed(text: str, fail: Callable[[str], FormatError]) -> tuple[Variable, ...]:
    variables: list[Variable] = []
    for piece in split_top(text.strip(), fail) if text.strip() else []:
        match = _PARAMETER.fullmatch(piece)
        if match is None:
            raise fail("a parameter is not recognized")
        variables.extend(read_variables(match[2], match[1], False, fail))
    return tuple(variables)


# -- What every instruction of a kind must have, so that no later step meets one without: operands, and predicates as guards.

_LEAST = {"ld": 2, "ldu": 2, "st": 2, "atom": 3, "red": 2, "mov": 2, "cvt": 2, "cvta": 2, "bra": 1, "brx": 2}
_NONE = frozenset({"ret", "exit", "trap", "brkpt"})


def check_instruction(
    opcode: str, operands: tuple[Operand | Negated, ...], guard: Guard | None, types: Mapping[str, str],
    fail: Callable[[str], FormatError],
) -> None:
    """Raise FormatError, made by `fail`, for too few operands, and for a guard or a `!` of a register that is not a predicate.

    `types` are the declared types of registers.
    """
    count = len(operands)
    if count < _LEAST.get(opcode, 0):
        raise fail(f'"{opcode}" has {count} operands, and PTX requires {_LEAST[opcode]}')
    if count and opcode in _NONE:
        raise fail(f'"{opcode}" has operands, and PTX defines none for it')
    tested = [operand.register.name for operand in operands if isinstance(operand, Negated)]
    if guard is not None:
        tested.append(guard.register.name)
    for name in tested:
        if types.get(name, "pred" if name != SINK else "") != "pred":
            raise fail(f'"{name}" is tested as a predicate, and is declared as .{types[name]}')


# -- Bodies of kernels and device functions: statement by statement to instructions, labels, registers and local variables.

_SPACES = ("local", "shared", "param", "global", "const")
_ACCESSES = frozenset({"ld", "ldu", "st", "atom", "red"})
_Operands = tuple[Operand | Negated, ...]
_Place = tuple[str, int, None, tuple[ExpandedCall, ...]]  # the last fields of an instruction
_TARGETS = re.compile(IDENTIFIER)
_INLINED = re.compile(
    rf"\.loc\s+(\d{{1,9}}\s+\d{{1,9}}\s+\d{{1,9}})\s*,\s*function_name\s+({IDENTIFIER})\s*(?:\+\s*\d+\s*)?,"
    r"\s*inlined_at\s+((\d{1,9})\s+(\d{1,9})\s+\d{1,9})"
)
_MOST_CALLS = 64  # expanded calls that are kept of one instruction
STATIC_SPACES = frozenset({"global", "const"})  # a function's variables in them exist once, as the module's do
_UNSCOPED = frozenset({".pragma", ".callprototype", ".calltargets"})  # they declare no name that an operand may have


class BodyReader:
    """Reads one function's body. `files` is the module's `.file` table, `variables` are the module's variables, `strings` are
    those of its line information, by label.
    """

    def __init__(
        self, source: Source, files: dict[int, str], function: Function, variables: Mapping[str, Variable],
        strings: Mapping[str, str],
    ) -> None:
        self._source = source
        self._files, self._strings = files, strings
        self._calls_at: dict[str, tuple[ExpandedCall, ...]] = {}  # by the place (of `.loc`) that they were last named for
        self._function = function
        parameters = (*function.parameters, *function.returns)
        self._names = Names(p.name for p in parameters if p.space == "param")
        for parameter in parameters:
            if parameter.space == "reg":
                lanes, _, element = parameter.type.rpartition(".")
                declare_register(parameter.name, element, lanes, self._names, self._fail)
        self._line = 0
        self._operands = OperandReader(self._names, variables, lambda: self._line)
        self._instructions: list[Instruction] = []
        self._labels: dict[str, int] = {}
        self._targets: dict[str, tuple[str, ...]] = {}
        self._prototypes: dict[str, Prototype] = {}
        self._call_targets: dict[str, tuple[str, ...]] = {}
        self._resolved: set[str] = set()
        self._modifiers: dict[str, tuple[str, ...]] = {"": ()}
        self._pending_label = ""

    def _fail(self, what: str) -> FormatError:
        return self._source.error_at(self._line, what, _FIX)

    def read(self, begin: int, end: int) -> tuple[Function, dict[str, int]]:
        """The function with the body `text[begin:end]`, and the symbols that it uses and does not declare, with their lines.

        Raises FormatError at the first statement that is none.
        """
        source, text = self._source, self._source.text
        match_statement = STATEMENT.match
        file, line = "", 0
        calls: tuple[ExpandedCall, ...] = ()
        position = begin
        while True:
            match = match_statement(text, position, end)
            if match is None:
                self._finish(position, end)
                break
            position = match.end()
            kind = match.lastindex or 0
            if not len(self._instructions) & 255:
                check("parsing PTX")
            if kind == 9:
                negated, guard, opcode, modifiers, operands = match.group(5, 6, 7, 8, 9)
                self._line = source.line(match.start(7))
                condition = Guard(self._operands.register(guard, self._fail), negated == "!") if guard else None
                self._instruction(opcode, modifiers, operands.strip(), condition, (file, line, None, calls))
            elif kind == 2:
                line = int(match[2]) if len(match[2]) < 10 else 0
                file = self._files.get(int(match[1]), "") if line and len(match[1]) < 10 else ""
                line = line if file else 0
                calls = self._expanded_calls(match[0]) if "inlined_at" in match[0] else ()
            elif kind == 4:
                self._line = source.line(match.start(4))
                self._mark(self._pending_label)
                self._pending_label = match[4]
            elif kind == 3:
                self._line = source.line(match.start(3))
                self._brace(match[3])
            else:
                self._line = source.line(match.start(10))
                self._directive(match[10], match[11])
        function = replace(
            self._function, instructions=tuple(self._instructions), registers=self._names.registers, labels=self._labels,
            variables=self._names.variables, branch_targets=self._targets, prototypes=self._prototypes,
            call_targets=self._call_targets,
        )
        known = self._labels.keys() | self._resolved
        return function, {name: line for name, line in self._operands.used.items() if name not in known}

    def _expanded_calls(self, loc: str) -> tuple[ExpandedCall, ...]:
        """What a `.loc` with `inlined_at` says (PTX ISA, "Debugging Directives"); the `.loc` of the call's place stands before."""
        match = _INLINED.search(loc)
        if match is None:
            return ()
        call = ExpandedCall(self._strings.get(match[2], ""), self._files.get(int(match[4]), ""), int(match[5]))
        calls = (call, *self._calls_at.get(" ".join(match[3].split()), ()))[:_MOST_CALLS]
        self._calls_at[" ".join(match[1].split())] = calls
        return calls

    def _finish(self, position: int, end: int) -> None:
        source = self._source
        position = source.skip(position)
        if position < end:
            self._line = source.line(position)
            if ";" not in source.text[position:end]:
                raise self._source.error(position, f'"{source.excerpt(position, end)}" has no closing semicolon', CUT)
            raise self._fail(f'"{source.excerpt(position, end)}" is not a PTX statement')
        if len(self._names.scopes) > 1:
            raise source.error_at(self._names.scopes[-1].line, "this { has no closing brace", CUT)
        self._mark(self._pending_label)

    def _mark(self, name: str) -> None:
        """A label stands before the next instruction. (A label of .branchtargets or of a prototype marks none.)"""
        if not name:
            return
        scope = self._names.scopes[-1]
        if name in scope.labels or (len(self._names.scopes) == 1 and name in self._labels):
            raise self._fail(f'label "{name}" is defined twice')
        # A label may be used before it stands: only when its scope closes is it known which uses mean it. An inner label never
        # takes the plain name, which may still come in an outer scope.
        number, flat = 0, name
        while len(self._names.scopes) > 1 and (not number or flat in self._labels):
            number += 1
            flat = f"{name}${number}"
        scope.labels[name] = flat
        self._labels[flat] = len(self._instructions)
        self._pending_label = ""

    def _brace(self, brace: str) -> None:
        self._mark(self._pending_label)
        if brace == "{":
            self._names.open(len(self._instructions), len(self._targets), self._line)
            return
        if len(self._names.scopes) == 1:
            raise self._fail("unmatched }")
        scope = self._names.close()
        self._resolve_labels(scope)
        if scope.registers or scope.ranges or scope.symbols:
            self._operands.forget()

    def _resolve_labels(self, scope: Scope) -> None:
        """Give the uses of an inner scope's labels their flat names."""
        if not scope.labels:
            return
        self._resolved.update(scope.labels)
        for index in range(scope.first_instruction, len(self._instructions)):
            old = self._instructions[index]
            operands = tuple(_renamed(operand, scope.labels) for operand in old.operands)
            if operands != old.operands:
                self._instructions[index] = replace(old, operands=operands)
        for label in list(self._targets)[scope.first_list :]:
            self._targets[label] = tuple(scope.labels.get(target, target) for target in self._targets[label])

    def _instruction(self, opcode: str, suffix: str, text: str, guard: Guard | None, place: _Place, /) -> None:
        self._mark(self._pending_label)
        modifiers = self._modifiers.get(suffix)
        if modifiers is None:
            modifiers = self._modifiers[suffix] = tuple(suffix[1:].split("."))
        parsed: _Operands = ()
        pair: Register | None = None
        if opcode == "call":
            parsed = self._operands.call(text, self._fail)
        elif text:
            parsed, pair, selectors = self._operands.read(text, self._fail)
            modifiers += selectors
        if opcode in _ACCESSES:
            modifiers, parsed = self._access(modifiers, parsed)
        check_instruction(opcode, parsed, guard, self._names.registers, self._fail)
        self._instructions.append(Instruction(len(self._instructions), opcode, modifiers, parsed, guard, pair, self._line, *place))

    def _access(self, modifiers: tuple[str, ...], operands: _Operands) -> tuple[tuple[str, ...], _Operands]:
        """An access that names a variable: `a[1]` is the address `[a+4]`, and without a state space it is in the variable's.

        PTX says that such an access is generic; NVIDIA's assembler knows where the variable lies and accesses it there.
        """
        addressed = tuple(Address(o) if isinstance(o, Symbol) else o for o in operands)
        for operand in addressed:
            if isinstance(operand, Address) and isinstance(operand.base, Symbol):
                variable = self._operands.variable(operand.base)
                if variable is not None and not any(word.partition("::")[0] in _SPACES for word in modifiers):
                    modifiers = (variable.space, *modifiers)
        return modifiers, addressed

    def _directive(self, name: str, text: str) -> None:
        label, self._pending_label = self._pending_label, ""
        if name not in {".branchtargets", ".callprototype", ".calltargets"}:
            self._mark(label)
        if name == ".reg":
            declare_registers(text, self._names, self._fail)
        elif name[1:] in _SPACES or name == ".extern":
            self._variables(name, text)
        elif name == ".branchtargets":
            if label in self._targets:
                raise self._fail(f'label "{label}" is defined twice')
            self._targets[label] = self._list_of_names(name, label, text)
        elif name == ".calltargets":
            self._call_targets[label] = self._list_of_names(name, label, text)
        elif name == ".callprototype":
            self._prototypes[label] = read_prototype(text, self._fail)
            self._resolved.add(label)
        elif name == ".pragma":
            pass  # pragmas (unrolling) steer the assembler only
        else:
            raise self._fail(f'directive "{name}" is not recognized in a function')
        if len(self._names.scopes) > 1 and name not in _UNSCOPED:
            self._operands.forget()

    def _list_of_names(self, name: str, label: str, text: str) -> tuple[str, ...]:
        """The labels or functions of a `.branchtargets` or `.calltargets` list that stands under `label`."""
        names = tuple(piece.strip() for piece in text.split(","))
        if not label or not all(_TARGETS.fullmatch(target) for target in names):
            raise self._fail(f"a {name} list is not recognized")
        for target in names:
            self._operands.used.setdefault(target, self._line)
        self._resolved.add(label)
        return names

    def _variables(self, name: str, text: str) -> None:
        space = name[1:]
        if name == ".extern":
            space, _, text = text.strip().removeprefix(".").partition(" ")
            if space not in _SPACES:
                raise self._fail("a declaration after .extern is not recognized")
        for variable in read_variables(text, space, name == ".extern", self._fail):
            if variable.name == SINK:
                raise self._fail("a variable has no name")
            if variable.extern and space in STATIC_SPACES:
                self._operands.used.setdefault(variable.name, self._line)  # the module's
                continue
            flat = replace(variable, name=self._names.distinct(variable.name))
            if space in STATIC_SPACES:
                addresses = tuple((at, self._names.symbol(name) or name, more) for at, name, more in variable.initial_symbols)
                flat = replace(flat, name=f"{self._function.name}/{flat.name}", initial_symbols=addresses)
            if not self._names.declare_variable(variable.name, flat):
                raise self._fail(f'"{variable.name}" is declared twice')


def _renamed(operand: Any, names: dict[str, str]) -> Any:
    if isinstance(operand, Symbol):
        return Symbol(names.get(operand.name, operand.name), operand.offset)
    if isinstance(operand, Address):
        return Address(_renamed(operand.base, names), operand.offset)
    if isinstance(operand, Vector):
        return Vector(tuple(_renamed(element, names) for element in operand.elements))
    return operand
