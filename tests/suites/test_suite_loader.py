"""Is a suite found and read, by folder and by name, and does every command take its manifests?"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small_suite import MANIFEST, write_suite

import warpsight
from warpsight.base.errors import UsageError
from warpsight.pipeline.suites import load_suite
from warpsight.pipeline.tracing import obtain_trace

pytestmark = pytest.mark.unit


def test_suite_of_a_folder_has_what_its_manifests_say(tmp_path: Path) -> None:
    suite = load_suite(write_suite(tmp_path))
    (kernel,) = suite
    assert (suite.name, len(suite), kernel.name, kernel.title, kernel.domain) == ("mine", 1, "twice", "Doubles numbers", "examples")
    assert (kernel.expected_class, kernel.holdout, kernel.tolerance) == ("not memory-divergent", False, 1e-6)
    assert kernel.launch is not None
    assert (kernel.launch.grid, kernel.launch.block, kernel.launch.seed, kernel.launch_file) == ("4", "64", 3, "")
    assert kernel.place == str(tmp_path / "mine" / "twice" / "manifest.yaml")
    assert suite.kernel("twice") is kernel
    assert (suite.development, suite.holdout) == ((kernel,), ())


def test_suite_with_a_folder_that_begins_with_an_underscore_leaves_it_out(tmp_path: Path) -> None:
    folder = write_suite(tmp_path)
    for name in ("_drafts", ".hidden"):
        (folder / name).mkdir()
    (folder / "NOTES.md").write_text("not a kernel")
    assert [kernel.name for kernel in load_suite(folder)] == ["twice"]


def test_suite_by_a_relative_path_and_from_its_own_folder_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(write_suite(tmp_path))
    assert load_suite(".").name == load_suite("../mine").name == "mine"
    assert obtain_trace(load_suite(".").kernel("twice").request()).header.blocks == 4


def test_python_launch_file_is_run_when_the_launch_is_asked_for_and_not_before(tmp_path: Path) -> None:
    own = MANIFEST[: MANIFEST.index("source:")] + "launch: launch.py\n"
    folder = write_suite(tmp_path, manifest=own)
    (folder / "twice" / "launch.py").write_text("raise ValueError('run')")
    kernel = load_suite(folder).kernel("twice")
    with pytest.raises(UsageError, match=r"launch\.py:1: ValueError: run"):
        kernel.launch_spec()
    (folder / "twice" / "launch.py").write_text(
        "import numpy as np\nsource, grid, block = 'kernel.cu', 1, 32\n"
        "args = [np.ones(32, np.float32), np.zeros(32, np.float32), np.zeros(1, np.int32), 32]\n"
    )
    first, second = kernel.launch_spec(), kernel.launch_spec()
    assert first.args[1] is not second.args[1]
    assert np.array_equal(first.args[0], second.args[0])


def test_manifest_in_the_place_of_a_kernel_is_traced_and_predicted(tmp_path: Path) -> None:
    trace = warpsight.trace(write_suite(tmp_path) / "twice" / "manifest.yaml")
    assert (trace.header.kernel, trace.header.blocks) == ("twice", 4)
    assert warpsight.predict(trace).memory_class == "not memory-divergent"


def test_option_beside_a_manifest_wins_over_it(tmp_path: Path) -> None:
    assert warpsight.trace(write_suite(tmp_path) / "twice" / "manifest.yaml", grid=2).header.blocks == 2


@pytest.mark.parametrize(
    ("suite", "words"),
    [
        ("warpsigth", r'suite: "warpsigth" is neither a folder nor a suite .*; did you mean "warpsight"\?'),
        ("", "neither a folder nor a suite"),
        ("no\0where", "neither a folder nor a suite"),
    ],
)
def test_suite_that_is_nowhere_is_refused_with_those_that_there_are(suite: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        load_suite(suite)
    assert "warpsight" in caught.value.remedy


def test_folder_without_kernels_is_no_suite(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a suite"):
        load_suite(tmp_path)


def test_folder_of_one_kernel_is_no_suite(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="give the folder above"):
        load_suite(write_suite(tmp_path) / "twice")


def test_unknown_kernel_of_a_suite_is_refused_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r'"twise" is not a kernel of the suite mine; did you mean "twice"\?'):
        load_suite(write_suite(tmp_path)).kernel("twise")
