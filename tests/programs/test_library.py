"""The C library: it builds without a warning, and exports what programs link against."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from warpsight.base.errors import UsageError
from warpsight.programs import host as library

pytestmark = pytest.mark.unit
RUNTIME = Path(library.__file__).parent / "runtime"


def exported(path: Path) -> set[str]:
    found = subprocess.run(["nm", "-D", "--with-symbol-versions", str(path)], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1] for line in found.splitlines() if " T " in line}


@pytest.mark.parametrize("version", library.SONAMES)
def test_library_sources_compile_without_a_warning(version: int, tmp_path: Path) -> None:
    for source in sorted(RUNTIME.glob("*.c")):
        flags = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", f"-DCUDART={version}"]
        command = [library.compiler(), *flags, "-c", str(source)]
        done = subprocess.run([*command, "-o", str(tmp_path / "o.o")], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("version", "soname"), library.SONAMES.items())
def test_library_exports_versioned_names(version: int, soname: str) -> None:
    names = exported(library.library_folder() / soname)
    for name in ("cudaMalloc", "__cudaRegisterFatBinary", "cudaLaunchKernel", "cudaMemcpyAsync_ptsz", "cudaGraphLaunch"):
        assert f"{name}@@{soname}" in names
    assert ("cudaGetDeviceProperties_v2@@" + soname in names) == (version < 13)


def test_library_is_built_once() -> None:
    first = library.library_folder()
    stamp = (first / "libcudart.so.13").stat().st_mtime_ns
    assert library.library_folder() == first
    assert (first / "libcudart.so.13").stat().st_mtime_ns == stamp


def test_library_without_a_compiler_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(UsageError, match="C compiler"):
        library.compiler()


@pytest.mark.parametrize("compiler", ["true", "false"])
def test_compiler_that_makes_nothing_is_named(compiler: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CC", compiler)
    monkeypatch.setenv("WARPSIGHT_CACHE", str(tmp_path))
    with pytest.raises(UsageError, match=rf"/{compiler}: .*ends with exit code \d and makes no library\n.*set CC"):
        library.library_folder()
    assert not list((tmp_path / "runtime").iterdir())
