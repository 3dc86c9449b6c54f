"""Runs the commands in the documents again, and inserts their real output or compares it.

In a ```console block each line that begins with `$ ` is run in an empty folder, in order, and the lines up to the next command
are its output. A fenced block after `<!-- file: NAME -->` is a file in that folder. `<!-- run: COMMAND -->` prepares the folder and
shows nothing; $CLONE is the repository there. A block after `<!-- not run: REASON -->` stays as it is. Outputs show the folder as
/tmp/study.

`--check` changes nothing: it prints the differences (exit code 1 if there are any). Figures of the host, which differ in every
run, are not compared: lines that say how long the emulator or a sweep took. Everything else must be the same, to the last digit.

`--quick` takes only the pages of QUICK, which `.ci/run` checks. Some pages need more than Warpsight (NEEDS); without it they are
skipped, and the output says so.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from difflib import unified_diff
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "docs/**/*.md", "suites/*.md")
QUICK = (
    "README.md", "docs/howto/ci.md", "docs/howto/compare-versions.md", "docs/howto/my-gpu.md", "docs/howto/python.md",
    "docs/howto/races.md", "docs/explanation/explain.md", "docs/explanation/mwp-cwp.md", "docs/explanation/sweeps.md",
    "docs/reference/check.md", "docs/reference/command-line.md",
)  # fmt: skip
"""Together at most 60 s of CPU where the engines are compiled already."""
NEEDS: dict[str, tuple[str, Callable[[], bool]]] = {
    **dict.fromkeys(
        ("docs/howto/program.md", "docs/tutorials/program.md", "docs/reference/run.md", "docs/explanation/machine-code.md"),
        ("nvcc", lambda: shutil.which("nvcc") is not None),
    ),
    "docs/howto/triton.md": ("pip install triton", lambda: find_spec("triton") is not None),
    "docs/tutorials/triton.md": ("pip install triton torch", lambda: bool(find_spec("triton") and find_spec("torch"))),
}

_FILE = re.compile(r"<!-- file: (?P<name>[\w.-]+) -->\n```\w*\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
_BLOCK = re.compile(
    r"(?P<file><!-- file: [\w.-]+ -->\n```\w*\n.*?^```$)|<!-- run: (?P<run>.*?) -->|"
    r"(?:<!-- not run: (?P<reason>.*?) -->\n+)?```console\n(?P<console>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
_OF_THE_HOST = re.compile(r"^  emulation .*$|^  trace .*$|^  [\d.,]+ s; results are kept in .*$", re.MULTILINE)
_SHOWN_FOLDER = "/tmp/study"


def documents() -> list[str]:
    """The pages with a command that is run, relative to the repository."""
    found = sorted({path for pattern in PAGES for path in ROOT.glob(pattern)})
    return [str(path.relative_to(ROOT)) for path in found if any(kind == "run" for kind, _ in blocks(path.read_text("utf-8")))]


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """("run", commands) or ("not run", reason) of each ```console block of `text` that has a command."""
    for match in _BLOCK.finditer(text):
        if "$ " in (match["console"] or ""):
            yield ("not run", match["reason"]) if match["reason"] else ("run", match["console"])


def refreshed(text: str, folder: Path) -> str:
    """The document `text` with every console block run again in `folder`."""

    def block(match: re.Match[str]) -> str:
        if match["file"]:
            file = _FILE.fullmatch(match["file"])
            assert file is not None
            (folder / file["name"]).write_text(file["text"], "utf-8")
        elif match["run"]:
            _output(match["run"], folder)
        elif not match["reason"]:
            commands = re.findall(r"^\$ (?:.*\\\n)*.*", match["console"], re.MULTILINE)
            return "```console\n" + "".join(f"{command}\n{_output(command[2:], folder)}" for command in commands) + "```"
        return match[0]

    return _BLOCK.sub(block, text)


def _output(command: str, folder: Path) -> str:
    """The output of `command`, stderr included, without colour, with no choice that the user of this machine made."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("WARPSIGHT_") or name == "WARPSIGHT_CACHE"}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**ours, "PATH": path, "NO_COLOR": "1", "CLONE": str(ROOT), "WARPSIGHT_CONFIG": f"{folder}.config", "COLUMNS": ""}
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL, text=True, check=False,
    )  # fmt: skip
    if "Traceback (most recent call last)" in done.stdout:
        raise SystemExit(f"{command}\n{done.stdout}")
    printed = done.stdout.replace(str(folder), _SHOWN_FOLDER)
    return printed if not printed or printed.endswith("\n") else printed + "\n"


def differences(before: str, after: str, name: str) -> str:
    """What changed, without the figures of the host; empty if nothing did."""
    was, now = (_OF_THE_HOST.sub("(time of this machine)", text).splitlines() for text in (before, after))
    return "\n".join(unified_diff(was, now, f"{name}, as it stands", f"{name}, as it runs", lineterm="", n=1))


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    """Refresh or check the documents."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("documents", nargs="*", metavar="FILE", help="relative to the repository; default: all with a command")
    parser.add_argument("--check", action="store_true", help="change nothing, print what would change")
    parser.add_argument("--quick", action="store_true", help=f"only the {len(QUICK)} quick pages, which .ci/run checks")
    options = parser.parse_args()
    chosen = options.documents or (QUICK if options.quick else documents())
    stale = 0
    for name in chosen:
        need, met = NEEDS.get(name, ("", lambda: True))
        if not met():
            print(f"{name}: skipped, it needs {need}")
            continue
        document, start = ROOT / name, _cpu_seconds()
        before = document.read_text("utf-8")
        with tempfile.TemporaryDirectory() as folder:
            after = refreshed(before, Path(folder))
        found = differences(before, after, name)
        stale += bool(found)
        verdict = ("out of date" if options.check else "refreshed") if found else "up to date"
        print(f"{name}: {verdict}, {_cpu_seconds() - start:.1f} s of CPU", *filter(None, [found]), sep="\n", flush=True)
        for reason in (what for kind, what in blocks(before) if kind == "not run"):
            print(f"{name}: a block is not run: {reason}")
        if found and not options.check:
            document.write_text(after, "utf-8")
    print(f"{len(chosen)} pages, {_cpu_seconds():.0f} s of CPU; {stale} {'out of date' if options.check else 'refreshed'}")
    if options.quick:
        print(f"not in this quick set: {', '.join(name for name in documents() if name not in QUICK)}")
    return 1 if options.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
