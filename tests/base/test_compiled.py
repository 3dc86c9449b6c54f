"""Is native code kept in the cache folder, verified when it is loaded, and made all the same where nothing can be written?"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import namedtuple
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from warpsight.base import compiled, diskcache
from warpsight.emulator.textures.texels import load

pytestmark = pytest.mark.unit


def _twice(value: int) -> int:
    return 2 * value


def _difference(pair: Any) -> int:
    return int(pair.great - pair.small)


@compiled.compiled
def _part(value: int, other: int, twice: bool) -> int:
    return value + (2 * other if twice else other)


@compiled.compiled
def _uses_of_part(value: int) -> int:
    return _part(value, 0, False) + _part(value, 3, True) + _part(value, value, value > 4)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WARPSIGHT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def _files(cache: Path) -> list[Path]:
    return [path for path in cache.rglob("*") if path.is_file()]


def _hits(made: Any) -> int:
    assert made(21) == 42
    return sum(made.dispatcher.stats.cache_hits.values())


def test_code_is_kept_and_loaded_until_its_file_or_what_it_calls_changes(cache: Path, tmp_path: Path) -> None:
    source = tmp_path / "mine.py"
    text = "def twice(value):\n    return 2 * value\n"

    def loaded() -> int:
        names: dict[str, Any] = {"__name__": __name__}
        exec(compile(text, str(source), "exec"), names)
        return _hits(compiled.compiled_and_kept(names["twice"]))

    source.write_text(text)
    assert [loaded(), loaded()] == [0, 1]
    (kept,) = _files(cache)
    before = kept.read_bytes()
    os.utime(source, (1e9, 1e9))
    assert [loaded(), loaded()] == [0, 1]
    assert _files(cache) == [kept], "it takes the place of what it replaces"
    assert kept.read_bytes() != before
    source.unlink()
    assert [loaded(), loaded()] == [0, 0], "changes would not be seen"


def test_sources_of_callees_are_part_of_what_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "source_hash", lambda _: "one")
    assert _hits(compiled.kept_until_changed()(_twice)) == 0
    assert _hits(compiled.kept_until_changed()(_twice)) == 1
    monkeypatch.setattr(compiled, "source_hash", lambda _: "another")
    assert _hits(compiled.kept_until_changed()(_twice)) == 0


def test_signature_given_is_the_only_one(cache: Path) -> None:
    for hits in (0, 1):
        made = compiled.jit("int64(int64)", cache=True)(_twice)
        assert _hits(made) == hits
        assert len(_files(cache)) == 1
        with pytest.raises(TypeError, match="No matching definition"):
            made("text")


def test_callee_is_compiled_once_for_all_constants_that_callers_pass() -> None:
    assert _uses_of_part(5) == 5 + 11 + 15
    assert len(_part.callee.signatures) == 1  # type: ignore[attr-defined]


def test_damaged_code_is_not_loaded_but_made_again(cache: Path) -> None:
    assert _hits(compiled.compiled_and_kept(_twice)) == 0
    (kept,) = _files(cache)
    whole = kept.read_bytes()
    for damaged in (whole[:-1], whole[:40], b"", whole[:200] + bytes([whole[200] ^ 1]) + whole[201:]):
        kept.write_bytes(damaged)
        assert _hits(compiled.compiled_and_kept(_twice)) == 0
        assert _hits(compiled.compiled_and_kept(_twice)) == 1


def test_code_for_a_class_of_a_module_that_is_imported_again_is_made_again_and_not_loaded_at_each_call() -> None:
    def hits() -> int:
        pair = namedtuple("pair", "small great")  # another one of the same name
        made: Any = compiled.compiled_and_kept(_difference)
        assert [made(pair(2, great)) for great in (5, 7, 9)] == [3, 5, 7]
        return sum(made.dispatcher.stats.cache_hits.values())

    assert [hits(), hits()] == [0, 0]


def test_code_for_c_is_kept_too(cache: Path) -> None:
    for hits in (0, 1):
        made = compiled.c_function(_twice, "int64(int64)")
        assert made.ctypes(4) == 8
        assert made.cache_hits == hits
    assert len(_files(cache)) == 1


@compiled.compiled
def _bytes_at(place: Any, first: Any, more: Any) -> Any:
    found = load(place + first // 8, 1)
    if more:
        found += load(place + first // 8, 2) << 16
    return found


def _bytes_at_the_start(place: Any, more: Any) -> Any:
    return _bytes_at(place, more - more, more)


def test_an_address_with_a_part_that_becomes_0_in_a_caller_is_still_read() -> None:
    """LLVM takes that part for the pointer in the machine code of `_bytes_at`, which is not what its callers may link."""
    data = np.array([0x35, 0x21], np.uint8)
    for _ in range(2):
        made = compiled.c_function(_bytes_at_the_start, "int64(int64, int64)")
        assert [made.ctypes(data.ctypes.data, more) for more in (0, 1)] == [0x35, 0x21350035]


def _sum_of(number: int) -> Any:
    """LLVM cannot expand all its calls where it is called."""

    @compiled.compiled
    def added(value: Any) -> Any:
        return number if value < 2 else added(value - 1) + added(value - 2)

    return added


_added = _sum_of(0)


def _calls_it(value: int) -> int:
    return _added(value)  # type: ignore[no-any-return]


def _in_another_process(work: Callable[[], Any]) -> None:
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


def test_functions_of_one_name_that_two_processes_have_kept_are_told_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The children are copies of this process: Numba's counter of functions starts at the same number in both."""
    compiled.c_function(_twice, "int64(int64)")  # Numba is ready
    made = []

    def use(number: int) -> None:
        monkeypatch.setenv("WARPSIGHT_CACHE", str(tmp_path / str(number)))
        monkeypatch.setattr(sys.modules[__name__], "_added", _sum_of(number))
        made.append(compiled.c_function(_calls_it, "int64(int64)"))

    for number in (1, 2):
        _in_another_process(partial(use, number))
    for number in (1, 2):
        use(number)
    assert [(each.cache_hits, each.ctypes(10)) for each in made] == [(1, 89), (1, 178)]


def test_where_nothing_can_be_written_it_compiles_without_keeping(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPSIGHT_CACHE", f"{os.devnull}/none")
    assert _hits(compiled.kept_until_changed()(_twice)) == 0
    assert compiled.c_function(_twice, "int64(int64)").ctypes(4) == 8


def test_numbas_own_functions_stay_where_numba_keeps_them(cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "numba"))
    assert numba.njit(cache=True)(_twice)(3) == 6
    assert list((tmp_path / "numba").rglob("*.nbi"))
    assert diskcache.folder() == cache
    assert not cache.exists()


ALONE = """
import sys
import numba
import numpy as np
from warpsight.base import kept_code
kept_code.prepare_numba()
assert numba.njit(lambda x: 2 * x)(21) == 42
print("scipy.linalg" in sys.modules)
pair = np.array([1.0, 2.0])
print(*numba.njit(lambda a: np.convolve(a, a))(pair), numba.njit(lambda a: np.dot(a, a))(pair), "scipy.linalg" in sys.modules)
"""


def test_scipy_is_imported_for_its_linear_algebra_alone() -> None:
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["False", "1.0 4.0 4.0 5.0 True"]
