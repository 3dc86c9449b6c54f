"""Whole modules: what each compiler writes arrives in the module, and nothing else."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest
from ptx_samples import HEAD, kernel

from warpsight.isa.ptx.parser import parse_module
from warpsight.isa.ptx.program import (
    Address,
    Function,
    Guard,
    Immediate,
    Instruction,
    Negated,
    Register,
    SpecialRegister,
    Symbol,
    Vector,
)

pytestmark = pytest.mark.unit


def body(text: str, module: str = "") -> Function:
    return parse_module(kernel(text, module=module)).kernels["k"]


def one(text: str, module: str = "") -> Instruction:
    (instruction,) = body(text, module).instructions
    return instruction


def test_module_from_run_time_compiler_has_every_kernel_and_every_statement(reference_ptx: str, shared: Path) -> None:
    source = (shared / "reference/kernels/kernels.cu").read_text()
    module = parse_module(reference_ptx)
    assert module.target == "sm_75" and module.address_size == 64 and len(module.kernels) == source.count("__global__ ")
    # An independent count: statements that end in a semicolon, indented, and begin with an opcode or a guard.
    lines = [line for line in reference_ptx.splitlines() if re.match(r"\s+(@!?%p\d+ )?[a-z][a-z0-9_.:]*\s*[^;]*;", line)]
    assert sum(len(f.instructions) for f in module.functions.values()) == len(lines)
    assert {i.file for f in module.kernels.values() for i in f.instructions} <= {"kernels.cu", "", *module.files.values()}


def test_instructions_from_run_time_compiler_keep_text_line_and_opcode(reference_ptx: str) -> None:
    lines = reference_ptx.splitlines()
    for function in parse_module(reference_ptx).functions.values():
        assert [i.index for i in function.instructions] == list(range(len(function.instructions)))
        for instruction in function.instructions:
            written = lines[instruction.ptx_line - 1].split("//")[0].split()
            opcode = written[1] if written[0].startswith("@") else written[0]
            assert opcode.rstrip(";") == instruction.text


def test_source_lines_from_run_time_compiler_are_those_of_the_last_loc(reference_ptx: str) -> None:
    number, expected = 0, {}
    for place, line in enumerate(reference_ptx.splitlines(), 1):
        if match := re.match(r"\s*\.loc\s+(\d+) (\d+) ", line):
            number = int(match[2])
        elif line.startswith("}"):
            number = 0
        expected[place] = number
    module = parse_module(reference_ptx)
    assert all(i.line == expected[i.ptx_line] for f in module.functions.values() for i in f.instructions)


def test_module_from_llvm_has_inlined_lines_inline_assembly_and_jump_table(llvm_text: str) -> None:
    module = parse_module(llvm_text)
    function = module.functions["k"]
    assert list(module.functions) == ["helper", "k"] and list(module.kernels) == ["k"]
    assert [p.is_pointer for p in function.parameters] == [True, True, False]
    by_line = {i.opcode: (i.file, i.line) for i in function.instructions if i.opcode in {"setp", "call", "ld"}}
    assert by_line["call"] == ("/home/u/kernel.py", 13)
    guarded = next(i for i in function.instructions if i.guard and i.opcode == "ld")
    assert (guarded.line, guarded.modifiers) == (4, ("global", "v2", "b32"))
    assert len(function.branch_targets) == 1 and all(len(targets) == 6 for targets in function.branch_targets.values())
    assert module.variables["smem"].extern and module.variables["smem"].size == 0 and module.variables["smem"].align == 16


def test_inline_assembly_from_llvm_twice_gives_distinct_registers_and_labels(llvm_text: str) -> None:
    function = parse_module(llvm_text).functions["k"]
    constants = (Immediate(7, 7, False), Immediate(8, 8, False))
    moves = [i for i in function.instructions if i.opcode == "mov" and i.operands[1] in constants]
    assert len({i.operands[0] for i in moves}) == 2
    branches = [i for i in function.instructions if i.opcode == "bra" and i.operands[0].name.startswith(("L", "D"))]
    assert len(branches) == 4 and len({i.operands[0].name for i in branches}) == 4
    for branch in branches:
        target = function.instructions[function.labels[branch.operands[0].name]]
        assert target.opcode == "mov" and branch.index < target.index <= branch.index + 4


def test_initial_values_from_llvm_are_bytes_and_addresses(llvm_text: str) -> None:
    variables = parse_module(llvm_text).variables
    assert variables["val"].initial == struct.pack("<I", 42)
    assert variables["ptrs"].initial_symbols == ((0, "val", 0),) and variables["ptrs"].size == 16
    assert variables["packed"].initial == b"\7" + bytes(8) and variables["packed"].initial_symbols == ((1, "val", 0),)


@pytest.mark.parametrize(
    ("text", "operands"),
    [
        ("add.s32 %r1, %r2, -5;", (Register("%r1"), Register("%r2"), Immediate(-5, 2**64 - 5, False))),
        ("mov.u32 %r1, %tid.x;", (Register("%r1"), SpecialRegister("%tid.x"))),
        ("mov.f32 %f1, 0f3F800000;", (Register("%f1"), Immediate(1.0, 0x3F800000, True))),
        ("mov.f64 %fd1, 0dC000000000000000;", (Register("%fd1"), Immediate(-2.0, 0xC000000000000000, True))),
        ("mov.f64 %fd1, 1.5e1;", (Register("%fd1"), Immediate(15.0, 0x402E000000000000, True))),
        ("mov.u32 %r1, WARP_SZ;", (Register("%r1"), Immediate(32, 32, False))),
        ("mov.u32 %r1, (4+8)*2;", (Register("%r1"), Immediate(24, 24, False))),
        ("ld.global.u32 %r1, [%rd1+-8];", (Register("%r1"), Address(Register("%rd1"), -8))),
        ("ld.global.u32 %r1, [ %rd1 + 0x1e+4 ];", (Register("%r1"), Address(Register("%rd1"), 34))),
        ("ld.param.u32 %r1, [p+4];", (Register("%r1"), Address(Symbol("p"), 4))),
        ("ld.global.u32 %r1, [4096];", (Register("%r1"), Address(Immediate(4096, 4096, False), 0))),
        ("mov.b64 {%r1, _}, %rd1;", (Vector((Register("%r1"), None)), Register("%rd1"))),
        (
            "st.global.v2.f32 [%rd1], {%f1, 0f00000000};",
            (Address(Register("%rd1")), Vector((Register("%f1"), Immediate(0.0, 0, True)))),
        ),
        ("selp.b32 %r1, 1, 2, !%p1;", (Register("%r1"), Immediate(1, 1, False), Immediate(2, 2, False), Negated(Register("%p1")))),
        ("mov.u64 %rd1, p+16;", (Register("%rd1"), Symbol("p", 16))),
        ("ret;", ()),
    ],
)
def test_operands_of_each_kind_become_what_they_mean(text: str, operands: tuple[object, ...]) -> None:
    assert one(text).operands == operands


def test_guard_and_paired_destination_are_kept() -> None:
    assert one("@!%p2 shfl.sync.bfly.b32 %r1|%p3, %r2, 1, 31, -1;").guard == Guard(Register("%p2"), True)
    assert one("setp.lt.s32 %p1|%p2, %r1, %r2;").pair == Register("%p2")
    assert one("@%p2 ret;").guard == Guard(Register("%p2"), False)


def test_call_has_returns_target_arguments_and_prototype() -> None:
    text = """{ .param .b32 a0; .param .b32 r0;
      proto: .callprototype (.param .b32 _) _ (.param .b32 _);
      call (r0), %rd1, (a0), proto; }
      call.uni f, (%r1, 3);  call g;"""
    with_types = ".func f(.reg .b32 a, .reg .b32 b) { ret; }\n.extern .func g;\n"
    first, second, third = body(text, with_types).instructions
    assert first.operands == (Vector((Symbol("r0"),)), Register("%rd1"), Vector((Symbol("a0"),)), Symbol("proto"))
    assert second.operands == (Vector(()), Symbol("f"), Vector((Register("%r1"), Immediate(3, 3, False))))
    assert third.operands == (Vector(()), Symbol("g"), Vector(()))


def test_inner_scope_that_declares_a_name_again_hides_the_outer_one() -> None:
    function = body(
        """.reg .b32 t; .reg .b32 u; mov.u32 t, 1;
        { .reg .b64 t; mov.u64 t, 2; { .reg .f32 t; mov.f32 t, 0f00000000; } mov.u64 t, 3; mov.u32 u, 9; }
        mov.u32 t, 4; { .reg .f64 t; .reg .b32 %r<3>; mov.f64 t, 0d0000000000000000; mov.u32 %r2, 1; } mov.u32 %r2, 1;"""
    )
    types = [function.registers[i.operands[0].name] for i in function.instructions]
    names = [i.operands[0].name for i in function.instructions]
    assert types == ["b32", "b64", "f32", "b64", "b32", "b32", "f64", "b32", "b32"]
    assert names[0] == names[5] == "t" and names[1] == names[3] and len({names[0], names[1], names[2], names[6]}) == 4
    assert names[7] != names[8]


def test_call_sequences_that_reuse_parameter_names_get_variables_of_their_own() -> None:
    function = body("{ .param .b32 q; st.param.b32 [q], %r1; } { .param .align 8 .b8 q[24]; st.param.b32 [q+4], %r1; }")
    first, second = (function.variables[i.operands[0].base.name] for i in function.instructions)
    assert (first.size, second.size, second.align) == (4, 24, 8)


def test_labels_inside_and_outside_of_scopes_stay_apart() -> None:
    function = body("bra L; { bra L; mov.u32 %r1, 1; L: mov.u32 %r1, 2; } L: ret; END:")
    outer, inner = function.instructions[0].operands[0].name, function.instructions[1].operands[0].name
    assert (function.labels[outer], function.labels[inner], function.labels["END"]) == (4, 3, 5)


def test_variables_have_size_alignment_and_initial_bytes() -> None:
    module = parse_module(
        HEAD
        + """.global .f32 a[2][3] = { {1.0, 0f40000000}, {3.0} };
        .const .align 8 .b8 b[] = {1, 2, 255, -1};
        .global .u32 c = (1 << 4) | 3, c2;
        .global .u64 d[2] = {b+2, generic(a)};
        .shared .v4 .f32 e[8];
        .visible .global .attribute(.managed) .b16 f[3] = {1, 2};
        .extern .shared .align 16 .b8 g[];
        .global .texref tex;"""
    )
    found = {name: (v.space, v.size, v.align) for name, v in module.variables.items()}
    assert found == {
        "a": ("global", 24, 4), "b": ("const", 4, 8), "c": ("global", 4, 4), "c2": ("global", 4, 4), "d": ("global", 16, 8),
        "e": ("shared", 128, 16), "f": ("global", 6, 2), "g": ("shared", 0, 16), "tex": ("global", 8, 8),
    }
    assert module.variables["a"].initial == struct.pack("<6f", 1, 2, 0, 3, 0, 0)
    assert module.variables["b"].initial == b"\1\2\xff\xff"
    assert module.variables["c"].initial == struct.pack("<I", 19)
    assert module.variables["d"].initial_symbols == ((0, "b", 2), (8, "a", 0))
    assert module.variables["f"].initial == struct.pack("<3H", 1, 2, 0)


def test_performance_directives_and_headers_are_read() -> None:
    module = parse_module(
        HEAD
        + """.weak .entry a(.param .u64 .ptr .global .align 16 x, .param .align 4 .b8 y[12]) .maxntid 128, 2 .minnctapersm 4
        .maxnreg 32 .pragma "nounroll"; { ret; }
        .visible .entry b() .reqntid 64, 1, 1 { .pragma "nounroll"; ret; }
        .func (.param .align 16 .b8 r[16]) f (.param .b32 x) .noreturn ;
        .func (.param .align 16 .b8 r[16]) f (.param .b32 x) { trap; }
        .alias g, f;"""
    )
    a, b, f = (module.functions[name] for name in "abf")
    assert (a.max_threads, a.required_threads, b.required_threads) == ((128, 2, 1), None, (64, 1, 1))
    assert [(p.size, p.align, p.is_pointer) for p in a.parameters] == [(8, 8, True), (12, 4, False)]
    assert [(v.size, v.align) for v in f.returns] == [(16, 16)]
    assert module.functions["g"] is f and list(module.kernels) == ["a", "b"]


def test_comments_sections_and_zero_byte_at_the_end_are_passed_over() -> None:
    text = kernel("mov.u32 /* two\nlines */ %r1, 1; // ret;\nret;") + '.file 1 "a//b.cu", 1, 2\n'
    module = parse_module(text + ".section .debug_str { .b8 1,2\n$L: .b64 a+{3} }\n\0")
    assert [(i.opcode, i.ptx_line) for i in module.kernels["k"].instructions] == [("mov", 5), ("ret", 7)]
    assert module.files == {1: "a//b.cu"}


def test_loc_without_known_file_or_line_gives_no_place() -> None:
    text = kernel(".loc 1 7 2\nret;\n.loc 2 8 1\nret;\n.loc 1 0 3\nret;\n.loc 1 9 3, function_name $L+16, inlined_at 1 3 4\nret;")
    found = [(i.file, i.line) for i in parse_module(text + '.file 1 "k.cu"').kernels["k"].instructions]
    assert found == [("k.cu", 7), ("", 0), ("", 0), ("k.cu", 9)]


def test_vector_registers_and_texture_addresses_are_taken_apart() -> None:
    function = body(".reg .v4 .f32 %v; tex.2d.v4.f32.s32 %v, [t, {%r1, %r2}]; mov.f32 %f1, %v.y;", module=".global .texref t;\n")
    texture, move = function.instructions
    assert [e.name for e in texture.operands[0].elements] == ["%v.x", "%v.y", "%v.z", "%v.w"]
    assert texture.operands[1:] == (Address(Symbol("t")), Vector((Register("%r1"), Register("%r2"))))
    assert move.operands[1] == Register("%v.y")
