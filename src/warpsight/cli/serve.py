"""`warpsight serve`: a folder of results in the browser."""

from __future__ import annotations

import argparse
import sys
import webbrowser

from warpsight.analysis.report_data.files import ResultFolder
from warpsight.base.errors import UsageError
from warpsight.cli import options
from warpsight.reports.html.serving import Server

EXAMPLES = """\
examples:
  warpsight serve results --open
  warpsight serve . --port 0
"""
_PORT, _MOST_PORT = 8765, 65535


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("folder", metavar="DIR", nargs="?", default=".", help="a folder with `--json` results and studies "
                        "(default: the current folder)")
    parser.add_argument("--port", metavar="N", type=options.whole, default=_PORT, help=f"port (default {_PORT}; 0: any "
                        "free port)")
    parser.add_argument("--open", action="store_true", help="open it in a browser")


def run(arguments: argparse.Namespace) -> int:
    """Serve until interrupted."""
    if arguments.port > _MOST_PORT:
        raise UsageError(f"{arguments.port} is out of range", place="--port", remedy=f"give 0 (a free port) to {_MOST_PORT}")
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
