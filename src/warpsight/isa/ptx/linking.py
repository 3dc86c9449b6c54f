"""Functions that are called rather than expanded: their frames on the call stack of each thread and what each call copies, and
the functions that the runtime of the GPU provides.

The CUDA C++ Programming Guide lists them under "Formatted Output", "Dynamic Global Memory Allocation" and "Assertion". What they do
is in `emulator/run/externals.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from warpsight.isa.ptx.callgraph import CallPlan, Refuse, symbols_of
from warpsight.isa.ptx.cfg import build_cfg
from warpsight.isa.ptx.constants import type_bits
from warpsight.isa.ptx.dataflow import live_in
from warpsight.isa.ptx.program import (
    Address,
    CallSite,
    Function,
    Immediate,
    Instruction,
    Negated,
    Operand,
    Register,
    Symbol,
    Variable,
)
from warpsight.isa.ptx.program import Callable as CallableFunction


@dataclass(frozen=True)
class External:
    """PTX types of the parameters in order, and of the result ("" when there is none)."""

    parameters: tuple[str, ...]
    result: str


PRINTF, MALLOC, FREE, ASSERTION = "vprintf", "malloc", "free", "__assertfail"
ALIGNED_MALLOCS = ("__nv_aligned_device_malloc", "__cuda_syscall_aligned_malloc")  # `new` of an over-aligned type

EXTERNALS: dict[str, External] = {
    PRINTF: External(("b64", "b64"), "b32"),  # format, argument buffer; number of arguments
    MALLOC: External(("b64",), "b64"),  # size
    **dict.fromkeys(ALIGNED_MALLOCS, External(("b64", "b64"), "b64")),  # size, alignment
    FREE: External(("b64",), ""),
    ASSERTION: External(("b64", "b64", "b32", "b64", "b64"), ""),  # message, file, line, function, bytes of a character
}


DEVICE_RUNTIME = "the CUDA device runtime (kernels that start kernels)"


def why_not(name: str, where: str = "the PTX") -> str:
    """Why a call of a function that is not defined in `where` is refused."""
    if name.startswith(("cuda", "__cuda_syscall_cnp")):  # the latter in linked machine code, where the runtime itself is linked
        return f'it calls "{name}" of {DEVICE_RUNTIME}, which is not modelled'
    return f'it calls "{name}", which is not defined in {where}'


# -- Frames on each thread's call stack, and what each call copies and saves.
#
# A frame holds, from its start, the function's parameters and results (the same places for all functions of one prototype), the
# `.param` variables of its calls, the `.local` variables of a recursive function, and the registers that it saves around calls
# which may come back to it. The register `FRAME` is the address of the running function's frame in local memory.

FRAME = "%frame::"
FRAME_ALIGN = 16
_PARAM_WORDS = ("param", "param::func", "param::entry")


def return_register(name: str) -> str:
    """The register that says to which call a function returns."""
    return f"{name}::%return"


@dataclass(frozen=True)
class KeptCall:
    """A call that stays one: its index among the instructions, where it is, and its arguments and results by name."""

    index: int
    caller: str
    targets: tuple[str, ...]
    arguments: tuple[str, ...]
    results: tuple[str, ...]


@dataclass
class Linker:
    """Collects what one expansion leaves as calls and then rewrites it. `refuse` makes errors."""

    plan: CallPlan
    refuse: Refuse
    _calls: list[KeptCall] = field(default_factory=list)
    _variables: dict[str, dict[str, Variable]] = field(default_factory=dict)
    _ranges: dict[str, tuple[int, int]] = field(default_factory=dict)
    _signatures: dict[str, tuple[list[str], list[str]]] = field(default_factory=dict)

    def declare(self, root: str, variable: Variable) -> None:
        """A variable that may lie in the frame of `root`."""
        self._variables.setdefault(root, {})[variable.name] = variable

    def add(self, name: str, first: int, end: int, returns: list[str], parameters: list[str]) -> None:
        """A function whose body is instructions `[first, end)`, and the names of its results and parameters."""
        self._ranges[name] = (first, end)
        self._signatures[name] = (returns, parameters)

    def keep(self, call: KeptCall) -> None:
        """A call that stays one."""
        self._calls.append(call)

    def in_frame(self, instruction: Instruction, of_function: bool) -> Instruction:
        """Parameters of a device function, reached through a register, are in its frame and not among the kernel's."""
        if not of_function or instruction.opcode not in ("ld", "st") or "param" not in instruction.modifiers:
            return instruction
        return replace(instruction, modifiers=tuple("param::func" if m == "param" else m for m in instruction.modifiers))

    def link(self, whole: Function) -> Function:
        """Put variables into frames and describe the calls."""
        mentioned = {name for each in whole.instructions for name in symbols_of(each.operands)}
        mentioned.update(name for call in self._calls for name in (*call.arguments, *call.results))
        place: dict[str, int] = {}
        size = {root: self._lay_out(root, mentioned, place) for root in dict.fromkeys((whole.name, *self._ranges))}
        if not place and not self._calls:
            return whole
        whole, moved = _Rewriter(whole, place).rewritten()
        whole = replace(
            whole,
            registers={**whole.registers, FRAME: "b64"},
            callables={
                name: CallableFunction(moved[first], moved[end], size[name], return_register(name))
                for name, (first, end) in self._ranges.items()
            },
            call_sites={moved[call.index]: self._site(whole.instructions[moved[call.index]], call, place) for call in self._calls},
        )
        return self._with_saved_registers(whole, size)

    def _lay_out(self, root: str, mentioned: set[str], place: dict[str, int]) -> int:
        """Places in the frame of `root`; returns its bytes so far."""
        variables = self._variables.get(root, {})
        returns, parameters = self._signatures.get(root, ([], []))
        end = 0
        for name in (*parameters, *returns):
            place[name], end = next_place(end, variables[name].size)
        for name, variable in variables.items():
            if name in mentioned and name not in place:
                end = -(-end // max(variable.align, 8)) * max(variable.align, 8)
                place[name] = end
                end += -(-variable.size // 8) * 8
        return end

    def _site(self, instruction: Instruction, call: KeptCall, place: dict[str, int]) -> CallSite:
        """What a call copies: whole modifiers of 8 bytes, as places are apart by that."""
        sizes = {name: v.size for variables in self._variables.values() for name, v in variables.items()}
        shape = [sizes[name] for name in (*call.arguments, *call.results)]
        for target in call.targets:
            returns, parameters = self._signatures[target]
            if shape != [sizes[name] for name in (*parameters, *returns)] or len(parameters) != len(call.arguments):
                raise self.refuse(instruction, f'its arguments or results are not those that "{target}" has')
        copies, end = [], 0
        for name in (*call.arguments, *call.results):
            there, end = next_place(end, sizes[name])
            copies.append((place[name], there, -(-sizes[name] // 8) * 8))
        count = len(call.arguments)
        return CallSite(call.caller, call.targets, 0, tuple(copies[:count]), tuple(copies[count:]))

    def _with_saved_registers(self, whole: Function, size: dict[str, int]) -> Function:
        """Around a call that may come back to its caller, the caller's live registers go to its frame."""
        graph = build_cfg(whole)
        live = live_in(whole, graph) if any(self.plan.cycles.values()) else []
        sites: dict[int, CallSite] = {}
        frame = dict(size)
        for index, site in whole.call_sites.items():
            saved = []
            after = graph.block_of(index) + 1
            if not self.plan.cycles[site.caller].isdisjoint(site.targets) and after < len(graph):
                end = size[site.caller]
                for name in sorted(live[after] - {FRAME}):
                    width = max(4, type_bits(whole.registers[name]) // 8)
                    end = -(-end // width) * width
                    saved.append((name, end))
                    end += width
                frame[site.caller] = max(frame[site.caller], end)
            sites[index] = replace(site, saved=tuple(saved))
        frame = {name: max(FRAME_ALIGN, -(-end // FRAME_ALIGN) * FRAME_ALIGN) for name, end in frame.items()}
        return replace(
            whole, call_sites={index: replace(site, frame=frame[site.caller]) for index, site in sites.items()},
            callables={name: replace(each, frame=frame[name]) for name, each in whole.callables.items()}, frame=frame[whole.name],
        )


def next_place(end: int, size: int) -> tuple[int, int]:
    """Start and end of a parameter after `end` bytes of others: by sizes alone, so that all functions of a prototype agree."""
    align = 8 if size <= 8 else FRAME_ALIGN
    start = -(-end // align) * align
    return start, start + -(-size // 8) * 8


class _Rewriter:
    """Names of variables in frames become `FRAME` plus an offset."""

    def __init__(self, whole: Function, place: dict[str, int]) -> None:
        self._whole, self._place = whole, place
        self._instructions: list[Instruction] = []
        self._registers = dict(whole.registers)

    def rewritten(self) -> tuple[Function, list[int]]:
        """The function, and the new index of each old instruction (and of the end)."""
        moved = []
        for each in self._whole.instructions:
            moved.append(len(self._instructions))
            self._rewrite(each)
        moved.append(len(self._instructions))
        return replace(
            self._whole, instructions=tuple(replace(each, index=index) for index, each in enumerate(self._instructions)),
            registers=self._registers, labels={name: moved[index] for name, index in self._whole.labels.items()},
        ), moved

    def _rewrite(self, each: Instruction) -> None:
        if self._place.keys().isdisjoint(symbols_of(each.operands)):
            self._instructions.append(each)
            return
        modifiers = each.modifiers
        if each.opcode in ("ld", "st"):
            modifiers = tuple("param::func" if m in _PARAM_WORDS else m for m in modifiers)
        elif each.opcode == "cvta":
            modifiers = tuple("local" if m in _PARAM_WORDS else m for m in modifiers)  # frames lie in local memory
        if each.opcode == "mov" and isinstance(each.operands[1], Symbol):
            bits = type_bits(modifiers[-1]) if modifiers else 64
            operands = (each.operands[0], Register(FRAME), self._offset(each.operands[1]))
            self._instructions.append(replace(each, opcode="add", modifiers=(f"u{bits}",), operands=operands))
            return
        renamed = tuple(self._operand(each, operand) for operand in each.operands)
        self._instructions.append(replace(each, modifiers=modifiers, operands=renamed))

    def _operand(self, each: Instruction, operand: Operand | Negated) -> Operand | Negated:
        if isinstance(operand, Address) and isinstance(operand.base, Symbol) and operand.base.name in self._place:
            return Address(Register(FRAME), self._place[operand.base.name] + operand.base.offset + operand.offset)
        if isinstance(operand, Symbol) and operand.name in self._place:
            register = f"{FRAME}{len(self._registers)}"
            self._registers[register] = "b64"
            operands = (Register(register), Register(FRAME), self._offset(operand))
            self._instructions.append(replace(each, opcode="add", modifiers=("u64",), operands=operands, pair=None, guard=None))
            return Register(register)
        return operand

    def _offset(self, symbol: Symbol) -> Immediate:
        return Immediate(self._place[symbol.name] + symbol.offset, 64, False)
