"""The C library: it builds without a warning, and exports what programs link against."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from warpsight.base.errors import UsageError
from warpsight.programs import host as library

pytestmark = pytest.mark.unit
RUNTIME = Path(library.__file__).parent / "runtime"


def exported(path: Path) -> set[str]:
    found = subprocess.run(["nm", "-D", "--with-symbol-versions", str(path)], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1] for line in found.splitlines() if " T " in line}


def preprocessed(source: Path, version: int) -> str:
    command = [library.compiler(), "-std=c11", "-E", f"-DCUDART={version}", str(source)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("source", sorted(RUNTIME.glob("*.c")), ids=lambda source: source.name)
def test_library_sources_compile_without_a_warning(source: Path, tmp_path: Path) -> None:
    """For each version; once where all versions are the same text for the compiler."""
    texts = {preprocessed(source, version): version for version in library.SONAMES}
    assert (source in library.sources_of_any_version()) == (len(texts) == 1)
    for version in texts.values():
        flags = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", f"-DCUDART={version}"]
        command = [library.compiler(), *flags, "-c", str(source)]
        done = subprocess.run([*command, "-o", str(tmp_path / "o.o")], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("version", "soname"), library.SONAMES.items())
def test_library_exports_versioned_names(version: int, soname: str, tmp_path: Path) -> None:
    names = exported(library.library_folder(tmp_path) / soname)
    for name in ("cudaMalloc", "__cudaRegisterFatBinary", "cudaLaunchKernel", "cudaMemcpyAsync_ptsz", "cudaGraphLaunch"):
        assert f"{name}@@{soname}" in names
    assert ("cudaGetDeviceProperties_v2@@" + soname in names) == (version < 13)


def test_library_is_built_once(tmp_path: Path) -> None:
    first = library.library_folder(tmp_path)
    stamp = (first / "libcudart.so.13").stat().st_mtime_ns
    assert library.library_folder(tmp_path) == first
    assert (first / "libcudart.so.13").stat().st_mtime_ns == stamp


def _loads(folder: Path) -> None:
    """The system's loader takes all libraries of the folder, by the environment that a program gets."""
    script = "import ctypes, sys; print([ctypes.CDLL(name)._name for name in sys.argv[1:]])"
    command = [sys.executable, "-c", script, *library.SONAMES.values()]
    environment = {**os.environ, "LD_LIBRARY_PATH": str(folder)}
    assert subprocess.run(command, env=environment, capture_output=True, check=False).returncode == 0


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache folder of a test, with the libraries in it; what is built again is a copy."""
    whole = library.library_folder(_scratch(tmp_path)).resolve()

    def build(compiler: str, version: int, folder: Path, common: Sequence[Path]) -> None:
        stored = (whole / library.SONAMES[version]).read_bytes()
        (folder / library.SONAMES[version]).write_bytes(stored[:-32])

    monkeypatch.setattr(library, "_object", lambda compiler, source, folder: source)
    monkeypatch.setattr(library, "_build", build)
    monkeypatch.setenv("WARPSIGHT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def _scratch(folder: Path) -> Path:
    return Path(tempfile.mkdtemp(dir=folder))


def test_damaged_library_is_built_again(built: Path, tmp_path: Path) -> None:
    """The loader maps it, and a program that reads past its end is killed by SIGBUS."""
    place = library.library_folder(_scratch(tmp_path))
    assert place.is_relative_to(built)
    _loads(place)
    whole = (place / "libcudart.so.12").read_bytes()
    for damaged in (whole[:5000], b"", whole[:5000] + b"x" + whole[5001:]):
        (place / "libcudart.so.12").write_bytes(damaged)
        assert library.library_folder(_scratch(tmp_path)) == place
        assert (place / "libcudart.so.12").read_bytes() == whole
    _loads(place)


def test_folder_with_a_colon_in_its_name_is_found_by_the_loader(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARPSIGHT_CACHE", str(tmp_path / "a:b;c$ORIGIN"))
    place = library.library_folder(tmp_path)
    assert place.resolve().is_relative_to(tmp_path / "a:b;c$ORIGIN")
    _loads(place)
    (tmp_path / "t:1").mkdir()
    with pytest.raises(UsageError, match=r": has : or ; or \$ in its name.*\n.*set TMPDIR"):
        library.library_folder(_scratch(tmp_path / "t:1"))


def test_without_a_cache_folder_the_library_is_built_for_one_run(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARPSIGHT_CACHE", f"{os.devnull}/none")
    assert library.library_folder(tmp_path) == tmp_path
    _loads(tmp_path)


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
        library.library_folder(tmp_path)
    assert not (tmp_path / "runtime").exists()
