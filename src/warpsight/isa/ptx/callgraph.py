"""Who calls whom: every call in one form, and which calls are expanded in place, which stay calls, and which functions a call
through a pointer may reach.

PTX lets a function declare `.reg` parameters, and lets a call name registers and constants. Here such a parameter becomes a
`.param` variable that is loaded at the function's start or stored before each return, and such an operand a variable that is stored
before the call or loaded after it. A predicate is passed as a 32-bit 0 or 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from warpsight.base.errors import UnsupportedError
from warpsight.isa.ptx.constants import type_bits, vector_lanes
from warpsight.isa.ptx.declarations import VECTOR_AXES
from warpsight.isa.ptx.program import Address, Function, Immediate, Instruction, Module, Register, Symbol, Variable, Vector

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
            function, instructions=tuple(replace(each, index=index) for index, each in enumerate(self.instructions)),
            labels={name: place[index] for name, index in function.labels.items()}, registers=function.registers | self.registers,
            variables=self.variables, parameters=tuple(_in_param(p) for p in function.parameters),
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


# -- Who calls whom: which calls are expanded in place, which stay calls, and which functions a call through a pointer may reach.

# Calls are expanded while the whole stays below this: code in place runs faster, but each instruction costs time to compile.
MOST_EXPANDED = 5_000


@dataclass
class CallPlan:
    """The functions that a kernel reaches, in param-space form, and how each call is made.

    `functions` by name; `callables` are those whose body is there once and is called, in module order; `recursive` those that may
    be called again before they return.
    """

    functions: dict[str, Function]
    callables: tuple[str, ...]
    kept: frozenset[str]  # functions that are never expanded in place
    cycles: dict[str, frozenset[str]]  # per function, those that lie on a cycle of calls with it; empty when there is none
    targets: dict[tuple[str, int], tuple[str, ...]] = field(default_factory=dict)  # of calls through pointers

    @property
    def recursive(self) -> frozenset[str]:
        """Functions that may be called again before they return."""
        return frozenset(name for name, others in self.cycles.items() if others)


def plan_calls(module: Module, kernel: Function, refuse: Refuse) -> CallPlan:
    """Look at everything that `kernel` may call. Errors are made by `refuse(instruction, why)`."""
    functions: dict[str, Function] = {}
    targets: dict[tuple[str, int], tuple[str, ...]] = {}
    direct: dict[str, list[str]] = {}
    through: dict[str, set[str]] = {}
    pending = [kernel]
    while pending:
        raw = pending.pop()
        if raw.name in functions:
            continue
        function = functions[raw.name] = in_param_space(module, raw, refuse)
        direct[raw.name], through[raw.name] = [], set()
        for call in _calls(function):
            named = call.operands[1]
            if isinstance(named, Symbol):
                known = module.functions.get(named.name)
                if known is not None and known.is_entry:
                    raise refuse(call, f'"{named.name}" is a kernel, and kernels are launched, not called')
                found: tuple[str, ...] = (known.name,) if known is not None else ()
                direct[raw.name].extend(found)
            else:
                found = targets[raw.name, call.index] = pointer_targets(module, function, call, refuse)
                through[raw.name].update(found)
            pending.extend(module.functions[name] for name in found)
    edges = {name: {*direct[name], *through[name]} for name in functions}
    cycles = _cycles(edges)
    pointed = set().union(*through.values())
    kept = {name for name, others in cycles.items() if others}
    sizes = {name: len(function.instructions) for name, function in functions.items()}
    _keep_the_largest(kernel.name, sizes, direct, pointed, kept)
    called = _still_called(kernel.name, direct, through, kept)
    order = tuple(name for name in module.functions if name in called)
    return CallPlan(functions, order, frozenset(kept), cycles, targets)


def pointer_targets(module: Module, function: Function, call: Instruction, refuse: Refuse) -> tuple[str, ...]:
    """The functions that a call through a pointer may reach: those of its `.calltargets` list, else all of the module whose address
    is taken and whose parameters and results have the sizes of the call's."""
    label = call.operands[3].name if len(call.operands) > 3 and isinstance(call.operands[3], Symbol) else ""
    shape = (_sizes(function, call.operands[0], call, refuse), _sizes(function, call.operands[2], call, refuse))
    names: Iterable[str] = function.call_targets.get(label, ())
    if not names:
        if label not in function.prototypes:
            raise refuse(call, "a call through a pointer without its prototype or the list of its targets is not recognized")
        taken = _addresses_taken(module)
        names = (name for name in module.functions if name in taken)
    found = dict.fromkeys(module.functions[name].name for name in names if name in module.functions)
    return tuple(name for name in found if _shape(module.functions[name]) == shape and not module.functions[name].is_entry)


def _sizes(function: Function, operand: object, call: Instruction, refuse: Refuse) -> tuple[int, ...]:
    declared = {v.name: v for v in (*function.parameters, *function.returns)} | function.variables
    found = []
    for element in operand.elements if isinstance(operand, Vector) else ():
        variable = declared.get(element.name) if isinstance(element, Symbol) else None
        if variable is None:
            raise refuse(call, "an argument that is not a .param variable is not modelled")
        found.append(variable.size)
    return tuple(found)


def _shape(function: Function) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return tuple(v.size for v in function.returns), tuple(v.size for v in function.parameters)


def _calls(function: Function) -> Iterator[Instruction]:
    return (each for each in function.instructions if each.opcode == "call")


def _addresses_taken(module: Module) -> set[str]:
    """Functions of the module whose address an instruction or an initial value takes."""
    found: set[str] = set()
    variables = list(module.variables.values())
    for function in module.functions.values():
        variables.extend(function.variables.values())
        for each in function.instructions:
            operands = each.operands if each.opcode != "call" else ()
            found.update(name for name in symbols_of(operands) if name in module.functions)
    found.update(name for v in variables for _, name, _ in v.initial_symbols if name in module.functions)
    return found


def symbols_of(operands: Iterable[object]) -> Iterator[str]:
    """Names of the symbols among operands and in their addresses."""
    for operand in operands:
        base = operand.base if isinstance(operand, Address) else operand
        if isinstance(base, Symbol):
            yield base.name


def _cycles(edges: dict[str, set[str]]) -> dict[str, frozenset[str]]:
    """Per function, the functions that it reaches and that reach it; a function is among them when it reaches itself."""
    reach = {name: _reached(name, edges) for name in edges}
    return {name: frozenset(other for other in reach[name] if name in reach[other]) for name in edges}


def _reached(start: str, edges: dict[str, set[str]]) -> set[str]:
    """What `start` calls, directly or not; itself only on a cycle."""
    seen: set[str] = set()
    pending = list(edges[start])
    while pending:
        name = pending.pop()
        if name not in seen:
            seen.add(name)
            pending.extend(edges[name])
    return seen


def _keep_the_largest(kernel: str, own: dict[str, int], direct: dict[str, list[str]], pointed: set[str], kept: set[str]) -> None:
    """Add to `kept` the functions whose copies cost most, until the code that is left is small enough or no copies are left."""
    while True:
        order = _callees_first(kernel, direct, kept, pointed)
        size: dict[str, int] = {}
        for name in order:
            size[name] = own[name] + sum(size[callee] for callee in direct[name] if callee not in kept)
        copies: Counter[str] = Counter({name: 1 for name in order if name == kernel or name in kept or name in pointed})
        total = sum(size[name] for name in copies)
        expanded: Counter[str] = Counter()
        for name in reversed(order):
            for callee in direct[name]:
                if callee not in kept:
                    copies[callee] += copies[name]
                    expanded[callee] += copies[name]
        saving = {name: (count - 1) * size[name] for name, count in expanded.items() if count > 1}
        if total <= MOST_EXPANDED or not saving:
            return
        kept.add(max(sorted(saving), key=saving.__getitem__))


def _callees_first(kernel: str, direct: dict[str, list[str]], kept: set[str], pointed: set[str]) -> list[str]:
    """All reached functions, each after those that are expanded in it. Calls of kept functions do not count."""
    order: list[str] = []
    seen: set[str] = set()
    for root in (kernel, *sorted(kept), *sorted(pointed)):
        stack: list[tuple[str, Iterator[str]]] = []
        if root not in seen:
            seen.add(root)
            stack.append((root, iter(direct[root])))
        while stack:
            name, rest = stack[-1]
            for callee in rest:
                if callee not in seen and callee not in kept:
                    seen.add(callee)
                    stack.append((callee, iter(direct[callee])))
                    break
            else:
                order.append(name)
                stack.pop()
    return order


def _still_called(kernel: str, direct: dict[str, list[str]], through: dict[str, set[str]], kept: set[str]) -> set[str]:
    """Functions that are called rather than expanded, from code that is there."""
    called: set[str] = set()
    seen: set[str] = set()
    pending = [kernel]
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        called.update(through[name])
        called.update(callee for callee in direct[name] if callee in kept)
        pending.extend((*direct[name], *through[name]))
    return called
