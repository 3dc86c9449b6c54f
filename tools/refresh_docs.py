"""Runs the commands in the documents again and inserts their real output.

A fenced block after `<!-- file: NAME -->` is written to NAME in an empty folder. In a ```console block each line that begins with
`$ ` is run there, in order, and the lines up to the next command are replaced by its output. Outputs show the folder as /tmp/study.
`--check` only lists the documents that would change (exit code 1); figures that differ in every run, such as times of this machine,
are not compared. The tutorial on programs needs nvcc, the one on Triton `pip install triton torch`.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = (
    "README.md", "docs/tutorial.md", "docs/tutorials/sgemm.md", "docs/tutorials/designs.md", "docs/tutorials/figure.md",
    "docs/tutorials/program.md", "docs/tutorials/triton.md", "docs/explanation/interval-family.md", "docs/explanation/explain.md",
    "docs/explanation/advise.md", "docs/explanation/warpsight-model.md", "docs/explanation/reuse-distance.md",
    "docs/explanation/simulator.md", "docs/explanation/machine-code.md",
    "docs/explanation/synccheck.md",
    "docs/reference/check.md", "docs/reference/compare.md", "docs/reference/sweep.md", "docs/explanation/sweeps.md",
    "docs/reference/measurements.md", "docs/reference/launch-file.md", "docs/reference/command-line.md",
    "docs/reference/tune.md", "docs/reference/ncu.md", "docs/reference/gate.md",
)  # fmt: skip

_FILE = re.compile(r"<!-- file: (?P<name>[\w.-]+) -->\n```\w*\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
_BLOCK = re.compile(
    r"(?P<file><!-- file: [\w.-]+ -->\n```\w*\n.*?^```$)|```console\n(?P<console>.*?)^```$", re.DOTALL | re.MULTILINE
)
_CHANGES_EVERY_TIME = re.compile(r"^  emulation .*$|^  trace .*$|^  [\d.,]+ s; results are kept in .*$", re.MULTILINE)
_SHOWN_FOLDER = "/tmp/study"


def refreshed(text: str, folder: Path) -> str:
    """The document `text` with every console block run again in `folder`."""

    def block(match: re.Match[str]) -> str:
        if match["file"]:
            file = _FILE.fullmatch(match["file"])
            assert file is not None
            (folder / file["name"]).write_text(file["text"], "utf-8")
            return match[0]
        commands = re.findall(r"^\$ (?:.*\\\n)*.*", match["console"], re.MULTILINE)
        return "```console\n" + "".join(f"{command}\n{_output(command[2:], folder)}" for command in commands) + "```"

    return _BLOCK.sub(block, text)


def _output(command: str, folder: Path) -> str:
    """The output of `command`, stderr included, without colour."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "NO_COLOR": "1"}
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL, text=True, check=False,
    )  # fmt: skip
    if "Traceback (most recent call last)" in done.stdout:
        raise SystemExit(f"{command}\n{done.stdout}")
    printed = done.stdout.replace(str(folder), _SHOWN_FOLDER)
    return printed if not printed or printed.endswith("\n") else printed + "\n"


def main() -> int:
    """Refresh or check the documents."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("documents", nargs="*", metavar="FILE", help="relative to the repository; default: all")
    parser.add_argument("--check", action="store_true", help="change nothing, list the documents that would change")
    options = parser.parse_args()
    stale = []
    for name in options.documents or DOCUMENTS:
        document = ROOT / name
        before = document.read_text("utf-8")
        with tempfile.TemporaryDirectory() as folder:
            after = refreshed(before, Path(folder))
        if _CHANGES_EVERY_TIME.sub("", before) != _CHANGES_EVERY_TIME.sub("", after):
            stale.append(name)
        if not options.check:
            document.write_text(after, "utf-8")
    verdict = "is out of date" if options.check else "refreshed"
    print("\n".join(f"{name}: {verdict}" for name in stale) or "the documents are up to date")
    return 1 if options.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
