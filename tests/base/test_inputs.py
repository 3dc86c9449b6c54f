"""Does every reader take files and pipes, and refuse what may never begin or never end?"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from warpsight.analysis.report_data.files import report_data_of_file
from warpsight.base import inputs
from warpsight.base.errors import WarpsightError
from warpsight.base.inputs import open_input, read_input
from warpsight.gpu.default import chosen_gpu
from warpsight.gpu.importers.gpgpusim_files import read_text
from warpsight.hardware.device.case import load_case
from warpsight.hardware.mwp_calibration import read_mwp_timings
from warpsight.hardware.references import read_against
from warpsight.pipeline.files import read_profile_file
from warpsight.sweeps.folder import open_folder
from warpsight.traces.importers.accelsim.files import header_of
from warpsight.traces.importers.lines import whole_lines
from warpsight.traces.importers.mdm.files import read_cache_file
from warpsight.traces.importers.pptgpu.files import read_config
from warpsight.traces.store_format import read_header

pytestmark = pytest.mark.unit


@contextmanager
def _written(path: Path, *parts: bytes) -> Iterator[None]:
    """A writer at the other end of a new pipe that takes its time."""
    os.mkfifo(path)
    begun = os.open(path, os.O_RDWR)  # a writer before anybody reads

    def write() -> None:
        for part in parts:
            time.sleep(0.02)
            os.write(begun, part)
        os.close(begun)

    writer = threading.Thread(target=write)
    writer.start()
    yield
    writer.join(10)


def test_pipe_is_read_to_its_end_and_may_be_read_again(tmp_path: Path) -> None:
    with _written(tmp_path / "pipe", b"first ", b"second"):
        assert read_input(tmp_path / "pipe") == b"first second"
    assert read_input(tmp_path / "pipe") == b"first second", "a kernel may be read twice"
    with open_input(tmp_path / "pipe") as file:
        assert file.read(5) == b"first"
        assert file.seek(0, os.SEEK_END) == 12
    (tmp_path / "pipe").unlink()
    with _written(tmp_path / "pipe", b"other"):
        assert read_input(tmp_path / "pipe") == b"other"


def test_pipe_that_never_ends_is_read_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "_MOST_FROM_PIPE", 100_000)
    read, write = os.pipe()
    with subprocess.Popen(["yes"], stdout=write) as endless:
        os.close(write)
        with pytest.raises(OSError, match="more than 100,000 bytes come from the pipe"):
            read_input(f"/dev/fd/{read}")
        os.close(read)
        endless.wait(120)
    with _written(tmp_path / "pipe", b"x" * 50), pytest.raises(OSError, match="more than 40 bytes"):
        read_input(tmp_path / "pipe", 40)


def test_file_larger_than_any_input_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 50)
    assert len(read_input(tmp_path / "a", 50)) == 50
    with pytest.raises(OSError, match="it has more than 49 bytes"):
        read_input(tmp_path / "a", 49)


@pytest.mark.parametrize("given", ["<(warpsight gpus show a100)", "/dev/stdin < <(warpsight gpus show a100)"])
def test_output_of_a_command_is_an_input(given: str) -> None:
    script = f'warpsight() {{ "{sys.executable}" -m warpsight "$@"; }}; warpsight gpus check {given}'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False, timeout=300)
    assert done.stdout.startswith("/dev/"), done.stderr
    assert "no problems" in done.stdout


READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "result": ("a.json", lambda path: report_data_of_file(str(path))),
    "chosen GPU": ("gpu", lambda path: chosen_gpu()),
    "configuration": ("gpgpusim.config", read_text),
    "case": ("a.npz", load_case),
    "timings": ("t.csv", lambda path: read_mwp_timings(str(path))),
    "references": ("r.csv", lambda path: read_against(str(path))),
    "profile": ("p.json", lambda path: read_profile_file(str(path))),
    "study": ("study.json", lambda path: open_folder(path.parent)),
    "kernel of Accel-Sim": ("kernel-1.traceg", header_of),
    "kernel of Accel-Sim, xz": ("kernel-1.traceg.xz", header_of),
    "kernel of Accel-Sim, gz": ("kernel-1.traceg.gz", header_of),
    "kernel of Accel-Sim, tracez": ("kernel-1.tracez", header_of),
    "lines": ("instruction_trace_1.txt", lambda path: list(whole_lines(path))),
    "caches of MDM": ("L1_cache", read_cache_file),
    "launches of PPT-GPU": ("app_config.py", read_config),
    "trace": ("header.json", read_header),
}


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_refuses_a_pipe_without_a_writer_and_a_device(
    reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARPSIGHT_CONFIG", str(tmp_path))
    monkeypatch.delenv("WARPSIGHT_GPU", raising=False)
    name, read = READERS[reader]
    path = tmp_path / name
    for make in (lambda: os.mkfifo(path), lambda: path.symlink_to("/dev/zero")):
        make()
        with pytest.raises(WarpsightError):
            read(path)
        path.unlink()
