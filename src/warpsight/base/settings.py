"""What a user has chosen once for all commands: each setting is one line in a file of its own, named like the setting.

The folder is ``$WARPSIGHT_CONFIG``, else ``$XDG_CONFIG_HOME/warpsight``, else ``~/.config/warpsight``.
"""

from __future__ import annotations

import os
from pathlib import Path

from warpsight.base.errors import UsageError
from warpsight.base.inputs import read_input
from warpsight.base.outputs import write_whole

_LONGEST = 1 << 16


def folder() -> Path:
    """The folder of the settings; it may not exist yet."""
    if own := os.environ.get("WARPSIGHT_CONFIG"):
        return Path(own)
    if shared := os.environ.get("XDG_CONFIG_HOME"):
        return Path(shared) / "warpsight"
    return Path(os.path.expanduser("~")) / ".config" / "warpsight"


def kept(name: str, remedy: str) -> str | None:
    """The value of the setting, or None without one. Raises UsageError, with the `remedy`, for a file that cannot be read."""
    path = folder() / name
    try:
        return read_input(path, _LONGEST).decode("utf-8").strip()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageError(f"cannot be read: {reason}", place=str(path), remedy=remedy) from None


def keep(name: str, value: str) -> Path:
    """Make `value` the setting, and give the file that keeps it. Raises UsageError where that cannot be written."""
    path = folder() / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, f"{value}\n")
    except OSError as error:
        remedy = "set WARPSIGHT_CONFIG to a folder that can be written"
        raise UsageError(f"cannot be written: {error.strerror}", place=str(path), remedy=remedy) from None
    return path


def clear(name: str) -> Path:
    """Forget the setting, if there is one, and give the file that kept it. Raises UsageError where that cannot be removed."""
    path = folder() / name
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(f"cannot be removed: {error.strerror}", place=str(path), remedy="remove the file yourself") from None
    return path
