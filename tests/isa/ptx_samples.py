"""PTX for the tests: pieces made here, and whole files from LLVM's own PTX writer."""

from __future__ import annotations

import llvmlite.binding as llvm

HEAD = ".version 7.5\n.target sm_75\n.address_size 64\n"
REGISTERS = ".reg .pred %p<9>; .reg .b16 %rs<9>; .reg .b32 %r<99>; .reg .b64 %rd<99>; .reg .f32 %f<99>; .reg .f64 %fd<99>;"


def kernel(body: str, *, name: str = "k", module: str = "", parameters: str = ".param .u64 p") -> str:
    """A module with one kernel. The body begins on line 5 when `module` is empty."""
    return f"{HEAD}{module}.visible .entry {name}({parameters}) {{ {REGISTERS}\n{body}\n}}\n"


# Inline assembly as a kernel author may write it: the same names for registers and labels each time.
SNIPPET = (
    '"{ .reg .pred p; .reg .b32 t; setp.lt.s32 p, $1, LIMIT; @p bra L; add.s32 t, $1, 1; bra D;'
    ' L: mov.u32 t, VALUE; D: mov.u32 $0, t; }"'
)

LLVM_IR = r"""
target triple = "nvptx64-nvidia-cuda"
@smem = external addrspace(3) global [0 x i8], align 16
@ptrs = addrspace(1) global [2 x ptr] [ptr addrspacecast (ptr addrspace(1) @val to ptr), ptr null]
@val = addrspace(1) global i32 42
@packed = addrspace(1) global <{ i8, ptr }> <{ i8 7, ptr addrspacecast (ptr addrspace(1) @val to ptr) }>
@halves = addrspace(4) constant [3 x float] [float 1.0, float -2.5, float 0x7FF0000000000000], align 4
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare void @llvm.nvvm.barrier0()
define i32 @helper(i32 %a, i32 %b) noinline !dbg !20 {
  %c = mul i32 %a, %b, !dbg !21
  ret i32 %c, !dbg !21
}
define ptx_kernel void @k(ptr addrspace(1) %x, ptr addrspace(1) %y, i32 %n) !dbg !5 {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x(), !dbg !8
  %c = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x(), !dbg !9
  %m = icmp slt i32 %t, %n, !dbg !8
  %p = getelementptr float, ptr addrspace(1) %x, i32 %t, !dbg !8
  %v = call {i32,i32} asm sideeffect "mov.u32 $0, 0x0;\0A\09mov.u32 $1, 0x0;\0A\09@$3 ld.global.v2.b32 { $0, $1 }, [ $2 + 0 ];",
       "=r,=r,l,b"(ptr addrspace(1) %p, i1 %m), !dbg !8
  %v0 = extractvalue {i32,i32} %v, 0
  %s = call i32 asm sideeffect SNIPPET3,
       "=r,r"(i32 %v0), !dbg !9
  %s2 = call i32 asm sideeffect SNIPPET4,
        "=r,r"(i32 %s), !dbg !9
  %h = call i32 @helper(i32 %s2, i32 %c), !dbg !9
  call void @llvm.nvvm.barrier0(), !dbg !9
  switch i32 %h, label %d [ i32 0, label %a0 i32 1, label %a1 i32 2, label %a2 i32 3, label %a3 i32 4, label %a4 i32 5, label %a5 ]
a0: store i32 %t, ptr addrspace(1) %y
  br label %d
a1: %z1 = load i32, ptr addrspace(1) %x
  store i32 %z1, ptr addrspace(1) %y
  br label %d
a2: store i32 22, ptr addrspace(1) %y
  br label %d
a3: %at = atomicrmw add ptr addrspace(1) %y, i32 %n seq_cst
  br label %d
a4: store i32 %n, ptr addrspace(1) %y
  br label %d
a5: %l = load i32, ptr addrspace(3) @smem
  store i32 %l, ptr addrspace(1) %y
  br label %d
d: ret void, !dbg !9
}
!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!2,!3}
!0 = distinct !DICompileUnit(language: DW_LANG_C, file: !1, isOptimized: true, runtimeVersion: 0, emissionKind: FullDebug)
!1 = !DIFile(filename: "kernel.py", directory: "/home/u")
!2 = !{i32 2, !"Debug Info Version", i32 3}
!3 = !{i32 2, !"Dwarf Version", i32 4}
!4 = !DISubroutineType(types: !{})
!5 = distinct !DISubprogram(name: "k", file: !1, line: 10, type: !4, scopeLine: 10, unit: !0, spFlags: DISPFlagDefinition)
!6 = distinct !DISubprogram(name: "inl", file: !1, line: 3, type: !4, scopeLine: 3, unit: !0, spFlags: DISPFlagDefinition)
!7 = distinct !DILocation(line: 12, column: 5, scope: !5)
!8 = !DILocation(line: 4, column: 9, scope: !6, inlinedAt: !7)
!9 = !DILocation(line: 13, column: 2, scope: !5)
!20 = distinct !DISubprogram(name: "helper", file: !1, line: 30, type: !4, scopeLine: 30, unit: !0, spFlags: DISPFlagDefinition)
!21 = !DILocation(line: 31, column: 2, scope: !20)
"""


def llvm_ptx(features: str = "+ptx72") -> str:
    """`LLVM_IR` as LLVM writes it in PTX: Triton's writer, with DWARF sections, inlined lines and inline assembly."""
    text = LLVM_IR
    for limit, value in ((3, 7), (4, 8)):
        text = text.replace(f"SNIPPET{limit}", SNIPPET.replace("LIMIT", str(limit)).replace("VALUE", str(value)))
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple("nvptx64-nvidia-cuda").create_target_machine(cpu="sm_75", features=features, opt=2)
    return str(machine.emit_assembly(llvm.parse_assembly(text)))
