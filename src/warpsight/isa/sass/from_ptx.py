"""The native opcode nearest to a PTX instruction, for tools that only read native traces.

One PTX instruction becomes one native instruction of the same op class and access; a compiler would choose, merge and expand.
"""

from __future__ import annotations

from collections.abc import Iterable

from warpsight.isa.ptx.opcodes import OPCODES
from warpsight.isa.sass.opcodes import TABLE

_CLASS_COLUMN = {"int": 0, "fp32": 1, "fp64": 2, "fp16": 3}  # of `Opcode.sass`
_BY_CLASS = {
    "int": "IADD3", "fp32": "FFMA", "fp64": "DFMA", "fp16": "HFMA2", "sfu": "MUFU.RCP", "tensor": "HMMA.16816.F32",
    "shared": "SHFL.IDX", "memory": "NOP", "branch": "BRA", "barrier": "MEMBAR.SC.GPU", "control": "NOP",
}  # fmt: skip
_ACCESSES = {
    ("global", "load"): "LDG.E", ("global", "store"): "STG.E", ("global", "atomic"): "ATOMG.E.ADD",
    ("shared", "load"): "LDS", ("shared", "store"): "STS", ("shared", "atomic"): "ATOMS.ADD",
    ("local", "load"): "LDL", ("local", "store"): "STL", ("local", "atomic"): "ATOM.E.ADD",
    ("generic", "load"): "LD.E", ("generic", "store"): "ST.E", ("generic", "atomic"): "ATOM.E.ADD",
}  # fmt: skip
_LEAST_SM = 70
_FROM_SM = {"MUFU.TANH": 75, "IMMA": 75, "HMNMX2": 80, "REDUX": 80, "DMMA": 80, "HMMA.16816": 80, "IMMA.16816": 80}
_SIZES = {1: ".U8", 2: ".U16", 4: "", 8: ".64", 16: ".128"}


def sass_opcode(opcode: str, op_class: str, space: str, access: str, access_bytes: int) -> str:
    """The native opcode for a PTX instruction as a trace holds it. An opcode that is native already stays as it is."""
    if is_native(opcode):
        return opcode
    if access:
        return native_access(space, access, access_bytes)
    tokens = opcode.split(".")
    if tokens[0] in ("mul", "mad") and "wide" in tokens:
        return "IMAD.WIDE"
    if tokens[0] == "mma" or "mma" in tokens:
        return "DMMA.884" if "f64" in tokens else "IMMA.16816.S8.S8" if "s32" in tokens else "HMMA.16816.F32"
    if tokens[0] == "cvt":
        return _conversion(tokens)
    if tokens[0] == "bar" and "warp" in tokens:
        return "WARPSYNC"
    native = OPCODES[tokens[0]].sass.split() if tokens[0] in OPCODES else []
    if len(native) > 1:
        return native[_CLASS_COLUMN[op_class]] if op_class in _CLASS_COLUMN else _BY_CLASS[op_class]
    return native[0] if native else _BY_CLASS[op_class]


def architecture(opcodes: Iterable[str]) -> int:
    """The lowest architecture from sm_70 on that has all these opcodes of ours, as NVIDIA's tables of opcodes have them.

    A simulator of native instructions has those of a few architectures alone, and units for some of them on newer GPUs only.
    """
    return max((sm for opcode in opcodes for prefix, sm in _FROM_SM.items() if opcode.startswith(prefix)), default=_LEAST_SM)


def native_access(space: str, access: str, access_bytes: int) -> str:
    """The opcode of a load, store or atomic; sizes that none has (a copy's) are those of the next smaller one."""
    if space not in ("global", "shared", "local", "generic"):
        return f"LDC{_SIZES.get(access_bytes, '')}" if access_bytes >= 4 else "LDC"
    size = max((n for n in _SIZES if n <= max(access_bytes, 1)), default=4)
    return f"{_ACCESSES[space, access]}{_SIZES[size] if access != 'atomic' or size > 4 else ''}"


def is_native(opcode: str) -> bool:
    """Whether an opcode is one of SASS: PTX is written in small letters."""
    return opcode[:1].isupper() or opcode.split(".", maxsplit=1)[0] in TABLE


def _conversion(tokens: list[str]) -> str:
    floats = {"f16": "F16", "f32": "F32", "f64": "F64", "bf16": "BF16"}
    types = [token for token in tokens[1:] if token.lstrip("usfb").isdigit() or token in floats]
    if len(types) < 2:
        return "I2F" if any(token in floats for token in tokens) else "MOV"
    target, source = types[0], types[-1]
    if target in floats and source in floats:
        return f"F2F.{floats[target]}.{floats[source]}"
    if target in floats:
        return f"I2F.{floats[target]}" if target == "f64" else "I2F"
    if source in floats:
        return f"F2I.{floats[source]}" if source == "f64" else "F2I"
    return "MOV"
