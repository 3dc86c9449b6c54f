"""Random PTX kernels: straight-line code, nested branches, loops of data-dependent length, early exits, exchanges at barriers.

Every kernel is `k(in, out, u)`: thread i (over the launch) fills its registers from words `8 i ..` of `in`, computes, and stores
all registers to words `32 i ..` of `out`: 8 of 32 bits, 6 of f32, predicates, and from word 16 on 4 of 64 bits and 3 of f64.
Nothing that PTX leaves undefined is ever computed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

IN_WORDS, OUT_WORDS = 8, 32
FLOATS_AT, DOUBLES_AT = slice(8, 14), slice(24, 30)
POOL = {"r": 8, "f": 6, "q": 4, "d": 3, "p": 4}
"""Registers of each kind: 32-bit, f32, 64-bit, f64, predicate."""

_INTEGERS = (0, 1, 2, 31, 32, 33, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x12345678)
_FLOATS = (
    *(0x00000000, 0x80000000, 0x3F800000, 0xBF800000, 0x3F000000, 0x40200000, 0x40600000, 0xC0200000, 0x00000001, 0x80000001),
    *(0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0x4F000000, 0xCF000000, 0x5F000000),
    *(0x4B800001, 0x3EAAAAAB, 0x3FF00000, 0xBFF80000, 0x7FF00000, 0xFFF00000, 0x41E00000, 0xC1E00000, 0x43E00000, 0x47EFFFFF),
)
"""Patterns of floats that matter; with 32 zero bits after them, of doubles too."""
_COST = 400
"""Most steps of a thread, roughly: the interpreter is slow."""


def _table() -> dict[str, tuple[str, str]]:
    """Opcode to (kind of the result, kinds of the sources). A kind in capitals may also be an immediate; `8` is a byte one.

    `b` is a position or length in a bit field, 0 to 255, as an immediate or in a register; with `B` the register may hold more. PTX
    defines no more for 64-bit fields, in which the assembler takes all 32 bits.
    """
    table: dict[str, tuple[str, str]] = {}
    for kind in ("s", "u"):
        table |= {f"{op}.{kind}32": ("r", "rR") for op in ("add", "sub", "mul.lo", "mul.hi", "min", "max")}
        table |= {f"{op}.{kind}64": ("q", "qQ") for op in ("add", "sub", "mul.lo", "mul.hi", "min", "max")}
        table |= {f"mad.{part}.{kind}32": ("r", "rRr") for part in ("lo", "hi")}
        table |= {f"mul.wide.{kind}32": ("q", "rR"), f"mad.wide.{kind}32": ("q", "rRq"), f"mad.lo.{kind}64": ("q", "qqq")}
        table |= {f"shr.{kind}32": ("r", "rR"), f"shr.{kind}64": ("q", "qR"), f"sad.{kind}32": ("r", "rrr")}
        table |= {f"bfe.{kind}32": ("r", "rBB"), f"bfe.{kind}64": ("q", "qbb")}
        table |= {f"cvt.{kind}64.{other}32": ("q", "r") for other in ("s", "u")}
        table |= {f"cvt.{kind}32.{other}64": ("r", "q") for other in ("s", "u")}
        table |= {f"cvt.sat.{kind}32.{other}64": ("r", "q") for other in ("s", "u")}
        table |= {f"cvt.{kind}32.{other}{bits}": ("r", "r") for other in ("s", "u") for bits in (8, 16)}
        table |= {f"cvt.sat.{kind}{bits}.s32": ("r", "r") for bits in (8, 16)}
        table |= {f"cvt.{mode}.{kind}32.f32": ("r", "f") for mode in ("rni", "rzi", "rmi", "rpi")}
        table |= {f"cvt.{mode}.{kind}64.f32": ("q", "f") for mode in ("rni", "rzi", "rmi", "rpi")}
        table |= {f"cvt.rzi.{kind}32.f64": ("r", "d"), f"cvt.rni.{kind}64.f64": ("q", "d")}
        table |= {f"cvt.rn.f32.{kind}{bits}": ("f", source) for bits, source in ((8, "r"), (16, "r"), (32, "r"), (64, "q"))}
        table |= {f"cvt.rn.f64.{kind}{bits}": ("d", source) for bits, source in ((32, "r"), (64, "q"))}
    table |= {"neg.s32": ("r", "r"), "abs.s32": ("r", "r"), "neg.s64": ("q", "q"), "abs.s64": ("q", "q")}
    table |= {"add.sat.s32": ("r", "rR"), "sub.sat.s32": ("r", "rR"), "mov.u32": ("r", "R"), "mov.u64": ("q", "Q")}
    table |= {f"{op}.b32": ("r", "rR") for op in ("and", "or", "xor", "shl")}
    table |= {f"{op}.b64": ("q", "qQ") for op in ("and", "or", "xor")} | {"shl.b64": ("q", "qR")}
    table |= {f"{op}.b32": ("r", "r") for op in ("not", "popc", "clz", "brev")}
    table |= {f"{op}.b64": ("r", "q") for op in ("popc", "clz")} | {f"{op}.b64": ("q", "q") for op in ("not", "brev")}
    table |= {"bfi.b32": ("r", "rrBB"), "bfi.b64": ("q", "qqbb"), "prmt.b32": ("r", "rrR"), "lop3.b32": ("r", "rrr8")}
    table |= {f"shf.{way}.{mode}.b32": ("r", "rrR") for way in "lr" for mode in ("wrap", "clamp")}
    for kind, bits in (("f", 32), ("d", 64)):
        table |= {f"{op}.f{bits}": (kind, kind + kind.upper()) for op in ("add.rn", "sub.rn", "mul.rn", "div.rn", "min", "max")}
        table |= {f"fma.rn.f{bits}": (kind, kind * 3), f"sqrt.rn.f{bits}": (kind, kind), f"mov.f{bits}": (kind, kind.upper())}
        table |= {f"neg.f{bits}": (kind, kind), f"abs.f{bits}": (kind, kind)}
        table |= {f"cvt.{mode}.f{bits}.f{bits}": (kind, kind) for mode in ("rni", "rzi", "rmi", "rpi")}
    table |= {"add.f32": ("f", "fF"), "mul.f32": ("f", "fF"), "add.rn.ftz.f32": ("f", "ff"), "mul.rn.ftz.f32": ("f", "ff")}
    table |= {"add.sat.f32": ("f", "ff"), "fma.rn.sat.f32": ("f", "fff"), "rcp.rn.f32": ("f", "f"), "min.ftz.f32": ("f", "ff")}
    table |= {"cvt.f64.f32": ("d", "f"), "cvt.rn.f32.f64": ("f", "d"), "cvt.sat.f32.f32": ("f", "f")}
    table |= {"selp.b32": ("r", "rRp"), "selp.b64": ("q", "qQp"), "selp.f32": ("f", "fFp"), "selp.f64": ("d", "ddp")}
    table |= {f"{op}.pred": ("p", "pp") for op in ("and", "or", "xor")} | {"not.pred": ("p", "p"), "mov.pred": ("p", "p")}
    return table


OPCODES = _table()
COMPARISONS = {
    **{f"s{b}": ("eq", "ne", "lt", "le", "gt", "ge") for b in (32, 64)},
    **{f"u{b}": ("eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs") for b in (32, 64)},
    **{f"f{b}": ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan") for b in (32, 64)},
}
DIVISIONS = [f"{op}.{kind}" for op in ("div", "rem") for kind in ("s32", "u32", "s64", "u64")]


@dataclass(frozen=True)
class RandomKernel:
    """A kernel's text and one launch of it. `words` is the input, uint32 [threads * 8]."""

    text: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    words: np.ndarray[Any, np.dtype[np.uint32]]
    scalar: int

    @property
    def threads(self) -> int:
        """Threads in the launch."""
        return int(np.prod(self.grid) * np.prod(self.block))


class _Writer:
    """Draws statements and keeps count of labels."""

    def __init__(self, draw: Any, barriers: bool) -> None:
        self.draw, self.barriers, self.labels, self.lines = draw, barriers, 0, list[str]()
        self.rounds, self.cost, self.places = 1, 0, 0

    def emit(self, line: str) -> None:
        self.lines.append(line)

    def label(self) -> str:
        self.labels += 1
        return f"$L{self.labels}"

    def register(self, kind: str) -> str:
        return f"%{kind}{self.draw(st.integers(0, POOL[kind] - 1))}"

    def source(self, kind: str) -> str:
        if kind in "bB" and self.draw(st.booleans()):
            if kind == "B":
                return self.register("r")
            self.places = 1 - self.places
            self.emit(f"and.b32 %b{self.places}, {self.register('r')}, 255;")
            return f"%b{self.places}"
        if kind in "8bB":
            return str(self.draw(st.integers(0, 255)))
        if kind.islower() or self.draw(st.booleans()):
            return self.register(kind.lower())
        if kind == "R":
            return str(self.draw(st.sampled_from(_INTEGERS)))
        if kind == "Q":
            return str(self.draw(st.sampled_from(_INTEGERS)) * self.draw(st.sampled_from((1, 1 << 31))))
        pattern = self.draw(st.sampled_from(_FLOATS))
        return f"0f{pattern:08X}" if kind == "F" else f"0d{pattern:08X}00000000"

    def statement(self, guarded: bool = True) -> None:
        """One operation, perhaps guarded."""
        self.cost += self.rounds
        guard = ""
        if guarded and self.draw(st.integers(0, 4)) == 0:
            guard = f"@{self.draw(st.sampled_from(('', '!')))}{self.register('p')} "
        choice = self.draw(st.integers(0, 11))
        if choice == 0:
            self.division(guard)
        elif choice <= 2:
            self.comparison(guard)
        else:
            opcode = self.draw(st.sampled_from(sorted(OPCODES)))
            result, kinds = OPCODES[opcode]
            self.emit(f"{guard}{opcode} {self.register(result)}, {', '.join(self.source(kind) for kind in kinds)};")

    def division(self, guard: str) -> None:
        """A division whose divisor is neither zero nor minus one."""
        opcode = self.draw(st.sampled_from(DIVISIONS))
        kind = "r" if opcode.endswith("32") else "q"
        bits, divisor = opcode[-2:], f"%t{kind}"
        if "s" in opcode[-3:]:
            self.emit(f"and.b{bits} {divisor}, {self.register(kind)}, 65535;")
            self.emit(f"or.b{bits} {divisor}, {divisor}, 1;")
        else:
            self.emit(f"or.b{bits} {divisor}, {self.register(kind)}, 1;")
        self.emit(f"{guard}{opcode} {self.register(kind)}, {self.register(kind)}, {divisor};")

    def comparison(self, guard: str) -> None:
        """setp in one of its forms."""
        kind = self.draw(st.sampled_from(sorted(COMPARISONS)))
        pool = {"f32": "f", "f64": "d"}.get(kind, "r" if kind.endswith("32") else "q")
        name = self.draw(st.sampled_from(COMPARISONS[kind]))
        first = self.draw(st.integers(0, POOL["p"] - 1))
        second = (first + self.draw(st.integers(1, POOL["p"] - 1))) % POOL["p"]
        target = f"%p{first}|%p{second}" if self.draw(st.booleans()) else f"%p{first}"
        a, b = self.source(pool), self.source(pool.upper())
        if self.draw(st.booleans()):
            combining = self.draw(st.sampled_from(("and", "or", "xor")))
            third = f"{self.draw(st.sampled_from(('', '!')))}{self.register('p')}"
            self.emit(f"{guard}setp.{name}.{combining}.{kind} {target}, {a}, {b}, {third};")
        else:
            self.emit(f"{guard}setp.{name}.{kind} {target}, {a}, {b};")

    def body(self, depth: int, budget: int) -> None:
        """A sequence of statements and, down to `depth`, structures."""
        for _ in range(self.draw(st.integers(1, budget))):
            choice = self.draw(st.integers(0, 9)) if depth and self.cost + 4 * self.rounds < _COST else 9
            if choice <= 1:
                self.condition(depth - 1, budget)
            elif choice <= 3:
                self.loop(depth - 1, budget)
            elif choice == 4:
                self.leave()
            else:
                self.statement()

    def condition(self, depth: int, budget: int) -> None:
        """if, or if and else."""
        other, end = self.label(), self.label()
        self.emit(f"@{self.draw(st.sampled_from(('', '!')))}{self.register('p')} bra {other};")
        self.body(depth, budget)
        if self.draw(st.booleans()):
            self.emit(f"bra {end};")
            self.emit(f"{other}:")
            self.body(depth, budget)
        else:
            self.emit(f"{other}:")
        self.emit(f"{end}:")

    def loop(self, depth: int, budget: int) -> None:
        """Up to five rounds, as many as a register says, perhaps left early from the middle."""
        top, end, counter = self.label(), self.label(), f"%c{depth}"
        self.emit(f"and.b32 {counter}, {self.register('r')}, 5;")
        self.rounds *= 5
        self.emit(f"{top}:")
        self.emit(f"setp.eq.u32 %pc, {counter}, 0;")
        self.emit(f"@%pc bra {end};")
        self.body(depth, budget)
        if self.draw(st.booleans()):
            self.emit(f"@{self.register('p')} bra {end};")
            self.body(depth, budget)
        self.emit(f"sub.u32 {counter}, {counter}, 1;")
        self.emit(f"bra {top};")
        self.emit(f"{end}:")
        self.rounds //= 5

    def leave(self) -> None:
        """An early way out: to the stores, or of the kernel without them. Not where a barrier follows."""
        if not self.barriers:
            self.emit(f"@{self.register('p')} {self.draw(st.sampled_from(('bra $STORE', 'ret', 'exit')))};")

    def exchange(self) -> None:
        """Threads pass a register to a neighbour through shared memory."""
        register, other = self.register("r"), self.register("r")
        shift = self.draw(st.integers(1, 40))
        self.lines += [f"st.shared.u32 [%ts], {register};", "bar.sync 0;"]
        self.lines += [f"add.u32 %tr, %tid_, {shift};", "rem.u32 %tr, %tr, %size;", "shl.b32 %tr, %tr, 2;"]
        self.lines += ["mov.u32 %base, tile;", "add.u32 %tr, %tr, %base;", f"ld.shared.u32 {other}, [%tr];", "bar.sync 0;"]


HEAD = """.version 7.0
.target sm_75
.address_size 64

.visible .entry k(
    .param .u64 k_param_0,
    .param .u64 k_param_1,
    .param .u32 k_param_2
)
{
    .shared .align 4 .b8 tile[4096];
    .reg .pred %p<4>, %pc;
    .reg .b32 %r<8>, %c<8>, %b<2>, %tr, %tid_, %size, %ts, %base, %g, %n;
    .reg .f32 %f<6>;
    .reg .b64 %q<4>, %tq, %in, %out, %at;
    .reg .f64 %d<3>;
    mov.u32 %tid_, %tid.x;
    mov.u32 %tr, %tid.y;
    mov.u32 %n, %ntid.x;
    mad.lo.u32 %tid_, %tr, %n, %tid_;
    mov.u32 %size, %ntid.y;
    mul.lo.u32 %size, %size, %n;
    mov.u32 %g, %ctaid.y;
    mov.u32 %n, %nctaid.x;
    mov.u32 %tr, %ctaid.x;
    mad.lo.u32 %g, %g, %n, %tr;
    mad.lo.u32 %g, %g, %size, %tid_;
    shl.b32 %ts, %tid_, 2;
    mov.u32 %base, tile;
    add.u32 %ts, %ts, %base;
    ld.param.u64 %in, [k_param_0];
    cvta.to.global.u64 %in, %in;
    ld.param.u64 %out, [k_param_1];
    cvta.to.global.u64 %out, %out;
    mul.wide.u32 %at, %g, 32;
    add.s64 %in, %in, %at;
    mul.wide.u32 %at, %g, STRIDE;
    add.s64 %out, %out, %at;
    ld.global.v2.u32 {%r0, %r1}, [%in];
    ld.global.u8 %r2, [%in+9];
    ld.global.s16 %r3, [%in+10];
    ld.param.u32 %r4, [k_param_2];
    mov.u32 %r5, %laneid;
    mov.u32 %r6, %tid_;
    mov.u32 %r7, %g;
    ld.global.v2.f32 {%f0, %f1}, [%in+16];
    ld.global.f32 %f2, [%in+24];
    cvt.rn.f32.s32 %f3, %r1;
    mov.f32 %f4, 0f3F800000;
    cvt.rn.f32.u32 %f5, %r7;
    ld.global.v2.u64 {%q0, %q1}, [%in];
    cvt.u64.u32 %q2, %r0;
    cvt.s64.s32 %q3, %r1;
    cvt.f64.f32 %d0, %f0;
    ld.global.f64 %d1, [%in+24];
    cvt.rn.f64.s64 %d2, %q0;
    setp.lt.u32 %p0, %r5, 16;
    setp.gt.f32 %p1, %f0, %f1;
    setp.ne.s32 %p2, %r0, %r1;
    and.b32 %tr, %r6, 1;
    setp.eq.u32 %p3, %tr, 0;
"""


def _tail() -> list[str]:
    lines = ["$STORE:", "mov.u32 %tr, 1;"]
    for i in range(4):
        lines += [f"selp.u32 %n, {1 << (i + 4)}, 0, %p{i};", "or.b32 %tr, %tr, %n;"]
    stored = {0: "u32 r0 r1 r2 r3", 16: "u32 r4 r5 r6 r7", 32: "f32 f0 f1 f2 f3", 48: "f32 f4 f5"}
    stored |= {64: "u64 q0 q1", 80: "u64 q2 q3", 96: "f64 d0 d1"}
    lines += [_vector_store(at, *what.split()) for at, what in stored.items()]
    return [*lines, "st.global.u32 [%out+56], %tr;", "st.global.f64 [%out+112], %d2;", "ret;"]


def _vector_store(at: int, kind: str, *registers: str) -> str:
    return f"st.global.v{len(registers)}.{kind} [%out+{at}], {{{', '.join(f'%{name}' for name in registers)}}};"


@st.composite
def _kernels(draw: Any, depth: int, budget: int, barriers: bool) -> RandomKernel:
    writer = _Writer(draw, barriers)
    writer.body(depth, budget)
    if barriers:
        for _ in range(draw(st.integers(1, 3))):
            writer.exchange()
            writer.body(depth, budget)
    width = draw(st.sampled_from((1, 7, 16, 31, 32, 33, 40, 64)))
    block = (width, draw(st.sampled_from((1, 1, 2))), 1)
    grid = (draw(st.integers(1, 2)), draw(st.sampled_from((1, 1, 1, 2))), 1)
    threads = int(np.prod(block) * np.prod(grid))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    lines = [line if line.startswith("$") else f"    {line}" for line in (*writer.lines, *_tail(), "}")]
    text = HEAD.replace("STRIDE", str(4 * OUT_WORDS)) + "\n".join(lines) + "\n"
    return RandomKernel(text, grid, block, random_words(rng, threads), draw(st.sampled_from(_INTEGERS)))


def random_words(rng: np.random.Generator, threads: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """Input words that are often special: four for integers, three for floats, the last two together a double."""
    words = rng.integers(0, 1 << 32, (threads, IN_WORDS), dtype=np.uint32)
    special = rng.random((threads, IN_WORDS)) < 0.4
    integers = rng.choice(np.array(_INTEGERS, np.uint32), (threads, IN_WORDS))
    floats = rng.choice(np.array(_FLOATS, np.uint32), (threads, IN_WORDS))
    ordinary = rng.normal(0, 100, (threads, IN_WORDS)).astype(np.float32).view(np.uint32)
    chosen = np.where(np.arange(IN_WORDS) < 4, np.where(special, integers, words), np.where(special, floats, ordinary))
    return chosen.astype(np.uint32).reshape(-1)


def straight_line() -> st.SearchStrategy[RandomKernel]:
    """Kernels without branches."""
    return _kernels(depth=0, budget=40, barriers=False)


def branching() -> st.SearchStrategy[RandomKernel]:
    """Kernels of nested branches, loops and early exits."""
    return _kernels(depth=3, budget=5, barriers=False)


def exchanging() -> st.SearchStrategy[RandomKernel]:
    """Kernels whose threads meet at barriers between branching parts."""
    return _kernels(depth=2, budget=4, barriers=True)
