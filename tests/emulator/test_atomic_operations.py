"""Every atomic operation of PTX on every type that it has, in each space: old values, results and their order."""

from __future__ import annotations

import numpy as np
import pytest
from atomic_definitions import FORMATS, apply
from emulator_launch import launch, ptx
from hopper_launch import hopper, run, run_traced
from trace_reader import accesses

from warpsight.base.errors import UnsupportedError

pytestmark = pytest.mark.unit
RNG = np.random.default_rng(77)
INTEGERS = ["u32", "s32", "u64", "s64"]
OPERATIONS = [
    *((op, kind) for op in ("and", "or", "xor") for kind in ("b32", "b64")),
    *((op, kind) for op in ("min", "max") for kind in INTEGERS),
    ("add", "u32"), ("add", "s32"), ("add", "u64"), ("inc", "u32"), ("dec", "u32"),
    ("exch", "b32"), ("exch", "b64"), ("cas", "b16"), ("cas", "b32"), ("cas", "b64"),
    ("add", "f32"), ("add", "f64"), ("add", "f16"), ("add", "bf16"), ("add", "f16x2"), ("add", "bf16x2"),
]  # fmt: skip
RED_ONLY_ATOM = ("exch", "cas")
EDGES = [0, 1, 2, *(v for n in (8, 16, 32, 64) for v in ((1 << (n - 1)) - 1, 1 << (n - 1), (1 << n) - 1))]
PLACES = {"global": "[%in+{}]", "shared": "[%r30+{}]", "shared::cluster": "[%r30+{}]", "": "[%in+{}]",
"generic shared": "[%q30+{}]"}


def width(kind: str) -> int:
    return 32 if kind.endswith("x2") else FORMATS[kind].bits if kind in FORMATS else int(kind[1:])


def patterns(kind: str, count: int) -> list[int]:
    """Values that matter to a type: edges, and random ones of all magnitudes."""
    bits = width(kind)
    one = kind[:-2] if kind.endswith("x2") else kind
    if one in FORMATS:
        form, half = FORMATS[one], 1 << (FORMATS[one].bits - 1)
        unit = 1 << (form.precision - 1)
        edges = [0, 1, unit - 1, unit, form.infinity - 1, form.infinity, form.infinity + 1, form.nan, form.highest * unit]
        edges += [half | e for e in edges]
        near = [form.highest * unit + int(d) for d in RNG.integers(-3 * unit, 3 * unit, 3 * count)]
        pool = [*edges, *near, *(int(x) % (2 * half) for x in RNG.integers(0, 1 << 63, count))]
        picks = [[pool[int(k)] for k in RNG.integers(0, len(pool), count)] for _ in range(bits // form.bits)]
        return [sum(x << (form.bits * k) for k, x in enumerate(parts)) for parts in zip(*picks, strict=True)]
    pool = [e % (1 << bits) for e in EDGES] + [int(x) % (1 << bits) for x in RNG.integers(0, 1 << 63, 10)]
    return [pool[int(k)] for k in RNG.integers(0, len(pool), count)]


REGISTER = {16: "%h", 32: "%r", 64: "%q"}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("returns", [True, False])
def test_each_operation_gives_the_old_value_and_stores_the_new_one(place: str, returns: bool) -> None:
    cases = [case for case in OPERATIONS if returns or case[0] not in RED_ONLY_ATOM]
    space = "" if place == "generic shared" else place
    opcode = ("atom" if returns else "red") + (f".{space}" if space else "")
    # Each lane has its own words; case by case: in memory (16 bytes), b and c.
    lines = [f"mad.wide.u32 %in, %i, {32 * len(cases)}, %in;", "mov.u32 %r30, s;", "mad.lo.u32 %r30, %i, 8, %r30;"]
    lines += ["cvt.u64.u32 %q30, %r30;", "cvta.shared.u64 %q30, %q30;"]
    for number, (operation, kind) in enumerate(cases):
        bits, at = width(kind), 32 * number
        names = [f"{REGISTER[bits]}{k}" for k in range(4)]
        lines += [f"ld.global.b{bits} {names[k]}, [%in+{at + 8 * k}];" for k in range(3)]
        shared = "shared" in place
        where = PLACES[place].format(0 if shared else at)
        if shared:
            lines.append(f"st.shared.b{bits} [%r30], {names[0]};")
        noftz = ".noftz" if operation == "add" and kind[:3] in ("f16", "bf1") else ""
        arguments = [where, names[1], *([names[2]] if operation == "cas" else [])]
        lines += [f"{opcode}.{operation}{noftz}.{kind} {', '.join([names[3]] * returns + arguments)};"]
        final = f"ld.{'shared' if shared else 'global'}.b{bits} {names[0]}, {'[%r30]' if shared else where};"
        lines += [final, f"st.global.b{bits} [%out+{16 * number}], {names[0]};"]
        lines += [f"st.global.b{bits} [%out+{16 * number + 8}], {names[3]};"] * returns
    words = 2 * len(cases)
    memory = np.zeros((32, len(cases), 4), np.uint64)
    for number, (operation, kind) in enumerate(cases):
        values = patterns(kind, 96)
        memory[:, number, :3] = np.array(values, np.uint64).reshape(32, 3)
        if operation == "cas":
            memory[::2, number, 1] = memory[::2, number, 0]
    start = memory.copy()
    got = run(hopper("\n".join(lines), words, declarations=".shared .align 8 .b8 s[256];"), memory, words=words)
    for number, (operation, kind) in enumerate(cases):
        flush = "shared" not in place
        for lane, row in enumerate(start[:, number]):
            old, b, c = (int(x) for x in row[:3])
            wanted = apply(operation, kind, old, b, c, flush)
            told = f"{opcode}.{operation}.{kind} {old:#x} {b:#x} {c:#x}"
            assert int(got[lane, 2 * number]) == wanted, told
            assert not returns or int(got[lane, 2 * number + 1]) == old, told


def test_lanes_act_one_after_the_other_lowest_first() -> None:
    body = """
        ld.global.u32 %r1, [%in];
        atom.global.inc.u32 %r2, [%in+4], 5;
        atom.shared.exch.b32 %r3, [s], %i;
        cvt.rn.f32.u32 %f1, %i;
        atom.global.add.f32 %f2, [%in+8], %f1;
        st.global.v2.u32 [%out], {%r2, %r3};
        st.global.f32 [%out+8], %f2;"""
    memory = np.zeros(4, np.uint32)
    out = run(hopper(body, 2, declarations=".shared .align 4 .b32 s;"), memory, words=2).view(np.uint32)
    assert out[:, 0].tolist() == [k % 6 for k in range(32)]
    assert out[:, 1].tolist() == [0, *range(31)]
    assert out[:, 2].copy().view(np.float32).tolist() == [k * (k - 1) / 2 for k in range(32)]
    assert memory[1] == 32 % 6 and memory.view(np.float32)[2] == 31 * 16


def test_128_bit_exchange_and_compare() -> None:
    body = """
        mad.wide.u32 %in, %i, 64, %in;
        ld.global.b128 %w1, [%in+16];
        ld.global.b128 %w2, [%in+32];
        atom.global.cas.b128 %w3, [%in], %w1, %w2;
        atom.global.exch.b128 %w4, [%in+48], %w1;
        st.global.b128 [%out], %w3;
        st.global.b128 [%out+16], %w4;
        ld.global.v2.u64 {%q1, %q2}, [%in];
        st.shared.v2.u64 [s], {%q1, %q2};
        atom.shared.exch.b128 %w5, [s], %w2;
        st.global.b128 [%out+32], %w5;"""
    memory = RNG.integers(0, 1 << 63, (32, 4, 2), dtype=np.uint64)
    memory[::3, 1] = memory[::3, 0]
    memory[1::3, 1, 0] = memory[1::3, 0, 0]  # only half of them alike
    start = memory.copy()
    got = run(hopper(body, 6, declarations=".shared .align 16 .b8 s[16];"), memory, words=6)
    same = (start[:, 0] == start[:, 1]).all(axis=1)
    np.testing.assert_array_equal(got[:, :2], start[:, 0])
    np.testing.assert_array_equal(got[:, 2:4], start[:, 3])
    np.testing.assert_array_equal(memory[:, 0], np.where(same[:, None], start[:, 2], start[:, 0]))
    np.testing.assert_array_equal(memory[:, 3], start[:, 1])
    # All lanes exchange one word in turn: each gets what the lane before it put there, the first what lane 31 had stored last.
    np.testing.assert_array_equal(got[0, 4:], memory[31, 0])
    np.testing.assert_array_equal(got[1:, 4:], start[:31, 2])


VECTORS = [
    ("f32", 2, "add"), ("f32", 4, "add"),
    *((kind, count, op) for kind in ("f16", "bf16") for count in (2, 4, 8) for op in ("add", "min", "max")),
    *((kind, count, op) for kind in ("f16x2", "bf16x2") for count in (2, 4) for op in ("add", "min", "max")),
]  # fmt: skip


@pytest.mark.parametrize("returns", [True, False])
def test_vector_operations_act_on_each_element(returns: bool) -> None:
    lines = [f"mad.wide.u32 %in, %i, {32 * len(VECTORS)}, %in;"]
    for number, (kind, count, operation) in enumerate(VECTORS):
        prefix = "%f" if kind == "f32" else "%r" if width(kind) == 32 else "%h"
        at = 32 * number
        b, old = ("{" + ", ".join(f"{prefix}{first + k}" for k in range(count)) + "}" for first in (0, 8))
        parts = [(f"{prefix}{k}", at + 16 + k * width(kind) // 8) for k in range(count)]
        lines += [f"ld.global.b{width(kind)} {name}, [%in+{where}];" for name, where in parts]
        name = f"global.{operation}{'' if kind == 'f32' else '.noftz'}.v{count}.{kind}"
        lines.append(f"atom.{name} {old}, [%in+{at}], {b};" if returns else f"red.{name} [%in+{at}], {b};")
        if returns:
            stored = [(f"{prefix}{8 + k}", 16 * number + k * width(kind) // 8) for k in range(count)]
            lines += [f"st.global.b{width(kind)} [%out+{where}], {name};" for name, where in stored]
    memory = np.zeros((32, len(VECTORS), 32), np.uint8)
    for number, (kind, count, _) in enumerate(VECTORS):
        for lane in range(32):
            for half in (0, 16):
                raw = b"".join(p.to_bytes(width(kind) // 8, "little") for p in patterns(kind, count))
                memory[lane, number, half : half + len(raw)] = np.frombuffer(raw, np.uint8)
    start, words = memory.copy(), 2 * len(VECTORS)
    got = run(hopper("\n".join(lines), words), memory, words=words).view(np.uint8).reshape(32, len(VECTORS), 16)
    for number, (kind, count, operation) in enumerate(VECTORS):
        size = width(kind) // 8
        for lane in range(32):
            raw = start[lane, number].tobytes()
            places = [[at + k * size for k in range(count)] for at in (0, 16)]
            elements = [[int.from_bytes(raw[p : p + size], "little") for p in row] for row in places]
            values = [apply(operation, kind, *pair, flush=True) for pair in zip(*elements, strict=True)]
            wanted = b"".join(value.to_bytes(size, "little") for value in values)
            assert memory[lane, number, : len(wanted)].tobytes() == wanted, f"{operation} {kind} {count} {elements}"
            if returns:
                assert got[lane, number, : len(wanted)].tobytes() == start[lane, number, : len(wanted)].tobytes()


@pytest.mark.parametrize(
    "opcode",
    [
        "atom.relaxed.cta.global", "atom.acquire.gpu.global", "atom.release.sys.global", "atom.acq_rel.cluster.global",
        "atom.global",
        "atom.acq_rel.gpu", "atom.relaxed.cta.shared::cta", "atom.acquire.cluster.shared::cluster",
    ],
)  # fmt: skip
def test_orders_and_scopes_of_atomics_are_accepted(opcode: str) -> None:
    place = "[s]" if "shared" in opcode else "[%in]"
    red = "" if "acq" in opcode or "release" in opcode else f"{opcode.replace('atom', 'red')}.add.u32 {place}, 0;"
    body = f"""
        mov.b64 %q9, 0;
        {opcode}.add.u32 %r1, {place}, 1;
        {red}
        atom.global.add.L2::cache_hint.u32 _, [%in+4], 2, %q9;
        st.global.u32 [%out], %r1;"""
    memory = np.zeros(2, np.uint32)
    got = run(hopper(body, declarations=".shared .align 4 .b32 s;"), memory)[:, 0]
    assert got.tolist() == list(range(32)) and memory[1] == 64


def test_a_vector_atomic_records_its_sectors_and_sharing() -> None:
    body = """
        and.b32 %r1, %i, 15;
        mad.wide.u32 %in, %r1, 16, %in;
        atom.global.add.v4.f32 {%f1, %f2, %f3, %f4}, [%in], {%f5, %f6, %f7, %f8};
        mov.u64 %q1, s;
        cvta.shared.u64 %q1, %q1;
        atom.add.u32 %r2, [%q1], 1;"""
    _, trace = run_traced(hopper(body, declarations=".shared .align 4 .b32 s;"), np.zeros(64, np.float32))
    first, second = accesses(trace)
    start = ((1 << 32) + 256) // 32
    assert (first.sectors, first.degree, first.sharing) == (tuple(range(start, start + 8)), None, 2)
    assert (second.sectors, second.degree, second.sharing) == ((), 1, 32)
    assert [(i.space, i.access, i.access_bytes) for i in trace.instructions if i.access == "atomic"] == [
        ("global", "atomic", 16),
        ("generic", "atomic", 4),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "atom.global.add.b32 %r1, [%in], 1;", "atom.global.min.f32 %f1, [%in], %f2;",
        "atom.shared.add.v2.f32 {%f1, %f2}, [%r1], {%f1, %f2};",
        "atom.global.inc.s32 %r1, [%in], 1;", "red.global.cas.u8 [%in], 1, 2;",
        "atom.global.add.v4.f64 {%d1, %d2, %d3, %d4}, [%in], {%d1, %d2, %d3, %d4};",
        "atom.global.add.v2.u32 {%r1, %r2}, [%in], {%r1, %r2};", "atom.global.bulk.add.u32 %r1, [%in], 1;",
    ],
)  # fmt: skip
def test_atomic_that_does_not_exist_is_refused(text: str) -> None:
    with pytest.raises(UnsupportedError, match=text.split(maxsplit=1)[0]):
        launch(ptx(text + "\nret;", ".param .u64 out, .param .u64 in"), "k", 1, 32, [np.zeros(32), np.zeros(8)])
