"""What every test may use."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

import pytest
from hypothesis import settings

from warpsight.base.errors import WarpsightError

if TYPE_CHECKING:
    from warpsight.isa.ptx.program import Function
    from warpsight.isa.ptx.slicing import Slice

# The first example of a property may have to wait for a compiler, and tests share the machine.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

# Compilers make millions of objects, few of them in cycles; to look for those as often as Python does takes an eighth of the time.
gc.set_threshold(50_000, 20, 50)

ROOT = Path(__file__).resolve().parents[1]


# A shell starts what it puts in the background with SIGINT ignored, and whatever that starts inherits it. Tests of Ctrl-C, and the
# programs that they start, begin as in the foreground.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

SHARED = ROOT.parent / "shared"
"""Reference figures beside the checkout, which a plain clone does not have."""


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Compiled kernels and the choice of a GPU of the tests stay out of the user's folders, and theirs out of the tests.

    The workers of a run share one folder, so that each engine is compiled once. `WARPSIGHT_TEST_CACHE` names one that is kept from
    run to run; without it, only what Numba has compiled is kept, beside pytest's own cache.
    """
    run = tmp_path_factory.getbasetemp()
    shared = run.parent if "PYTEST_XDIST_WORKER" in os.environ else run
    if not os.environ.get("WARPSIGHT_TEST_CACHE"):
        with suppress(OSError):  # another worker was quicker, or the checkout cannot be written
            (ROOT / ".pytest_cache" / "numba").mkdir(0o700, parents=True, exist_ok=True)
            (shared / "compiled").mkdir(0o700, exist_ok=True)
            (shared / "compiled" / "numba").symlink_to(ROOT / ".pytest_cache" / "numba")
    with pytest.MonkeyPatch.context() as patch:
        for size in ("COLUMNS", "LINES"):  # answers are as wide as where there is no terminal
            patch.delenv(size, raising=False)
        patch.setenv("WARPSIGHT_CACHE", os.environ.get("WARPSIGHT_TEST_CACHE") or str(shared / "compiled"))
        # the papers' machine wherever a test names none, whatever the user has chosen; its own test: tests/gpu/test_default.py
        patch.setenv("WARPSIGHT_GPU", "mdm-pascal")
        patch.setenv("WARPSIGHT_CONFIG", str(run / "configuration"))
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--machine-code 80`: kernels are executed as machine code of sm_80, where a test does not say how."""
    parser.addoption("--machine-code", type=int, metavar="ARCH", help="execute kernels as machine code of this architecture")


@pytest.fixture(scope="session", autouse=True)
def _level(pytestconfig: pytest.Config) -> Iterator[None]:
    """See `pytest_addoption`."""
    number = pytestconfig.getoption("--machine-code")
    if number is None:
        yield
        return
    from warpsight.emulator.run import launch
    from warpsight.kernels.toolkit import Architecture

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "prepare_kernel", partial(launch.prepare_kernel, architecture=Architecture(number)))
        yield


@pytest.fixture(scope="session", autouse=True)
def _both_ways_to_compile() -> Iterator[None]:
    """Native code is made well for kernels of up to 400 instructions and for the functions that kernels share, and quickly for
    longer ones. Few kernels of tests are long or run for long: seven of eight short ones and seven of eight shared functions, by a
    checksum of their text, are made quickly, with LLVM's least effort. So both ways are tested, in all four combinations, and LLVM
    takes less time.
    """
    from warpsight.emulator.codegen import kernel_builder, native, shared_functions

    usual, emit = kernel_builder.is_quick, shared_functions.emit

    def is_quick(function: Function, part: Slice | None = None) -> bool:
        return usual(function, part) or _mostly(" ".join(each.text for each in function.instructions))

    def emit_kernel(text: str, effort: int, quickly: bool, place: str) -> bytes:
        return emit(text, 0 if quickly and _mostly(text) else effort, quickly, place)

    def emit_shared(text: str, effort: int, quickly: bool, place: str) -> bytes:
        return emit(text, 0, True, place) if _mostly(text) else emit(text, effort, quickly, place)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel_builder, "is_quick", is_quick)
        patch.setattr(native, "emit", emit_kernel)
        patch.setattr(shared_functions, "emit", emit_shared)
        yield


def _mostly(text: str) -> bool:
    """True for seven texts of eight, always the same ones."""
    return crc32(text.encode()) % 8 != 0


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return ROOT


class _ReferencePath(type(Path())):  # type: ignore[misc]
    """A path in `shared/`. The test is skipped where it names something that is not there."""

    def __truediv__(self, name: str) -> Path:
        path: Path = super().__truediv__(name)
        if not path.exists():
            pytest.skip(f"no {path}")
        return path


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of reference figures beside the repository. Tests of what it lacks are skipped."""
    if not SHARED.is_dir():
        pytest.skip(f"no {SHARED}")
    return _ReferencePath(SHARED)


def pytest_collection_finish() -> None:
    """The modules and the tests live until the end: the garbage collector need not look at them again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Every other worker reads the files backwards: in a new tree each then compiles half of them, and of what they import."""
    report = yield
    if isinstance(collector, pytest.Directory) and os.environ.get("PYTEST_XDIST_WORKER", "")[-1:] in tuple("13579"):
        report.result.reverse()
    return report


@pytest.hookimpl(tryfirst=True)  # before fixtures put tests into an order, which must be that of all workers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that use the fixture `shared` are marked so: `-m shared` runs them alone. Where they are is kept for the next run."""
    if "PYTEST_XDIST_WORKER" in os.environ:  # whichever way they were read, and whatever was named in the command
        items.sort(key=lambda item: item.path)
    for item in items:
        if "shared" in getattr(item, "fixturenames", ()):
            item.add_marker("shared")
    if kept := os.environ.get("WARPSIGHT_TEST_CACHE"):
        files = sorted({str(item.path) for item in items if item.get_closest_marker("shared")})
        Path(kept).mkdir(parents=True, exist_ok=True)
        written = Path(kept) / f"files-with-shared-tests.{os.getpid()}"
        written.write_text("".join(f"{file}\n" for file in files))
        written.replace(Path(kept) / "files-with-shared-tests")


def _skip_without_reference(error: OSError | WarpsightError) -> None:
    """Skip the test if `error` says that a file of `shared/` is missing, wherever it was opened."""
    name = error.place if isinstance(error, WarpsightError) else error.filename
    path = Path(os.fsdecode(name)) if isinstance(name, (str, bytes)) else ROOT
    if path.is_relative_to(SHARED) and not path.exists():
        pytest.skip(f"no {path}")


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Generator[None, object, object]:
    """See `_skip_without_reference`."""
    try:
        return (yield)
    except (OSError, WarpsightError) as error:
        _skip_without_reference(error)
        raise


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup() -> Generator[None, object, object]:
    """See `_skip_without_reference`."""
    try:
        return (yield)
    except (OSError, WarpsightError) as error:
        _skip_without_reference(error)
        raise
