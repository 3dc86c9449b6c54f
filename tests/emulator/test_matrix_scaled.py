"""`mma` of floats of 8, 6 and 4 bits with and without scales (sm_120), as PTX and as machine code, against the scalar sum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from emulator_launch import launch
from matrix_reference import BITS, POINT, collect, float_product, left, result, right, rounded, spread, value
from test_matrix_mma import patterns, registers, sizes
from test_matrix_sparse import _left, _right, _sparse

import warpsight
from warpsight.base.errors import UnsupportedError
from warpsight.kernels.sources import load_source

pytestmark = pytest.mark.unit


@dataclass(frozen=True)
class Form:
    """One instruction; `words` stand before its types, `choice` are byte and lane of the scales of A and B."""

    shape: str
    a: str
    b: str
    d: str = "f32"
    words: str = ".kind::f8f6f4"
    scales: str = ""
    choice: tuple[int, int, int, int] = (0, 0, 0, 0)
    sparse: bool = False

    @property
    def parts(self) -> int:
        """How many scales a row has."""
        return {"ue8m0": 2 if self.a == "e2m1x2" else 1, "ue4m3": 4}.get(self.scales, 0)

    def text(self) -> str:
        """The instruction, on registers %f0 to %f14."""
        counts = [4, 4 if self.sparse else 2, 4 if self.d == "f32" else 2]
        d, a, b, c = ("{" + ", ".join(f"%{n}{first + k}" for k in range(count)) + "}"
                      for n, first, count in zip("dfff", (0, 0, 4, 8), (counts[2], *counts), strict=True))  # fmt: skip
        given = [d, a, b, c, *(["%f12", "0"] if self.sparse else [])]
        if self.scales:
            bytes_and_lanes = self.choice
            given += ["%f13", "{{{}, {}}}".format(*bytes_and_lanes[:2]), "%f14", "{{{}, {}}}".format(*bytes_and_lanes[2:])]
        types = f"{self.d}.{self.a}.{self.b}.{self.d}".replace("x2", "")
        name = "mma.sp::ordered_metadata" if self.sparse else "mma"
        end = f".{self.scales}" if self.scales else ""
        return f"{name}.sync.aligned.{self.shape}.row.col{self.words}.{types}{end} {', '.join(given)};"


SCALED = ".kind::mxf8f6f4.block_scale"
PACKED = ".kind::mxf4nvf4.block_scale.scale_vec::"
FORMS = {
    "e4m3 e2m1": Form("m16n8k32", "e4m3", "e2m1"), "e3m2 e2m3": Form("m16n8k32", "e3m2", "e2m3"),
    "e2m1 e5m2": Form("m16n8k32", "e2m1", "e5m2", "f16"), "8 bits": Form("m16n8k32", "e4m3", "e5m2"),
    "sparse": Form("m16n8k64", "e2m3", "e4m3", sparse=True),
    "scaled": Form("m16n8k32", "e4m3", "e5m2", words=f"{SCALED}.scale_vec::1X", scales="ue8m0", choice=(1, 1, 2, 3)),
    "scaled e2m1": Form("m16n8k32", "e2m1", "e3m2", words=SCALED, scales="ue8m0", choice=(3, 0, 0, 1)),
    "scaled sparse": Form("m16n8k64", "e5m2", "e4m3", words=SCALED, scales="ue8m0", choice=(0, 1, 1, 2), sparse=True),
    "mxf4": Form("m16n8k64", "e2m1x2", "e2m1x2", words=".kind::mxf4.block_scale", scales="ue8m0", choice=(2, 1, 0, 3)),
    "nvf4": Form("m16n8k64", "e2m1x2", "e2m1x2", words=f"{PACKED}4X", scales="ue4m3", choice=(0, 1, 0, 2)),
    "2X": Form("m16n8k64", "e2m1x2", "e2m1x2", words=f"{PACKED}2X", scales="ue8m0", choice=(0, 0, 2, 0)),
    "nvf4 sparse": Form("m16n8k128", "e2m1x2", "e2m1x2", words=f"{PACKED}4X", scales="ue4m3", sparse=True),
}


def _any(rng: np.random.Generator, shape: tuple[int, int], kind: str) -> np.ndarray:
    """Finite patterns; floats of 6 bits and fewer have junk in bits that do not count."""
    if kind[0] == "e" and kind not in ("e4m3", "e5m2"):
        return rng.integers(0, 1 << BITS[kind], shape, dtype=np.uint64)
    return patterns(rng, shape, kind, "finite" if kind != "f32" else "near")


class Executed:
    """All forms, executed by one kernel at each level. A lane has 16 words: 4 each of A, B and C, the metadata, the scales."""

    def __init__(self) -> None:
        rng = np.random.default_rng(3)
        self.matrices, self.scales, self.found = {}, {}, {}
        held = np.zeros((len(FORMS), 32, 16), np.uint32)
        for number, (name, form) in enumerate(FORMS.items()):
            _, n, k = sizes(form.shape)
            a, b, c = (_any(rng, s, t) for s, t in
                       (((16, k // (1 + form.sparse)), form.a), ((k, n), form.b), ((16, n), form.d)))  # fmt: skip
            layout = "s4" if form.a == "e2m1x2" else "s8"
            places = (_left(layout), _right(layout)) if form.sparse else (left(form.shape, layout), right(form.shape, layout))
            sides = zip((0, 4, 8), (a, b, c), (*places, result("m16n8k32")), (form.a, form.b, form.d), strict=True)
            for first, matrix, place, kind in sides:
                words = spread(matrix, place, kind, registers(matrix.shape, kind))
                held[number, :, first : first + words.shape[1]] = words
            if form.sparse:
                a, held[number, :, 12] = _sparse(rng, a, layout, k, 0)
            factors = rng.integers(*((118, 138) if form.scales == "ue8m0" else (0, 127)), (2, 32, 4))
            held[number, :, 13:15] = np.ascontiguousarray(factors.astype(np.uint8)).view(np.uint32)[..., 0].T
            self.matrices[name], self.scales[name] = (a, b, c), factors
        for level in ("ptx", "sass"):
            out = np.zeros((len(FORMS), 32, 4), np.uint32)
            self._run(held, out, level)
            for number, (name, form) in enumerate(FORMS.items()):
                words = out[number][:, : 4 if form.d == "f32" else 2]
                self.found[level, name] = collect(words, result("m16n8k32"), form.d, (16, 8))

    def _run(self, held: np.ndarray, out: np.ndarray, level: str) -> None:
        blocks = []
        for number, form in enumerate(FORMS.values()):
            reads = "\n".join(f"ld.global.b32 %f{k}, [%q0 + {32 * 64 * number + 4 * k}];" for k in range(15))
            writes = "\n".join(f"st.global.b32 [%q1 + {32 * 16 * number + 4 * k}], %d{k};" for k in range(4))
            blocks.append(f"{{ .reg .b32 %f<15>, %d<4>;\nmov.b32 %d2, 0; mov.b32 %d3, 0;\n{reads}\n{form.text()}\n{writes}\n}}")
        body = "\n".join(blocks)
        text = f""".version 9.0
.target sm_120a
.address_size 64
.visible .entry k(.param .u64 held, .param .u64 out)
{{
    .reg .b64 %q<2>; .reg .b32 %r0;
    ld.param.u64 %q0, [held]; ld.param.u64 %q1, [out]; mov.u32 %r0, %tid.x;
    mad.wide.u32 %q0, %r0, 64, %q0; mad.wide.u32 %q1, %r0, 16, %q1;
{body}
    ret;
}}
"""
        if level == "ptx":
            launch(load_source(text, name="scaled.ptx"), "k", 1, 32, [held, out])
        else:
            warpsight.trace(text, "k", grid=1, block=32, args=[held, out], gpu="rtx5090", level="sass")

    def factors(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """The numbers by which rows of A and columns of B are multiplied, [row, part]."""
        form, bytes_of = FORMS[name], self.scales[name]
        first_a, lane_a, first_b, lane_b = form.choice
        parts = range(form.parts)
        a = [[bytes_of[0, 4 * (row % 8) + 2 * lane_a + row // 8, first_a + part] for part in parts] for row in range(16)]
        b = [[bytes_of[1, 4 * column + lane_b, first_b + part] for part in parts] for column in range(8)]
        if form.scales == "ue8m0":
            return 2.0 ** (np.array(a) - 127.0), 2.0 ** (np.array(b) - 127.0)
        number = np.vectorize(lambda p: float(value(int(p) & 127, "e4m3")))
        return number(np.array(a)), number(np.array(b))


@pytest.fixture(scope="module")
def executed() -> Executed:
    return Executed()


def _grouped(a: np.ndarray, b: np.ndarray, c: np.ndarray, factors: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Products of packed e2m1: four exact sums, each times its scales, cut off 35 bits below the exponents of scales and C."""
    number = np.vectorize(lambda p: float(value(int(p), "e2m1x2")))
    x, y, each, wanted = number(a), number(b), a.shape[1] // 4, np.zeros(c.shape, np.uint64)
    lowest = -6 if factors[0].shape[1] == 4 else -127  # exponents of the smallest numbers of ue4m3 and ue8m0
    for m, n in np.ndindex(*c.shape):
        before = float(value(int(c[m, n]), "f32"))
        terms, powers = [before], [-132, np.frexp(before)[1] - 1 if before else -132]
        for group in range(4):
            part = group * factors[0].shape[1] // 4
            one, two = float(factors[0][m, part]), float(factors[1][n, part])
            inside = slice(each * group, each * group + each)
            terms.append(float(x[m, inside] @ y[inside, n]) * one * two)
            powers.append(sum(max(np.frexp(factor)[1] - 1, lowest) if factor else -300 for factor in (one, two)))
        unit = int(max(powers)) - 35
        total = sum(int(np.trunc(np.ldexp(term, -unit))) for term in terms)
        wanted[m, n] = rounded(total << POINT + unit if POINT + unit >= 0 else 0, "f32")
    return wanted


@pytest.mark.parametrize("name", FORMS)
def test_sums_are_those_of_the_scalar_definition(executed: Executed, name: str) -> None:
    form, (a, b, c) = FORMS[name], executed.matrices[name]
    if form.a == "e2m1x2":
        wanted = _grouped(a, b, c, executed.factors(name))
    else:
        scales = tuple(side[:, 0] for side in executed.factors(name)) if form.scales else None
        sums = "sm_80" if name == "8 bits" else "sm_120"
        wanted = float_product(a, b, c, (form.a, form.b, form.d), form.d, sums, scales)  # type: ignore[arg-type]
    np.testing.assert_array_equal(executed.found["ptx", name], wanted)


@pytest.mark.parametrize("name", FORMS)
def test_machine_code_gives_the_same_bits(executed: Executed, name: str) -> None:
    np.testing.assert_array_equal(executed.found["sass", name], executed.found["ptx", name])


def test_scale_that_is_no_number_makes_its_row_and_column_so() -> None:
    held = np.full((32, 16), 0, np.uint32)
    held[:, 13:15] = 127
    held[4 * 3 + 1, 13], held[4 * 5, 14] = 255, 255  # row 3 + 8, column 5
    form = Form("m16n8k32", "e4m3", "e4m3", words=SCALED, scales="ue8m0")
    lines = [*(f"ld.global.b32 %f{k}, [%q0 + {4 * k}];" for k in range(15)), form.text(),
             *(f"st.global.b32 [%q1 + {4 * k}], %d{k};" for k in range(4))]  # fmt: skip
    text = f""".version 9.0
.target sm_120a
.address_size 64
.visible .entry k(.param .u64 held, .param .u64 out)
{{ .reg .b64 %q<2>; .reg .b32 %r0, %f<15>, %d<4>; ld.param.u64 %q0, [held]; ld.param.u64 %q1, [out]; mov.u32 %r0, %tid.x;
mad.wide.u32 %q0, %r0, 64, %q0; mad.wide.u32 %q1, %r0, 16, %q1; {' '.join(lines)} ret; }}
"""
    out = np.zeros((32, 4), np.uint32)
    launch(load_source(text, name="scaled.ptx"), "k", 1, 32, [held, out])
    found = collect(out, result("m16n8k32"), "f32", (16, 8))
    expected = np.zeros((16, 8), np.uint64)
    expected[11], expected[:, 5] = 0x7FFFFFFF, 0x7FFFFFFF
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("form", "why"),
    [
        (Form("m16n8k32", "e4m3", "e2m1", words=""), "need .kind"),
        (Form("m16n8k32", "e4m3", "e4m3", words=SCALED), "no such .scale_vec or type"),
        (Form("m16n8k32", "e4m3", "e4m3", words=".kind::mxf8f6f4", scales="ue8m0"), "needs both .block_scale and"),
        (Form("m16n8k32", "e4m3", "e4m3", words=f"{SCALED}.scale_vec::2X", scales="ue8m0"), "no such .scale_vec"),
        (Form("m16n8k64", "e2m1x2", "e2m1x2", words=f"{PACKED}2X", scales="ue8m0", choice=(1, 0, 0, 0)), "byte or lane 1"),
        (Form("m16n8k32", "e4m3", "e4m3", words=SCALED, scales="ue8m0", choice=(0, 2, 0, 0)), "byte or lane 2"),
        (Form("m16n8k32", "f16", "f16"), "is not for these types"),
        (Form("m16n8k32", "e4m3", "e4m3", "f16", words=SCALED, scales="ue8m0"), "into .f16"),
    ],
)
def test_form_that_ptx_does_not_have_is_refused(form: Form, why: str) -> None:
    head = ".version 9.0\n.target sm_120a\n.address_size 64\n"
    text = f"{head}.visible .entry k()\n{{ .reg .b32 %f<15>, %d<4>;\n{form.text()}\nret; }}\n"
    with pytest.raises(UnsupportedError, match=why):
        launch(load_source(text, name="scaled.ptx"), "k", 1, 32, [])
