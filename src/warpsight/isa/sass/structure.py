"""What an instruction of machine code is in PTX's words, as far as control flow, waiting and recording need them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from warpsight.isa.ptx.program import Address, Immediate, Negated, Operand, Register, Vector
from warpsight.isa.sass.images import FETCHES
from warpsight.isa.sass.listing import ListedInstruction
from warpsight.isa.sass.native import (
    TRUE_PREDICATES,
    ZERO_REGISTERS,
    NativeAddress,
    NativeConstant,
    NativeDescriptors,
    NativeImmediate,
    NativeOperand,
    NativeRegister,
    NativeTensorMemory,
    is_predicate,
)
from warpsight.isa.sass.opcodes import Meaning

Structure = tuple[str, tuple[str, ...], tuple[Operand | Negated, ...]]

# Registers that the hardware keeps elsewhere, or that stand for what a handler computes.
BARRIER_COUNT, BARRIER_VOTE = "BAR.COUNT", "BAR.VOTE"  # where `BAR.RED` leaves its result for `B2R.RESULT`
EXCLUDED = "WARPSYNC.EXCLUDED"  # the lanes that a lane runs apart from since `parts_lanes`
RETURN_PC = "Rpc.LO", "Rpc.HI"  # of each lane; calls and returns leave it alone, and only `RPCMOV` reads or writes it
COMPUTED = "BRA.COMPUTED"  # the guard of a branch whose condition is more than one predicate; nothing writes it
CLUSTER_WINDOW = "CGA.WINDOW"  # stands among the registers of code that makes addresses of shared memory within the cluster
NEVER = "NEVER"  # the guard of an instruction that does nothing; nothing writes it


@lru_cache(maxsize=1 << 12)
def _registers_from(name: str, count: int) -> tuple[str, ...]:
    """`count` registers from one on, or a predicate; none where the name stands for zero or true."""
    if name in ZERO_REGISTERS or name in TRUE_PREDICATES:
        return ()
    letters = name.rstrip("0123456789")
    first = int(name[len(letters) :])
    return (name,) if "P" in letters else tuple(f"{letters}{first + k}" for k in range(count))


def operand_registers(operand: NativeOperand, count: int) -> list[str]:
    """The registers that an operand of `count` consecutive ones names, without those that carry nothing."""
    if isinstance(operand, NativeRegister):
        return list(_registers_from(operand.name, count))
    if isinstance(operand, NativeDescriptors):  # B's are the last two
        return list(_registers_from(operand.name, operand.registers)[-count:])
    if isinstance(operand, NativeTensorMemory):
        return list(_registers_from(operand.name, count))
    if isinstance(operand, NativeConstant) and operand.base is not None:
        return operand_registers(operand.base, 1)
    if isinstance(operand, NativeAddress):
        names = operand_registers(operand.base, 1 + operand.wide) if operand.base else []
        return names + (operand_registers(operand.uniform, 1 + operand.wide_uniform) if operand.uniform else [])
    return []


def tensor_registers(mnemonic: str, operands: Sequence[NativeOperand]) -> list[str]:
    """What a copy by a tensor map reads besides: registers behind the first, of mbarrier object and coordinates."""
    base, *tokens = mnemonic.split(".")
    if not base.startswith("UTMA") or not operands or not isinstance(operands[0], NativeAddress) or operands[0].uniform is None:
        return []
    rank = next((int(t[0]) for t in tokens if t in ("1D", "2D", "3D", "4D", "5D")), 0)
    rank = 5 if {"GATHER4", "SCATTER4"} & {*tokens} else rank  # a column and four rows
    return operand_registers(operands[0].uniform, max(2, rank + {"UTMALDG": 2, "UTMAPF": 0}.get(base, 1)))


_TYPES = {1: "b8", 2: "b16", 4: "b32", 8: "b64", 16: "b128"}
_ATOMIC = {"ATOM", "ATOMG", "ATOMS"}


def _access_words(meaning: Meaning, tokens: Sequence[str]) -> tuple[str, ...]:
    words = [] if meaning.row.space == "generic" and tokens[0] not in ("RED", "REDG") else [meaning.row.space]
    if tokens[0] in ("RED", "REDG"):
        words = ["global"]
    if "STRONG" in tokens or "MMIO" in tokens:
        words.append("relaxed")
    if meaning.bytes in (16, 32):
        return (*words, f"v{meaning.bytes // 4}", "b32")
    return (*words, _TYPES.get(meaning.bytes, "b32"))


def _predicate(operand: NativeOperand) -> Operand | Negated:
    """A predicate as branches and barriers read it."""
    assert isinstance(operand, NativeRegister)
    if operand.name in TRUE_PREDICATES:
        return Immediate(0 if operand.inverted else 1, 0, False)
    register = Register(operand.name)
    return Negated(register) if operand.inverted else register


def _number(operand: NativeOperand) -> Operand:
    """A number or register of a barrier."""
    if isinstance(operand, NativeImmediate):
        return Immediate(operand.value, 0, False)
    assert isinstance(operand, NativeRegister)
    return Immediate(0, 0, False) if operand.name in ZERO_REGISTERS else Register(operand.name)


def _barrier(tokens: Sequence[str], operands: Sequence[NativeOperand], apart: bool) -> Structure:
    """`BAR`: its number and, if not the whole block, how many threads. Of two registers, both are the one that holds the two
    numbers; that is the number in its lower half and the threads in its upper half. `apart`: not all lanes need be here.
    """
    opcode = "barrier" if apart else "bar"
    numbers = [_number(o) for o in operands if not is_predicate(o)]
    same = len(numbers) == 2 and numbers[0] == numbers[1] and isinstance(numbers[0], Register)
    packed = ("packed",) if same else ()
    if "ARV" in tokens:
        return opcode, ("arrive", *packed), tuple(numbers)
    if "RED" in tokens:
        how = next(t for t in ("POPC", "AND", "OR") if t in tokens)
        result = Register(BARRIER_COUNT if how == "POPC" else BARRIER_VOTE)
        vote = next(_predicate(o) for o in operands if is_predicate(o))
        kind = "u32" if how == "POPC" else "pred"
        return opcode, ("red", how.lower(), kind, *packed), (result, *numbers, vote)
    return opcode, ("sync", *packed), tuple(numbers) or (Immediate(0, 0, False),)


_EXCHANGES = {"SHFL": "shfl", "VOTE": "vote", "MATCH": "match", "REDUX": "redux", "CREDUX": "redux", "ELECT": "elect"}
_STRAIGHT_ENDS = ("BRA", "BRX", "BRXU", "CALL", "RET", "EXIT", "WARPSYNC", "BSYNC", "BAR", "ENDCOLLECTIVE")


def exchange_behind(following: Sequence[ListedInstruction]) -> str:
    """The first exchange of values between lanes in the straight code behind a `WARPSYNC`, "" if it only gathers lanes."""
    for instruction in following:
        base = instruction.mnemonic.partition(".")[0]
        if base in _STRAIGHT_ENDS:
            return ""
        # Asking which lanes are active is no exchange.
        if base in _EXCHANGES and (base != "VOTE" or instruction.operands[-1] not in TRUE_PREDICATES):
            return instruction.mnemonic
    return ""


def _gathering(tokens: Sequence[str], operands: Sequence[NativeOperand], exchange: str) -> Structure:
    """`WARPSYNC`: where lanes meet. To exchange values they must meet at the same instruction, as for PTX's `shfl.sync`."""
    members: Operand = Immediate(-1, 0, False) if "ALL" in tokens or not operands else _number(operands[0])
    if exchange:
        return _EXCHANGES[exchange.partition(".")[0]], ("sync", exchange), (members,)
    return "bar", ("warp", "sync"), (members,)


def computes_condition(mnemonic: str) -> bool:
    """Whether a `BRA` asks for more than its guard and a predicate: whether lanes run together, or what holds in other lanes."""
    return not {"DIV", "CONV", "ANY", "ALL"}.isdisjoint(mnemonic.split("."))


def parts_lanes(mnemonic: str) -> bool:
    """Whether lanes of different masks run apart from here, so that they do not see each other: until they meet again."""
    base, *modifiers = mnemonic.split(".")
    return base == "WARPSYNC" and ("EXCLUSIVE" in modifiers or ("COLLECTIVE" in modifiers and "ALL" not in modifiers))


_CLUSTER_BARRIERS = {"UCGABAR_ARV": "arrive", "CGABAR_ARV": "arrive", "UCGABAR_WAIT": "wait", "CGABAR_WAIT": "wait"}
_PLAIN_FLOW = {
    "EXIT": "exit", "KILL": "exit", "BRA": "bra", "BRX": "brx", "BRXU": "brx", "JMP": "bra", "CALL": "call", "RET": "ret",
}  # fmt: skip
_TENSOR_MEMORY = {
    "LDTM": "ld", "STTM": "st", "UTCCP": "cp", "UTCBAR": "commit", "UTCATOMSWS": "alloc", "UTCSHIFT": "shift",
    **dict.fromkeys(("UTCHMMA", "UTCIMMA", "UTCOMMA", "UTCQMMA"), "mma"),
}  # fmt: skip
_WITHOUT_OPERANDS = {"MEMBAR": "membar", "FENCE": "membar", "NANOSLEEP": "nanosleep"}


def structure(
    meaning: Meaning, mnemonic: str, operands: Sequence[NativeOperand], exchange: str = "", collective: bool = False
) -> Structure:
    """Opcode, modifiers and operands in PTX's words.

    `exchange` is `exchange_behind` of a `WARPSYNC`; `collective`: is it in code that the lanes of a warp come to from any place?
    """
    tokens = mnemonic.split(".")
    base, row = tokens[0], meaning.row
    if base == "BPT" and "TRAP" in tokens:
        return "trap", (), ()
    if base in _PLAIN_FLOW:
        return _PLAIN_FLOW[base], (), ()
    if base == "BAR" and {"SYNC", "RED", "ARV", "SYNCALL"} & set(tokens):
        return _barrier(tokens, operands, collective)
    if base in _CLUSTER_BARRIERS:
        return "barrier", ("cluster", _CLUSTER_BARRIERS[base]), ()
    if base == "WARPGROUP":
        return "wgmma", ("fence" if "ARRIVE" in tokens else "wait_group",), ()
    if base == "WARPSYNC":
        return _gathering(tokens, operands, exchange)
    if base in (*_EXCHANGES, "VOTEU"):
        return _EXCHANGES.get(base, "vote"), (), ()
    if base == "LDGSTS":
        size = Immediate(meaning.bytes, 0, False)
        place = Address(Immediate(0, 0, False))
        return "cp", ("async", "ca", "shared", "global"), (place, place, size)
    if base in _TENSOR_MEMORY:
        return "tcgen05", (_TENSOR_MEMORY[base],), ()
    if base == "SYNCS":
        return "mbarrier", ("try_wait" if "PHASECHK" in tokens else "arrive",), ()
    if base in FETCHES:  # which may touch more sectors than other loads
        return "tex", (), ()
    if row.access and row.space != "const":
        opcode = {"load": "ld", "store": "st"}.get(row.access) or ("atom" if base in _ATOMIC else "red")
        address = [Register(n) for o in operands if isinstance(o, NativeAddress) for n in operand_registers(o, 1)]
        return opcode, _access_words(meaning, tokens), (Vector(tuple(address)),) if opcode == "ld" else ()
    return _WITHOUT_OPERANDS.get(base, "mov"), (), ()
