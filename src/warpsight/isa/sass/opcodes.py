"""What each native opcode is: the one table of SASS, sm_35 to sm_100.

Names and meanings are those of NVIDIA's "CUDA Binary Utilities", section "Instruction Set Reference" (tables for Kepler, Maxwell
and Pascal, Volta, Turing, Ampere and Ada, Hopper, Blackwell). The op class follows the pipeline that executes it (CUDA C++
Programming Guide, table "Throughput of Native Arithmetic Instructions"; the Nsight Compute guide's list of pipelines): conversions,
bit counts and special functions are done by the narrow unit that is called `sfu` here.

A key is an opcode or the beginning of one up to a dot, `F2F` or `F2F.F64`; the longest that fits wins. Another name for a row is
only entered where NVIDIA's tables have it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from warpsight.base.errors import UsageError
from warpsight.base.yaml_nodes import Composed, YamlNode, compose
from warpsight.isa.op_classes import OP_CLASSES

SOURCE = "NVIDIA CUDA Binary Utilities, Instruction Set Reference"

GLOBAL, SHARED, LOCAL, GENERIC, CONST = "global", "shared", "local", "generic", "const"
LOAD, STORE, ATOMIC = "load", "store", "atomic"


@dataclass(frozen=True, slots=True)
class SassOpcode:
    """One row. `op_class` as in `isa.op_classes.OP_CLASSES`; `space` and `access` are empty unless it touches memory.

    `wide` says which operands are register pairs whatever the access: "d" destinations, "s" sources, "" none.
    """

    name: str
    op_class: str
    space: str
    access: str
    what: str
    wide: str = ""


def _rows(op_class: str, what: str, names: str, space: str = "", access: str = "", wide: str = "") -> list[SassOpcode]:
    return [SassOpcode(name, op_class, space, access, what, wide) for name in names.split()]


TABLE: dict[str, SassOpcode] = {
    row.name: row
    for row in (
        *_rows("fp32", "single-precision arithmetic", "FADD FADD32I FMUL FMUL32I FFMA FFMA32I FMNMX FMNMX3 FSEL FSET "
               "FSETP FSWZ FSWZADD FCHK FCMP RRO"),
        *_rows("fp32", "single-precision arithmetic with half-precision operands", "FHADD FHFMA"),
        *_rows("fp32", "arithmetic of two singles", "FADD2 FMUL2 FFMA2", wide="ds"),
        *_rows("fp32", "single-precision arithmetic on uniform registers", "UFADD UFFMA UFMNMX UFMUL UFSEL UFSET UFSETP"),
        *_rows("fp64", "double-precision arithmetic", "DADD DMUL DFMA DMNMX DSET", wide="ds"),
        *_rows("fp64", "double-precision comparison", "DSETP", wide="s"),
        *_rows("fp16", "half-precision arithmetic", "HADD2 HADD2_32I HFMA2 HFMA2_32I HMNMX2 HMUL2 HMUL2_32I HSET2 HSETP2 VHMNMX"),
        *_rows("sfu", "special function", "MUFU"),
        *_rows("sfu", "conversion", "F2F F2I F2IP I2F I2FP F2FP I2I I2IP FRND"),
        *_rows("sfu", "conversion from double", "F2F.F32.F64 F2I.F64 F2I.U32.F64 F2I.S64.F64 F2I.U64.F64", wide="s"),
        *_rows("sfu", "conversion to double", "F2F.F64 I2F.F64", wide="d"),
        *_rows("sfu", "bit counts", "POPC FLO BREV UPOPC UFLO UBREV"),
        *_rows("int", "integer arithmetic", "IADD IADD3 IADD32I IADD64 IABS IDP IDP4A IMAD IMADSP IMAD32I IMNMX IMUL IMUL32I ISAD "
               "ISCADD ISCADD32I ISET ISETP ISUB ICMP LEA XMAD VABSDIFF VABSDIFF4 VADD VMAD VMNMX VSET VSETP VSHL VSHR VIADD "
               "VIADDMNMX VIMNMX VIMNMX3 BMSK SGXT QUADI"),
        *_rows("int", "integer multiply-add with a double-width result", "IMAD.WIDE UIMAD.WIDE", wide="d"),
        *_rows("int", "logic, shifts and bit fields", "LOP LOP3 LOP32I PLOP3 SHF SHL SHR BFE BFI PRMT SEL CSET CSETP PSET PSETP"),
        *_rows("int", "move", "MOV MOV32I P2R R2P R2B B2R S2R S2UR R2UR REDUX CS2R.32 MOVM GETLMEMBASE SETLMEMBASE AL2P"),
        *_rows("int", "special register pair, address of code", "CS2R LEPC", wide="d"),
        *_rows("int", "arithmetic on uniform registers", "UIADD3 UIMAD UISETP ULEA ULEPC ULOP ULOP3 ULOP32I UMOV UP2UR "
               "UPLOP3 UPRMT UPSETP UR2UP USEL USGXT USHF USHL USHR UBMSK UF2F UF2FP UF2I UF2IP UFRND UI2F UI2FP UI2I UI2IP UIABS "
               "UIMNMX UISCADD UVIADD UVIMNMX UMEMSETS CREDUX UREDGR USTGR"),
        *_rows("int", "sums, moves, selections of register pairs", "IADD.64 IMNMX.S64 IMNMX.U64 MOV.64 SEL.64 UIADD3.64 UMOV.64 "
               "USEL.64", wide="ds"),
        *_rows("int", "comparison of register pairs", " ".join(
            f"{base}.{name}.{kind}" for base in ("ISETP", "UISETP") for name in ("LT", "LE", "EQ", "NE", "GE", "GT")
            for kind in ("S64", "U64")), wide="s"),
        *_rows("int", "vote and match over the warp", "VOTE VOTEU MATCH VOTE_VTG ELECT"),
        *_rows("shared", "exchange between lanes", "SHFL"),
        *_rows("int", "load of a constant", "LDC LDCU ULDC", CONST, LOAD),
        *_rows("memory", "load from device memory", "LDG LDGMC", GLOBAL, LOAD),
        *_rows("memory", "store to device memory", "STG STGMC", GLOBAL, STORE),
        *_rows("memory", "generic load", "LD LDE LDU", GENERIC, LOAD),
        *_rows("memory", "generic store", "ST STE", GENERIC, STORE),
        *_rows("memory", "load from local memory", "LDL", LOCAL, LOAD),
        *_rows("memory", "store to local memory", "STL", LOCAL, STORE),
        *_rows("shared", "load from shared memory", "LDS LDSM LDSLK", SHARED, LOAD),
        *_rows("shared", "store to shared memory", "STS STSM STSUL STSCUL STAS", SHARED, STORE),
        *_rows("shared", "atomic on shared memory", "ATOMS REDAS", SHARED, ATOMIC),
        *_rows("memory", "atomic on device memory", "ATOMG", GLOBAL, ATOMIC),
        *_rows("memory", "atomic on generic memory", "ATOM RED REDG ATOMGMC", GENERIC, ATOMIC),
        *_rows("memory", "asynchronous copy from device to shared memory", "LDGSTS", GLOBAL, LOAD),
        *_rows("memory", "bulk copy from device memory", "UTMALDG UBLKCP LDGBULK", GLOBAL, LOAD),
        *_rows("memory", "bulk copy to device memory", "UTMASTG UBLKCP.G.S", GLOBAL, STORE),
        *_rows("memory", "bulk copy within shared memory", "UBLKCP.S.S", SHARED, STORE),
        *_rows("memory", "bulk reduction to device memory", "UTMAREDG UBLKRED", GLOBAL, ATOMIC),
        *_rows("memory", "bulk reduction within shared memory", "UBLKRED.S.S", SHARED, ATOMIC),
        *_rows("control", "bulk prefetch and its control", "UTMAPF UBLKPF UTMACCTL UTMACMDFLUSH"),
        *_rows("memory", "texture fetch", "TEX TEXS TLD TLD4 TLD4S TLDS TMML TXD", GLOBAL, LOAD),
        *_rows("int", "texture query", "TXQ TXA"),
        *_rows("memory", "load from a surface", "SULD SULDGA", GLOBAL, LOAD),
        *_rows("memory", "store to a surface", "SUST SUSTGA", GLOBAL, STORE),
        *_rows("memory", "reduction on a surface", "SUATOM SURED", GLOBAL, ATOMIC),
        *_rows("int", "surface address", "SUQ SUBFM SUEAU SUCLAMP SUGA"),
        *_rows("int", "query of a space or address", "QSPC CCTLT MAPA"),
        *_rows("shared", "barrier object in shared memory", "SYNCS ARRIVES", SHARED, ATOMIC),
        *_rows("shared", "work stealing between clusters", "UGETNEXTWORKID", SHARED, ATOMIC),
        *_rows("shared", "start or end of a barrier object", "SYNCS.EXCH SYNCS.CCTL", SHARED, STORE),
        *_rows("shared", "test of a barrier object", "SYNCS.PHASECHK", SHARED, LOAD),
        *_rows("control", "cache control", "CCTL CCTLL PREFETCH LDTRAM LDTM.WAIT"),
        *_rows("tensor", "warp matrix multiply", "HMMA IMMA BMMA DMMA QMMA OMMA"),
        *_rows("tensor", "warp-group matrix multiply", "HGMMA IGMMA BGMMA QGMMA"),
        *_rows("tensor", "matrix multiply of tensor memory", "UTCHMMA UTCIMMA UTCOMMA UTCQMMA UTCMXQMMA"),
        *_rows("shared", "tensor memory", "LDT LDTM STT STTM UTCCP UTCATOMSWS"),
        *_rows("shared", "arrival behind products of tensor memory", "UTCBAR", SHARED, ATOMIC),
        *_rows("control", "tensor memory control", "UTCSHIFT UTCLDSWS UTCSTSWS"),
        *_rows("branch", "branch, call, return and exit", "BRA BRX BRXU JMP JMX JMXU JCAL CAL CALL RET EXIT BRK BREAK CONT KILL "
               "PBK PCNT PRET SSY SYNC BSSY BSYNC BMOV RPCMOV RTT YIELD WARPSYNC BPT PEXIT LONGJMP PLONGJMP ACQBLK BRA.DIV"),
        *_rows("barrier", "barrier of a thread block", "BAR BARRIER"),
        *_rows("barrier", "barrier of a cluster", "UCGABAR_ARV UCGABAR_WAIT UCGABAR_GET UCGABAR_SET CGABAR_ARV CGABAR_WAIT "
               "CGABAR_GET CGABAR_SET CGAERRBAR"),
        *_rows("barrier", "memory fence", "MEMBAR FENCE ERRBAR"),
        *_rows("control", "wait for a scoreboard or group", "DEPBAR LDGDEPBAR TEXDEPBAR WARPGROUP WARPGROUPSET"),
        *_rows("control", "no effect on data", "NOP NANOSLEEP PMTRIG CSMTEST VILD STP LDCHG SETCTAID IDE USETMAXREG USETSHMSZ "
               "PREEXIT ACQBULK ACQSHMINIT ENDCOLLECTIVE COLLECTIVE UVIRTCOUNT ISBERD ISBEWR OUT PIXLD IPA ALD AST"),
    )
}

TMA = ("UTMALDG", "UTMASTG", "UTMAPF", "UTMAREDG", "UBLKCP", "UBLKPF", "UBLKRED")
"""Opcodes whose lines in a trace have the fields of a bulk copy."""


# -- How many bytes each lane moves, read from the opcode: what an instrumentation tool says about it can be wrong.

_BITS = re.compile(r"(?:[US]|TRANS)?(\d+)")
_VECTOR = re.compile(r"B?F(16|32)x(\d)")
_MATRICES = {"2": 2, "4": 4}
WORD_BYTES = 4


def access_bytes(opcode: str) -> int:
    """Bytes per lane: the first token after the opcode that is a number of bits, all digits or after U or S, or a vector of floats;
    else a word.

    ``LDG.E.128`` 16, ``STG.E.U8`` 1, ``LDS.64`` 8, ``RED.E.ADD.S32`` 4, ``ATOMG.E.ADD.F64`` 8. A matrix load or store (``LDSM``,
    ``STSM``) moves a word for each 8x8 matrix (``.M88.4``: 16), and two for one of 16x16; ``UTCBAR`` changes an mbarrier object.
    """
    tokens = opcode.split(".")
    if tokens[0] == "UTCBAR":
        return 8
    if tokens[0] in ("LDSM", "STSM"):
        return WORD_BYTES * _MATRICES.get(tokens[-1], 1) * (2 if "MT1616" in tokens else 1)
    for token in tokens[1:]:
        if vector := _VECTOR.fullmatch(token):
            return int(vector[1]) * int(vector[2]) // 8
        match = _BITS.fullmatch(token)
        bits = int(match[1]) if match else 64 if token == "F64" else 0
        if bits in (8, 16, 32, 64, 128, 256):
            return bits // 8
    return WORD_BYTES


def matrix_rows(opcode: str) -> int:
    """Lanes whose address counts in a matrix load or store: eight rows for each matrix; 0 for any other opcode."""
    return 2 * access_bytes(opcode) if opcode.split(".", maxsplit=1)[0] in ("LDSM", "STSM") else 0


# -- From an opcode as a trace writes it to what it is: by the table, by the user's own rows, or by the nearest name.

@dataclass(frozen=True, slots=True)
class Meaning:
    """The table's row of an opcode; `known` is False where its nearest name stands in for it; `bytes` per lane (0: no access)."""

    row: SassOpcode
    known: bool
    bytes: int


class SassTable:
    """The table with the rows of a user's file before it (`read_isa_file`); `numbers`: opcodes by the number some tools write."""

    def __init__(self, own: Mapping[str, SassOpcode] | None = None, numbers: Mapping[int, str] | None = None) -> None:
        self._rows = {**TABLE, **(own or {})}
        self.own, self.numbers = dict(own or {}), dict(numbers or {})

    def meaning(self, opcode: str) -> Meaning:
        """What `opcode` is, with all its dot-separated tokens."""
        known = self._row(opcode)
        row = known or self._nearest(opcode)
        return Meaning(row, known is not None, access_bytes(opcode) if row.access else 0)

    def _row(self, opcode: str) -> SassOpcode | None:
        """The row with the longest name that is the opcode up to a dot."""
        name = opcode
        while name:
            if name in self._rows:
                return self._rows[name]
            name = name.rpartition(".")[0]
        return None

    def _nearest(self, opcode: str) -> SassOpcode:
        """The row with the longest prefix in common, of several the one with the shortest name; IADD3 if none has a letter."""
        base = opcode.split(".", maxsplit=1)[0]
        prefix, best = max((_shared(base, name), -len(name), name) for name in self._rows)[::2]
        return self._rows[best if prefix else "IADD3"]


def _shared(one: str, other: str) -> int:
    """Letters that two names begin with alike."""
    return next((k for k, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def bulk_direction(opcode: str) -> tuple[str, str]:
    """Space and access of a bulk copy: ``UBLKCP.S.G`` loads, ``UBLKCP.G.S`` stores, between blocks neither ("", "")."""
    base, *tokens = opcode.split(".")
    if base == "UBLKCP":
        spaces = "".join(token for token in tokens if token in ("S", "G"))
        return {"SG": (GLOBAL, LOAD), "GS": (GLOBAL, STORE)}.get(spaces[:2], ("", ""))
    row = TABLE.get(base)
    return (row.space, row.access) if row else ("", "")


def is_move_of_constant(opcode: str, sources: tuple[str, ...]) -> bool:
    """``HFMA2.MMA R7, -RZ, RZ, 0, 2.4e-07``: the compiler's way to write a constant when the integer pipeline is busy."""
    return opcode.startswith("HFMA2") and bool(sources) and all(source in ("R255", "RZ") for source in sources)


# -- The user's own rows of the table of native opcodes, from a YAML file (`--isa-file`).

_KIND = Composed("file of opcodes", "a file of opcodes", "write e.g. `IMAD.FOO: {class: int}`", UsageError)
_MOST_DIGITS = 9
_KEYS = ("class", "space", "access", "what")
_SPACES = ("global", "shared", "local", "generic", "const")
_ACCESSES = ("load", "store", "atomic")


def read_isa_file(path: str | Path | None) -> SassTable:
    """The table with the rows of the file at `path` before its own; the plain table for None.

    An entry is ``PREFIX: CLASS`` or ``PREFIX: {class: CLASS, space: SPACE, access: ACCESS, what: TEXT}``. For tools that number
    opcodes it is ``NUMBER: OPCODE``, or a number in place of the prefix. Raises UsageError, with file and line, for anything else.
    """
    if path is None:
        return SassTable()
    root = YamlNode(compose(Path(path), str(path), _KIND), "file", str(path))
    rows, numbers = {}, {}
    for name, node in root.entries().items():
        if name.isdecimal() and len(name) <= _MOST_DIGITS:
            numbers[int(name)] = opcode = _numbered(int(name), node)
            if opcode == unnamed(int(name)):
                rows[opcode] = _row(opcode, node)
        elif _is_name(name) and name == name.upper():
            rows[name] = _row(name, node)
        else:
            node.refuse(f'"{name}" is not an opcode', "write it in capital letters, as a trace does: IMAD.WIDE")
    return SassTable(rows, numbers)


def _is_name(text: str) -> bool:
    return text.replace(".", "").replace("_", "").isalnum()


def unnamed(number: int) -> str:
    """The name of an opcode of which only the number is known."""
    return f"OP{number}"


def _numbered(number: int, node: YamlNode) -> str:
    """The opcode of a number, or `unnamed` if its class follows."""
    text = "" if node.is_mapping else node.text()
    if text in OP_CLASSES or not text:
        return unnamed(number)
    if not text[:1].isalpha() or not _is_name(text):
        node.refuse(f'"{text}" is neither an opcode nor a class', "write e.g. `12: LDG.E`, or `12: int`")
    return text


def _row(name: str, node: YamlNode) -> SassOpcode:
    if not node.is_mapping:
        return SassOpcode(name, node.one_of(OP_CLASSES), "", "", "from the file of opcodes")
    entries = node.entries(_KEYS)
    if "class" not in entries:
        node.refuse(f"{name} has no class", f"write class: one of {', '.join(OP_CLASSES)}")
    space = entries["space"].one_of(_SPACES) if "space" in entries else ""
    access = entries["access"].one_of(_ACCESSES) if "access" in entries else ""
    if bool(space) != bool(access):
        node.refuse(f"{name} has only one of space and access", "give both, or neither")
    what = entries["what"].text() if "what" in entries else "from the file of opcodes"
    return SassOpcode(name, entries["class"].one_of(OP_CLASSES), space, access, what)
