"""`warpsight serve`: a folder of results in the browser, or the explorer, in which kernels are written and predicted."""

from __future__ import annotations

import argparse
import sys
import webbrowser
from typing import Any

import lazy_loader as lazy

from warpsight.analysis.report_data.files import ResultFolder
from warpsight.base.errors import UsageError
from warpsight.cli import options
from warpsight.reports.html.serving import Server

explorer: Any = lazy.load("warpsight.explorer.server", suppress_warning=True)  # a list of results needs none of it
workers: Any = lazy.load("warpsight.explorer.worker", suppress_warning=True)

EXAMPLES = """\
examples:
  warpsight serve results --open
  warpsight serve . --port 0
  warpsight serve saxpy-project --explore --open     # write kernels, see what they would do
"""
_PORT, _MOST_PORT = 8765, 65535
_SECONDS = 60


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("folder", metavar="DIR", nargs="?", default=".", help="a folder with `--json` results and studies "
                        "(default: the current folder)")
    parser.add_argument("--port", metavar="N", type=options.whole, default=_PORT, help=f"port (default {_PORT}; 0: any "
                        "free port)")
    parser.add_argument("--explore", action="store_true", help="write kernels in the browser and predict them; every answer is "
                        "kept as a version in DIR/versions")
    parser.add_argument("--seconds", metavar="N", type=options.whole, help=f"with --explore, how long an answer may take "
                        f"(default {_SECONDS})")
    parser.add_argument("--open", action="store_true", help="open it in a browser")


def run(arguments: argparse.Namespace) -> int:
    """Serve until interrupted."""
    if arguments.port > _MOST_PORT:
        raise UsageError(f"{arguments.port} is out of range", place="--port", remedy=f"give 0 (a free port) to {_MOST_PORT}")
    if arguments.explore:
        return _explore(arguments)
    if arguments.seconds is not None:
        raise UsageError("needs --explore", place="--seconds", remedy="add --explore, or leave it out")
    with Server(ResultFolder(arguments.folder), arguments.port) as server:
        print(server.url, flush=True)
        print(f"serving {arguments.folder} read-only, on localhost only; press Ctrl-C to stop", file=sys.stderr, flush=True)
        if arguments.open:
            webbrowser.open(server.url)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print("stopped", file=sys.stderr)
    return 0


def _explore(arguments: argparse.Namespace) -> int:
    """Serve the explorer until interrupted."""
    seconds = _SECONDS if arguments.seconds is None else arguments.seconds
    if seconds < 1:
        raise UsageError(f"{seconds} is out of range", place="--seconds", remedy="give 1 or more")
    server = explorer.Explorer(arguments.folder, arguments.port, workers.Limits(float(seconds)))
    print(server.url, flush=True)
    told = f"exploring in {arguments.folder}, on localhost only, for who has this URL; press Ctrl-C to stop"
    print(told, file=sys.stderr, flush=True)
    if arguments.open:
        webbrowser.open(server.url)
    try:
        server.serve()
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
    return 0
