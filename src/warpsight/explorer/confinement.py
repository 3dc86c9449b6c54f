"""What the process of an answer may reach: the kernel of Linux (Landlock) keeps its files and its network connections.

A kernel runs in the emulator, which checks every address. Should a text get past the emulator or a compiler, the process still
cannot read what is not needed to answer, write outside the cache, or connect to anything.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import sysconfig
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from warpsight.base import diskcache
from warpsight.kernels.toolkit import toolkit_folders

# Of linux/landlock.h. The numbers of the system calls are the same on all architectures.
_CREATE, _ADD, _RESTRICT = 444, 445, 446
_VERSION_FLAG, _BENEATH_PATH, _NO_NEW_PRIVILEGES = 1, 1, 38
_EXECUTE, _READ_FILE, _READ_FOLDER = 1 << 0, 1 << 2, 1 << 3
_WRITE_FILE, _TRUNCATE, _DEVICES = 1 << 1, 1 << 14, 1 << 15
_READ = _EXECUTE | _READ_FILE | _READ_FOLDER
_OF_A_FILE = _EXECUTE | _READ_FILE | _WRITE_FILE | _TRUNCATE | _DEVICES
_RIGHTS = (0, (1 << 13) - 1, (1 << 14) - 1, (1 << 15) - 1, (1 << 15) - 1, (1 << 16) - 1)  # on files, by version
_NETWORK, _CONNECTIONS = 4, 3  # from this version on: to bind and to connect TCP
_SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/localtime", "/proc", "/sys/devices/system", "/dev/urandom")


def missing() -> str:
    """Why processes cannot be confined here, or not wholly; "" where they can."""
    version = _version()
    if version < 1:
        return "Landlock, by which Linux 5.13 and later confine a process, is not available: answers may read your files"
    return "" if version >= _NETWORK else "this kernel of Linux is older than 6.7: answers may connect to other machines"


def confine(writable: Path) -> None:
    """From now on this thread, and what it starts, reads the installed programs and libraries and what is below `writable`, writes
    there alone, and has no TCP connections: as far as nothing is `missing`. Raises OSError where Linux refuses.
    """
    version = _version()
    if version < 1:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    every = _RIGHTS[min(version, len(_RIGHTS) - 1)]
    wanted = struct.pack("<QQ", every, _CONNECTIONS) if version >= _NETWORK else struct.pack("<Q", every)
    rules = _checked(libc.syscall(_CREATE, wanted, len(wanted), 0))
    try:
        for path in (*map(Path, _SYSTEM), *_installed()):
            _allow(libc, rules, path, every & _READ)
        # compiled simulators may be elsewhere, by a link: without them each answer would compile them again
        for path in (writable, writable / diskcache.SIMULATORS, Path("/dev/null")):
            _allow(libc, rules, path, every)
        _checked(libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
        _checked(libc.syscall(_RESTRICT, rules, 0))
    finally:
        os.close(rules)


def _version() -> int:
    if not sys.platform.startswith("linux"):
        return 0
    return int(ctypes.CDLL(None).syscall(_CREATE, None, 0, _VERSION_FLAG))


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), "landlock")
    return result


def _installed() -> Sequence[Path]:
    """Where Python, its packages and this one lie, and CUDA toolkits. Packages that compile may be elsewhere, and import late."""
    named = [sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib", "scripts")]
    packages = [each for each in sys.path if each.endswith(("site-packages", "dist-packages"))]
    found = filter(None, map(find_spec, ("warpsight", "llvmlite", "numba", "numpy")))
    own = [Path(each.origin).resolve().parent for each in found if each.origin]
    return [*own, *toolkit_folders(), *map(Path, (*named, *packages, sys.prefix, sys.base_prefix, sys.executable))]


def _allow(libc: ctypes.CDLL, rules: int, path: Path, rights: int) -> None:
    with suppress(FileNotFoundError):  # what is not there cannot be reached
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            rule = struct.pack("<Qi", rights if path.is_dir() else rights & _OF_A_FILE, descriptor)
            _checked(libc.syscall(_ADD, rules, _BENEATH_PATH, rule, 0))
        finally:
            os.close(descriptor)
