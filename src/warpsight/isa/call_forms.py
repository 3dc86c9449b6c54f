"""One form for all calls: arguments, results and parameters in `.param` space.

PTX lets a function declare `.reg` parameters, and lets a call name registers and constants. Here such a parameter becomes a
`.param` variable that is loaded at the function's start or stored before each return, and such an operand a variable that is stored
before the call or loaded after it. A predicate is passed as a 32-bit 0 or 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from warpsight.base.errors import UnsupportedError
from warpsight.isa.declarations import VECTOR_AXES
from warpsight.isa.program import Address, Function, Immediate, Instruction, Module, Register, Symbol, Variable, Vector
from warpsight.isa.types import type_bits, vector_lanes

Refuse = Callable[[Instruction, str], UnsupportedError]

_PASSED_PREDICATE = "b32"
_ONE, _ZERO = Immediate(1, 1, False), Immediate(0, 0, False)


def in_param_space(module: Module, function: Function, refuse: Refuse) -> Function:
    """`function` with calls and parameters in that form: itself when it has it already. Errors are made by `refuse`."""
    in_registers = any(p.space == "reg" for p in (*function.parameters, *function.returns))
    if not in_registers and not any(_needs_change(function, each) for each in function.instructions):
        return function
    return _Rewriter(module, function, refuse).rewritten()


def callee_of(module: Module, call: Instruction) -> Function | None:
    """The function of the module that a direct call names."""
    target = call.operands[1]
    return module.functions.get(target.name) if isinstance(target, Symbol) else None


def _needs_change(function: Function, instruction: Instruction) -> bool:
    if instruction.opcode != "call":
        return False
    lists = (operand for operand in (instruction.operands[0], instruction.operands[2]) if isinstance(operand, Vector))
    return any(not isinstance(element, Symbol) for operand in lists for element in operand.elements)


@dataclass
class _Rewriter:
    module: Module
    function: Function
    refuse: Refuse
    instructions: list[Instruction] = field(default_factory=list)
    variables: dict[str, Variable] = field(default_factory=dict)
    registers: dict[str, str] = field(default_factory=dict)

    def rewritten(self) -> Function:
        function = self.function
        self.variables.update(function.variables)
        place: dict[int, int] = {}
        if function.instructions:
            first = function.instructions[0]
            for parameter in function.parameters:
                if parameter.space == "reg":
                    self._move(first, "ld", self._own(parameter), _slot(parameter.name), parameter.type)
        for each in function.instructions:
            place[each.index] = len(self.instructions)
            if each.opcode == "call":
                self._call(each)
                continue
            if each.opcode == "ret" and not function.is_entry:
                self._give_results(each)
            self.instructions.append(each)
        place[len(function.instructions)] = len(self.instructions)
        if function.instructions and not function.is_entry and any(r.space == "reg" for r in function.returns):
            last = replace(function.instructions[-1], opcode="ret", modifiers=(), operands=(), guard=None, pair=None)
            self._give_results(last)
            self.instructions.append(last)
        return replace(
            function,
            instructions=tuple(replace(each, index=index) for index, each in enumerate(self.instructions)),
            labels={name: place[index] for name, index in function.labels.items()},
            registers=function.registers | self.registers,
            variables=self.variables,
            parameters=tuple(_in_param(p) for p in function.parameters),
            returns=tuple(_in_param(r) for r in function.returns),
        )

    def _give_results(self, at: Instruction) -> None:
        for result in self.function.returns:
            if result.space == "reg":
                self._move(at, "st", self._own(result), _slot(result.name), result.type)

    def _own(self, parameter: Variable) -> Register | Vector:
        """The register, or the vector of them, that the function declares as a parameter."""
        lanes = vector_lanes((parameter.type.partition(".")[0],))
        if lanes == 1:
            return Register(parameter.name)
        return Vector(tuple(Register(f"{parameter.name}.{axis}") for axis in VECTOR_AXES[:lanes]))

    def _move(self, at: Instruction, opcode: str, value: Register | Immediate | Vector, name: str, kind: str) -> None:
        address = Address(Symbol(name))
        at = replace(at, pair=None)
        if kind == "pred" and isinstance(value, Register):
            self._move_predicate(at, opcode, value, address)
            return
        operands = (address, value) if opcode == "st" else (value, address)
        modifiers = ("param", *_passed(kind).split("."))
        self.instructions.append(replace(at, opcode=opcode, modifiers=modifiers, operands=operands))

    def _move_predicate(self, at: Instruction, opcode: str, value: Register, address: Address) -> None:
        number = Register(f"{address.base.name}.number")  # type: ignore[union-attr]
        self.registers[number.name] = _PASSED_PREDICATE
        access = replace(at, opcode=opcode, modifiers=("param", _PASSED_PREDICATE))
        if opcode == "st":
            made = replace(at, opcode="selp", modifiers=(_PASSED_PREDICATE,), operands=(number, _ONE, _ZERO, value))
            self.instructions += [made, replace(access, operands=(address, number))]
        else:
            used = replace(at, opcode="setp", modifiers=("ne", _PASSED_PREDICATE), operands=(value, number, _ZERO))
            self.instructions += [replace(access, operands=(number, address)), used]

    def _call(self, call: Instruction) -> None:
        returns, target, arguments = call.operands[:3]
        assert isinstance(returns, Vector)
        assert isinstance(arguments, Vector)
        given = self._types(call, arguments, parameters=True)
        taken = self._types(call, returns, parameters=False)
        names: list[Symbol] = []
        for element, kind in zip(arguments.elements, given, strict=True):
            if isinstance(element, Symbol):
                names.append(element)
            elif isinstance(element, Register | Immediate | Vector):
                names.append(Symbol(self._variable(call, kind)))
                self._move(call, "st", element, names[-1].name, kind)
            else:
                raise self.refuse(call, "an argument of this kind is not modelled")
        results: list[Symbol] = []
        moves: list[tuple[Register | Vector, str, str]] = []
        for element, kind in zip(returns.elements, taken, strict=True):
            if isinstance(element, Symbol):
                results.append(element)
            elif element is None or isinstance(element, Register | Vector):
                results.append(Symbol(self._variable(call, kind)))
                if element is not None:
                    moves.append((element, results[-1].name, kind))
            else:
                raise self.refuse(call, "a result of this kind is not modelled")
        self.instructions.append(
            replace(call, operands=(Vector(tuple(results)), target, Vector(tuple(names)), *call.operands[3:]))
        )
        for register, variable, kind in moves:
            self._move(call, "ld", register, variable, kind)

    def _types(self, call: Instruction, given: Vector, parameters: bool) -> list[str]:
        """The declared type of each argument or result."""
        if all(isinstance(element, Symbol) for element in given.elements):
            return [""] * len(given.elements)
        callee = callee_of(self.module, call)
        declared: tuple[Variable, ...] | None = None
        if callee is not None:
            declared = callee.parameters if parameters else callee.returns
        elif len(call.operands) > 3 and isinstance(call.operands[3], Symbol):
            label = call.operands[3].name
            prototype = self.function.prototypes.get(label)
            listed = [f for n in self.function.call_targets.get(label, ()) if (f := self.module.functions.get(n)) is not None]
            if prototype is not None:
                declared = prototype.parameters if parameters else prototype.returns
            elif listed:
                declared = listed[0].parameters if parameters else listed[0].returns
        if declared is None or len(declared) != len(given.elements):
            raise self.refuse(call, "the types of its arguments and results are not known")
        return [variable.type for variable in declared]

    def _variable(self, call: Instruction, kind: str) -> str:
        name, kind = f"call@{call.index}.{len(self.variables)}", _passed(kind)
        size = max(1, type_bits(kind) // 8)
        self.variables[name] = Variable(name, "param", kind, size, size)
        return name


def _slot(name: str) -> str:
    return f"{name}@param"


def _in_param(parameter: Variable) -> Variable:
    if parameter.space != "reg":
        return parameter
    size = max(1, type_bits(_passed(parameter.type)) // 8)
    return replace(parameter, name=_slot(parameter.name), space="param", type=_passed(parameter.type), size=size, align=size)


def _passed(kind: str) -> str:
    """The type in which a parameter of `kind` is passed."""
    return _PASSED_PREDICATE if kind == "pred" else kind
