"""Runs the commands in the documents again and puts their real output in place.

Usage: python tools/refresh_docs.py [--check] [FILE ...]

A fenced block after `<!-- file: NAME -->` is written to NAME in an empty folder. In a ```console block each line that begins with
`$ ` is run there, in order, and what follows it up to the next such line is replaced by what it printed. The folder is called
/tmp/study in what is put in place. `--check` only tells which documents would change (exit code 1); figures that are different on
every run, such as times of this machine, are not compared.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = (
    "README.md", "docs/tutorial.md", "docs/explanation/interval-family.md", "docs/explanation/explain.md",
    "docs/explanation/advise.md", "docs/explanation/warpsight-model.md", "docs/explanation/reuse-distance.md",
    "docs/reference/compare.md", "docs/reference/sweep.md", "docs/explanation/sweeps.md", "docs/reference/measurements.md",
)  # fmt: skip

_FILE = re.compile(r"<!-- file: (?P<name>[\w.-]+) -->\n```\w*\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
_BLOCK = re.compile(
    r"(?P<file><!-- file: [\w.-]+ -->\n```\w*\n.*?^```$)|```console\n(?P<console>.*?)^```$", re.DOTALL | re.MULTILINE
)
_CHANGES_EVERY_TIME = re.compile(r"^  emulation .*$|^  trace .*$|^  [\d.,]+ s; kept in .*$", re.MULTILINE)
# What outputs call the folder in which they were made.
_SHOWN_FOLDER = "/tmp/study"


def refreshed(text: str, folder: Path) -> str:
    """The document `text` with every console block run again in `folder`."""

    def block(found: re.Match[str]) -> str:
        if found["file"]:
            part = _FILE.fullmatch(found["file"])
            assert part is not None
            (folder / part["name"]).write_text(part["text"], "utf-8")
            return found[0]
        commands = re.findall(r"^\$ (?:.*\\\n)*.*", found["console"], re.MULTILINE)
        return "```console\n" + "".join(f"{command}\n{_output(command[2:], folder)}" for command in commands) + "```"

    return _BLOCK.sub(block, text)


def _output(command: str, folder: Path) -> str:
    """What `command` prints, stderr included, as a terminal of 120 columns without colour would show it."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "NO_COLOR": "1"}
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    if "Traceback (most recent call last)" in done.stdout:
        raise SystemExit(f"{command}\n{done.stdout}")
    printed = done.stdout.replace(str(folder), _SHOWN_FOLDER)
    return printed if not printed or printed.endswith("\n") else printed + "\n"


def main(words: list[str]) -> int:
    """Refresh or check the documents named, all without a name."""
    check, names = "--check" in words, [word for word in words if word != "--check"]
    stale = []
    for name in names or DOCUMENTS:
        document = ROOT / name
        before = document.read_text("utf-8")
        with tempfile.TemporaryDirectory() as folder:
            after = refreshed(before, Path(folder))
        if _CHANGES_EVERY_TIME.sub("", before) != _CHANGES_EVERY_TIME.sub("", after):
            stale.append(name)
        if not check:
            document.write_text(after, "utf-8")
    print("\n".join(f"{name}: {'is out of date' if check else 'refreshed'}" for name in stale) or "the documents are up to date")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
