"""Calls of device functions: expanded in place where that is possible, else the body of the function follows the kernel's.

Compilers inline almost everything; what they leave as `.func` is `__noinline__` code and slow paths of the double-precision
library (`pow`, `sin`). Expanded, a call and a return stay what they are to the machine, one branch each, and arguments travel in
registers, as in the ABI of NVIDIA's assembler, so that no memory traffic is made up and none is lost. Recursive functions, those
called through pointers, and those whose copies would make the kernel too large stay functions: `linking` gives them frames on a
call stack.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from warpsight.base.compile_budget import check
from warpsight.base.errors import UnsupportedError
from warpsight.isa.ptx.callgraph import CallPlan, Refuse, plan_calls, symbols_of
from warpsight.isa.ptx.constants import type_bits
from warpsight.isa.ptx.linking import EXTERNALS, FRAME, External, KeptCall, Linker, return_register, why_not
from warpsight.isa.ptx.names import SINK
from warpsight.isa.ptx.program import (
    Address,
    ExpandedCall,
    Function,
    Guard,
    Instruction,
    Module,
    Negated,
    Register,
    Symbol,
    Variable,
    Vector,
)
from warpsight.isa.ptx.rules import value_type


@dataclass
class ArgumentRegisters:
    """One register for every place of an argument that is stored or loaded; a place is (argument, byte offset, bits).

    An argument in `in_memory` has no registers: it is passed to a function that is called, its address is taken, or two accesses to
    it overlap without being the same. Those of the last kind are added here.
    """

    refuse: Refuse
    names: set[str] = field(default_factory=set)
    in_memory: set[str] = field(default_factory=set)
    registers: dict[str, str] = field(default_factory=dict)
    _places: dict[str, dict[int, int]] = field(default_factory=dict)

    def moves(self, instruction: Instruction) -> list[Instruction] | None:
        """What an `ld.param` or `st.param` becomes, or None if it names no argument (one of `names`) or one in memory."""
        if instruction.opcode not in ("ld", "st"):
            return None
        address, value = instruction.operands[:2] if instruction.opcode == "st" else instruction.operands[1::-1]
        if not isinstance(address, Address) or not isinstance(address.base, Symbol):
            return None
        argument, offset = address.base.name, address.base.offset + address.offset
        if argument not in self.names or argument in self.in_memory:
            return None
        kind = value_type(instruction)
        moved = []
        for number, part in enumerate(value.elements if isinstance(value, Vector) else (value,)):
            if part is not None and not isinstance(part, Address):
                place = self.place(instruction, argument, offset + number * (type_bits(kind) // 8), kind)
                moved.append(_move(instruction, part, place, kind))
        return moved

    def place(self, instruction: Instruction, argument: str, offset: int, kind: str) -> Register:
        """The register for `kind` at a byte offset of an argument. Raises UnsupportedError as `moves` does."""
        bits, known = type_bits(kind), self._places.setdefault(argument, {})
        if bits not in (8, 16, 32, 64):
            raise self.refuse(instruction, f"an argument of type .{kind} is not modelled")
        if any(o < offset + bits // 8 and offset < o + b // 8 and (o, b) != (offset, bits) for o, b in known.items()):
            self.in_memory.add(argument)
        known[offset] = bits
        name = f"{argument}+{offset}"
        self.registers[name] = f"b{max(bits, 16)}"
        return Register(name)


def _move(instruction: Instruction, part: Any, place: Register, kind: str) -> Instruction:
    """One element. A move cannot widen a byte, so bytes go through `cvt`."""
    operands = (place, part) if instruction.opcode == "st" else (part, place)
    if type_bits(kind) != 8:
        return replace(instruction, opcode="mov", modifiers=(kind,), operands=operands, pair=None)
    modifiers = ("s16", "s8") if kind.startswith("s") else ("u16", "u8")
    return replace(instruction, opcode="cvt", modifiers=modifiers, operands=operands, pair=None)


_MOST_INSTRUCTIONS = 200_000
_ONCE = ("shared", "global", "const")


def inline_calls(module: Module, function: Function) -> Function:
    """`function` with every call expanded or linked (`callables`, `call_sites`), itself if there is none.

    A failed device assertion becomes `trap`. Raises UnsupportedError with the PTX line for a function that is not in the module
    (`vprintf`), a call that does not fit the function, and an expansion of more than 200,000 instructions.
    """
    if all(each.opcode != "call" for each in function.instructions):
        return function
    refuse = partial(_refusal, module)
    plan = plan_calls(module, function, refuse)
    in_memory: set[str] = set()
    while True:
        expansion = _Expansion(module, plan, in_memory, refuse)
        expansion.expand_all(function.name)
        # What a later instruction forces into memory, earlier ones have taken for registers: then all is done again.
        if expansion.arguments.in_memory == in_memory:
            return expansion.finished(function)
        in_memory = set(expansion.arguments.in_memory)


def _refusal(module: Module, instruction: Instruction, why: str) -> UnsupportedError:
    source = f" ({instruction.file}:{instruction.line})" if instruction.file else ""
    return UnsupportedError(
        f'opcode "{instruction.text}"{source}: {why}. The results would be wrong, so nothing is run.',
        place=f"{module.path}:{instruction.ptx_line}",
        remedy="rewrite the line without it, or let the compiler inline the function (__forceinline__)",
    )


@dataclass
class _Frame:
    """One expansion of one function: `prefix` makes registers and labels distinct, `symbols` gives the new name of any other.

    `root` is the kernel or called function that it is expanded in, `end` the label that returns go to, empty in the root itself.
    `calls` are the expanded calls that led here, innermost first.
    """

    function: Function
    prefix: str
    root: str
    end: str = ""
    calls: tuple[ExpandedCall, ...] = ()
    symbols: dict[str, str] = field(default_factory=dict)


class _Expansion:
    def __init__(self, module: Module, plan: CallPlan, in_memory: set[str], refuse: Refuse) -> None:
        self._module = module
        self._plan = plan
        self._refuse = refuse
        self._calls = 0
        self.arguments = ArgumentRegisters(self._refuse, in_memory=set(in_memory))
        self._linker = Linker(plan, self._refuse)
        self.instructions: list[Instruction] = []
        self.registers: dict[str, str] = {}
        self.labels: dict[str, int] = {}
        self.variables: dict[str, Variable] = {}
        self.branch_targets: dict[str, tuple[str, ...]] = {}

    def expand_all(self, kernel: str) -> None:
        """The kernel, then each function that stays one."""
        for name in (kernel, *self._plan.callables):
            function = self._plan.functions[name]
            prefix = "" if name == kernel else f"{name}::"
            first = len(self.instructions)
            frame = _Frame(function, prefix, name)
            if prefix:
                self.arguments.in_memory.update(prefix + v.name for v in (*function.parameters, *function.returns))
                self.registers[return_register(name)] = "b32"
            self._expand(frame)
            ends_with_label = len(self.instructions) in self.labels.values()
            if self._plan.callables and (_falls_off(self.instructions[first:]) or ends_with_label):
                last = (function.instructions or self.instructions)[-1]
                ret = replace(last, opcode="ret", modifiers=(), operands=(), guard=None, pair=None)
                self.instructions.append(self._returning(ret, frame))
            if prefix:
                self._linker.add(name, first, len(self.instructions), [prefix + v.name for v in function.returns],
                                 [prefix + v.name for v in function.parameters])

    def finished(self, function: Function) -> Function:
        """The whole as one function."""
        whole = replace(
            function, instructions=tuple(replace(each, index=index) for index, each in enumerate(self.instructions)),
            registers={**self.registers, **self.arguments.registers}, labels=self.labels, variables=self.variables,
            branch_targets=self.branch_targets,
        )
        return self._linker.link(whole)

    def _expand(self, frame: _Frame) -> None:
        """Append a function with all that it calls. The stack is our own: chains of calls may be deeper than Python's."""
        stack = [self._body(frame)]
        while stack:
            check("expanding calls")
            if (inner := next(stack[-1], None)) is None:
                stack.pop()
            else:
                stack.append(self._body(inner))

    def _body(self, frame: _Frame) -> Iterator[_Frame]:
        """Append a function's instructions with its names made distinct; inside a call, returns go to its end.

        Yields each call where its function is to be appended.
        """
        function = frame.function
        self._declare(frame)
        labels: dict[int, list[str]] = {}
        for label, index in function.labels.items():
            labels.setdefault(index, []).append(frame.prefix + label)
        for instruction in function.instructions:
            self._mark(labels.get(instruction.index, ()))
            if instruction.opcode == "call":
                if (inner := self._call(instruction, frame)) is not None:
                    yield inner
                    self._mark((inner.end,))
                continue
            renamed = self._renamed(instruction, frame)
            if instruction.opcode == "ret":
                renamed = self._returning(renamed, frame)
            moves = self.arguments.moves(renamed)
            if moves is None:
                self.arguments.in_memory.update(self.arguments.names.intersection(symbols_of(renamed.operands)))
                moves = [self._linker.in_frame(renamed, not function.is_entry)]
            self.instructions.extend(moves)
            if len(self.instructions) > _MOST_INSTRUCTIONS:
                raise self._refuse(instruction, f"its calls expand to more than {_MOST_INSTRUCTIONS:,} instructions")
        self._mark(labels.get(len(function.instructions), ()))

    def _returning(self, ret: Instruction, frame: _Frame) -> Instruction:
        """A return: from the kernel as it is, out of an expansion a branch, from a function one that says where to."""
        if frame.end:
            return replace(ret, opcode="bra", operands=(Symbol(frame.end),))
        if frame.prefix:
            return replace(ret, operands=(Register(return_register(frame.root)), Register(FRAME)))
        return ret

    def _mark(self, labels: Iterable[str]) -> None:
        for label in labels:
            self.labels[label] = len(self.instructions)

    def _declare(self, frame: _Frame) -> None:
        """Give a function's registers, labels and variables their names in the expansion."""
        prefix, function = frame.prefix, frame.function
        self.registers.update((prefix + name, kind) for name, kind in function.registers.items())
        frame.symbols.update((label, prefix + label) for label in function.labels)
        for name, targets in function.branch_targets.items():
            frame.symbols[name] = prefix + name
            self.branch_targets[prefix + name] = tuple(prefix + target for target in targets)
        own = () if function.is_entry else (*function.parameters, *function.returns)
        parameters = () if frame.end else own  # those of an expanded function are the arguments of its call
        for variable in (*function.variables.values(), *parameters):
            name = variable.name
            if variable.space == "param":
                flat = f"{prefix or function.name + '/'}{name}"
                self.arguments.names.add(flat)
                self._linker.declare(frame.root, replace(variable, name=flat))
            elif variable.space == "local" and frame.root in self._plan.recursive:
                flat = prefix + name
                self._linker.declare(frame.root, replace(variable, name=flat))
            else:
                # Shared, global and constant data exist once, however often the function is called; local data once a call.
                once = variable.space in _ONCE and prefix
                flat = f"{function.name}/{name}" if once else prefix + name
                self.variables[flat] = replace(variable, name=flat)
            frame.symbols[name] = flat

    def _call(self, call: Instruction, frame: _Frame) -> _Frame | None:
        """The branch to the function, and the expansion that is to follow; or None, and a call, if it is to stay one."""
        returns, target, arguments = call.operands[:3]
        name = target.name if isinstance(target, Symbol) else ""
        if name in EXTERNALS and name not in self._module.functions:
            self.instructions.append(self._external(call, EXTERNALS[name], frame))
            return None
        self._calls += 1
        prefix = f"{name}#{self._calls}/"
        end = f"{prefix}return"
        if call.guard is not None:
            guard = Guard(Register(frame.prefix + call.guard.register.name), not call.guard.negated)
            self.instructions.append(replace(call, opcode="bra", modifiers=(), operands=(Symbol(end),), guard=guard))
        callee = self._callee(call, name) if name else None
        if callee is None or callee.name in self._plan.kept:
            targets = (callee.name,) if callee else self._plan.targets[frame.function.name, call.index]
            passed, results = (self._actual(call, operand, frame) for operand in (arguments, returns))
            self.arguments.in_memory.update((*passed, *results))
            self._linker.keep(KeptCall(len(self.instructions), frame.root, targets, passed, results))
            operands = (Vector(()), Symbol(callee.name) if callee else _renamed(target, frame), Register(FRAME))
            self.instructions.append(replace(call, operands=operands, guard=None))
            self._mark((end,))
            return None
        calls = (ExpandedCall(callee.name, call.file, call.line), *call.calls, *frame.calls)
        inner = _Frame(callee, prefix, frame.root, end, calls)
        for operand, declared in ((arguments, callee.parameters), (returns, callee.returns)):
            names = self._actual(call, operand, frame, len(declared))
            inner.symbols.update((parameter.name, name) for parameter, name in zip(declared, names, strict=True))
        start = f"{prefix}start"
        self.instructions.append(replace(call, opcode="bra", modifiers=("uni",), operands=(Symbol(start),), guard=None))
        self._mark((start,))
        return inner

    def _external(self, call: Instruction, external: External, frame: _Frame) -> Instruction:
        """The call of a function of the runtime, with registers for its `.param` buffers."""
        returns, target, arguments = call.operands[:3]
        vectors = []
        for operand, kinds in ((returns, (external.result,) if external.result else ()), (arguments, external.parameters)):
            names = self._actual(call, operand, frame, len(kinds))
            places = (self.arguments.place(call, name, 0, kind) for name, kind in zip(names, kinds, strict=True))
            vectors.append(Vector(tuple(places)))
        guard = call.guard and Guard(Register(frame.prefix + call.guard.register.name), call.guard.negated)
        return replace(call, operands=(vectors[0], target, vectors[1]), guard=guard)

    def _callee(self, call: Instruction, name: str) -> Function:
        known = self._module.functions.get(name)
        if known is None:
            raise self._refuse(call, why_not(name))
        return self._plan.functions[known.name]

    def _actual(self, call: Instruction, operand: Any, frame: _Frame, count: int | None = None) -> tuple[str, ...]:
        """The flat names of a call's arguments or results; with `count`, refused if they are not as many."""
        elements = operand.elements if isinstance(operand, Vector) else ()
        names = tuple(frame.symbols.get(element.name, "") if isinstance(element, Symbol) else "" for element in elements)
        if not self.arguments.names.issuperset(names):
            raise self._refuse(call, "an argument that is not a .param variable is not modelled")
        if count is not None and len(names) != count:
            raise self._refuse(call, f"the call has {len(names)} arguments or results where the function has {count}")
        return names

    def _renamed(self, instruction: Instruction, frame: _Frame) -> Instruction:
        prefix = frame.prefix
        guard, pair = instruction.guard, instruction.pair
        return replace(
            instruction,
            operands=tuple(_renamed(operand, frame) for operand in instruction.operands),
            guard=None if guard is None else Guard(Register(prefix + guard.register.name), guard.negated),
            pair=None if pair is None else _register(pair, prefix),
            calls=instruction.calls + frame.calls if frame.calls else instruction.calls,
        )


def _register(register: Register, prefix: str) -> Register:
    return register if register.name == SINK else Register(prefix + register.name)


def _renamed(operand: Any, frame: _Frame) -> Any:
    """An operand with the names of one expansion; names of the module stay."""
    if isinstance(operand, Register):
        return _register(operand, frame.prefix)
    if isinstance(operand, Negated):
        return Negated(_register(operand.register, frame.prefix))
    if isinstance(operand, Symbol):
        return Symbol(frame.symbols.get(operand.name, operand.name), operand.offset)
    if isinstance(operand, Address):
        return Address(_renamed(operand.base, frame), operand.offset)
    if isinstance(operand, Vector):
        return Vector(tuple(_renamed(element, frame) for element in operand.elements))
    return operand


def _falls_off(instructions: list[Instruction]) -> bool:
    """Whether execution may run past the last of some instructions."""
    return not instructions or instructions[-1].guard is not None or instructions[-1].opcode not in ("ret", "exit", "bra", "brx")
