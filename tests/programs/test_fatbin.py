"""Fat binaries, made here byte by byte as nvcc lays them out, and as nvcc itself makes them."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from fatbin_by_hand import LZ4, ZSTD, compressed, container, entry
from programs_build import SOURCES, needs_nvcc

from warpsight.base.errors import FormatError, UnsupportedError
from warpsight.kernels.fatbin import no_ptx, ptx_texts, read_entries

pytestmark = pytest.mark.unit


def ptx_choices(content: bytes) -> list[str]:
    entries = read_entries(content, "p")
    if texts := ptx_texts(entries, "p"):
        return texts
    raise no_ptx(entries, "p")


def test_fatbin_plain_ptx_is_read_without_its_padding() -> None:
    assert ptx_choices(container(entry(1, 75, b".version 8.0\n")))[0] == ".version 8.0\n"


@pytest.mark.parametrize(("codec", "flags"), [("lz4_raw", LZ4), ("zstd", ZSTD)])
def test_fatbin_compressed_ptx_is_expanded(codec: str, flags: int) -> None:
    text = b".version 8.0\n" + b"// the same line again\n" * 500
    assert ptx_choices(container(compressed(text, codec, flags, 80)))[0].encode() == text


def test_fatbin_of_several_architectures_offers_the_highest_first() -> None:
    content = container(entry(1, 75, b"old"), entry(2, 90, b"\x7fELF"), entry(1, 90, b"new")) + container(entry(1, 80, b"middle"))
    assert ptx_choices(content) == ["new", "middle", "old"]
    assert [e.kind for e in read_entries(content, "p")] == ["ptx", "elf", "ptx", "ptx"]


def test_fatbin_with_machine_code_only_says_how_to_compile() -> None:
    with pytest.raises(UnsupportedError, match=r"only machine code.*sm_86.*\n.*arch=compute_75,code=compute_75"):
        ptx_choices(container(entry(2, 86, b"\x7fELF")))


@pytest.mark.parametrize("keep", [0, 15, 30, 90, 100])
def test_fatbin_cut_anywhere_is_a_format_error(keep: int) -> None:
    with pytest.raises((FormatError, UnsupportedError)):
        ptx_choices(container(entry(1, 75, b".version 8.0 and more"))[:keep])


@pytest.mark.parametrize(("flags", "plain"), [(LZ4, 100), (ZSTD, 100), (ZSTD, 1 << 60)])
def test_fatbin_with_garbage_for_compressed_ptx_is_a_format_error(flags: int, plain: int) -> None:
    with pytest.raises(FormatError, match="cannot be"):
        ptx_choices(container(entry(1, 75, b"\xff\x00\x13garbage", flags, plain)))


def test_fatbin_garbage_never_fails_otherwise() -> None:
    import random

    chooser, good = random.Random(1), container(compressed(b".version 8.0\n" * 50, "lz4_raw", LZ4, 75))
    for _ in range(300):
        broken = bytearray(good)
        for _ in range(3):
            broken[chooser.randrange(len(broken))] = chooser.randrange(256)
        with suppress(FormatError, UnsupportedError):
            ptx_choices(bytes(broken))


@needs_nvcc
@pytest.mark.parametrize("mode", ["none", "speed", "size"])
def test_fatbin_of_nvcc_holds_the_ptx(mode: str, tmp_path: Path) -> None:
    out = tmp_path / "first.fatbin"
    command = ["nvcc", "-fatbin", f"-compress-mode={mode}", "-gencode=arch=compute_75,code=[compute_75,sm_75]", "-o", str(out)]
    subprocess.run([*command, str(SOURCES / "second.cu")], check=True, capture_output=True)
    assert ".entry" in ptx_choices(out.read_bytes())[0]
