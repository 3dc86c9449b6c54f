"""What the explorer takes: `warpsight serve` is started, and asked over HTTP as its page asks.

    python benchmarks/explorer_figures.py              # the examples in CUDA C++, each with a text that is new
    python benchmarks/explorer_figures.py --runs 100   # memory before and after so many answers

CPU seconds are those of the server, the warm process, the process of the answer with its forks, and the compilers, since the
question. The table shows the least of each of three answers.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from warpsight.explorer.examples import examples

SHOWN = ("first", "result")
TIMES = 3
MIB = 1 << 20
SCALE = """\
__global__ void scale(float* x, int n, float factor) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= factor;
}
"""
SMALL = {"grid": "64", "block": "256", "args": {"x": "f32[16384]:zeros", "n": "16384"}}


class Server:
    """A running `warpsight serve`, as a page sees it and as the system does."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.pid = process.pid
        self._root, _, self._token = url.partition("#")

    def _call(self, path: str, body: Any = None) -> Any:
        request = urllib.request.Request(f"{self._root}api/{path}", headers={"Authorization": f"Bearer {self._token}"})
        return urllib.request.urlopen(request, None if body is None else json.dumps(body).encode())

    def events(self, question: dict[str, Any]) -> Iterator[tuple[str, bytes]]:
        """Kind and data of each event of an answer."""
        with self._call("runs", {"session": "figures", "question": question}) as answer:
            run = json.load(answer)["run"]
        with self._call(f"runs/{run}/events") as lines:
            kind = ""
            for line in lines:
                name, _, value = line.rstrip(b"\n").partition(b": ")
                if name == b"event":
                    kind = value.decode()
                elif name == b"data":
                    yield kind, value

    def processes(self) -> list[int]:
        """Its own number and those of all that it has started, the server first, then the warm process and its helper."""
        parents = {}
        for place in Path("/proc").glob("[0-9]*"):
            if fields := _fields(int(place.name)):
                parents[int(place.name)] = int(fields[1])
        found = [self.pid]
        for each in found:
            found += sorted(child for child, parent in parents.items() if parent == each)
        return found

    def processor_seconds(self) -> float:
        """Of all these, with what has ended."""
        ticks = sum(sum(map(int, fields[11:15])) for each in self.processes() if (fields := _fields(each)))
        return ticks / os.sysconf("SC_CLK_TCK")

    def memory(self) -> tuple[int, int, int]:
        """Resident bytes of the server and of the largest of the others, and how many processes there are."""
        sizes = [int(fields[21]) * os.sysconf("SC_PAGE_SIZE") for each in self.processes() if (fields := _fields(each))]
        return sizes[0], max(sizes[1:], default=0), len(sizes)


def _fields(pid: int) -> list[str]:
    """Of /proc/PID/stat, from the state on; none of a process that has gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


@contextmanager
def served() -> Iterator[Server]:
    """A server of a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "warpsight", "serve", folder, "--port", "0", "--seconds", "600"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            assert process.stdout is not None
            yield Server(process, process.stdout.readline().strip())
            process.terminate()


def answer(server: Server, question: dict[str, Any]) -> dict[str, tuple[float, float, int]]:
    """Seconds on the clock and of the processor until each event, and its bytes."""
    clock, processor, found = time.monotonic(), server.processor_seconds(), {}
    for kind, data in server.events(question):
        found[kind] = time.monotonic() - clock, server.processor_seconds() - processor, len(data)
    if "result" not in found:
        raise SystemExit(f"no answer: {list(found)}")
    return found


def examples_table(server: Server) -> None:
    """A row for each example: the least of several answers."""
    print("| example | first: s | CPU s | kB | whole answer: s | CPU s | kB |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for example in examples():
        if example.question.language != "cuda":
            continue
        own = example.question.to_json()
        new = [{**own, "source": f"{own['source']}__device__ int new_{time.time_ns()}_{k};\n"} for k in range(TIMES)]
        rows = [answer(server, question) for question in new]
        cells = [
            f"{min(row[kind][0] for row in rows):.2f} | {min(row[kind][1] for row in rows):.2f} | {rows[0][kind][2] / 1e3:.1f}"
            for kind in SHOWN
        ]
        print(f"| {example.name} | {' | '.join(cells)} |", flush=True)


def memory_table(server: Server, runs: int) -> None:
    """Memory after the first answer, the tenth, and each thirtieth after that."""
    print("| answers | server MiB | largest other process MiB | processes |")
    print("|---:|---:|---:|---:|")
    for number in range(1, runs + 1):
        answer(server, {"source": f"{SCALE}// {time.time_ns()}\n", **SMALL})
        if number == 1 or number % 30 == 10:
            own, largest, count = server.memory()
            print(f"| {number} | {own / MIB:.1f} | {largest / MIB:.1f} | {count} |", flush=True)


def main() -> int:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=0, metavar="N")
    runs = parser.parse_args().runs
    with served() as server:
        for _ in server.events({"source": SCALE, **SMALL}):  # the warm process is there
            pass
        if runs:
            memory_table(server, runs)
        else:
            examples_table(server)
    return 0


if __name__ == "__main__":
    sys.exit(main())
