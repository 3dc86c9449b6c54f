"""Has our own suite what was promised: how many kernels, of which kinds, and half of them set aside by the rule?"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from warpsight.pipeline.suites import load_suite, shipped_suites

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[2]
SUITE = load_suite(ROOT / "suites" / "warpsight")
DOMAINS = {
    "graphs", "sparse algebra", "dense algebra", "image processing", "signal processing", "MapReduce",
    "neural networks", "clustering",
}  # fmt: skip
MORE_DOMAINS = {"sorting", "physics", "finance"}


def test_suite_has_kernels_of_every_domain_and_half_of_them_memory_divergent() -> None:
    assert len(SUITE) >= 24
    assert DOMAINS <= {kernel.domain for kernel in SUITE} <= DOMAINS | MORE_DOMAINS
    divergent = sum(kernel.divergent for kernel in SUITE)
    assert divergent >= 12
    assert abs(2 * divergent - len(SUITE)) <= 2


@pytest.mark.parametrize("memory_class", ["memory-divergent", "not memory-divergent"])
def test_holdout_of_each_class_is_the_first_half_by_the_hash_of_names(memory_class: str) -> None:
    of_class = [kernel.name for kernel in SUITE if kernel.expected_class == memory_class]
    names = {hashlib.sha256(name.encode()).digest(): name for name in of_class}
    by_hash = [name for _, name in sorted(names.items())]
    set_aside = {kernel.name for kernel in SUITE.holdout if kernel.expected_class == memory_class}
    assert set_aside == set(by_hash[: len(by_hash) // 2]), "run python validation/own_suite.py --holdout"


def test_halves_of_the_suite_share_no_kernel_and_leave_none_out() -> None:
    assert len(SUITE.holdout) * 2 == len(SUITE)
    assert {*SUITE.holdout, *SUITE.development} == set(SUITE)


def test_suite_by_name_is_the_one_in_the_repository() -> None:
    assert "warpsight" in shipped_suites()
    shipped = load_suite("warpsight")
    assert [kernel.name for kernel in shipped] == [kernel.name for kernel in SUITE]
    for ours, theirs in zip(SUITE, shipped, strict=True):
        for path in Path(ours.path).parent.glob("*.*"):
            assert (Path(theirs.path).parent / path.name).read_bytes() == path.read_bytes()


def test_every_kernel_has_sources_of_its_own_and_seeds_its_inputs() -> None:
    for kernel in SUITE:
        launch = Path(kernel.launch_file) if kernel.launch_file else None
        assert (kernel.launch is not None and kernel.launch.seed > 0) or (launch and "default_rng(" in launch.read_text())
        assert Path(kernel.check).parent == Path(kernel.path).parent
