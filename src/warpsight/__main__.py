"""`python -m warpsight` is the command `warpsight`."""

from __future__ import annotations

import sys

from warpsight.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
