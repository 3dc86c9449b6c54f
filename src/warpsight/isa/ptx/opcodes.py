"""The table of PTX opcodes: a row says all that Warpsight knows of an opcode. And the opcodes that are refused, with the reason.

Opcodes are those of the PTX ISA, section "Instruction Set". An opcode that is not here is refused. `rules.py` applies the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

REFUSED = {
    "multimem": "one address for the memories of several GPUs",
}

CONTROL = "control"  # handler of opcodes that end a basic block: `emulator/codegen` emits them


@dataclass(frozen=True, slots=True)
class Opcode:
    """One opcode.

    `rule` is an op class, or what decides: `arithmetic` (operand type), `access` (state space), `matrix`, `group`, `bar`, `copy`,
    `mbarrier`, `tensor_memory` (variant). `handler` names what executes it: `FAMILY.FUNCTION` of `emulator/ptx/FAMILY.py`, or
    `CONTROL`.
    `writes` is the number of leading operands that are destinations; `access` is load, store, atomic or empty. `rounding` lists the
    rounding modifiers of floating-point types, the default first. `sass` is the nearest native opcode, or four: of integers, f32,
    f64 and f16; "" leaves the choice to the op class. With `bits_only` PTX has the opcode for integers and untyped bits alone.
    """

    name: str
    rule: str
    what: str
    handler: str
    writes: int = 1
    access: str = ""
    rounding: str = ""
    sass: str = ""
    bits_only: bool = False


def _rows(names: str, rule: str, what: str, handler: str, **other: Any) -> list[Opcode]:
    return [Opcode(name, rule, what, handler, **other) for name in names.split()]


_IEEE = "rn rz rm rp"
_ADD, _MUL, _FMA = "IADD3 FADD DADD HADD2", "IMAD FMUL DMUL HMUL2", "IMAD FFMA DFMA HFMA2"

# fmt: off
OPCODES: dict[str, Opcode] = {
    row.name: row
    for row in (
        *_rows("add", "arithmetic", "addition and multiplication", "arithmetic.add", rounding=_IEEE, sass=_ADD),
        *_rows("sub", "arithmetic", "addition and multiplication", "arithmetic.subtract", rounding=_IEEE, sass=_ADD),
        *_rows("mul", "arithmetic", "addition and multiplication", "arithmetic.multiply", rounding=_IEEE, sass=_MUL),
        *_rows("mad", "arithmetic", "addition and multiplication", "arithmetic.multiply_add", rounding=_IEEE, sass=_FMA),
        *_rows("fma", "arithmetic", "addition and multiplication", "floating_point.fma", rounding=_IEEE, sass=_FMA),
        *_rows("addc subc madc", "arithmetic", "addition and multiplication", "arithmetic.chain", bits_only=True),
        *_rows("mul24 mad24", "arithmetic", "addition and multiplication", "arithmetic.mul24", bits_only=True),
        *_rows("neg", "arithmetic", "sign, minimum, maximum", "arithmetic.sign", sass=_ADD),
        *_rows("abs", "arithmetic", "sign, minimum, maximum", "arithmetic.sign", sass="IABS FADD DADD HADD2"),
        *_rows("min", "arithmetic", "sign, minimum, maximum", "arithmetic.min_max", sass="IMNMX FMNMX DSETP.MIN.AND HMNMX2"),
        *_rows("max", "arithmetic", "sign, minimum, maximum", "arithmetic.min_max", sass="IMNMX FMNMX DSETP.MAX.AND HMNMX2"),
        *_rows("copysign", "arithmetic", "sign, minimum, maximum", "floating_point.copysign"),
        *_rows("setp", "arithmetic", "comparison", "comparison.setp", sass="ISETP.GE.AND FSETP.GE.AND DSETP.GE.AND HSETP2.GE.AND"),
        *_rows("set", "arithmetic", "comparison", "comparison.set_value", sass="ISETP.GE.AND FSET DSETP.GE.AND HSET2"),
        *_rows("testp", "arithmetic", "comparison", "floating_point.testp"),
        *_rows("sad", "int", "sum of differences or products", "arithmetic.sad", sass="VABSDIFF", bits_only=True),
        *_rows("dp4a", "int", "sum of differences or products", "arithmetic.dot", sass="IDP.4A.S8.S8", bits_only=True),
        *_rows("dp2a", "int", "sum of differences or products", "arithmetic.dot", sass="IDP.2A.S16.S8", bits_only=True),
        *_rows("and or xor", "int", "logic and shifts", "bits.logic", sass="LOP3.LUT", bits_only=True),
        *_rows("not cnot", "int", "logic and shifts", "bits.invert", sass="LOP3.LUT", bits_only=True),
        *_rows("lop3", "int", "logic and shifts", "bits.lop3", sass="LOP3.LUT", bits_only=True),
        *_rows("shl", "int", "logic and shifts", "bits.shift", sass="SHF.L.U32", bits_only=True),
        *_rows("shr", "int", "logic and shifts", "bits.shift", sass="SHF.R.U32", bits_only=True),
        *_rows("shf", "int", "logic and shifts", "bits.funnel_shift", sass="SHF.L.U32", bits_only=True),
        *_rows("vadd vsub vabsdiff vmin vmax", "int", "video: a chosen byte or half-word", "video.scalar"),
        *_rows("vshl vshr", "int", "video: a chosen byte or half-word", "video.shift"),
        *_rows("vmad", "int", "video: a chosen byte or half-word", "video.multiply_add"),
        *_rows("vset", "int", "video: a chosen byte or half-word", "video.compare"),
        *_rows("vadd2 vsub2 vavrg2 vabsdiff2 vmin2 vmax2 vset2", "int", "video: two half-words", "video.simd"),
        *_rows("vadd4 vsub4 vavrg4 vabsdiff4 vmin4 vmax4 vset4", "int", "video: four bytes", "video.simd"),
        *_rows("popc", "int", "bit fields", "bits.count_bits", sass="POPC", bits_only=True),
        *_rows("clz", "int", "bit fields", "bits.count_bits", sass="FLO.U32", bits_only=True),
        *_rows("bfind", "int", "bit fields", "bits.bfind", sass="FLO.U32", bits_only=True),
        *_rows("fns", "int", "bit fields", "warp.fns", bits_only=True),
        *_rows("brev", "int", "bit fields", "bits.brev", sass="BREV", bits_only=True),
        *_rows("bfe", "int", "bit fields", "bits.bfe", bits_only=True),
        *_rows("bfi", "int", "bit fields", "bits.bfi", bits_only=True),
        *_rows("bmsk", "int", "bit fields", "bits.bmsk", sass="BMSK", bits_only=True),
        *_rows("szext", "int", "bit fields", "bits.szext", bits_only=True),
        *_rows("prmt", "int", "bit fields", "bits.prmt", sass="PRMT", bits_only=True),
        *_rows("mov", "int", "move, select and convert", "comparison.mov", sass="MOV"),
        *_rows("selp", "int", "move, select and convert", "comparison.selp", sass="SEL"),
        *_rows("slct", "int", "move, select and convert", "comparison.slct", sass="SEL"),
        *_rows("cvt", "int", "move, select and convert", "conversion.cvt", rounding=_IEEE),
        *_rows("cvta", "int", "move, select and convert", "memory.cvta", sass="MOV"),
        *_rows("isspacep", "int", "move, select and convert", "memory.isspacep"),
        *_rows("vote", "int", "vote over the warp", "warp.vote", sass="VOTE.ANY"),
        *_rows("match", "int", "vote over the warp", "warp.match", sass="MATCH.ANY"),
        *_rows("activemask", "int", "vote over the warp", "warp.activemask", sass="VOTE.ANY"),
        *_rows("elect", "int", "vote over the warp", "warp.elect"),
        *_rows("redux", "int", "vote over the warp", "warp.redux", sass="REDUX"),
        *_rows("div", "sfu", "division and remainder", "arithmetic.divide", rounding=_IEEE),
        *_rows("rem", "sfu", "division and remainder", "arithmetic.remainder"),
        *_rows("rcp", "sfu", "special functions", "floating_point.special_function", rounding=_IEEE, sass="MUFU.RCP"),
        *_rows("sqrt", "sfu", "special functions", "floating_point.special_function", rounding=_IEEE, sass="MUFU.SQRT"),
        *_rows("rsqrt", "sfu", "special functions", "floating_point.special_function", sass="MUFU.RSQ"),
        *_rows("sin", "sfu", "special functions", "floating_point.special_function", sass="MUFU.SIN"),
        *_rows("cos", "sfu", "special functions", "floating_point.special_function", sass="MUFU.COS"),
        *_rows("lg2", "sfu", "special functions", "floating_point.special_function", sass="MUFU.LG2"),
        *_rows("ex2", "sfu", "special functions", "floating_point.special_function", sass="MUFU.EX2"),
        *_rows("tanh", "sfu", "special functions", "floating_point.special_function", sass="MUFU.TANH"),
        # A shuffle goes through the shared-memory pipeline and has about its latency (Nsight Compute counts both as MIO).
        *_rows("shfl", "shared", "exchange between lanes", "warp.shfl", sass="SHFL.IDX"),
        *_rows("movmatrix", "shared", "exchange between lanes", "matrix_tiles.movmatrix"),
        *_rows("ld ldu", "access", "load", "memory.load", access="load"),
        *_rows("st", "access", "store", "mbarriers.store", writes=0, access="store"),
        *_rows("atom", "access", "atomic operation that returns the old value", "atomics.atomic", access="atomic"),
        *_rows("red", "access", "atomic operation without result", "mbarriers.reduce", writes=0, access="atomic"),
        *_rows("prefetch prefetchu", "control", "cache hint", "fences.prefetch", writes=0),
        *_rows("discard", "control", "cache hint", "fences.discard", writes=0),
        *_rows("applypriority", "control", "cache hint", "fences.applypriority", writes=0),
        *_rows("createpolicy", "int", "cache policy", "fences.createpolicy"),
        *_rows("mapa", "int", "address in another block of the cluster", "memory.mapa"),
        *_rows("getctarank", "int", "address in another block of the cluster", "memory.getctarank"),
        *_rows("alloca", "int", "allocation on a thread's stack", "memory.alloca"),
        *_rows("stacksave", "int", "allocation on a thread's stack", "memory.stacksave"),
        *_rows("stackrestore", "int", "release of a thread's stack", "memory.stackrestore", writes=0),
        *_rows("cp", "copy", "asynchronous copy", "copies.cp", writes=0),
        *_rows("tensormap", "int", "change of a field of a tensor map", "tensor_copies.replace", writes=0),
        *_rows("mbarrier", "mbarrier", "barrier object in shared memory", "mbarriers.mbarrier"),
        *_rows("tex tld4", "memory", "texture fetch", "textures.fetch", access="load"),
        *_rows("suld", "memory", "load from a surface", "textures.surface_load", access="load"),
        *_rows("sust", "memory", "store to a surface", "textures.surface_store", writes=0, access="store"),
        *_rows("sured", "memory", "reduction on a surface", "textures.surface_reduce", writes=0, access="atomic"),
        *_rows("txq suq", "int", "query of a texture, surface or address", "textures.query"),
        *_rows("istypep", "int", "query of a texture, surface or address", "textures.istypep"),
        *_rows("bra", "branch", "branch, call, return and exit", CONTROL, writes=0, sass="BRA"),
        *_rows("brx", "branch", "branch, call, return and exit", CONTROL, writes=0, sass="BRX"),
        *_rows("ret", "branch", "branch, call, return and exit", CONTROL, writes=0, sass="RET.ABS"),
        *_rows("exit", "branch", "branch, call, return and exit", CONTROL, writes=0, sass="EXIT"),
        *_rows("trap", "branch", "branch, call, return and exit", CONTROL, writes=0, sass="BPT.TRAP"),
        *_rows("call", "branch", "call", "system.call", sass="CALL.ABS"),
        *_rows("bar barrier", "bar", "barrier of a thread block", "warp.warp_barrier", writes=0, sass="BAR.SYNC"),
        *_rows("membar fence", "barrier", "memory fence", "fences.fence", writes=0, sass="MEMBAR.SC.GPU"),
        *_rows("nanosleep", "control", "no effect on data", "system.no_effect", writes=0, sass="NANOSLEEP"),
        *_rows("brkpt", "control", "no effect on data", "system.breakpoint_fault", writes=0),
        *_rows("pmevent", "control", "no effect on data", "system.no_effect", writes=0),
        *_rows("griddepcontrol", "control", "no effect on data", "fences.griddepcontrol", writes=0),
        *_rows("clusterlaunchcontrol", "control", "work stealing between clusters (sm_100)", "launch_control.launch_control",
               writes=0),
        *_rows("setmaxnreg", "control", "no effect on data", "wgmma.setmaxnreg", writes=0),
        *_rows("wmma", "matrix", "warp matrix load, store and multiply", "wmma.wmma", rounding=_IEEE),
        *_rows("mma", "tensor", "warp matrix multiply", "mma.mma", rounding=_IEEE),
        *_rows("wgmma", "group", "warp-group matrix multiply", "wgmma.wgmma"),
        *_rows("tcgen05", "tensor_memory", "tensor memory and products with it (sm_100a)", "tensor_memory.tcgen05"),
        *_rows("ldmatrix", "access", "load of matrix tiles", "matrix_tiles.ldmatrix", access="load"),
        *_rows("stmatrix", "access", "store of matrix tiles", "matrix_tiles.stmatrix", writes=0, access="store"),
    )
}
# fmt: on
