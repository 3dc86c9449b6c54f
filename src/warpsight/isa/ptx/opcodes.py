"""The table of PTX opcodes: one row says all that Warpsight knows of an opcode. And the opcodes that are refused, with the reason.

Opcodes are those of the PTX ISA, section "Instruction Set". An opcode that is not here is refused. `rules.py` applies the rows.
"""

from __future__ import annotations

from dataclasses import dataclass

_WARPGROUP = "matrix multiplication by four warps together (sm_90a), with operands in shared memory"
_FIFTH = "matrix multiplication with tensor memory (sm_100 and later)"
_TENSOR_MAP = "the tensor memory accelerator: copies of boxes of a tensor map"

REFUSED: dict[str, str] = {
    "wgmma": _WARPGROUP,
    "tcgen05": _FIFTH,
    "tensormap": _TENSOR_MAP,
    "multimem": "one address for the memories of several GPUs",
    "clusterlaunchcontrol": "work stealing between clusters (sm_100 and later)",
}

CONTROL = "control"  # handler of opcodes that end a basic block: `emulator/codegen` emits them


@dataclass(frozen=True, slots=True)
class Opcode:
    """One row.

    `rule` is an op class, or what decides: `arithmetic` (operand type), `access` (state space), `matrix`, `bar`, `copy`, `mbarrier`
    (variant). `handler` names what executes it: `FAMILY.FUNCTION` of `emulator/ptx/FAMILY.py`, `CONTROL`, or "" if nothing does.
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


_IEEE = "rn rz rm rp"
_ADD, _MUL, _FMA = "IADD3 FADD DADD HADD2", "IMAD FMUL DMUL HMUL2", "IMAD FFMA DFMA HFMA2"

# fmt: off
OPCODES: dict[str, Opcode] = {
    row.name: row
    for row in (
        Opcode("add", "arithmetic", "addition and multiplication", "arithmetic.add", rounding=_IEEE, sass=_ADD),
        Opcode("sub", "arithmetic", "addition and multiplication", "arithmetic.subtract", rounding=_IEEE, sass=_ADD),
        Opcode("mul", "arithmetic", "addition and multiplication", "arithmetic.multiply", rounding=_IEEE, sass=_MUL),
        Opcode("mad", "arithmetic", "addition and multiplication", "arithmetic.multiply_add", rounding=_IEEE, sass=_FMA),
        Opcode("fma", "arithmetic", "addition and multiplication", "floating_point.fma", rounding=_IEEE, sass=_FMA),
        Opcode("addc", "arithmetic", "addition and multiplication", "arithmetic.chain", bits_only=True),
        Opcode("subc", "arithmetic", "addition and multiplication", "arithmetic.chain", bits_only=True),
        Opcode("madc", "arithmetic", "addition and multiplication", "arithmetic.chain", bits_only=True),
        Opcode("mul24", "arithmetic", "addition and multiplication", "arithmetic.mul24", bits_only=True),
        Opcode("mad24", "arithmetic", "addition and multiplication", "arithmetic.mul24", bits_only=True),
        Opcode("neg", "arithmetic", "sign, minimum, maximum", "arithmetic.sign", sass=_ADD),
        Opcode("abs", "arithmetic", "sign, minimum, maximum", "arithmetic.sign", sass="IABS FADD DADD HADD2"),
        Opcode("min", "arithmetic", "sign, minimum, maximum", "arithmetic.min_max", sass="IMNMX FMNMX DSETP.MIN.AND HMNMX2"),
        Opcode("max", "arithmetic", "sign, minimum, maximum", "arithmetic.min_max", sass="IMNMX FMNMX DSETP.MAX.AND HMNMX2"),
        Opcode("copysign", "arithmetic", "sign, minimum, maximum", "floating_point.copysign"),
        Opcode("setp", "arithmetic", "comparison", "comparison.setp", sass="ISETP.GE.AND FSETP.GE.AND DSETP.GE.AND HSETP2.GE.AND"),
        Opcode("set", "arithmetic", "comparison", "comparison.set_value", sass="ISETP.GE.AND FSET DSETP.GE.AND HSET2"),
        Opcode("testp", "arithmetic", "comparison", "floating_point.testp"),
        Opcode("sad", "int", "sum of differences or products", "arithmetic.sad", sass="VABSDIFF", bits_only=True),
        Opcode("dp4a", "int", "sum of differences or products", "arithmetic.dot", sass="IDP.4A.S8.S8", bits_only=True),
        Opcode("dp2a", "int", "sum of differences or products", "arithmetic.dot", sass="IDP.2A.S16.S8", bits_only=True),
        Opcode("and", "int", "logic and shifts", "bits.logic", sass="LOP3.LUT", bits_only=True),
        Opcode("or", "int", "logic and shifts", "bits.logic", sass="LOP3.LUT", bits_only=True),
        Opcode("xor", "int", "logic and shifts", "bits.logic", sass="LOP3.LUT", bits_only=True),
        Opcode("not", "int", "logic and shifts", "bits.invert", sass="LOP3.LUT", bits_only=True),
        Opcode("cnot", "int", "logic and shifts", "bits.invert", sass="LOP3.LUT", bits_only=True),
        Opcode("lop3", "int", "logic and shifts", "bits.lop3", sass="LOP3.LUT", bits_only=True),
        Opcode("shl", "int", "logic and shifts", "bits.shift", sass="SHF.L.U32", bits_only=True),
        Opcode("shr", "int", "logic and shifts", "bits.shift", sass="SHF.R.U32", bits_only=True),
        Opcode("shf", "int", "logic and shifts", "bits.funnel_shift", sass="SHF.L.U32", bits_only=True),
        Opcode("vadd", "int", "video: a chosen byte or half-word", "video.scalar"),
        Opcode("vsub", "int", "video: a chosen byte or half-word", "video.scalar"),
        Opcode("vabsdiff", "int", "video: a chosen byte or half-word", "video.scalar"),
        Opcode("vmin", "int", "video: a chosen byte or half-word", "video.scalar"),
        Opcode("vmax", "int", "video: a chosen byte or half-word", "video.scalar"),
        Opcode("vshl", "int", "video: a chosen byte or half-word", "video.shift"),
        Opcode("vshr", "int", "video: a chosen byte or half-word", "video.shift"),
        Opcode("vmad", "int", "video: a chosen byte or half-word", "video.multiply_add"),
        Opcode("vset", "int", "video: a chosen byte or half-word", "video.compare"),
        Opcode("vadd2", "int", "video: two half-words", "video.simd"),
        Opcode("vsub2", "int", "video: two half-words", "video.simd"),
        Opcode("vavrg2", "int", "video: two half-words", "video.simd"),
        Opcode("vabsdiff2", "int", "video: two half-words", "video.simd"),
        Opcode("vmin2", "int", "video: two half-words", "video.simd"),
        Opcode("vmax2", "int", "video: two half-words", "video.simd"),
        Opcode("vset2", "int", "video: two half-words", "video.simd"),
        Opcode("vadd4", "int", "video: four bytes", "video.simd"),
        Opcode("vsub4", "int", "video: four bytes", "video.simd"),
        Opcode("vavrg4", "int", "video: four bytes", "video.simd"),
        Opcode("vabsdiff4", "int", "video: four bytes", "video.simd"),
        Opcode("vmin4", "int", "video: four bytes", "video.simd"),
        Opcode("vmax4", "int", "video: four bytes", "video.simd"),
        Opcode("vset4", "int", "video: four bytes", "video.simd"),
        Opcode("popc", "int", "bit fields", "bits.count_bits", sass="POPC", bits_only=True),
        Opcode("clz", "int", "bit fields", "bits.count_bits", sass="FLO.U32", bits_only=True),
        Opcode("bfind", "int", "bit fields", "bits.bfind", sass="FLO.U32", bits_only=True),
        Opcode("fns", "int", "bit fields", "warp.fns", bits_only=True),
        Opcode("brev", "int", "bit fields", "bits.brev", sass="BREV", bits_only=True),
        Opcode("bfe", "int", "bit fields", "bits.bfe", bits_only=True),
        Opcode("bfi", "int", "bit fields", "bits.bfi", bits_only=True),
        Opcode("bmsk", "int", "bit fields", "bits.bmsk", sass="BMSK", bits_only=True),
        Opcode("szext", "int", "bit fields", "bits.szext", bits_only=True),
        Opcode("prmt", "int", "bit fields", "bits.prmt", sass="PRMT", bits_only=True),
        Opcode("mov", "int", "move, select and convert", "comparison.mov", sass="MOV"),
        Opcode("selp", "int", "move, select and convert", "comparison.selp", sass="SEL"),
        Opcode("slct", "int", "move, select and convert", "comparison.slct", sass="SEL"),
        Opcode("cvt", "int", "move, select and convert", "conversion.cvt", rounding=_IEEE),
        Opcode("cvta", "int", "move, select and convert", "memory.cvta", sass="MOV"),
        Opcode("isspacep", "int", "move, select and convert", "memory.isspacep"),
        Opcode("vote", "int", "vote over the warp", "warp.vote", sass="VOTE.ANY"),
        Opcode("match", "int", "vote over the warp", "warp.match", sass="MATCH.ANY"),
        Opcode("activemask", "int", "vote over the warp", "warp.activemask", sass="VOTE.ANY"),
        Opcode("elect", "int", "vote over the warp", "warp.elect"),
        Opcode("redux", "int", "vote over the warp", "warp.redux", sass="REDUX"),
        Opcode("div", "sfu", "division and remainder", "arithmetic.divide", rounding=_IEEE),
        Opcode("rem", "sfu", "division and remainder", "arithmetic.remainder"),
        Opcode("rcp", "sfu", "special functions", "floating_point.special_function", rounding=_IEEE, sass="MUFU.RCP"),
        Opcode("sqrt", "sfu", "special functions", "floating_point.special_function", rounding=_IEEE, sass="MUFU.SQRT"),
        Opcode("rsqrt", "sfu", "special functions", "floating_point.special_function", sass="MUFU.RSQ"),
        Opcode("sin", "sfu", "special functions", "floating_point.special_function", sass="MUFU.SIN"),
        Opcode("cos", "sfu", "special functions", "floating_point.special_function", sass="MUFU.COS"),
        Opcode("lg2", "sfu", "special functions", "floating_point.special_function", sass="MUFU.LG2"),
        Opcode("ex2", "sfu", "special functions", "floating_point.special_function", sass="MUFU.EX2"),
        Opcode("tanh", "sfu", "special functions", "floating_point.special_function", sass="MUFU.TANH"),
        # A shuffle goes through the shared-memory pipeline and has about its latency (Nsight Compute counts both as MIO).
        Opcode("shfl", "shared", "exchange between lanes", "warp.shfl", sass="SHFL.IDX"),
        Opcode("movmatrix", "shared", "exchange between lanes", "matrix_tiles.movmatrix"),
        Opcode("ld", "access", "load", "memory.load", access="load"),
        Opcode("ldu", "access", "load", "memory.load", access="load"),
        Opcode("st", "access", "store", "mbarriers.store", writes=0, access="store"),
        Opcode("atom", "access", "atomic operation that returns the old value", "atomics.atomic", access="atomic"),
        Opcode("red", "access", "atomic operation without result", "mbarriers.reduce", writes=0, access="atomic"),
        Opcode("prefetch", "control", "cache hint", "fences.prefetch", writes=0),
        Opcode("prefetchu", "control", "cache hint", "fences.prefetch", writes=0),
        Opcode("discard", "control", "cache hint", "fences.discard", writes=0),
        Opcode("applypriority", "control", "cache hint", "fences.applypriority", writes=0),
        Opcode("createpolicy", "int", "cache policy", "fences.createpolicy"),
        Opcode("mapa", "int", "address in another block of the cluster", "memory.mapa"),
        Opcode("getctarank", "int", "address in another block of the cluster", "memory.getctarank"),
        Opcode("alloca", "int", "allocation on a thread's stack", "memory.alloca"),
        Opcode("stacksave", "int", "allocation on a thread's stack", "memory.stacksave"),
        Opcode("stackrestore", "int", "release of a thread's stack", "memory.stackrestore", writes=0),
        Opcode("cp", "copy", "asynchronous copy", "copies.cp", writes=0),
        Opcode("mbarrier", "mbarrier", "barrier object in shared memory", "mbarriers.mbarrier"),
        Opcode("tex", "memory", "texture fetch", "textures.fetch", access="load"),
        Opcode("tld4", "memory", "texture fetch", "textures.fetch", access="load"),
        Opcode("suld", "memory", "load from a surface", "textures.surface_load", access="load"),
        Opcode("sust", "memory", "store to a surface", "textures.surface_store", writes=0, access="store"),
        Opcode("sured", "memory", "reduction on a surface", "textures.surface_reduce", writes=0, access="atomic"),
        Opcode("txq", "int", "query of a texture, surface or address", "textures.query"),
        Opcode("suq", "int", "query of a texture, surface or address", "textures.query"),
        Opcode("istypep", "int", "query of a texture, surface or address", "textures.istypep"),
        Opcode("bra", "branch", "branch, call, return and exit", CONTROL, writes=0, sass="BRA"),
        Opcode("brx", "branch", "branch, call, return and exit", CONTROL, writes=0, sass="BRX"),
        Opcode("ret", "branch", "branch, call, return and exit", CONTROL, writes=0, sass="RET.ABS"),
        Opcode("exit", "branch", "branch, call, return and exit", CONTROL, writes=0, sass="EXIT"),
        Opcode("trap", "branch", "branch, call, return and exit", CONTROL, writes=0, sass="BPT.TRAP"),
        Opcode("call", "branch", "call", "system.call", sass="CALL.ABS"),
        Opcode("bar", "bar", "barrier of a thread block", "warp.warp_barrier", writes=0, sass="BAR.SYNC"),
        Opcode("barrier", "bar", "barrier of a thread block", "warp.warp_barrier", writes=0, sass="BAR.SYNC"),
        Opcode("membar", "barrier", "memory fence", "fences.fence", writes=0, sass="MEMBAR.SC.GPU"),
        Opcode("fence", "barrier", "memory fence", "fences.fence", writes=0, sass="MEMBAR.SC.GPU"),
        Opcode("nanosleep", "control", "no effect on data", "system.no_effect", writes=0, sass="NANOSLEEP"),
        Opcode("brkpt", "control", "no effect on data", "system.breakpoint_fault", writes=0),
        Opcode("pmevent", "control", "no effect on data", "system.no_effect", writes=0),
        Opcode("griddepcontrol", "control", "no effect on data", "", writes=0),
        Opcode("setmaxnreg", "control", "no effect on data", "", writes=0),
        Opcode("wmma", "matrix", "warp matrix load, store and multiply", "wmma.wmma", rounding=_IEEE),
        Opcode("mma", "tensor", "warp matrix multiply", "mma.mma", rounding=_IEEE),
        Opcode("ldmatrix", "access", "load of matrix tiles", "matrix_tiles.ldmatrix", access="load"),
        Opcode("stmatrix", "access", "store of matrix tiles", "matrix_tiles.stmatrix", writes=0, access="store"),
    )
}
# fmt: on
