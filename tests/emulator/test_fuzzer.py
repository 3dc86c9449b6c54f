"""Does the fuzzer see what it is there to see: exceptions, silence, death, and code that no case reached before?"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import fuzz
from fuzzing import coverage
from fuzzing.mutations import MUTATIONS
from fuzzing.worker import Worker, _judge
from warpsight.base.errors import UsageError

pytestmark = pytest.mark.unit
SEEDS = Path(fuzz.__file__).parent / "fuzzing" / "seeds"
MODULE = """
def sign(x):
    if x < 0:
        return -1
    return 1 if x else 0
"""


@pytest.fixture
def worker() -> Iterator[Worker]:
    made = Worker("ptx", 60)
    yield made
    made.close()


def _raises(error: BaseException) -> set[str]:
    raise error


def test_outcome_of_an_exception_is_a_finding_and_of_a_clear_error_is_not() -> None:
    assert _judge(lambda case: _raises(ValueError("x")), b"")[0].kind == "exception"
    assert _judge(lambda case: _raises(UsageError("no", place="--grid")), b"")[0].kind == "refused"
    assert _judge(lambda case: _raises(UsageError(" ", place="--grid")), b"")[0].kind == "unclear"
    assert _judge(lambda case: {"a form"}, b"")[0].kind == "ok"


def test_probes_tell_branches_apart_and_know_those_taken_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "probed_package").mkdir()
    (tmp_path / "probed_package" / "__init__.py").write_text("")
    (tmp_path / "probed_package" / "signs.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", sys.meta_path[:])
    steps = coverage.install(["probed_package"])
    from probed_package.signs import sign  # type: ignore[import-not-found]

    taken = []
    for value in (-3, 0, 5, 5, -9):
        assert sign(value) == (value > 0) - (value < 0)
        sign(value)
        steps.clear()  # the step from the call before is left out: each value is preceded by itself
        sign(value)
        taken.append(frozenset(steps))
    assert taken[2] == taken[3]
    assert taken[0] == taken[4]
    assert len({*taken}) == 3


def test_minimised_case_keeps_what_matters_alone() -> None:
    case = b"one two\nthree four five\nsix\nseven eight"
    assert fuzz.minimise(case, lambda each: b"four" in each and b"eight" in each).split() == [b"four", b"eight"]


@pytest.mark.parametrize("target", ["ptx", "launch"])
def test_same_seed_changes_a_case_in_the_same_way(target: str) -> None:
    cases = [path.read_bytes() for path in sorted((SEEDS / target).iterdir())]

    def changed(seed: int) -> list[bytes]:
        rng = random.Random(seed)
        return [MUTATIONS[target](rng, case, rng.choice(cases)) for case in cases]

    assert changed(1) == changed(1)
    assert changed(1) != changed(2)


def test_worker_runs_refuses_and_survives_its_death(worker: Worker) -> None:
    seed = (SEEDS / "ptx" / "calls.ptx").read_bytes()
    first = worker.run(seed)
    assert (first.kind, len(first.fresh) > 100) == ("ok", True)
    assert len(worker.run(seed).fresh) < len(first.fresh) / 10
    assert worker.run(seed.replace(b"%r4;", b"%r99;")).kind == "refused"
    assert worker._process is not None
    worker._process.kill()
    lost = worker.run(seed)
    assert lost.kind == "death"
    assert lost.is_finding
    assert worker.run(seed).kind == "ok"
