"""Does the fuzzer see what it is there to see: exceptions, silence, death, and code that no case reached before?"""

from __future__ import annotations

import importlib
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import fuzz
from fuzzing import bundle, coverage
from fuzzing.cases import TARGETS, assembled, listing_of
from fuzzing.mutations import MUTATIONS
from fuzzing.worker import Worker, _judge
from warpsight.base.errors import UsageError

pytestmark = pytest.mark.unit
SEEDS = Path(fuzz.__file__).parent / "fuzzing" / "seeds"
sys.path.append(str(Path(__file__).parents[1] / "importers"))
pptgpu_writer = importlib.import_module("pptgpu_writer")
_OPS = [("S2R", ("R0",), False), ("LDG.E", ("R4", "R2"), True), ("EXIT", (), False)]
LOADS = [
    pptgpu_writer.Step(pptgpu_writer.Op(k, *op), tuple(0x7F0000000000 + 8 * lane for lane in range(32)) if op[2] else ())
    for k, op in enumerate(_OPS)
]
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


def _small(target: str) -> bytes:
    """A seed of a target, the quickest to be made."""
    if target == "listing":
        return listing_of("bar-sync.ptx", 75)
    if target == "cubin":
        return bytes(assembled("bar-sync.ptx", 75).cubin)
    if target == "trace":
        pptgpu_writer.write(Path("small"), pptgpu_writer.Written(32, [[LOADS], [LOADS]], [[0], [0]]), amali=False)
        return bundle.pack({path.relative_to("small").as_posix(): path.read_bytes() for path in Path("small").rglob("*.*")})
    request = b"GET / HTTP/1.1\r\nHost: localhost:PORT\r\n\r\n"
    return bundle.pack({"request": request, "result.json": b'[{"cpi_stack": {"base": 1.0}}]'})


@pytest.mark.parametrize("target", ["listing", "cubin", "trace", "serve"])
def test_seed_of_a_target_and_what_becomes_of_it_are_answered(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    seed, rng = _small(target), random.Random(4)
    outcomes = [_judge(TARGETS[target], seed)[0]]
    outcomes += [_judge(TARGETS[target], MUTATIONS[target](rng, seed, seed))[0] for _ in range(4)]
    assert outcomes[0].kind == "ok"
    assert [outcome.text for outcome in outcomes if outcome.is_finding] == []


def test_bundle_gives_its_files_back_and_nothing_outside_its_folder() -> None:
    files = {"a.txt": b"one\n\ntwo", "b/c.bin": b"\0=== no\n", "empty": b""}
    assert bundle.unpack(b"# expect: ok\n" + bundle.pack(files)) == files
    assert bundle.unpack(b"=== ../out\nx\n=== /etc\ny\n") == {}


def test_instruction_of_machine_code_without_its_operands_is_refused_or_needs_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = listing_of("atomics.ptx", 90).decode()
    kinds = []
    found = {match[2]: match for match in re.finditer(r"(?m)^(\s*/\*\w{4}\*/\s+(?:@\S+ )?([A-Z]\w*)[\w.]*) [^;]*;", text)}
    for match in (found[name] for name in ("ATOMS", "ATOMG", "STG", "S2R", "LDC", "IMAD", "ISETP") if name in found):
        outcome = _judge(TARGETS["listing"], (text[: match.end(1)] + " ;" + text[match.end() :]).encode())[0]
        kinds.append(outcome.kind)
        assert not outcome.is_finding, outcome.text
    assert kinds.count("refused") == len(kinds) >= 3


@pytest.mark.parametrize("target", ["ptx", "launch", "listing", "cubin", "trace", "serve"])
def test_same_seed_changes_a_case_in_the_same_way(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    files = sorted((SEEDS / target).iterdir()) if target in ("ptx", "launch") else []
    cases = [path.read_bytes() for path in files] or [_small(target)] * 9

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
