"""Does the command line make descriptions that the other commands take?"""

from __future__ import annotations

import ctypes
import json
from pathlib import Path

import pytest
from command_line import assert_one_error, run
from gpgpusim_files import TRACE, configuration

pytestmark = pytest.mark.unit
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "SM7_QV100" / "gpgpusim.config"
    path.parent.mkdir()
    path.write_text(configuration())
    return path


def test_import_writes_a_description_that_is_sound_and_says_what_is_not_in_it(
    config: Path, tmp_path: Path, capsys: Capture
) -> None:
    out = tmp_path / "qv100.yaml"
    answer = run(capsys, "gpus", "import", config, "-o", out)
    assert answer.code == 0
    assert " l2.size " in answer.out
    assert "6 MiB" in answer.out
    assert "not carried over, or changed" in answer.out
    assert answer.out.splitlines()[-1].startswith("next: warpsight gpus check ")
    assert run(capsys, "gpus", "check", out).code == 0
    assert json.loads(run(capsys, "gpus", "show", out, "--json").out)["sm_count"] == 80


def test_import_to_stdout_is_the_description(config: Path, tmp_path: Path, capsys: Capture) -> None:
    trace = tmp_path / "trace.config"
    trace.write_text(TRACE)
    answer = run(capsys, "gpus", "import", trace, config, "--shared-memory", "64KiB", "--pipeline-stages", "3")
    (tmp_path / "again.yaml").write_text(answer.out)
    shown = json.loads(run(capsys, "gpus", "show", tmp_path / "again.yaml", "--json").out)
    assert (shown["sm"]["shared_memory"], shown["l1"]["size"], shown["latency"]["int"]) == ("64 KiB", "64 KiB", "5 cycles")


def test_import_as_json_has_values_sources_and_notes(config: Path, capsys: Capture) -> None:
    document = json.loads(run(capsys, "gpus", "import", config, "--json").out)
    assert document["name"] == "sm7-qv100"
    assert document["values"]["dram.bandwidth"]["value"] == "870.4 GB/s"
    assert "-gpgpu_dram_buswidth 16" in document["values"]["dram.bandwidth"]["source"]
    assert document["notes"]


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["--shared-memory", "64KB"], ["--shared-memory", "KiB"]),
        (["--shared-memory", "48KiB"], ["is not a division that this GPU has"]),
        (["--pipeline-stages", "two"], ["--pipeline-stages", "not a whole number"]),
        (["--policy", "two_level"], ["--policy"]),
        (["-o", "/nowhere/at/all.yaml"], ["cannot be written"]),
    ],
)
def test_import_refuses_choices_that_cannot_be(words: list[str], parts: list[str], config: Path, capsys: Capture) -> None:
    assert_one_error(run(capsys, "gpus", "import", config, *words), 2, *parts)


def test_import_of_a_damaged_file_names_file_and_line(config: Path, capsys: Capture) -> None:
    config.write_text("# a comment\n-gpgpu_n_clusters\n")
    assert_one_error(run(capsys, "gpus", "import", config), 2, f"{config}:2: -gpgpu_n_clusters has no value")


def test_from_device_without_a_driver_exits_3(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    def absent(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", absent)
    assert_one_error(run(capsys, "gpus", "from-device"), 3, "this machine has no NVIDIA driver", "gpus list")
    assert_one_error(run(capsys, "gpus", "from-device", "--device", "x"), 2, "--device")
