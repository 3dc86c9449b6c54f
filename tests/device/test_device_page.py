"""Is what was measured kept, and is the page made of it alone, with the errors that its own numbers have?"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import hardware_suite
from hardware_tables import compared
from warpsight.hardware.measurements.ncu import read_ncu
from warpsight.models.base import model_names
from warpsight.pipeline.suites import Suite

pytestmark = pytest.mark.unit
Make = Callable[..., Suite]


@pytest.fixture
def kept(measured: tuple[Path, str], tmp_path: Path) -> Path:
    """The document of three kernels measured once, in a folder of the test's own."""
    for name in ("small", "out"):
        shutil.copytree(measured[0] / name, tmp_path / name)
    return tmp_path / "out" / "nvidia-h100-80gb-hbm3.json"


def test_each_measurement_is_told(measured: tuple[Path, str]) -> None:
    assert "GPU 0: NVIDIA H100 80GB HBM3" in measured[1]
    assert "twice: 12.00 us, an empty kernel 2.00 us, same bits" in measured[1]


def _rows(text: str, title: str) -> dict[str, list[str]]:
    """The cells of the tables below a title, by their first."""
    body = text.partition(f"## {title}")[2].partition("\n## ")[0]
    lines = [line for line in body.splitlines() if line.startswith("| ")]
    return {cells[0]: cells for cells in ([cell.strip() for cell in line.split("|")[1:-1]] for line in lines)}


def test_page_has_measured_and_predicted_cycles_and_their_errors(kept: Path) -> None:
    text = kept.with_suffix(".md").read_text()
    rows = _rows(text, "What was measured")
    # (12 - 2) us at 1.5 GHz are 15,000 cycles; the profiler's are what its stand-in says
    assert rows["twice"][1:] == ["NMD", "development", "12.00", "0.00", "2.00", "10.00", "1,500", "15,000", "18,001", "same"]
    assert rows["tenth"][-3:] == ["15,000", "18,000", "other"]
    assert "faulty" not in rows
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in _rows(text, "Not measured")["faulty"][1]
    assert "Nsight Compute 2025.3.1.0" in text
    assert "`h100-sxm` of the catalogue, at the measured 1,500 MHz" in text
    document = json.loads(kept.read_text())
    measurements = read_ncu(kept.with_suffix(".ncu.csv").read_text(), "ncu")
    found = compared(document, hardware_suite.load_suite(kept.parents[1] / "small"), measurements)
    errors = _rows(text, "Errors of predicted cycles, measured by events")
    header = errors["kernel"]
    for row in found.rows:
        for model in (*model_names(), "simulator"):
            error = 100 * (row.cycles[model] - 15000) / 15000
            assert errors[row.kernel.name][header.index(f"`{model}`")] == f"{error:+.1f} %"
    mape = _rows(text, "Errors of predicted cycles, measured by Nsight Compute")["`mdm`"]
    by_hand = [(row.cycles["mdm"] - measured) / measured for row, measured in zip(found.rows, (18000, 18001), strict=True)]
    assert mape[-2] == f"{100 * sum(map(abs, by_hand)) / 2:.1f} %"


def test_buffers_of_other_bits_are_shown_with_the_verdict_of_the_check(kept: Path) -> None:
    cells = _rows(kept.with_suffix(".md").read_text(), "Results that are not bit for bit")["tenth"]
    assert re.fullmatch(r"\d+ of 256", cells[2])
    assert (cells[1], cells[3], cells[5]) == ("1", "1", "right")
    assert cells[6] == "no instruction; a race would"  # indeed: the stand-in divides where the kernel multiplies


def test_page_is_made_again_without_a_gpu(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warpsight.gpu.importers.device.LIBRARY", "libcuda-that-is-not-there.so.1")
    before = kept.with_suffix(".md").read_text()
    kept.with_suffix(".md").unlink()
    assert hardware_suite.main(["--suite", str(kept.parents[1] / "small"), "--from", str(kept), "--write"]) == 0
    assert kept.with_suffix(".md").read_text() == before


def test_kernel_that_has_changed_since_is_not_compared(kept: Path) -> None:
    source = kept.parents[1] / "small" / "twice" / "kernel.cu"
    source.write_text(source.read_text().replace("2 * x[i]", "3 * x[i]"))
    assert hardware_suite.main(["--suite", str(kept.parents[1] / "small"), "--from", str(kept), "--write"]) == 0
    text = kept.with_suffix(".md").read_text()
    assert _rows(text, "Not measured")["twice"][1] == "it has changed since it was measured"
    assert "tenth" in _rows(text, "What was measured")


def test_comment_that_has_changed_changes_nothing(kept: Path) -> None:
    source = kept.parents[1] / "small" / "twice" / "kernel.cu"
    source.write_text(f"// doubles\n{source.read_text()}")
    assert hardware_suite.main(["--suite", str(kept.parents[1] / "small"), "--from", str(kept), "--write"]) == 0
    assert "twice" in _rows(kept.with_suffix(".md").read_text(), "What was measured")


def test_table_of_the_profiler_that_is_missing_is_told(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept.with_suffix(".ncu.csv").unlink()
    assert hardware_suite.main(["--suite", str(kept.parents[1] / "small"), "--from", str(kept)]) == 2
    assert "has no table of Nsight Compute beside it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"), [("no", "is no JSON"), ("[]", "is no measurement of schema 1"), ('{"schema": 2}', "of schema 1")]
)
def test_file_that_is_no_measurement_is_told(text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.json").write_text(text)
    assert hardware_suite.main(["--from", str(tmp_path / "a.json")]) == 2
    assert said in capsys.readouterr().err


def test_options_that_measure_are_refused_where_nothing_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert hardware_suite.main(["--from", "a.json", "--no-ncu"]) == 2
    assert "--no-ncu: says how to measure" in capsys.readouterr().err


def test_without_a_gpu_it_says_so_and_ends_with_3(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("warpsight.gpu.importers.device.LIBRARY", "libcuda-that-is-not-there.so.1")
    assert hardware_suite.main([]) == 3
    assert "this machine has no NVIDIA driver" in capsys.readouterr().err


def test_cases_alone_need_no_gpu(suite_of: Make, tmp_path: Path) -> None:
    suite = suite_of("twice")
    assert hardware_suite.main(["--suite", suite.path, "--cases", str(tmp_path / "cases"), "--only-cases", "--jobs", "1"]) == 0
    assert (tmp_path / "cases" / "twice.npz").exists()


def test_every_page_of_the_repository_is_of_its_document(root: Path) -> None:
    for document in sorted((root / "validation" / "hardware").glob("*.json")):
        told = json.loads(document.read_text())
        text = document.with_suffix(".md").read_text()
        assert text.startswith(f"# {told['device']['name']}: measured against predicted")
        assert f"--from validation/hardware/{document.name} --write" in text
