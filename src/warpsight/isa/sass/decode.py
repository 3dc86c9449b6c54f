"""From a listing of machine code to a `Function` as the rest of Warpsight knows it: the kernel, then the functions it may call.

Each instruction keeps what it is in machine code (`native`). Beside it stands what it is in the terms that control flow, barriers
and memory accesses have at both levels: its opcode, modifiers and operands in PTX's words. Code that only asks where an instruction
goes, for whom it waits or what it accesses therefore needs no second version.
"""

from __future__ import annotations

from collections.abc import Callable as Maker
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

from warpsight.base.errors import FormatError
from warpsight.isa.ptx.linking import EXTERNALS
from warpsight.isa.ptx.program import (
    Callable,
    CallSite,
    Function,
    Guard,
    Instruction,
    Negated,
    Operand,
    Register,
    Symbol,
    Variable,
)
from warpsight.isa.sass.images import FETCHES, QUERIES, image_widths, surface_registers
from warpsight.isa.sass.listing import MISSHAPEN, NO_LINE, ListedInstruction, ListedSection, SourceLine
from warpsight.isa.sass.native import (
    HALVED,
    TRUE_PREDICATES,
    NativeAddress,
    NativeDescriptors,
    NativeImmediate,
    NativeInstruction,
    NativeOperand,
    NativeRegister,
    NativeSymbol,
    NativeWord,
    control_word,
    halved_widths,
    is_predicate,
    parse_operand,
)
from warpsight.isa.sass.opcodes import Meaning, SassOpcode, SassTable
from warpsight.isa.sass.registers import conversion_registers, matrix_registers, split_operands, tensor_memory_words
from warpsight.isa.sass.structure import (
    BARRIER_COUNT,
    BARRIER_VOTE,
    CLUSTER_WINDOW,
    COMPUTED,
    EXCLUDED,
    NEVER,
    RETURN_PC,
    computes_condition,
    exchange_behind,
    operand_registers,
    parts_lanes,
    structure,
    tensor_registers,
)

_meaning = lru_cache(maxsize=1 << 12)(SassTable().meaning)
# Op classes where they follow the pipe that executes an opcode on Volta and later, not its meaning. Nsight Compute's documentation,
# "Pipelines": FMA executes FP32 arithmetic, integer multiplies and dot products, with which the assembler also moves and shifts;
# ALU executes logic, integers without multiplies and, as NVIDIA's scheduling data of these opcodes say (Mesa's compiler NAK,
# sm75_instr_latencies.rs and sm80_instr_latencies.rs), comparisons and selections of floats and conversions of fixed latency. They
# lack I2FP, for which the assembler sets no barrier, either.
_PIPES = {
    "BAR": "barrier", "FCHK": "sfu",
    **dict.fromkeys(("IMAD", "IDP"), "imad"),
    **dict.fromkeys(("FMNMX", "FSEL", "FSET", "FSETP", "F2FP", "I2FP", "I2I", "I2IP"), "int"),
    **dict.fromkeys(("LDC", "LDCU", "ULDC"), "constant"),
    **dict.fromkeys(("S2UR", "R2UR"), "uniform"),
}


def pipe_class(base: str, row: SassOpcode) -> str:
    """The op class of an opcode on Volta and later; the uniform datapath has a pipe of its own."""
    uniform = base.startswith("U") and row.op_class in ("int", "fp32", "sfu")
    return _PIPES.get(base, "uniform" if uniform else row.op_class)


# -- Registers read and written.


def _widths(meaning: Meaning, mnemonic: str, operands: Sequence[NativeOperand], results: int) -> list[int]:
    """How many consecutive registers each operand takes."""
    row, tokens = meaning.row, mnemonic.split(".")
    base = tokens[0]
    if row.op_class == "tensor":
        return matrix_registers(row, mnemonic, operands)
    data = max(1, meaning.bytes // 4) if row.access else 1
    widths = [1] * len(operands)
    for k, operand in enumerate(operands):
        if isinstance(operand, NativeAddress):
            continue
        if row.access:
            widths[k] = data if not (base.startswith("ATOM") and "CAS" not in tokens and k > results + 1) else 1
        elif ("d" in row.wide and k < results and not is_predicate(operand)) or ("s" in row.wide and k >= results):
            widths[k] = 1 if getattr(operand, "part", "") == "F32" else 2  # of `FADD2`: a single for both of a pair
    if base in ("IMAD", "UIMAD") and {"WIDE", "HI"} & set(tokens):  # also the upper word is that of the product plus a pair
        sources = [k for k, operand in enumerate(operands) if k >= results and not is_predicate(operand)]
        widths[0] = 2 if "WIDE" in tokens else 1
        widths[sources[0]], widths[sources[1]], widths[sources[2]] = 1, 1, 2
    if base in ("I2F", "F2I", "F2F", "FRND", "MATCH", "I2I"):
        widths = conversion_registers(tokens, operands)
    if base in ("BRX", "BRXU", "CALL", "RET"):
        widths = [2] * len(operands)
    if base == "SYNCS" and "EXCH" not in tokens:  # the result of an arrival is the old object
        widths = [2 if k < results and not is_predicate(operand) else 1 for k, operand in enumerate(operands)]
    if base.startswith(("UBLK", "UTMA", "UTC")) and row.access:
        widths = [1] * len(operands)
    if words := tensor_memory_words(mnemonic):
        widths = [words if isinstance(operand, NativeRegister) else 1 for operand in operands]
    if base == "UTCCP":
        widths = [1, 2]
    return image_widths(mnemonic, operands, data) or halved_widths(tokens, operands) or widths


def _widened(mnemonic: str, operands: tuple[NativeOperand, ...]) -> tuple[NativeOperand, ...]:
    """Operands with 64-bit addresses (`.E`) as such: code of sm_75, and some of later ones, does not mark pairs of registers. Bulk
    copies have two uniform registers for what they write, and for what they read in device memory; instructions of tensor memory
    have a descriptor for each matrix.
    """
    if mnemonic.startswith(("UBLK", "UTMA")):
        pairs = 2 if ".S.G" in mnemonic or mnemonic.startswith("UTMA") else 1
        return tuple(replace(o, wide_uniform=k < pairs) if isinstance(o, NativeAddress) else o for k, o in enumerate(operands))
    if mnemonic.startswith("UTC"):
        return tuple(replace(o, registers=2) if isinstance(o, NativeDescriptors) else o for o in operands)
    if ".E" not in mnemonic or "E" not in mnemonic.split("."):
        return operands
    shared = next((k for k, o in enumerate(operands) if isinstance(o, NativeAddress)), -1) if mnemonic.startswith("LDGSTS") else -1
    return tuple(
        replace(o, wide=not o.short, wide_uniform=True) if isinstance(o, NativeAddress) and k != shared else o
        for k, o in enumerate(operands)
    )


def _results(meaning: Meaning, mnemonic: str, operands: Sequence[NativeOperand]) -> int:
    """How many leading operands are written."""
    leading: list[str] = []
    for operand in operands:
        if not isinstance(operand, NativeRegister):
            break
        leading.append(operand.name)
    base = mnemonic.partition(".")[0]
    if base in ("IADD3", "UIADD3", "VIMNMX") and len(operands) > 1:  # two carries come out of a sum of three, or two comparisons
        return 1 + sum(1 for k in (1, 2) if all(map(is_predicate, operands[1 : k + 1])))
    if base == "IMNMX" and len(leading) > 2 and is_predicate(operands[0]):  # of register pairs
        return 3
    if base in ("R2P", "DEPBAR", "NANOSLEEP", "R2B", "CALL"):
        return 0
    if base in (*FETCHES, *QUERIES) or (leading and HALVED in mnemonic):
        return 2
    written = split_operands(meaning.row, mnemonic, leading)[0] if leading else ()
    return len(written)


def _names(
    mnemonic: str, operands: Sequence[NativeOperand], widths: Sequence[int], results: int, externals: Sequence[str]
) -> tuple[list[str], list[str]]:
    """(read, written) registers."""
    reads: list[str] = []
    writes: list[str] = []
    for k, operand in enumerate(operands):
        (reads if k >= results else writes).extend(operand_registers(operand, widths[k]))
    reads += surface_registers(mnemonic, operands) + tensor_registers(mnemonic, operands)
    tokens = mnemonic.split(".")
    base = tokens[0]
    if base in ("P2R", "R2P", "UP2UR", "UR2UP"):
        kind = "UP" if base.startswith("U") else "P"
        mask = next((o.value for o in reversed(operands) if isinstance(o, NativeImmediate)), 0x7F)
        flags = [f"{kind}{k}" for k in range(7) if mask >> k & 1]
        (writes if base in ("R2P", "UR2UP") else reads).extend(flags)
    if base == "CALL":
        # The calling convention: arguments from R4 on, 64-bit ones in even pairs, the result in R4 (and R5).
        known = [operands[0].name] if isinstance(operands[0], NativeSymbol) else externals
        if arguments := [2 * len(EXTERNALS[name].parameters) for name in known if name in EXTERNALS]:
            reads += [f"R{k}" for k in range(4, 4 + max(arguments))]
            writes += ["R4", "R5"]
    if base == "LDTM" and any(token.startswith("16dp32bit_t") for token in tokens):  # the lanes of one half
        reads += operand_registers(operands[0], widths[0])
    if base == "R2UR" and "OR" in tokens:
        reads += operand_registers(operands[0], 1)
    if base == "RPCMOV":
        for k, operand in enumerate(operands):
            if isinstance(operand, NativeWord) and operand.text in RETURN_PC:
                (reads if k else writes).append(operand.text)
    if base == "BAR" and "RED" in tokens:
        writes.append(BARRIER_COUNT if "POPC" in tokens else BARRIER_VOTE)
    if base == "B2R" and "RESULT" in tokens:
        reads.append(BARRIER_VOTE if any(map(is_predicate, operands)) else BARRIER_COUNT)
    return reads, writes


# -- A kernel with the functions that it may call.


def _code_of(section: ListedSection) -> ListedSection:
    """The section without the padding behind its last instruction."""
    end = len(section.instructions)
    while end > 1 and section.instructions[end - 1].mnemonic == "NOP":
        end -= 1
    return replace(section, instructions=section.instructions[:end])


def _with_called_labels(section: ListedSection) -> ListedSection:
    """The section with the functions that are called by a label: the assembler keeps the names of some only.

    A "call" of code that returns nowhere is a branch over a long distance, and no function begins there.
    """
    called = {name for i in section.instructions if i.mnemonic.startswith("CALL") for name in _labels_in("".join(i.operands[:1]))}
    known = set(section.functions.values())
    starts = sorted({section.labels[name] for name in called if name in section.labels} - known)
    ends = sorted({*starts, *known, 16 * len(section.instructions)})
    returns = [i.address for i in section.instructions if i.mnemonic.startswith("RET")]
    found = {label_of(section.name, start): start for start in starts if any(
        start <= address < next(end for end in ends if end > start) for address in returns
    )}  # fmt: skip
    return replace(section, functions=section.functions | found)


def _labels_in(operand: str) -> tuple[str, ...]:
    return (operand[2:-1],) if operand.startswith("`(") else ()


class _Program:
    """Sections laid one after the other: the kernel's first. Positions are indices of instructions."""

    def __init__(self, sections: Mapping[str, ListedSection], kernel: str, place: str, kernels: Container[str]) -> None:
        if kernel not in sections:
            raise FormatError(f"has no code for {kernel}", place=place)
        self.place = place
        self.sections = [sections[kernel]]
        called = {name for name in sections if name != kernel}
        pending = [sections[kernel]]
        while pending:  # functions that are named, directly or in data; an address in data may be of any function
            section = pending.pop()
            for name in sorted(called):
                if _mentions(section, name) or _calls_anything(section):
                    called.discard(name)
                    if sections[name].functions and name not in kernels:
                        self.sections.append(sections[name])
                        pending.append(sections[name])
        self.sections = [_with_called_labels(_code_of(section)) for section in self.sections]
        self.first: dict[str, int] = {}
        count = 0
        for section in self.sections:
            self.first[section.name] = count
            count += len(section.instructions)

    def index(self, section: str, address: int) -> int:
        """The position of an address."""
        return self.first[section] + address // 16

    def functions(self) -> dict[str, tuple[int, int]]:
        """First and last position of each function that is not the kernel's own body."""
        found = {}
        for k, section in enumerate(self.sections):
            starts = sorted((address, name) for name, address in section.functions.items() if k or address)
            for (address, name), (end, _) in pairwise([*starts, (16 * len(section.instructions), "")]):
                found[name] = (self.index(section.name, address), self.first[section.name] + end // 16)
        return found


def _mentions(section: ListedSection, name: str) -> bool:
    return any(name in operand for i in section.instructions for operand in i.operands)


def _calls_anything(section: ListedSection) -> bool:
    return any(i.mnemonic.startswith("CALL") and not "".join(i.operands[:1]).startswith("`") for i in section.instructions)


def label_of(section: str, address: int) -> str:
    """The label of an address, under which `Function.labels` has it."""
    return f"{section}+{address:#x}"


def return_register(function: str) -> str:
    """The name that stands for where a function returns to."""
    return f"%return::{function}"


def decode_kernel(
    sections: Mapping[str, ListedSection], kernel: str, parameters: tuple[Variable, ...],
    source_lines: Mapping[int, SourceLine], place: str, kernels: Container[str], externals: Sequence[str] = (),
) -> Function:
    """`kernel` of a listing, with the functions that it may call behind it.

    `source_lines` gives the source's line by line of the PTX text, where the listing does not. `kernels` are the names of all
    kernels, `externals` the functions of the runtime that it may call through registers. Raises FormatError for a listing that is
    not understood.
    """
    program = _Program(sections, kernel, place, kernels)
    decoder = _Decoder(program, source_lines, externals)
    instructions = tuple(decoder.instructions())
    registers: dict[str, str] = {BARRIER_COUNT: "b32", BARRIER_VOTE: "pred", COMPUTED: "pred", NEVER: "pred"}
    for instruction in instructions:
        assert instruction.native is not None
        for name in (*instruction.native.reads, *instruction.native.writes):
            if name not in registers:
                registers[name] = "pred" if name.lstrip("U")[0] == "P" else "b32"
        if instruction.native.mnemonic.startswith("S2") and _CLUSTER_WINDOWS.intersection(instruction.native.operands):
            registers[CLUSTER_WINDOW] = "b32"
    callables = {name: Callable(first, end, 0, return_register(name)) for name, (first, end) in program.functions().items()}
    function = Function(
        kernel, True, parameters, instructions, registers, decoder.labels, branch_targets=decoder.branch_targets,
        callables=callables
    )
    sites = decoder.call_sites(callables, instructions)
    return replace(function, call_sites=sites, frame=LEAST_FRAME if _may_recur(sites, callables) else 0)


_CLUSTER_WINDOWS = frozenset({NativeWord("SR_CgaCtaId"), NativeWord("SR_SWINHI")})  # from which such addresses are made
LEAST_FRAME = 16  # of a function that may call itself, whose stack has no bound


def _may_recur(sites: Mapping[int, CallSite], callables: Mapping[str, Callable]) -> bool:
    """Whether a function may come to call itself."""
    calls = {
        name: {target for index, site in sites.items() if body.first <= index < body.end for target in site.targets}
        for name, body in callables.items()
    }
    while True:
        leaves = {name for name, targets in calls.items() if not targets}
        if not leaves:
            return bool(calls)
        calls = {name: targets - leaves for name, targets in calls.items() if name not in leaves}


_SEEING = ("VOTE", "VOTEU", "MATCH", "REDUX", "CREDUX", "ELECT", "BRA")  # what depends on which lanes run together
_PARTING = ("WARPSYNC", "BSYNC", "ENDCOLLECTIVE")  # what changes which lanes do


def _gathered(section: ListedSection) -> list[tuple[str, bool]]:
    """For each instruction what `structure` wants to know of those around it."""
    found, collective = [], False
    for k, listed in enumerate(section.instructions):
        base, *modifiers = listed.mnemonic.split(".")
        collective = collective and base != "ENDCOLLECTIVE"
        found.append((exchange_behind(section.instructions[k + 1 :]) if base == "WARPSYNC" else "", collective))
        collective = collective or "COLLECTIVE" in modifiers
    return found


def _guard(listed: ListedInstruction, reads: list[str]) -> Guard | None:
    """The guard, which is read; none if it always holds."""
    if not listed.guard:
        return None
    name, negated = listed.guard.lstrip("!"), listed.guard.startswith("!")
    if name in TRUE_PREDICATES:
        return Guard(Register(NEVER), False) if negated else None
    reads.insert(0, name)
    return Guard(Register(name), negated)


class _Decoder:
    """Decodes the instructions of a program in order; `labels` and `branch_targets` are complete after that."""

    def __init__(self, program: _Program, source_lines: Mapping[int, SourceLine], externals: Sequence[str]) -> None:
        self.program, self.source_lines, self.externals = program, source_lines, externals
        self.labels: dict[str, int] = {}
        self.branch_targets: dict[str, tuple[str, ...]] = {}
        self.exclusive = any(parts_lanes(i.mnemonic) for section in program.sections for i in section.instructions)
        self._gathering = {section.name: _gathered(section) for section in program.sections}
        self._owners = sorted((first, end, name) for name, (first, end) in program.functions().items())

    def instructions(self) -> list[Instruction]:
        """All of them."""
        found: list[Instruction] = []
        for section in self.program.sections:
            for listed in section.instructions:
                try:
                    found.append(self._instruction(section, listed, len(found)))
                except MISSHAPEN as error:
                    what = f'the operands of "{listed.text}" are not recognized'
                    raise listed.refused(f"{self.program.place}:{section.name}", what) from error
        return found

    def _instruction(self, section: ListedSection, listed: ListedInstruction, index: int) -> Instruction:
        try:
            operands = tuple([self._placed(section, parse_operand(text, listed.encoding)) for text in listed.operands])
        except ValueError as error:
            what = f'operand "{error}" of {listed.mnemonic} is not recognized'
            raise listed.refused(f"{self.program.place}:{section.name}", what) from None
        operands = _widened(listed.mnemonic, operands)
        meaning = _meaning(listed.mnemonic)
        results = _results(meaning, listed.mnemonic, operands)
        widths = _widths(meaning, listed.mnemonic, operands, results)
        reads, writes = _names(listed.mnemonic, operands, widths, results, self.externals)
        guard = _guard(listed, reads)
        around = self._gathering[section.name][listed.address // 16]
        opcode, modifiers, structural = structure(meaning, listed.mnemonic, operands, *around)
        first = operands[0] if operands else None
        if opcode == "call" and isinstance(first, NativeSymbol) and first.name in self.labels.keys() - section.functions:
            opcode = "bra"  # nothing returns from there
        if opcode in _FLOW:
            guard, structural = _FLOW[opcode](self, section, listed, operands, guard, index)
        if self.exclusive:
            base = listed.mnemonic.partition(".")[0]
            reads += [EXCLUDED] if base in _SEEING else []
            writes += [EXCLUDED] if base in _PARTING else []
        row = meaning.row
        has_access = bool(row.access) and row.space != "const" and meaning.bytes > 0
        native = NativeInstruction(
            section.name, listed.address, listed.text, listed.mnemonic, operands, results,
            tuple(dict.fromkeys(n for n in reads if n not in TRUE_PREDICATES)), tuple(dict.fromkeys(writes)),
            pipe_class(listed.mnemonic.partition(".")[0], row),
            _space(row.space, listed.mnemonic) if has_access else "", row.access if has_access else "",
            meaning.bytes if has_access else 0, control_word(listed.encoding),
        )  # fmt: skip
        file, line, calls = listed.source or self.source_lines.get(listed.ptx_line, NO_LINE)
        return Instruction(index, opcode, modifiers, structural, guard, None, listed.ptx_line, file, line, native, calls)

    def _placed(self, section: ListedSection, operand: NativeOperand) -> NativeOperand:
        """An operand that names a label of its section names it as `labels` has it."""
        if isinstance(operand, NativeSymbol) and operand.name in section.labels and operand.name not in section.functions:
            return replace(operand, name=self._label(section, operand.name))
        return operand

    # -- control flow --------------------------------------------------------------------------------------------------------

    def _label(self, section: ListedSection, target: NativeOperand | str) -> str:
        """A label of the section, as `labels` has it."""
        name = target.name if isinstance(target, NativeSymbol) else str(target)
        if name in self.labels:
            return name
        if name not in section.labels:
            raise FormatError(f'branch to "{name}", which is not in its section', place=f"{self.program.place}:{section.name}")
        address = section.labels[name]
        label = label_of(section.name, address)
        self.labels[label] = self.program.index(section.name, address)
        return label

    def branch(
        self, section: ListedSection, listed: ListedInstruction, operands: Sequence[NativeOperand], guard: Guard | None, index: int
    ) -> tuple[Guard | None, tuple[Operand | Negated, ...]]:
        """`BRA`, `EXIT`: their condition is the guard, or a predicate before the label; more than that their handler computes."""
        label = () if listed.mnemonic.startswith("EXIT") else (Symbol(self._label(section, operands[-1])),)
        predicate = next((o for o in operands if is_predicate(o)), None)
        if computes_condition(listed.mnemonic):
            return guard or Guard(Register(COMPUTED), False), label
        if guard is None and isinstance(predicate, NativeRegister):
            if predicate.name not in TRUE_PREDICATES:
                guard = Guard(Register(predicate.name), predicate.inverted)
            elif predicate.inverted:
                guard = Guard(Register(NEVER), False)
        return guard, label

    def indexed_branch(
        self, section: ListedSection, listed: ListedInstruction, operands: Sequence[NativeOperand], guard: Guard | None, index: int
    ) -> tuple[Guard | None, tuple[Operand | Negated, ...]]:
        """`BRX`: the targets are listed beside it."""
        labels = tuple(dict.fromkeys(self._label(section, target) for target in listed.targets))
        table = label_of(section.name, listed.address) + " targets"
        self.branch_targets[table] = labels
        register = operands[0]
        assert isinstance(register, NativeRegister)
        return guard, (Register(register.name), Symbol(table))

    def call(
        self, section: ListedSection, listed: ListedInstruction, operands: Sequence[NativeOperand], guard: Guard | None, index: int
    ) -> tuple[Guard | None, tuple[Operand | Negated, ...]]:
        """`CALL`: of a function by name, or through a register."""
        target = operands[0]
        return guard, (Symbol(target.name),) if isinstance(target, NativeSymbol) else ()

    def leave(
        self, section: ListedSection, listed: ListedInstruction, operands: Sequence[NativeOperand], guard: Guard | None, index: int
    ) -> tuple[Guard | None, tuple[Operand | Negated, ...]]:
        """`RET` of the function that the instruction stands in; of the kernel itself it is its end."""
        owner = next((name for first, end, name in self._owners if first <= index < end), "")
        return guard, (Register(return_register(owner)),) if owner else ()

    def call_sites(self, callables: Mapping[str, Callable], instructions: Sequence[Instruction]) -> dict[int, CallSite]:
        """Calls of functions that the program has; a call through a register may reach any of them."""
        sites = {}
        for instruction in instructions:
            if instruction.opcode == "call":
                target = instruction.operands[0] if instruction.operands else None
                names = (target.name,) if isinstance(target, Symbol) else tuple(callables)
                if known := tuple(name for name in names if name in callables):
                    sites[instruction.index] = CallSite("", known, 0, (), ())
        return sites


_Flow = Maker[..., tuple["Guard | None", tuple["Operand | Negated", ...]]]
_FLOW: dict[str, _Flow] = {
    "bra": _Decoder.branch, "exit": _Decoder.branch, "brx": _Decoder.indexed_branch, "call": _Decoder.call, "ret": _Decoder.leave,
}  # fmt: skip


def _space(space: str, mnemonic: str) -> str:
    """The state space of an access; a reduction is on device memory, whatever form its address has."""
    return "global" if mnemonic.split(".", maxsplit=1)[0] in ("RED", "REDG") else space

