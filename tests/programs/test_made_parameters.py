"""Does a program launch a kernel whose last parameters are made by code for the host in its cubin, as those of CUDA Tile have it?

The cubin is an ordinary one that is changed: `.nv.info` no longer lists the kernel's last two parameters, and `.nv.host` is added.
"""

from __future__ import annotations

import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from programs_build import SOURCES, run

import warpsight
from warpsight.base.errors import FormatError, UnsupportedError
from warpsight.kernels.assembler import assemble
from warpsight.kernels.cubin import host_code
from warpsight.kernels.elf import Elf
from warpsight.kernels.toolkit import parse_architecture
from warpsight.programs import host

pytestmark = pytest.mark.unit

KERNEL = """.version 8.7
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 number, .param .u32 made, .param .u32 inverse) {
    .reg .b32 %r<4>; .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [out]; ld.param.u32 %r1, [number]; ld.param.u32 %r2, [made]; ld.param.u32 %r3, [inverse];
    st.global.u32 [%rd1], %r1; st.global.u32 [%rd1+4], %r2; st.global.u32 [%rd1+8], %r3;
    ret;
}
"""
TILES = """.version 8.7
.target sm_90
.address_size 64
.visible .global .align 8 .b8 ___NV_TILE_LAUNCH_META_DATA___[64];
.visible .entry k(.param .u64 out, .param .u32 number) .reqntid 32 .explicitcluster .reqnctapercluster 2 {
    .reg .b32 %r<6>; .reg .b64 %rd<3>; .reg .pred %p;
    ld.param.u64 %rd1, [out]; mov.u32 %r1, %clusterid.x; mov.u32 %r2, %clusterid.y; mov.u32 %r3, %cluster_ctarank;
    mov.u32 %r4, %tid.x;
    setp.ne.u32 %p, %r4, 31; @%p bra done;
    mad.lo.u32 %r5, %r2, 3, %r1; mad.lo.u32 %r5, %r5, 2, %r3; mul.wide.u32 %rd2, %r5, 4; add.s64 %rd1, %rd1, %rd2;
    add.u32 %r5, %r5, 100; st.global.u32 [%rd1], %r5;
done: ret;
}
"""
# A program of the driver: (status of the launch, what the kernel wrote) for each number.
PROGRAM = """\
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
def call(name, *arguments):
    return getattr(cuda, name)(*arguments)
module, function, context, memory = (ctypes.c_void_p() for _ in range(4))
call("cuInit", 0), call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0), call("cuCtxSetCurrent", context)
loaded = call("cuModuleLoadData", ctypes.byref(module), open(sys.argv[1], "rb").read())
found = call("cuModuleGetFunction", ctypes.byref(function), module, b"k")
print("loaded", loaded, "found", found)
for number in map(int, sys.argv[2:] if not found else []):
    call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(12))
    value, words = ctypes.c_uint32(number), (ctypes.c_uint32 * 3)()
    given = (ctypes.c_void_p * 2)(ctypes.addressof(memory), ctypes.addressof(value))
    if number == 0:  # six tile blocks, each of a cluster of two
        call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(48))
        words = (ctypes.c_uint32 * 12)()
    status = call("cuLaunchKernel", function, *((3, 2) if number == 0 else (1, 1)), 1, 1, 1, 1, 0, None, given, None)
    call("cuMemcpyDtoH_v2", words, memory, ctypes.c_size_t(ctypes.sizeof(words)))
    print(status, *words)
"""


def unlisted(cubin: bytes) -> bytes:
    """Its parameters as for CUDA Tile: two in attribute 0x45, the last two in none (`.nv.info`, 0x17 has them)."""
    def changed(record: re.Match[bytes]) -> bytes:
        number = struct.unpack_from("<H", record[1], 4)[0]
        size = struct.unpack("<I", record[2])[0] >> 18
        return (b"\x04\x45" if number < 2 else b"\x04\x7f") + b"\x0c\x00" + record[1] + struct.pack("<HH", size, 0)

    return re.sub(rb"\x04\x17\x0c\x00(.{8})(.{4})", changed, cubin, flags=re.DOTALL)


def with_section(data: bytes, name: str, contents: bytes) -> bytes:
    """An ELF file with one more section: its table of sections and their names go behind the end."""
    elf = Elf(data, "cubin")
    table, count, names = struct.unpack_from("<Q", data, 40)[0], *struct.unpack_from("<HH", data, 60)
    rows = [bytearray(data[table + 64 * k : table + 64 * k + 64]) for k in range(count)]
    text = elf.contents(elf.sections[names]) + name.encode() + b"\0"
    start = -(-len(data) // 8) * 8
    struct.pack_into("<QQ", rows[names], 24, start, len(text))
    place = -(-(start + len(text)) // 8) * 8
    rows.append(bytearray(struct.pack("<IIQQQQIIQQ", len(text) - len(name) - 1, 1, 0, 0, place, len(contents), 0, 0, 8, 0)))
    end = -(-(place + len(contents)) // 8) * 8
    parts = [data.ljust(start, b"\0"), text.ljust(place - start, b"\0"), contents.ljust(end - place, b"\0"), *rows]
    head = bytearray(b"".join(parts))
    struct.pack_into("<Q", head, 40, end)
    struct.pack_into("<H", head, 60, count + 1)
    return bytes(head)


def tiled(folder: Path, *options: str, machine: int = 62) -> bytes:
    """The cubin with the code for the host, compiled with `options`."""
    built = folder / "made.o"
    command = [host.compiler(), "-std=c11", "-O1", "-fno-pic", "-c", *options, "-o", str(built), str(SOURCES / "made_parameters.c")]
    subprocess.run(command, check=True, capture_output=True)
    code = bytearray(built.read_bytes())
    struct.pack_into("<H", code, 18, machine)
    return with_section(unlisted(assemble(KERNEL, "k.ptx", parse_architecture("90"))), ".nv.host", bytes(code))


@pytest.fixture(scope="module")
def cubin(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return tiled(tmp_path_factory.mktemp("made"))


def ran(cubin: bytes, folder: Path, *numbers: str) -> tuple[list[str], str]:
    (folder / "k.cubin").write_bytes(cubin)
    (folder / "program.py").write_text(PROGRAM)
    options = ("--gpu", "h100-sxm", "--kernels", "none")
    code, output, errors = run(sys.executable, str(folder / "program.py"), str(folder / "k.cubin"), *numbers, options=options)
    assert code == (3 if "error:" in errors else 0), errors
    return output.splitlines()[: 1 + len(numbers)], errors


def test_program_gets_the_parameters_that_its_cubin_makes_from_the_others(cubin: bytes, tmp_path: Path) -> None:
    """CUDA_ERROR_INVALID_VALUE is 1: the code says that it has failed, and nothing is launched."""
    said, errors = ran(cubin, tmp_path, "5", "13", "1000")
    assert said == ["loaded 0 found 0", f"0 5 15 {2**32 - 6}", "1 0 0 0", f"0 1000 3000 {2**32 - 1001}"], errors


def test_tile_block_is_a_cluster_where_its_kernel_was_compiled_for_one(tmp_path: Path) -> None:
    said, errors = ran(assemble(TILES, "k.ptx", parse_architecture("90")), tmp_path, "0")
    assert said == ["loaded 0 found 0", " ".join(["0", *map(str, range(100, 112))])], errors


def test_program_is_told_where_the_code_is_of_another_version_or_missing(tmp_path: Path) -> None:
    said, errors = ran(tiled(tmp_path, "-DVERSION=3"), tmp_path)
    assert said == ["loaded 0 found 801"] and "last parameters has version 3" in errors
    said, errors = ran(unlisted(assemble(KERNEL, "k.ptx", parse_architecture("90"))), tmp_path)
    assert said == ["loaded 0 found 801"] and "does not contain the code that makes its last parameters" in errors


def test_code_for_the_host_is_refused_where_it_is_not_understood(cubin: bytes, tmp_path: Path) -> None:
    assert host_code(cubin, "k") == host_code(cubin, "another") != b""
    with pytest.raises(FormatError, match="does not contain the code"):
        host_code(cubin, "third")
    with pytest.raises(UnsupportedError, match="not for x86-64"):
        host_code(tiled(tmp_path, machine=183), "k")
    with pytest.raises(UnsupportedError, match="needs other code or data"):  # a call of a function that counts calls
        host_code(tiled(tmp_path, "-pg"), "k")


def test_kernel_alone_is_refused_because_its_parameters_are_made_on_the_host(cubin: bytes, tmp_path: Path) -> None:
    (tmp_path / "k.cubin").write_bytes(cubin)
    with pytest.raises(UnsupportedError, match=r"parameters that NVIDIA's driver makes with code in the cubin"):
        warpsight.trace(str(tmp_path / "k.cubin"), "k", grid=1, block=1, args=["u32[3]", "1"], gpu="h100-sxm", level="sass")
