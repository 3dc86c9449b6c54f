"""The kernels of a project predicted, and compared with those of a base: an earlier result, or another commit of the repository."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from warpsight.base.errors import FormatError, UsageError, WarpsightError
from warpsight.base.inputs import read_input
from warpsight.base.progress import Watch, step
from warpsight.base.temporary import TemporaryFolder
from warpsight.gpu.loader import load_gpu
from warpsight.gpu.spec import GpuSpec
from warpsight.pipeline.predict import predict_kernel
from warpsight.pipeline.project_file import Project, ProjectKernel, read_project
from warpsight.pipeline.provenance import TOOL
from warpsight.result.prediction import relative_error

Document = dict[str, Any]
Seconds = dict[tuple[str, str], float]  # by kernel and GPU

SCHEMA = 1
SAME, FASTER, SLOWER, NEW, REFUSED = "same", "faster", "slower", "new", "refused"
FAILS = (SLOWER, REFUSED)
_LEAST_CHANGE = 0.001  # of the time, which a change of code that does the same may move the prediction


def predict_project(project: Project, *, watch: Watch | None = None) -> Document:
    """The result document of a project: a row for each kernel and GPU, with the reason where there is no prediction.

    Raises UsageError and SpecError for a GPU that is not known.
    """
    gpus = {name: load_gpu(name) for _, name in project.pairs()}
    rows = [_row(kernel, gpus[name], project.model, watch) for kernel, name in project.pairs()]
    return {"schema": SCHEMA, "tool": TOOL, "project": project.path, "model": project.model, "base": None, "rows": rows}


def _row(kernel: ProjectKernel, gpu: GpuSpec, model: str, watch: Watch | None) -> Document:
    row: Document = {"kernel": kernel.name, "gpu": gpu.name, "limit": kernel.limit, "refused": ""}
    try:
        (prediction,) = predict_kernel(kernel.request(), gpu, [model], watch=watch)
    except WarpsightError as error:
        return row | {"seconds": None, "cycles": None, "bound_by": "", "refused": str(error).splitlines()[0]}
    return row | {"seconds": prediction.seconds, "cycles": prediction.cycles, "bound_by": prediction.bound_by}


def compared(document: Document, base: Mapping[tuple[str, str], float] | None, name: str = "") -> Document:
    """The document with the `base_seconds` of each row, the `change` of its time as a share, and its `verdict`; `passed` of all.

    A kernel that is slower than in the base by more than its limit, or cannot be predicted, fails. `base` is None without a base,
    and where the base called `name` has no project file: `base_is_empty`.
    """
    rows = [_judged(row, (base or {}).get((row["kernel"], row["gpu"]))) for row in document["rows"]]
    gone = sorted({kernel for kernel, _ in base or {}} - {row["kernel"] for row in rows})
    passed = not any(row["verdict"] in FAILS for row in rows)
    told = {"base": name or None, "base_is_empty": bool(name) and base is None, "gone": gone, "passed": passed}
    return {**document, **told, "rows": rows}


def _judged(row: Document, before: float | None) -> Document:
    if row["seconds"] is None:
        return {**row, "base_seconds": before, "change": None, "verdict": REFUSED}
    if before is None:
        return {**row, "base_seconds": None, "change": None, "verdict": NEW}
    change = relative_error(row["seconds"], before)
    verdict = SLOWER if change > row["limit"] else FASTER if change < -_LEAST_CHANGE else SAME
    return {**row, "base_seconds": before, "change": change, "verdict": verdict}


# -- The base.

def base_seconds(base: str, project: Project, *, watch: Watch | None = None) -> Seconds | None:
    """The times of the base: a result document (`.json`), or a commit of the repository that the project file is in.

    None where the commit has no such project file. Raises UsageError and FormatError for what is neither.
    """
    if base.endswith(".json"):
        return _of_rows(_read(base))
    path = Path(project.path).resolve()
    root = Path(_git(path.parent, "rev-parse", "--show-toplevel"))
    commit = _git(path.parent, "rev-parse", "--verify", "--quiet", f"{base}^{{commit}}")
    with TemporaryFolder() as folder, step(f"predict {base}, commit {commit[:12]}"):
        tree = Path(folder) / "base"
        _git(root, "worktree", "add", "--detach", "--quiet", str(tree), commit)
        try:
            there = tree / path.relative_to(root)
            return _of_rows(predict_project(read_project(there), watch=watch)) if there.is_file() else None
        finally:
            _git(root, "worktree", "remove", "--force", str(tree))


def _of_rows(document: Document) -> Seconds:
    return {(row["kernel"], row["gpu"]): float(row["seconds"]) for row in document["rows"] if row["seconds"]}


def _read(path: str) -> Document:
    remedy = "give the results.json that `warpsight gate -o DIR` wrote"
    try:
        document = json.loads(read_input(path))
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", place=path, remedy=remedy) from None
    except ValueError:
        raise FormatError("is not JSON", place=path, remedy=remedy) from None
    rows = document.get("rows") if isinstance(document, dict) and document.get("schema") == SCHEMA else None
    names = ("kernel", "gpu", "seconds")
    if not isinstance(rows, list) or not all(isinstance(row, dict) and all(name in row for name in names) for row in rows):
        raise FormatError("is not a result of `warpsight gate`", place=path, remedy=remedy)
    return dict(document)


def _git(folder: Path, *words: str) -> str:
    """The output of a git command. Raises UsageError."""
    # a hook is told the repository and the index of its commit, which are not those of the base
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=False, env=environment)
    except FileNotFoundError:
        raise UsageError("git is not installed", place="base", remedy="install git, or give a results.json") from None
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["the repository has no such commit"])[-1]  # `rev-parse --quiet` says nothing
        remedy = "name a commit, branch or tag that is fetched (fetch-depth: 0 in CI), or a results.json"
        raise UsageError(f"the base cannot be read: {why}", place="base", remedy=remedy)
    return done.stdout.strip()
