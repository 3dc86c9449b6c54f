"""The call graph of a kernel: every call in one form, which calls are expanded in place and which stay calls, and which functions
a call through a pointer may reach.

PTX lets a function declare `.reg` parameters, and lets a call name registers and constants. Here such a parameter becomes a
`.param` variable that is loaded at the function's start or stored before each return, and such an operand a variable that is stored
before the call or loaded after it. A predicate is passed as a 32-bit 0 or 1. Errors are made by `refuse(instruction, why)`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from warpsight.base.errors import UnsupportedError
from warpsight.isa.ptx.cfg import postorder
from warpsight.isa.ptx.constants import type_bits, vector_lanes
from warpsight.isa.ptx.declarations import VECTOR_AXES
from warpsight.isa.ptx.program import Address, Function, Immediate, Instruction, Module, Register, Symbol, Variable, Vector

Refuse = Callable[[Instruction, str], UnsupportedError]

_PASSED_PREDICATE = "b32"
_ONE, _ZERO = Immediate(1, 1, False), Immediate(0, 0, False)


def in_param_space(module: Module, function: Function, refuse: Refuse) -> Function:
    """`function` with calls and parameters in that form: itself when it has it already."""
    lists = (operand for call in _calls(function) for operand in call.operands[:3:2] if isinstance(operand, Vector))
    in_registers = any(p.space == "reg" for p in (*function.parameters, *function.returns))
    if in_registers or any(not isinstance(element, Symbol) for operand in lists for element in operand.elements):
        return _Rewriter(module, function, refuse).rewritten()
    return function


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

    def _give_results(self, origin: Instruction) -> None:
        for result in self.function.returns:
            if result.space == "reg":
                self._move(origin, "st", self._own(result), _slot(result.name), result.type)

    def _own(self, parameter: Variable) -> Register | Vector:
        """The register, or the vector of them, that the function declares as a parameter."""
        lanes = vector_lanes((parameter.type.partition(".")[0],))
        if lanes == 1:
            return Register(parameter.name)
        return Vector(tuple(Register(f"{parameter.name}.{axis}") for axis in VECTOR_AXES[:lanes]))

    def _move(self, origin: Instruction, opcode: str, value: Register | Immediate | Vector, name: str, kind: str) -> None:
        address = Address(Symbol(name))
        origin = replace(origin, pair=None)
        if kind == "pred" and isinstance(value, Register):
            self._move_predicate(origin, opcode, value, address)
            return
        operands = (address, value) if opcode == "st" else (value, address)
        modifiers = ("param", *_passed(kind).split("."))
        self.instructions.append(replace(origin, opcode=opcode, modifiers=modifiers, operands=operands))

    def _move_predicate(self, origin: Instruction, opcode: str, value: Register, address: Address) -> None:
        number = Register(f"{address.base.name}.number")  # type: ignore[union-attr]
        self.registers[number.name] = _PASSED_PREDICATE
        access = replace(origin, opcode=opcode, modifiers=("param", _PASSED_PREDICATE))
        if opcode == "st":
            select = replace(origin, opcode="selp", modifiers=(_PASSED_PREDICATE,), operands=(number, _ONE, _ZERO, value))
            self.instructions += [select, replace(access, operands=(address, number))]
        else:
            test = replace(origin, opcode="setp", modifiers=("ne", _PASSED_PREDICATE), operands=(value, number, _ZERO))
            self.instructions += [replace(access, operands=(number, address)), test]

    def _call(self, call: Instruction) -> None:
        returns, target, arguments = call.operands[:3]
        assert isinstance(returns, Vector)
        assert isinstance(arguments, Vector)
        argument_kinds = self._types(call, arguments, parameters=True)
        result_kinds = self._types(call, returns, parameters=False)
        names: list[Symbol] = []
        for element, kind in zip(arguments.elements, argument_kinds, strict=True):
            if isinstance(element, Symbol):
                names.append(element)
            elif isinstance(element, Register | Immediate | Vector):
                names.append(Symbol(self._variable(call, kind)))
                self._move(call, "st", element, names[-1].name, kind)
            else:
                raise self.refuse(call, "an argument of this kind is not modelled")
        results: list[Symbol] = []
        moves: list[tuple[Register | Vector, str, str]] = []
        for element, kind in zip(returns.elements, result_kinds, strict=True):
            if isinstance(element, Symbol):
                results.append(element)
            elif element is None or isinstance(element, Register | Vector):
                results.append(Symbol(self._variable(call, kind)))
                if element is not None:
                    moves.append((element, results[-1].name, kind))
            else:
                raise self.refuse(call, "a result of this kind is not modelled")
        operands = (Vector(tuple(results)), target, Vector(tuple(names)), *call.operands[3:])
        self.instructions.append(replace(call, operands=operands))
        for register, variable, kind in moves:
            self._move(call, "ld", register, variable, kind)

    def _types(self, call: Instruction, operand: Vector, parameters: bool) -> list[str]:
        """The declared type of each argument or result."""
        if all(isinstance(element, Symbol) for element in operand.elements):
            return [""] * len(operand.elements)
        target, label, functions = call.operands[1], _label(call), self.module.functions
        callee = functions.get(target.name) if isinstance(target, Symbol) else None
        listed = (functions[name] for name in self.function.call_targets.get(label, ()) if name in functions)
        signature = callee or self.function.prototypes.get(label) or next(listed, None)
        declared = () if signature is None else signature.parameters if parameters else signature.returns
        if len(declared) != len(operand.elements):
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


# -- Which calls are expanded in place, which stay calls, and which functions a call through a pointer may reach.

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
    """Look at everything that `kernel` may call."""
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
            target = call.operands[1]
            if isinstance(target, Symbol):
                known = module.functions.get(target.name)
                if known is not None and known.is_entry:
                    raise refuse(call, f'"{target.name}" is a kernel, and kernels are launched, not called')
                callees: tuple[str, ...] = (known.name,) if known is not None else ()
                direct[raw.name].extend(callees)
            else:
                callees = targets[raw.name, call.index] = pointer_targets(module, function, call, refuse)
                through[raw.name].update(callees)
            pending.extend(module.functions[name] for name in callees)
    edges = {name: {*direct[name], *through[name]} for name in functions}
    reach = {name: {*postorder(edges[name], edges)} for name in functions}  # itself only on a cycle
    cycles = {name: frozenset(other for other in reach[name] if name in reach[other]) for name in functions}
    pointed = set().union(*through.values())
    kept = {name for name, others in cycles.items() if others}
    sizes = {name: len(function.instructions) for name, function in functions.items()}
    _keep_the_largest(kernel.name, sizes, direct, pointed, kept)
    there = {kernel.name, *reach[kernel.name]}
    called = {callee for name in there for callee in edges[name] if callee in through[name] or callee in kept}
    order = tuple(name for name in module.functions if name in called)
    return CallPlan(functions, order, frozenset(kept), cycles, targets)


def _label(call: Instruction) -> str:
    """The label of the prototype or list of targets that a call names, "" when it names none."""
    return call.operands[3].name if len(call.operands) > 3 and isinstance(call.operands[3], Symbol) else ""


def pointer_targets(module: Module, function: Function, call: Instruction, refuse: Refuse) -> tuple[str, ...]:
    """The functions that a call through a pointer may reach: those of its `.calltargets` list, else all of the module whose address
    is taken and whose parameters and results have the sizes of the call's."""
    label = _label(call)
    shape = (_sizes(function, call.operands[0], call, refuse), _sizes(function, call.operands[2], call, refuse))
    names: Iterable[str] = function.call_targets.get(label, ())
    if not names:
        if label not in function.prototypes:
            raise refuse(call, "a call through a pointer without its prototype or the list of its targets is not recognized")
        taken = _addresses_taken(module)
        names = (name for name in module.functions if name in taken)
    candidates = {f.name: f for name in names if (f := module.functions.get(name)) is not None and not f.is_entry}
    return tuple(
        name for name, f in candidates.items() if (tuple(v.size for v in f.returns), tuple(v.size for v in f.parameters)) == shape
    )


def _sizes(function: Function, operand: object, call: Instruction, refuse: Refuse) -> tuple[int, ...]:
    declared = {v.name: v for v in (*function.parameters, *function.returns)} | function.variables
    names = [e.name if isinstance(e, Symbol) else "" for e in operand.elements] if isinstance(operand, Vector) else []
    if not declared.keys() >= {*names}:
        raise refuse(call, "an argument that is not a .param variable is not modelled")
    return tuple(declared[name].size for name in names)


def _calls(function: Function) -> Iterator[Instruction]:
    return (each for each in function.instructions if each.opcode == "call")


def _addresses_taken(module: Module) -> set[str]:
    """Functions of the module whose address an instruction or an initial value takes."""
    names: set[str] = set()
    variables = list(module.variables.values())
    for function in module.functions.values():
        variables.extend(function.variables.values())
        names.update(name for each in function.instructions if each.opcode != "call" for name in symbols_of(each.operands))
    names.update(name for variable in variables for _, name, _ in variable.initial_symbols)
    return names & module.functions.keys()


def symbols_of(operands: Iterable[object]) -> Iterator[str]:
    """Names of the symbols among operands and in their addresses."""
    for operand in operands:
        base = operand.base if isinstance(operand, Address) else operand
        if isinstance(base, Symbol):
            yield base.name


def _keep_the_largest(kernel: str, own: dict[str, int], direct: dict[str, list[str]], pointed: set[str], kept: set[str]) -> None:
    """Add to `kept` the functions whose copies cost most, until the code that is left is small enough or no copies are left."""
    while True:
        # Each after those that are expanded in it. Calls of kept functions do not count.
        expanded_in = {name: [callee for callee in callees if callee not in kept] for name, callees in direct.items()}
        order = postorder((kernel, *sorted(kept), *sorted(pointed)), expanded_in)
        size: dict[str, int] = {}
        for name in order:
            size[name] = own[name] + sum(size[callee] for callee in expanded_in[name])
        copies: Counter[str] = Counter({name: 1 for name in order if name == kernel or name in kept or name in pointed})
        total = sum(size[name] for name in copies)
        expanded: Counter[str] = Counter()
        for name in reversed(order):
            for callee in expanded_in[name]:
                copies[callee] += copies[name]
                expanded[callee] += copies[name]
        saving = {name: (count - 1) * size[name] for name, count in expanded.items() if count > 1}
        if total <= MOST_EXPANDED or not saving:
            return
        kept.add(max(sorted(saving), key=saving.__getitem__))
