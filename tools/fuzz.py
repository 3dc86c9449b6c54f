"""A coverage-guided fuzzer of Warpsight: every input, however broken, must end in an answer or a clear error.

    python tools/fuzz.py --target all --minutes 70         # ten minutes of each target
    python tools/fuzz.py --target cubin --minutes 10       # one of: ptx, sass, launch, listing, cubin, trace, serve
    python tools/fuzz.py --replay FILE --target ptx        # runs one case
    python tools/fuzz.py --minimise FILE --target ptx      # the smallest part of a finding that still fails, on standard output

Cases come from tools/fuzzing/seeds/TARGET (those of `sass` are PTX too) or are made from them (`fuzzing/made_seeds.py`), from
tests/emulator/hostile/TARGET (earlier findings) and from `--corpus DIR`, in which cases that reach new features are kept for the
next run. A finding is an exception other than WarpsightError, an error without a message, a case longer than `--limit` seconds,
growth by more than 2 GiB, or the death of the process; each kind is kept once, in `--findings`. The exit code is 1 if there is a
finding.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from fuzzing.cases import MOST_BYTES
from fuzzing.made_seeds import made
from fuzzing.mutations import MUTATIONS
from fuzzing.worker import Outcome, Worker

_HERE = Path(__file__).resolve().parent
_KNOWN = _HERE.parent / "tests" / "emulator" / "hostile"
_REPORT_EVERY = 30.0


@dataclass
class Entry:
    """A case of the corpus. `fresh` is how many features it was the first to have, `runs` whether it was executed to its end,
    `picked` how often it was changed.
    """

    case: bytes
    fresh: int
    runs: bool
    picked: int = 0

    @property
    def weight(self) -> float:
        """How much it deserves to be picked: what reached more, is smaller, or has been tried less."""
        promise = (1 + min(self.fresh, 50)) * (8 if self.runs else 1)
        return promise / (1 + self.picked) / math.sqrt(200 + len(self.case))


@dataclass
class Session:
    """The search on one target."""

    target: str
    worker: Worker
    rng: random.Random
    kept: Path | None
    findings: Path
    entries: list[Entry] = field(default_factory=list)
    found: dict[str, tuple[Outcome, bytes]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def try_case(self, case: bytes, *, seed: bool = False) -> None:
        """Run a case; keep it if it is new."""
        outcome = self.worker.run(case)
        self.counts[outcome.kind] = self.counts.get(outcome.kind, 0) + 1
        if outcome.is_finding:
            self._report(case, outcome)
        elif outcome.fresh:
            self.entries.append(Entry(case, len(outcome.fresh), outcome.kind == "ok"))
            if self.kept is not None and not seed:
                (self.kept / _name(case, self.target)).write_bytes(case)

    def _report(self, case: bytes, outcome: Outcome) -> None:
        known = self.found.get(outcome.signature)
        if known is not None and len(known[1]) <= len(case):
            return
        if known is None:
            print(f"FOUND {outcome.signature}\n{outcome.text[-1500:]}", file=sys.stderr, flush=True)
        self.found[outcome.signature] = (outcome, case)
        self.findings.mkdir(parents=True, exist_ok=True)
        name = f"{self.target}-{hashlib.sha256(outcome.signature.encode()).hexdigest()[:8]}"
        (self.findings / name).write_bytes(case)
        (self.findings / f"{name}.txt").write_text(f"{outcome.signature}\n\n{outcome.text}\n", errors="replace")

    def load(self, folders: list[Path]) -> None:
        """Run what is there to begin with."""
        for path in sorted(path for folder in folders if folder.is_dir() for path in folder.iterdir() if path.is_file()):
            self.try_case(path.read_bytes(), seed=True)
        for case in made(self.target):
            self.try_case(case, seed=True)
        print(f"{self.target}: {len(self.entries)} seeds, {len(self.worker.known):,} features", file=sys.stderr, flush=True)

    def search(self, seconds: float) -> None:
        """Change cases until the time is over."""
        end, report = time.monotonic() + seconds, time.monotonic() + _REPORT_EVERY
        mutate = MUTATIONS[self.target]
        weights: list[float] = []
        while time.monotonic() < end:
            if len(weights) != len(self.entries) or self.worker.executions % 200 == 0:
                weights = [entry.weight for entry in self.entries]
            (entry,) = self.rng.choices(self.entries, weights)
            entry.picked += 1
            case = mutate(self.rng, entry.case, self.rng.choice(self.entries).case)
            if len(case) <= MOST_BYTES[self.target]:
                self.try_case(case)
            if time.monotonic() > report:
                report += _REPORT_EVERY
                print(self.line(end - time.monotonic()), file=sys.stderr, flush=True)

    def line(self, left: float) -> str:
        """Progress in one line."""
        parts = ", ".join(f"{count:,} {kind}" for kind, count in sorted(self.counts.items()))
        return (
            f"{self.target}: {max(left, 0):.0f} s left, {self.worker.executions:,} cases ({parts}), {len(self.entries):,} kept, "
            f"{len(self.worker.known):,} features, {len(self.found)} findings"
        )


def _name(case: bytes, target: str) -> str:
    return f"{hashlib.sha256(case).hexdigest()[:12]}.{'ptx' if target == 'sass' else target}"


def minimise(case: bytes, same: Callable[[bytes], bool]) -> bytes:
    """The case without whatever can be left out while `same` stays true: first lines, then single words."""
    for separator in (b"\n", b" "):
        parts = case.split(separator)
        size = max(1, len(parts) // 2)
        while size:
            at = 0
            while at < len(parts):
                shorter = parts[:at] + parts[at + size :]
                if same(separator.join(shorter)):
                    parts = shorter
                else:
                    at += size
            size //= 2
        case = separator.join(parts)
    return case


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", choices=(*MUTATIONS, "all"), default="all", help="what is damaged (default: all)")
    parser.add_argument("--minutes", type=float, default=10.0, help="in total, shared by the targets (default: 10)")
    parser.add_argument("--seed", type=int, default=0, help="of the random choices (default: 0)")
    parser.add_argument("--corpus", type=Path, metavar="DIR", help="further cases, in DIR/TARGET; new ones are kept there")
    parser.add_argument("--findings", type=Path, metavar="DIR", default=Path("fuzz-findings"), help="default: fuzz-findings")
    parser.add_argument("--limit", type=float, default=20.0, help="seconds a case may take (default: 20)")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="run one case and say what it does")
    parser.add_argument("--minimise", type=Path, metavar="FILE", help="reduce a finding")
    return parser.parse_args()


def _single(options: argparse.Namespace) -> int:
    """One case: what it does, or its smallest part that does the same."""
    worker = Worker("ptx" if options.target == "all" else options.target, options.limit)
    path = options.replay or options.minimise
    case = path.read_bytes()
    outcome = worker.run(case)
    print(f"{outcome.kind} {outcome.signature}\n{outcome.text}", file=sys.stderr)
    if options.minimise and outcome.is_finding:
        small = minimise(case, lambda each: worker.run(each).signature == outcome.signature)
        sys.stdout.buffer.write(small)
    worker.close()
    return int(outcome.is_finding)


def _search(options: argparse.Namespace, target: str, minutes: float) -> Session:
    kept = options.corpus / target if options.corpus else None
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
    worker, folder = Worker(target, options.limit), "ptx" if target == "sass" else target
    session = Session(target, worker, random.Random(f"{options.seed} {target}"), kept, options.findings)
    started = time.monotonic()
    try:
        session.load([_HERE / "fuzzing" / "seeds" / folder, _KNOWN / folder, *([kept] if kept else [])])
        session.search(minutes * 60 - (time.monotonic() - started))
    finally:
        worker.close()
    return session


def main() -> int:
    """Search, and sum up; 1 if anything was found."""
    options = _arguments()
    if options.replay or options.minimise:
        return _single(options)
    targets = tuple(MUTATIONS) if options.target == "all" else (options.target,)
    sessions = [_search(options, target, options.minutes / len(targets)) for target in targets]
    for session in sessions:
        print(session.line(0))
        for signature, (outcome, case) in session.found.items():
            print(f"  {outcome.kind}: {signature} ({len(case):,} bytes, in {options.findings})")
    return int(any(session.found for session in sessions))


if __name__ == "__main__":
    sys.exit(main())
