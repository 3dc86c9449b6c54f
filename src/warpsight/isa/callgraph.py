"""Who calls whom: which calls are expanded in place, which stay calls, and which functions a call through a pointer may reach."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from warpsight.base.errors import UnsupportedError
from warpsight.isa.call_forms import in_param_space
from warpsight.isa.program import Address, Function, Instruction, Module, Symbol, Vector

Refuse = Callable[[Instruction, str], UnsupportedError]

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
            raise refuse(call, "a call through a pointer without its prototype or the list of its targets is not understood")
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
    """All reached functions, each after those that are expanded in it. Calls of kept functions are no obstacle: they end there."""
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
