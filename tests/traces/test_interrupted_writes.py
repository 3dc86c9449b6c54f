"""Every writer, killed at every step of a write and with the disk full at every step: is what was there, or the new, whole?"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from synthetic_trace import small_trace, whole

from warpsight.analysis.report_data.files import write_report
from warpsight.base import diskcache, settings
from warpsight.base.errors import UsageError
from warpsight.cli.output import write_output
from warpsight.gpu.default import SETTING, choice_file, chosen_gpu
from warpsight.hardware.device.case import Case, load_case
from warpsight.intervals.interchange import read_profile
from warpsight.jobs.store import ResultStore
from warpsight.pipeline.files import read_profile_file, write_profile_file
from warpsight.pipeline.simulation import write_timeline
from warpsight.reports.formats import write_parquet, write_text
from warpsight.reports.paper_figures import INDEX, write_figures
from warpsight.simulator.simulate import Timeline
from warpsight.sweeps.files import write_rows
from warpsight.traces.exporters.accelsim.writer import KERNEL, export_accelsim
from warpsight.traces.store import open_trace, save_trace

pytestmark = [pytest.mark.property, pytest.mark.filterwarnings("ignore::DeprecationWarning")]  # fork, with threads of Arrow
KEY = "ab12"
TEXT = {version: f"{version}\n" + "x" * 5000 for version in (1, 2)}
PROFILE = {
    version: json.dumps({
        "schema": 1, "kernel": f"k{version}", "warps_per_sm": 4, "total_warp_instructions": 8, "llc_miss_ratio": 0.5,
        "intervals": [{"instructions": 2, "stall_cycles": 3.0, "cause": "compute", "pc": 0, "memory_instructions": 0,
                       "read_misses": 0.0, "write_misses": 0.0, "dram_reads": 0.0, "dram_writes": 0.0}],
        "nonoverlapped_instructions": None,
    }).encode()
    for version in (1, 2)
}  # fmt: skip
TRACE = {version: small_trace(seed=version) for version in (1, 2)}


@dataclass(frozen=True)
class Writer:
    """`write(folder, version)`, and `read(folder)`, which gives the version that is there or fails; more than `least` bytes."""

    write: Callable[[Path, int], object]
    read: Callable[[Path], int]
    least: int = 200


def _timeline(folder: Path, version: int) -> None:
    column = np.arange(20 * version)
    write_timeline(str(folder / "a"), TRACE[1], Timeline(0, column, column * 0, column, column * 0, column, column * 0, False))


def _case(folder: Path, version: int) -> None:
    Case(str(version), "k", "sm_75", TEXT[version], "", (1, 1, 1), (32, 1, 1), 0, 8, {}, {}, ()).save(folder / "a")


def _rows(folder: Path, version: int) -> None:
    table = pa.table({"a": np.random.default_rng(version).integers(0, 1 << 60, 400), "version": [version] * 400})
    try:
        write_rows([table], table.schema, folder / "a")
    except OSError as error:  # sweeps report it
        raise UsageError(str(error)) from None


def _version(same: Callable[[int], bool]) -> int:
    (version,) = [version for version in (1, 2) if same(version)]
    return version


def _text(folder: Path) -> int:
    return _version(lambda version: (folder / "a").read_text() == TEXT[version])


WRITERS = {
    "text": Writer(lambda folder, version: write_output(str(folder / "a"), TEXT[version], "-o"), _text),
    "picture": Writer(lambda folder, version: write_text(str(folder / "a"), TEXT[version]), _text),
    "report": Writer(lambda folder, version: write_report(folder / "a", TEXT[version]), _text),
    "parquet": Writer(lambda folder, version: write_parquet(str(folder / "a"), [{"version": version, "x": TEXT[version]}]),
                      lambda folder: int(pq.read_table(folder / "a").column("version")[0].as_py())),
    "rows of a study": Writer(_rows, lambda folder: int(pq.read_table(folder / "a").column("version")[399].as_py())),
    "profile": Writer(lambda folder, version: write_profile_file(read_profile(PROFILE[version], origin=""), str(folder / "a")),
                      lambda folder: int(read_profile_file(str(folder / "a")).kernel[1:])),
    "timeline": Writer(_timeline, lambda folder: len(json.loads((folder / "a").read_text())["traceEvents"]) // 40 + 1),
    "figures": Writer(lambda folder, version: write_figures(folder, []),
                      lambda folder: 2 if (folder / INDEX).read_text().endswith("\n") else 1),
    "choice of a GPU": Writer(lambda folder, version: settings.keep(SETTING, f"gpu{version}"),
                              lambda folder: int(chosen_gpu().gpu[3:]), 4),
    "case": Writer(_case, lambda folder: int(load_case(folder / "a").name)),
    "trace": Writer(lambda folder, version: save_trace(TRACE[version], folder / "a", overwrite=True),
                    lambda folder: _version(lambda version: whole(open_trace(folder / "a")) == whole(TRACE[version]))),
    "exported trace": Writer(
        lambda folder, version: export_accelsim(TRACE[version], folder / "a", overwrite=True),
        lambda folder: _version(lambda version: (folder / "a" / KERNEL).read_bytes() == EXPORTED[version])),
}  # fmt: skip
EXPORTED: dict[int, bytes] = {}
# What is only kept to save time: of an entry that was being written there may be none.
KEPT = {
    "cache entry": Writer(lambda folder, version: diskcache.put("kind", KEY, TEXT[version].encode()),
                          lambda folder: _version(lambda version: diskcache.get("kind", KEY) == TEXT[version].encode())),
    "library": Writer(lambda folder, version: diskcache.put_library("kind", KEY, "lib.so", TEXT[version].encode()),
                      lambda folder: _version(lambda version: _library() == TEXT[version].encode())),
    "result": Writer(lambda folder, version: ResultStore(folder).put("kind", KEY, {"version": version, "x": TEXT[version]}),
                     lambda folder: int((ResultStore(folder).get("kind", KEY) or {})["version"])),
}  # fmt: skip
ALL = {**WRITERS, **KEPT}


def _library() -> bytes:
    path = diskcache.library("kind", KEY, "lib.so")
    assert path is not None
    return path.read_bytes()[:-32]


# -- Another process, ended by a signal or with a disk that is full.

_FILES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.chown", "os.link")
_STEPS = ("open", *_FILES, "ctypes.dlsym", "fcntl.flock")
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def _in_another_process(work: Callable[[], object]) -> int:
    """The exit code of a copy of this process that does `work`: 0, 3 after a UsageError, or minus the signal that ended it."""
    child = os.fork()
    if child == 0:
        code = 4
        try:
            work()
            code = 0
        except UsageError:
            code = 3
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _killed_at(step: int, work: Callable[[], object]) -> int:
    """As if SIGKILL came just before the step with that number: a call that changes a file system."""
    done = 0

    def count(event: str, arguments: Any) -> None:
        nonlocal done
        if event in _STEPS and (event != "open" or (arguments[2] or 0) & _WRITES):
            if done == step:
                os.kill(os.getpid(), signal.SIGKILL)
            done += 1

    def counted() -> None:
        sys.addaudithook(count)
        work()

    return _in_another_process(counted)


def _on_a_disk_of(most: int, killed: bool, work: Callable[[], object]) -> int:
    """No file may get longer than `most` bytes: a write past that fails, or ends the process in the middle of the write."""

    def limited() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL if killed else signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
        work()

    return _in_another_process(limited)


def _files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and path.name != ".mark")


@pytest.fixture(params=ALL)
def writer(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Writer:
    """Each writer, in a folder with a first version of its output."""
    monkeypatch.setenv("WARPSIGHT_CACHE", str(tmp_path))
    monkeypatch.setenv("WARPSIGHT_CONFIG", str(tmp_path))
    monkeypatch.delenv("WARPSIGHT_GPU", raising=False)
    found: Writer = ALL[request.param]
    if request.param == "exported trace" and not EXPORTED:
        for version in (2, 1):
            found.write(tmp_path, version)
            EXPORTED[version] = (tmp_path / "a" / KERNEL).read_bytes()
    found.write(tmp_path, 1)
    if request.param == "figures":
        (tmp_path / INDEX).write_text("old")
    assert choice_file().parent == tmp_path
    assert found.read(tmp_path) == 1
    return found


def test_killed_at_any_step_a_write_leaves_the_old_or_the_new(writer: Writer, tmp_path: Path) -> None:
    there = _files(tmp_path)
    seen = set()
    for step in range(200):
        code = _killed_at(step, lambda: writer.write(tmp_path, 2))
        version = writer.read(tmp_path)
        seen.add(version)
        if code == 0:
            break
        assert code == -signal.SIGKILL
    else:
        pytest.fail("the write never ends")
    assert step >= 2
    assert version == 2
    assert 1 in seen
    writer.write(tmp_path, 2)
    assert [name for name in _files(tmp_path) if not name.startswith(".new/")] == there, "what killed processes left is removed"


@pytest.mark.parametrize("killed", [True, False])
def test_full_disk_at_any_byte_leaves_the_old(writer: Writer, killed: bool, tmp_path: Path) -> None:
    there = _files(tmp_path)
    for most in {0, 1, min(20, writer.least), writer.least}:
        code = _on_a_disk_of(most, killed, lambda: writer.write(tmp_path, 2))
        assert code in ((-signal.SIGXFSZ,) if killed else (0, 3)), "ended by the signal, or with an error and not a traceback"
        assert writer.read(tmp_path) == 1
        if not killed:
            assert _files(tmp_path) == there
            assert code == 3 or writer in KEPT.values()
    writer.write(tmp_path, 2)
    assert writer.read(tmp_path) == 2
    assert [name for name in _files(tmp_path) if not name.startswith(".new/")] == there
