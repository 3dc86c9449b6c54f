"""`warpsight serve`: the explorer of a folder in the browser: its results, and kernels that are written and predicted there."""

from __future__ import annotations

import argparse
import sys
import webbrowser
from typing import Any

import lazy_loader as lazy

from warpsight.base.errors import UsageError
from warpsight.cli import options

explorer: Any = lazy.load("warpsight.explorer.server", suppress_warning=True)  # its help needs none of it
confinement: Any = lazy.load("warpsight.explorer.confinement", suppress_warning=True)
workers: Any = lazy.load("warpsight.explorer.worker", suppress_warning=True)

EXAMPLES = """\
examples:
  warpsight serve results --open                     # list, show and compare the results of a folder
  mkdir saxpy && warpsight serve saxpy --open        # write kernels and see their predictions
  warpsight serve . --port 0
  warpsight serve results --host 0.0.0.0             # others may read it, on all addresses of this machine
"""
_PORT, _MOST_PORT = 8765, 65535
_SECONDS = 60
_WARNING = ("warning: whoever has the second URL can read all kernels, results and reports of this folder from other machines, "
            "and can run and change nothing. It is HTTP without encryption: use it in networks that you trust")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("folder", metavar="DIR", nargs="?", default=".", help="a folder with `--json` results and studies, in "
                        "which each answer is kept as a version (default: the current folder)")
    parser.add_argument("--port", metavar="N", type=options.whole, default=_PORT, help=f"port (default {_PORT}; 0: any "
                        "free port)")
    parser.add_argument("--host", metavar="ADDRESS", default="", help="also listen on this address of the machine "
                        "(0.0.0.0: all addresses); others can read the folder there, but run nothing")
    parser.add_argument("--seconds", metavar="N", type=options.whole, default=_SECONDS, help="how long an answer may take "
                        f"(default {_SECONDS})")
    parser.add_argument("--python", action="store_true", help="also run kernels in Python (Triton, Numba); they run with "
                        "all your rights")
    parser.add_argument("--open", action="store_true", help="open it in a browser")


def run(arguments: argparse.Namespace) -> int:
    """Serve until interrupted."""
    if arguments.port > _MOST_PORT:
        raise UsageError(f"{arguments.port} is out of range", place="--port", remedy=f"give 0 (a free port) to {_MOST_PORT}")
    if arguments.seconds < 1:
        raise UsageError(f"{arguments.seconds} is out of range", place="--seconds", remedy="give 1 or more")
    limits = workers.Limits(float(arguments.seconds), python=arguments.python)
    server = explorer.Explorer(arguments.folder, arguments.port, limits, arguments.host)
    print(server.url, flush=True)
    told = f"serving {arguments.folder} on localhost only, for anyone with this URL; press Ctrl-C to stop"
    print(told, file=sys.stderr, flush=True)
    if lacking := confinement.missing():
        print(f"note: {lacking}", file=sys.stderr, flush=True)
    if server.readers_url:
        print(server.readers_url, flush=True)
        print(_WARNING, file=sys.stderr, flush=True)
    if arguments.open:
        webbrowser.open(server.url)
    try:
        server.serve()
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
    return 0
