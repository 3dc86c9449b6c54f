"""Calls of device functions, expanded in place: a kernel that calls becomes one that does not.

Compilers inline almost everything; what they leave as `.func` is `__noinline__` code and slow paths of the double-precision library
(`pow`, `sin`). A call and a return stay what they are to the machine, one branch each; arguments travel in registers. Recursion and
calls through pointers have no expansion and are refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from warpsight.base.errors import UnsupportedError
from warpsight.isa.call_arguments import ArgumentRegisters
from warpsight.isa.names import SINK
from warpsight.isa.program import (
    Address,
    Function,
    Guard,
    Instruction,
    Module,
    Negated,
    Operand,
    Register,
    Symbol,
    Variable,
    Vector,
)

_ASSERTION = "__assertfail"
_MOST_INSTRUCTIONS = 200_000
_ONCE = ("shared", "global", "const")


def inline_calls(module: Module, function: Function) -> Function:
    """`function` with every call expanded, itself if there is none. A failed device assertion becomes `trap`.

    Raises UnsupportedError with the PTX line for recursion, a call through a pointer, a function that is not in the module
    (`vprintf`), an argument whose address is taken, and an expansion of more than 200,000 instructions.
    """
    if all(each.opcode != "call" for each in function.instructions):
        return function
    expansion = _Expansion(module)
    expansion.expand(function, _Frame(""), ())
    numbered = tuple(replace(each, index=index) for index, each in enumerate(expansion.instructions))
    return replace(
        function,
        instructions=numbered,
        registers={**expansion.registers, **expansion.arguments.registers},
        labels=expansion.labels,
        variables=expansion.variables,
        branch_targets=expansion.branch_targets,
    )


@dataclass
class _Frame:
    """One expansion of one function: `prefix` makes registers and labels distinct, `symbols` gives the new name of any other."""

    prefix: str
    symbols: dict[str, str] = field(default_factory=dict)


class _Expansion:
    def __init__(self, module: Module) -> None:
        self._module = module
        self._calls = 0
        self.arguments = ArgumentRegisters(self._refuse)
        self.instructions: list[Instruction] = []
        self.registers: dict[str, str] = {}
        self.labels: dict[str, int] = {}
        self.variables: dict[str, Variable] = {}
        self.branch_targets: dict[str, tuple[str, ...]] = {}

    def _refuse(self, instruction: Instruction, why: str) -> UnsupportedError:
        source = f" ({instruction.file}:{instruction.line})" if instruction.file else ""
        return UnsupportedError(
            f'opcode "{instruction.text}"{source}: {why}. Totals would be wrong, so none are given.',
            place=f"{self._module.path}:{instruction.ptx_line}",
            remedy="rewrite the line without it, or let the compiler inline the function (__forceinline__)",
        )

    def expand(self, function: Function, frame: _Frame, callers: tuple[str, ...]) -> None:
        """Append a function's instructions with its names made distinct; inside a call, returns go to its end."""
        self._declare(function, frame)
        at: dict[int, list[str]] = {}
        for label, index in function.labels.items():
            at.setdefault(index, []).append(frame.prefix + label)
        for instruction in function.instructions:
            self._mark(at.get(instruction.index, ()))
            if instruction.opcode == "call":
                self._call(instruction, frame, (*callers, function.name))
                continue
            renamed = self._renamed(instruction, frame)
            if callers and instruction.opcode == "ret":
                renamed = replace(renamed, opcode="bra", operands=(Symbol(f"{frame.prefix}return"),))
            moves = self.arguments.moves(renamed)
            if moves is None and not self.arguments.names.isdisjoint(_symbols(renamed.operands)):
                raise self._refuse(instruction, "it takes the address of an argument, which is not modelled")
            self.instructions.extend([renamed] if moves is None else moves)
            if len(self.instructions) > _MOST_INSTRUCTIONS:
                raise self._refuse(instruction, f"its calls expand to more than {_MOST_INSTRUCTIONS:,} instructions")
        self._mark(at.get(len(function.instructions), ()))

    def _mark(self, labels: Iterable[str]) -> None:
        for label in labels:
            self.labels[label] = len(self.instructions)

    def _declare(self, function: Function, frame: _Frame) -> None:
        """Give a function's registers, labels and variables their names in the expansion."""
        prefix = frame.prefix
        self.registers.update((prefix + name, kind) for name, kind in function.registers.items())
        frame.symbols.update((label, prefix + label) for label in function.labels)
        for name, targets in function.branch_targets.items():
            frame.symbols[name] = prefix + name
            self.branch_targets[prefix + name] = tuple(prefix + target for target in targets)
        for name, variable in function.variables.items():
            if variable.space == "param":
                flat = f"{prefix or function.name + '/'}{name}"
                self.arguments.names.add(flat)
            else:
                # Shared, global and constant data exist once, however often the function is called; local data once a call.
                once = variable.space in _ONCE and prefix
                flat = f"{function.name}/{name}" if once else prefix + name
                self.variables[flat] = replace(variable, name=flat)
            frame.symbols[name] = flat

    def _call(self, call: Instruction, frame: _Frame, callers: tuple[str, ...]) -> None:
        """The branch to the function, its body, and the place that it returns to."""
        returns, target, arguments = call.operands[:3]
        name = target.name if isinstance(target, Symbol) else ""
        if name == _ASSERTION:
            self.instructions.append(replace(self._renamed(call, frame), opcode="trap", modifiers=(), operands=()))
            return
        callee = self._callee(call, name, callers)
        self._calls += 1
        inner = _Frame(f"{name}#{self._calls}/")
        for given, declared in ((arguments, callee.parameters), (returns, callee.returns)):
            inner.symbols.update(self._bound(call, given, declared, frame))
        end = f"{inner.prefix}return"
        if call.guard is not None:
            guard = Guard(Register(frame.prefix + call.guard.register.name), not call.guard.negated)
            self.instructions.append(replace(call, opcode="bra", modifiers=(), operands=(Symbol(end),), guard=guard))
        start = f"{inner.prefix}start"
        self.instructions.append(replace(call, opcode="bra", modifiers=("uni",), operands=(Symbol(start),), guard=None))
        self._mark((start,))
        self.expand(callee, inner, callers)
        self._mark((end,))

    def _callee(self, call: Instruction, name: str, callers: tuple[str, ...]) -> Function:
        callee = self._module.functions.get(name)
        if not name or (isinstance(call.operands[-1], Symbol) and len(call.operands) > 3):
            raise self._refuse(call, "a call through a pointer is not modelled")
        if callee is None:
            raise self._refuse(call, f'it calls "{name}", which is not defined in the PTX')
        if name in callers:
            raise self._refuse(call, f'"{name}" calls itself, and recursion is not modelled')
        return callee

    def _bound(
        self, call: Instruction, given: Operand | Negated, declared: tuple[Variable, ...], frame: _Frame
    ) -> dict[str, str]:
        """The name of each parameter in the function to the argument's in the expansion."""
        elements = given.elements if isinstance(given, Vector) else ()
        if len(elements) != len(declared):
            raise self._refuse(call, f"the call has {len(elements)} arguments or results where the function has {len(declared)}")
        bound = {}
        for element, parameter in zip(elements, declared, strict=True):
            flat = frame.symbols.get(element.name, "") if isinstance(element, Symbol) else ""
            if flat not in self.arguments.names or parameter.space != "param":
                raise self._refuse(call, "an argument that is not a .param variable is not modelled")
            bound[parameter.name] = flat
        return bound

    def _renamed(self, instruction: Instruction, frame: _Frame) -> Instruction:
        prefix = frame.prefix
        guard, pair = instruction.guard, instruction.pair
        return replace(
            instruction,
            operands=tuple(_renamed(operand, frame) for operand in instruction.operands),
            guard=None if guard is None else Guard(Register(prefix + guard.register.name), guard.negated),
            pair=None if pair is None else _register(pair, prefix),
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


def _symbols(operands: Iterable[object]) -> Iterable[str]:
    for operand in operands:
        base = operand.base if isinstance(operand, Address) else operand
        if isinstance(base, Symbol):
            yield base.name
