"""What each native opcode is: the one table of SASS, sm_35 to sm_100.

Names and meanings are those of NVIDIA's "CUDA Binary Utilities", section "Instruction Set Reference"
(tables for Kepler, Maxwell and
Pascal, Volta, Turing, Ampere and Ada, Hopper, Blackwell). The op class follows the pipeline that executes it (CUDA C++ Programming
Guide, table "Throughput of Native Arithmetic Instructions"; the Nsight Compute guide's list of pipelines): conversions, bit counts
and special functions are done by the narrow unit that is called `sfu` here.

A key is an opcode or the beginning of one up to a dot, `F2F` or `F2F.F64`; the longest that fits wins. Another name for a row is
only entered where NVIDIA's tables have it.
"""

from __future__ import annotations

from dataclasses import dataclass

SOURCE = "NVIDIA CUDA Binary Utilities, Instruction Set Reference"

GLOBAL, SHARED, LOCAL, GENERIC, CONST = "global", "shared", "local", "generic", "const"
LOAD, STORE, ATOMIC = "load", "store", "atomic"


@dataclass(frozen=True, slots=True)
class SassOpcode:
    """One row. `op_class` as in `isa.opcodes.OP_CLASSES`; `space` and `access` are empty unless it touches memory.

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
        *_rows(
            "fp32",
            "single-precision arithmetic",
            "FADD FADD2 FADD32I FMUL FMUL2 FMUL32I FFMA FFMA2 FFMA32I FMNMX FMNMX3 FSEL FSET FSETP FSWZ FSWZADD FCHK FCMP RRO",
        ),
        *_rows("fp32", "single-precision arithmetic on uniform registers", "UFADD UFFMA UFMNMX UFMUL UFSEL UFSET UFSETP"),
        *_rows("fp64", "double-precision arithmetic", "DADD DMUL DFMA DMNMX DSET", wide="ds"),
        *_rows("fp64", "double-precision comparison", "DSETP", wide="s"),
        *_rows("fp16", "half-precision arithmetic", "HADD2 HADD2_32I HFMA2 HFMA2_32I HMNMX2 HMUL2 HMUL2_32I HSET2 HSETP2 VHMNMX"),
        *_rows("sfu", "special function", "MUFU"),
        *_rows("sfu", "conversion", "F2F F2I F2IP I2F I2FP F2FP I2I I2IP FRND"),
        *_rows("sfu", "conversion from double", "F2F.F32.F64 F2I.F64 F2I.U32.F64 F2I.S64.F64 F2I.U64.F64", wide="s"),
        *_rows("sfu", "conversion to double", "F2F.F64 I2F.F64", wide="d"),
        *_rows("sfu", "bit counts", "POPC FLO BREV UPOPC UFLO UBREV"),
        *_rows(
            "int",
            "integer arithmetic",
            "IADD IADD3 IADD32I IADD64 IABS IDP IDP4A IMAD IMADSP IMAD32I IMNMX IMUL IMUL32I ISAD ISCADD "
            "ISCADD32I ISET ISETP ISUB ICMP LEA XMAD VABSDIFF VABSDIFF4 VADD VMAD VMNMX VSET VSETP VSHL VSHR "
            "VIADD VIADDMNMX VIMNMX "
            "VIMNMX3 BMSK SGXT QUADI",
        ),
        *_rows("int", "integer multiply-add with a double-width result", "IMAD.WIDE UIMAD.WIDE", wide="d"),
        *_rows(
            "int",
            "logic, shifts and bit fields",
            "LOP LOP3 LOP32I PLOP3 SHF SHL SHR BFE BFI PRMT SEL CSET CSETP PSET PSETP",
        ),
        *_rows("int", "move", "MOV MOV32I P2R R2P R2B B2R S2R S2UR R2UR REDUX CS2R.32 MOVM GETLMEMBASE SETLMEMBASE LEPC AL2P"),
        *_rows("int", "special register pair", "CS2R", wide="d"),
        *_rows(
            "int",
            "arithmetic on uniform registers",
            "UIADD3 UIADD3.64 UIMAD UISETP ULEA ULEPC ULOP ULOP3 ULOP32I UMOV UP2UR UPLOP3 "
            "UPRMT UPSETP UR2UP USEL USGXT USHF USHL USHR UBMSK UF2F UF2FP UF2I UF2IP UFRND UI2F UI2FP UI2I UI2IP UIABS UIMNMX "
            "UISCADD UVIADD UVIMNMX UMEMSETS CREDUX UREDGR UGETNEXTWORKID USTGR",
        ),
        *_rows("int", "vote and match over the warp", "VOTE VOTEU MATCH VOTE_VTG ELECT"),
        *_rows("shared", "exchange between lanes", "SHFL"),
        *_rows("int", "load of a constant", "LDC LDCU ULDC  ", CONST, LOAD),
        *_rows("memory", "load from device memory", "LDG LDGMC", GLOBAL, LOAD),
        *_rows("memory", "store to device memory", "STG STGMC", GLOBAL, STORE),
        *_rows("memory", "generic load", "LD LDE LDU", GENERIC, LOAD),
        *_rows("memory", "generic store", "ST STE", GENERIC, STORE),
        *_rows("memory", "load from local memory", "LDL", LOCAL, LOAD),
        *_rows("memory", "store to local memory", "STL", LOCAL, STORE),
        *_rows("shared", "load from shared memory", "LDS LDSM LDSLK ", SHARED, LOAD),
        *_rows("shared", "store to shared memory", "STS STSM STSUL STSCUL STAS", SHARED, STORE),
        *_rows("shared", "atomic on shared memory", "ATOMS REDAS", SHARED, ATOMIC),
        *_rows("memory", "atomic on device memory", "ATOMG", GLOBAL, ATOMIC),
        *_rows("memory", "atomic on generic memory", "ATOM RED REDG ATOMGMC", GENERIC, ATOMIC),
        *_rows("memory", "asynchronous copy from device to shared memory", "LDGSTS", GLOBAL, LOAD),
        *_rows("memory", "bulk copy from device memory", "UTMALDG UBLKCP LDGBULK", GLOBAL, LOAD),
        *_rows("memory", "bulk copy to device memory", "UTMASTG UBLKCP.G.S", GLOBAL, STORE),
        *_rows("memory", "bulk reduction to device memory", "UTMAREDG UBLKRED", GLOBAL, ATOMIC),
        *_rows("control", "bulk prefetch and its control", "UTMAPF UBLKPF UTMACCTL UTMACMDFLUSH"),
        *_rows("memory", "texture fetch", "TEX TEXS TLD TLD4 TLD4S TLDS TMML TXD", GLOBAL, LOAD),
        *_rows("int", "texture query", "TXQ TXA"),
        *_rows("memory", "load from a surface", "SULD SULDGA", GLOBAL, LOAD),
        *_rows("memory", "store to a surface", "SUST SUSTGA", GLOBAL, STORE),
        *_rows("memory", "reduction on a surface", "SUATOM SURED", GLOBAL, ATOMIC),
        *_rows("int", "surface address", "SUQ SUBFM SUEAU SUCLAMP SUGA"),
        *_rows("int", "query of a space or address", "QSPC CCTLT MAPA"),
        *_rows("shared", "barrier object in shared memory", "SYNCS ARRIVES", SHARED, ATOMIC),
        *_rows("control", "cache control", "CCTL CCTLL PREFETCH LDTRAM LDTM.WAIT"),
        *_rows("tensor", "warp matrix multiply", "HMMA IMMA BMMA DMMA QMMA OMMA "),
        *_rows("tensor", "warp-group matrix multiply", "HGMMA IGMMA BGMMA QGMMA"),
        *_rows("tensor", "matrix multiply of tensor memory", "UTCHMMA UTCIMMA UTCOMMA UTCQMMA UTCMXQMMA"),
        *_rows("shared", "tensor memory", "LDT LDTM STT STTM UTCCP"),
        *_rows("control", "tensor memory control", "UTCATOMSWS UTCBAR UTCSHIFT UTCLDSWS UTCSTSWS"),
        *_rows(
            "branch",
            "branch, call, return and exit",
            "BRA BRX BRXU JMP JMX JMXU JCAL CAL CALL RET EXIT BRK BREAK CONT KILL PBK PCNT PRET SSY "
            "SYNC BSSY BSYNC BMOV RPCMOV RTT YIELD WARPSYNC BPT PEXIT LONGJMP PLONGJMP ACQBLK BRA.DIV ",
        ),
        *_rows("barrier", "barrier of a thread block", "BAR BARRIER"),
        *_rows(
            "barrier",
            "barrier of a cluster",
            "UCGABAR_ARV UCGABAR_WAIT UCGABAR_GET UCGABAR_SET CGABAR_ARV CGABAR_WAIT CGABAR_GET CGABAR_SET CGAERRBAR",
        ),
        *_rows("barrier", "memory fence", "MEMBAR FENCE ERRBAR"),
        *_rows("control", "wait for a scoreboard or group", "DEPBAR LDGDEPBAR TEXDEPBAR WARPGROUP WARPGROUPSET"),
        *_rows(
            "control",
            "no effect on data",
            "NOP NANOSLEEP PMTRIG CSMTEST VILD STP LDCHG SETCTAID IDE USETMAXREG USETSHMSZ "
            "PREEXIT ACQBULK ACQSHMINIT ENDCOLLECTIVE COLLECTIVE UVIRTCOUNT ISBERD ISBEWR OUT PIXLD IPA ALD AST",
        ),
    )
}

TMA = ("UTMALDG", "UTMASTG", "UTMAPF", "UTMAREDG", "UBLKCP", "UBLKPF", "UBLKRED")
"""Opcodes whose lines in a trace have the fields of a bulk copy."""

ENDS_BLOCK = frozenset(name for name, row in TABLE.items() if row.op_class == "branch")
"""After these another lane may go another way."""
