"""The CUDA sources of the micro-benchmarks: files of their own, to be compiled where the GPU is."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

KERNELS, PROGRAM = "kernels.cuh", "microbenchmarks.cu"


def kernels_path() -> str:
    """The file with the kernels alone."""
    return str(files(__package__).joinpath(KERNELS))


def save(folder: str | Path) -> list[Path]:
    """Write the sources into `folder` and give their paths. Raises `UsageError` rather than replace a file that differs."""
    from warpsight.base.errors import UsageError

    target, package = Path(folder), files(__package__)
    texts = {target / name: package.joinpath(name).read_text("utf-8") for name in (PROGRAM, KERNELS)}
    try:
        for path, text in texts.items():
            if path.exists() and path.read_text("utf-8", errors="replace") != text:
                raise UsageError("exists and is not ours", place=str(path), remedy="name another folder with --kernels")
        target.mkdir(parents=True, exist_ok=True)
        for path, text in texts.items():
            path.write_text(text, "utf-8")
    except OSError as error:
        remedy = "name another folder with --kernels"
        raise UsageError(f"cannot be written: {error.strerror}", place=str(folder), remedy=remedy) from None
    return list(texts)
