"""Is what is wrong with a manifest told with its line and what to do?"""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from small_suite import MANIFEST, write_suite

from warpsight.base.errors import WarpsightError
from warpsight.pipeline.suites import load_suite

pytestmark = pytest.mark.unit


def _refusal(folder: Path, manifest: str) -> str:
    with pytest.raises(WarpsightError) as caught:
        load_suite(write_suite(folder, manifest=manifest))
    return str(caught.value)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("title:", "titel:", r'yaml:1: titel is not a known key; did you mean "title"\?'),
        ("title: Doubles numbers", "title:", r"yaml:1: title is missing"),
        ("title: Doubles numbers", "title: [a, b]", r"yaml:1: title is \['a', 'b'\], not a text of one line"),
        ("title: Doubles numbers\n", "", r"manifest\.yaml: title is missing"),
        ("domain: examples\n", "domain: examples\ndomain: graphs\n", r"yaml:3: domain is given twice, first in line 2"),
        ("class: not memory-divergent\n", "", r"yaml: class is missing\n.*-> write class: memory-divergent or class: not"),
        ("class: not", "class: non", r'yaml:3: class is .non memory-divergent.; did you mean "not memory-divergent"\?'),
        ("holdout: false", "holdout: no", r"yaml:4: holdout is 'no'\n.*-> write holdout: true or holdout: false"),
        ("check: check.py", "check: chek.py", r'yaml:5: check names .chek\.py., and the file does not exist; did you mean "check'),
        ("check: check.py", "check: kernel.cu", r"yaml:5: check is .kernel\.cu., not a file that ends in \.py"),
        ("tolerance: 1e-6", "tolerance: small", r"yaml:6: tolerance is .small., not a number above 0"),
        ("tolerance: 1e-6", "tolerance: nan", r"yaml:6: tolerance is .nan., not a number above 0"),
        ("tolerance: 1e-6", "tolerance: -1", r"yaml:6: tolerance is .-1., not a number above 0"),
        ("source: kernel.cu", "source: colonel.cu",
         r'yaml:7: source names .colonel\.cu., and the file does not exist; did you mean'),
        ("source: kernel.cu\n", "", r"manifest\.yaml: source is missing"),
        ("grid: 4\n", "", r"manifest\.yaml: grid is missing"),
        ("grid: 4", "grid: four", r"yaml:8: 'four' is not a whole number"),
        ("block: 64", "block: 1x2x3x4", r"yaml:9: .* has 4 dimensions, not 1 to 3"),
        ("block: 64", "block: {x: 64}", r"yaml:9: a mapping is not expected here"),
        ("seed: 3", "seed: three", r"yaml:11: 'three' is not a whole number"),
        ("seed: 3", "launch: launch.py", r"yaml:7: source belongs in the launch file that line 11 names"),
        ("seed: 3", "sed: 3", r'yaml:11: sed is not a known key; did you mean "seed"\?'),
        ("seed: 3", "seed: [", r"yaml:\d+: is not YAML"),
    ],
)
def test_manifest_with_one_fault_is_refused_at_its_line(tmp_path: Path, before: str, after: str, words: str) -> None:
    assert before in MANIFEST
    told = _refusal(tmp_path, MANIFEST.replace(before, after, 1))
    assert re.search(words, told), told
    assert "-> " in told


def test_manifest_without_a_launch_says_how_one_is_given(tmp_path: Path) -> None:
    told = _refusal(tmp_path, MANIFEST[: MANIFEST.index("source:")])
    assert "no launch is given" in told
    assert "launch: FILE.py" in told


def test_manifest_whose_launch_file_is_missing_is_refused(tmp_path: Path) -> None:
    told = _refusal(tmp_path, MANIFEST[: MANIFEST.index("source:")] + "launch: lanch.py\n")
    assert "manifest.yaml:7: launch names 'lanch.py', and the file does not exist" in told


def test_empty_manifest_says_what_one_needs(tmp_path: Path) -> None:
    told = _refusal(tmp_path, "# nothing yet\n")
    assert "is empty" in told
    assert "title, domain, class, holdout, check" in told


def test_folder_without_a_manifest_is_refused(tmp_path: Path) -> None:
    folder = write_suite(tmp_path)
    (folder / "twice" / "manifest.yaml").unlink()
    with pytest.raises(WarpsightError, match=r"twice: there is no manifest\.yaml"):
        load_suite(folder)


def test_manifest_damaged_anyhow_is_read_or_refused_in_words(tmp_path: Path) -> None:
    rng = random.Random(1)
    pieces = ["", ":", "\n", "- ", "{", "]", "'", "\t", "é", "\0", "&a", "*a", "!!x ", "0"]
    refused = 0
    for _ in range(300):
        text = list(MANIFEST)
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(text))
            text[at : at + rng.randint(0, 6)] = rng.choice(pieces)
        folder = write_suite(tmp_path, manifest="".join(text))
        try:
            load_suite(folder)
        except WarpsightError as error:
            assert error.remedy
            assert error.place
            refused += 1
    assert refused > 200
