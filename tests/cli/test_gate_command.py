"""Does the gate of a project find what has become slower since a commit, and do the action and the fixture of pytest use it so?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

import pytest
from command_line import assert_one_error, run

from warpsight.analysis.regression import compared
from warpsight.base.errors import UsageError
from warpsight.base.yaml_nodes import Composed, compose
from warpsight.cli.main import parse
from warpsight.pipeline.project_file import read_project
from warpsight.reports.gate import gate_markdown, gate_text

pytestmark = pytest.mark.unit

Capture = pytest.CaptureFixture[str]
ROOT = Path(__file__).resolve().parents[2]
KERNEL = """\
__global__ void copy(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i];
}
"""
LAUNCH = "source: copy.cu\ngrid: 16\nblock: 128\nargs: ['f32[2048]:uniform', 'f32[2048]:zeros', '2048']\n"
PROJECT = "gpus: [mdm-pascal]\nlimit: 5 %\nkernels:\n  copy: copy.yaml\n"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a project of one kernel, committed."""
    folder = tmp_path / "repository"
    folder.mkdir()
    for name, text in (("copy.cu", KERNEL), ("copy.yaml", LAUNCH), ("warpsight.yaml", PROJECT)):
        (folder / name).write_text(text)
    for words in (["init", "-q"], ["add", "-A"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "first"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return folder


def test_a_kernel_that_is_slower_than_in_the_last_commit_fails(
    repository: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository)
    monkeypatch.setenv("GIT_INDEX_FILE", str(repository / "none"))  # as in a hook
    kernel = repository / "copy.cu"
    kernel.write_text(KERNEL.replace("x[i];", "x[i * 33 % n];"))
    outcome = run(capsys, "gate", "--base", "HEAD", "--check", "-o", "gate", "--json")
    assert outcome.code == 1, outcome.err
    (row,) = (document := json.loads(outcome.out))["rows"]
    assert (row["kernel"], row["gpu"], row["verdict"], document["passed"]) == ("copy", "mdm-pascal", "slower", False)
    assert row["change"] == pytest.approx(row["seconds"] / row["base_seconds"] - 1)
    assert row["change"] > row["limit"] == 0.05
    assert json.loads(Path("gate/results.json").read_text()) == document
    assert "| copy | mdm-pascal |" in Path("gate/summary.md").read_text()
    assert json.loads(Path("gate/check.sarif").read_text())["version"] == "2.1.0"
    monkeypatch.delenv("GIT_INDEX_FILE")
    listed = subprocess.run(["git", "worktree", "list"], cwd=repository, capture_output=True, text=True, check=True).stdout
    assert len(listed.splitlines()) == 1  # that of the base is gone
    # against the slow version the fast one passes, and says so
    kernel.write_text(KERNEL)
    outcome = run(capsys, "gate", "--base", "gate/results.json")
    assert outcome.code == 0
    assert "passed" in outcome.out
    assert f"{100 * (row['base_seconds'] / row['seconds'] - 1):+.1f} %" in outcome.out
    # a GPU of a file has another name than the file
    Path("mine.gpu.yaml").write_text("name: mine\nlike: mdm-pascal\n")
    Path("own.yaml").write_text(PROJECT.replace("mdm-pascal", "mine.gpu.yaml"))
    outcome = run(capsys, "gate", "own.yaml", "--reports", "-o", "own")
    assert outcome.code == 0, outcome.err
    assert "warpsight explain copy.yaml --gpu mine.gpu.yaml" in outcome.out
    assert "copy on mine" in Path("own/copy-mine.html").read_text()
    # what is wrong in itself is what to look at next
    kernel.write_text(KERNEL.replace("i < n", "i <= n").replace("x[i]", "x[i + 1]"))
    outcome = run(capsys, "gate", "--check")
    assert outcome.code == 1
    assert "failed: checks have found errors\n\nnext: warpsight check copy.yaml " in outcome.out
    assert_one_error(run(capsys, "gate", "--base", "no-such-branch"), 2, "--base: the base cannot be read", "fetched")
    assert_one_error(run(capsys, "gate", "--reports"), 2, "--reports", "-o DIR")


@pytest.mark.parametrize(("text", "line", "told"), [
    ("kernels: {a: copy.yaml}\n", "", "has no gpus"),
    ("gpus: [a100]\nkernels: {}\n", ":2", "kernels is empty"),
    ("gpus: [a100]\nkernel: {a: copy.yaml}\n", ":2", 'did you mean "kernels"'),
    ("gpus: [a100]\nkernels:\n  a: cpy.yaml\n", ":3", 'did you mean "copy.yaml"'),
    ("gpus: [a100]\nkernels:\n  a b: copy.yaml\n", ":3", "is not a name"),
    ("gpus: [a100]\nlimit: much\nkernels: {a: copy.yaml}\n", ":2", "not a share"),
    ("gpus: [a100]\nkernels: {a: {limit: 3 %}}\n", ":2", "a has no launch"),
    ("gpus: []\nkernels: {a: copy.yaml}\n", ":1", "gpus is empty"),
])  # fmt: skip
def test_a_project_that_cannot_be_meant_is_refused_at_its_line(tmp_path: Path, text: str, line: str, told: str) -> None:
    (tmp_path / "copy.yaml").write_text(LAUNCH)
    path = tmp_path / "warpsight.yaml"
    path.write_text(text)
    with pytest.raises(UsageError) as refused:
        read_project(path)
    assert refused.value.place == f"{path}{line}"
    assert told in str(refused.value)


def test_each_row_is_judged_by_its_own_limit() -> None:
    def row(kernel: str, seconds: float | None, limit: float) -> dict[str, object]:
        return {"kernel": kernel, "gpu": "a100", "limit": limit, "seconds": seconds, "cycles": None, "bound_by": "DRAM",
                "refused": "" if seconds else "copy.cu:1: no | kernel"}  # fmt: skip

    rows = [row("strict", 1.06, 0.05), row("loose", 1.06, 0.1), row("fast", 0.9, 0.05), row("new", 1.0, 0.05),
            row("bad", None, 0.05)]  # fmt: skip
    base = {(name, "a100"): 1.0 for name in ("strict", "loose", "fast", "bad", "old")}
    document = compared({"project": "warpsight.yaml", "model": "warpsight", "rows": rows}, base, "main")
    assert [each["verdict"] for each in document["rows"]] == ["slower", "same", "faster", "new", "refused"]
    assert (document["gone"], document["passed"]) == (["old"], False)
    markdown = gate_markdown(document)
    assert "| strict | a100 | 1.000 s | 1.060 s | **+6.0 %** ❌ | 5 % | DRAM |" in markdown
    assert "no \\| kernel" in markdown
    assert "no longer in warpsight.yaml: old" in markdown
    assert gate_text(document).splitlines()[-1] == "failed: 1 prediction slower than the limit allows, 1 prediction refused"
    alone = {"project": "a/w.yaml", "model": "warpsight", "rows": rows[:4]}
    assert compared(alone, None)["passed"]
    assert "without a base to compare with\n" in gate_text(compared(alone, None))
    first = compared(alone, None, "ab" * 20)  # the first commit with a project file
    assert (first["passed"], first["base"]) == (True, "ab" * 20)
    assert "without a base to compare with: abababababab has no w.yaml\n" in gate_text(first)


# -- What others run: the action's scripts with programs in place of `warpsight` and `gh`, the hook, and the fixture.

def _program(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/usr/bin/env bash\n{text}")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize(("code", "passed"), [(0, "true"), (1, "false"), (2, None)])
def test_the_action_passes_on_what_the_gate_says(repository: Path, tmp_path: Path, code: int, passed: str | None) -> None:
    answer = f'echo "$*" > {tmp_path}/words; mkdir -p out; echo table > out/summary.md; touch out/a.sarif; exit {code}\n'
    _program(tmp_path / "bin", "warpsight", answer)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=repository, capture_output=True, text=True, check=True).stdout.strip()
    given = {"PROJECT": "warpsight.yaml", "BASE": head, "CHECK": "true", "REPORTS": "false", "FOLDER": "out",
             "GITHUB_OUTPUT": str(tmp_path / "outputs"), "GITHUB_STEP_SUMMARY": str(tmp_path / "summary")}  # fmt: skip
    environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}", **given}
    done = subprocess.run(["bash", ROOT / "action" / "gate.sh"], cwd=repository, env=environment, check=False)
    assert (tmp_path / "words").read_text().split() == ["gate", "warpsight.yaml", "-o", "out", "--check", "--base", head]
    assert done.returncode == (0 if passed else code)
    if passed:
        assert (tmp_path / "outputs").read_text().split() == [f"passed={passed}", "folder=out", "sarif=true"]
        assert (tmp_path / "summary").read_text() == "table\n"


@pytest.mark.parametrize(("earlier", "wanted"), [
    ("7\tother\n9\t<!-- warpsight -->\n", "--method PATCH repos/o/r/issues/comments/9"),
    ("7\tother\n", "--method POST repos/o/r/issues/3/comments"),
])  # fmt: skip
def test_the_action_keeps_one_comment(tmp_path: Path, earlier: str, wanted: str) -> None:
    (tmp_path / "list").write_text(earlier)
    _program(tmp_path / "bin", "gh", f'[[ "$*" == *paginate* ]] && cat {tmp_path}/list || echo "$*" > {tmp_path}/words\n')
    (tmp_path / "summary.md").write_text("<!-- warpsight -->\n### Predicted\n")
    given = {"FOLDER": str(tmp_path), "NUMBER": "3", "GITHUB_REPOSITORY": "o/r"}
    environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}", **given}
    subprocess.run(["bash", ROOT / "action" / "comment.sh"], env=environment, check=True)
    assert wanted in (tmp_path / "words").read_text()


def test_the_action_only_warns_where_its_token_may_not_comment(tmp_path: Path) -> None:
    refused = '[[ "$*" == *paginate* ]] && exit 0; echo "HTTP 403: not accessible" >&2; echo "by it" >&2; exit 1\n'
    _program(tmp_path / "bin", "gh", refused)
    (tmp_path / "summary.md").write_text("<!-- warpsight -->\n")
    given = {"FOLDER": str(tmp_path), "NUMBER": "3", "GITHUB_REPOSITORY": "o/r"}
    environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}", **given}
    done = subprocess.run(["bash", ROOT / "action" / "comment.sh"], env=environment, check=True, capture_output=True, text=True)
    assert done.stdout.startswith("::warning title=Warpsight::the table is in the job summary")
    assert done.stdout.endswith(": HTTP 403: not accessible by it\n")


def test_the_action_says_which_base_cannot_be_fetched(repository: Path, tmp_path: Path) -> None:
    given = {"PROJECT": "warpsight.yaml", "BASE": "ab" * 20, "FOLDER": "out", "GITHUB_OUTPUT": str(tmp_path / "outputs")}
    done = subprocess.run(["bash", ROOT / "action" / "gate.sh"], cwd=repository, env={**os.environ, **given}, check=False,
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 2
    assert done.stdout.startswith(f"::error title=Warpsight::the base {'ab' * 20} cannot be fetched")
    assert len(done.stdout.splitlines()) == 1 and not (tmp_path / "outputs").exists()


def test_the_action_uses_each_of_its_inputs_and_files_that_are_there() -> None:
    text = (ROOT / "action" / "action.yml").read_text()
    root = compose(ROOT / "action" / "action.yml", "action.yml", Composed("action", "one", "write one", UsageError))
    inputs = next(value for key, value in root.value if key.value == "inputs")
    for name in (key.value for key, _ in inputs.value):
        assert f"inputs.{name}" in text.partition("runs:")[2], name
    for script in ("gate.sh", "comment.sh"):
        assert f"$GITHUB_ACTION_PATH/{script}" in text
        assert (ROOT / "action" / script).is_file()


def test_the_hook_of_pre_commit_has_options_that_exist() -> None:
    hooks = (ROOT / ".pre-commit-hooks.yaml").read_text()
    assert "entry: warpsight gate\n" in hooks
    assert "args: [--base, HEAD, --check]" in hooks
    _, arguments = parse(["gate", "--base", "HEAD", "--check"])
    assert (arguments.base, arguments.check, arguments.path) == ("HEAD", True, "warpsight.yaml")


pytest_plugins = ["pytester"]


class _Modules:
    """Those that a run of pytest inside this one imports. It forgets them, but they hold each other: a second import of some
    of them would make classes of the same names, for which nothing is compiled.
    """

    def __init__(self) -> None:
        self.imported: dict[str, ModuleType] = {}

    def pytest_sessionfinish(self) -> None:
        self.imported = {name: module for name, module in sys.modules.items() if not name.startswith("test_")}


def test_the_fixture_predicts_a_launch_file_beside_the_test(pytester: pytest.Pytester) -> None:
    pytester.makefile(".cu", copy=KERNEL)
    pytester.makefile(".yaml", copy=LAUNCH)
    pytester.makepyfile("""
        def test_copy(warpsight_predict):
            predicted = warpsight_predict("copy.yaml", gpu="mdm-pascal")
            assert predicted.kernel == "copy"
            assert 0 < predicted.seconds < 1e-3
        def test_too_slow(warpsight_predict):
            assert warpsight_predict("copy.yaml", gpu="mdm-pascal").cycles < 1
    """)
    # pytest finds it itself where Warpsight is installed, and not only on the path
    named = () if entry_points(group="pytest11", name="warpsight") else ("-p", "warpsight.pytest_plugin")
    modules = _Modules()
    outcome = pytester.runpytest_inprocess(*named, "-p", "no:cacheprovider", plugins=[modules])
    sys.modules.update(modules.imported)
    outcome.assert_outcomes(passed=1, failed=1)
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    assert declared == {"warpsight": "warpsight.pytest_plugin"}
