"""A program called ncu that runs what it is given, and prints a table of launches."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

TWICE, TENTH = "twice(const float *, float *, int *, int)", "tenth(const float *, float *, int *, int)"
NCU = """#!{python}
import subprocess, sys
if sys.argv[1:] == ["--version"]:
    print("NVIDIA (R) Nsight Compute Command Line Profiler\\nVersion 2025.3.1.0 (build 1) (public-release)")
    sys.exit(0)
refused = {refused!r}
if refused and refused in " ".join(sys.argv):
    print("==ERROR== Failed to find metric regex:smsp__x")
    sys.exit(1)
if {permission}:
    print("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters")
    sys.exit(1)
at = sys.argv.index({python!r})
print("==PROF== Connected to process 1")
code = subprocess.run(sys.argv[at:]).returncode
print('"ID","Kernel Name","Block Size","Grid Size","gpc__cycles_elapsed.max","gpu__time_duration.sum",'
      '"smsp__cycles_elapsed.avg.per_second"')
print('"","","","","cycle","ns","Hz"')
for number, name in enumerate({names!r}):
    print(f'"{{number}}","{{name}}","(64, 1, 1)","(4, 1, 1)","{{18000 + number}}","12000","1500000000"')
sys.exit(code)
"""


def fake_ncu(monkeypatch: pytest.MonkeyPatch, place: Path, *names: str, refused: str = "", permission: bool = False) -> None:
    """Put it first on PATH. It tells launches of `names`, and refuses a command with `refused` in it, or to read counters."""
    place.mkdir(exist_ok=True)
    program = place / "ncu"
    program.write_text(NCU.format(python=sys.executable, names=names, refused=refused, permission=permission))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}{os.pathsep}{os.environ['PATH']}")
