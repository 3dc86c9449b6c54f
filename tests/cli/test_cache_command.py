"""Does `warpsight cache` answer, and say what is wrong with what it cannot read?"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from pyarrow import parquet

import warpsight
from warpsight.cli.main import main

pytestmark = pytest.mark.unit

KEYS = (
    "accesses", "transactions", "hits", "misses", "miss_rate", "compulsory", "capacity", "associativity", "latency", "mshr",
    "histogram",
)


def rows_of(threads: int = 64, width: int = 64) -> str:
    """Each thread reads a row of floats; then it stores one, which is not counted."""
    loads = [f"{t} 0 {4 * (t * width + i)} 4" for i in range(width) for t in range(threads)]
    return "\n".join([f"blocksize: {threads} 1 1", *loads, *(f"{t} 1 {10**6 + 4 * t} 4" for t in range(threads))]) + "\n"


@pytest.fixture
def listed(tmp_path: Path) -> str:
    path = tmp_path / "rows.trc.gz"
    path.write_bytes(gzip.compress(rows_of().encode()))
    return str(path)


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> dict:  # type: ignore[type-arg]
    assert main(["cache", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)  # type: ignore[no-any-return]


def test_json_has_the_stable_keys_and_its_counts_agree(listed: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, listed, "--gpu", "gtx470-16k", "--sigma", "0")
    assert [key for key in KEYS if key not in found] == []
    assert found["accesses"] == found["transactions"] == found["hits"] + found["misses"] == 64 * 64
    classes = ("compulsory", "capacity", "associativity", "latency", "mshr")
    assert found["misses"] == sum(found[name] for name in classes)
    assert found["compulsory"] == 64 * 64 * 4 // 128
    assert sum(found["histogram"].values()) == found["transactions"]
    assert (found["cores"], found["blocks"], found["threads"]) == (1, 1, 64)


def test_python_gives_the_same_as_the_command(listed: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--gpu", "gtx470-48k", "--seed", "7", "--miss-latency", "40", "--without", "mshr")
    found = answer(capsys, listed, *words)
    result = warpsight.cache_model(listed, "gtx470-48k", seed=7, miss_latency=40, without=["mshr"])
    assert result.to_json() == found
    assert result.curve()[-1][1] <= 1
    assert result.miss_rate == found["miss_rate"]


def test_stores_are_counted_when_asked_for(listed: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(capsys, listed, "--gpu", "gtx470-16k", "--stores")["accesses"] == 64 * 64 + 64


def test_sweep_writes_table_parquet_and_pictures(listed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture, table, curve = (tmp_path / name for name in ("s.svg", "s.parquet", "c.svg"))
    words = ["--sweep", "size=4K:64K", "ways=1,2,4,8", "--picture", str(picture), "--parquet", str(table), "--csv"]
    assert main(["cache", listed, "--gpu", "gtx470-16k", *words]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 21
    assert parquet.read_table(table).num_rows == 20
    assert main(["cache", listed, "--gpu", "gtx470-16k", "--curve", str(curve)]) == 0
    for path in (picture, curve):
        assert ElementTree.parse(path).getroot().tag.endswith("svg")


def test_hit_rate_of_a_sweep_never_falls_with_ways_of_the_same_sets(listed: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, listed, "--gpu", "gtx470-16k", "--without", "latency", "--sweep", "size=4K:64K", "ways=1,2,4,8")["rows"]
    for row in found:
        for other in found:
            if other["size"] * row["ways"] == row["size"] * other["ways"] and other["ways"] > row["ways"]:
                assert other["hits"] >= row["hits"]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", ":1"),
        ("blocksize: 0 1 1\n", ":1"),
        ("blocksize: 32 1 1\n0 0 128 4\n0 0 x 4\n", ":3"),
        ("blocksize: 32 1 1\n0 0 128\n", ":2"),
        ("blocksize: 32 1 1\n0 2 128 4\n", ":2"),
        ("blocksize: 32 1 1\n0 0 128 4\n0 0 128 3\n", ":3"),
        ("blocksize: 32 1 1\n-1 0 128 4\n", ":2"),
        ("blocksize: 32 1 1\n0 0 -128 4\n", ":2"),
        ("blocksize: 32 1 1\n0 0 18446744073709551615 4\n", ":2"),
        ("blocksize: 32 1 1\n0 0 128 0\n", ":2"),
        ("blocksize: 32 1 1\n0 0 128 4\n\n0 0 256 3\n", ":3"),
        ("blocksize: 32 1 1\n0 0  4\n", ":2"),
        ("blocksize: 32 1 1\n0 0 nan 4\n", ":2"),
        ('blocksize: 32 1 1\n0 0 "128" 4\n', ":2"),
        ("blocksize: 32 1 1\r\n0 0 128 4\r\n0 0 256\r\n", ":3"),
        ("blocksize: 2048 1 1\n0 0 128 4\n", ":1"),
    ],
)
def test_a_list_that_breaks_the_format_is_refused_with_its_line(
    text: str, place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.trc"
    path.write_text(text)
    assert main(["cache", str(path)]) == 2
    assert f"{path}{place}: " in capsys.readouterr().err


def test_a_list_without_loads_has_no_misses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "none.trc"
    path.write_text("blocksize: 32 1 1\n0 1 128 4\n")
    found = answer(capsys, str(path), "--gpu", "gtx470-16k")
    assert (found["transactions"], found["miss_rate"], found["histogram"]) == (0, 0.0, {})


def test_a_list_of_windows_lines_and_empty_last_ones_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "windows.trc"
    path.write_bytes(b"blocksize: 32 1 1\r\n0 0 128 4\r\n1 0 256 4\r\n\r\n")
    assert answer(capsys, str(path), "--gpu", "gtx470-16k")["transactions"] == 2


def test_a_cut_gzip_file_and_a_thread_far_too_high_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cut, high = tmp_path / "cut.trc.gz", tmp_path / "high.trc"
    cut.write_bytes(gzip.compress(rows_of().encode())[:-20])
    high.write_text("blocksize: 32 1 1\n2147483647 0 128 4\n")
    assert main(["cache", str(cut)]) == 2
    assert str(cut) in capsys.readouterr().err
    assert main(["cache", str(high)]) == 4
    told = capsys.readouterr().err
    assert str(high) in told
    assert "--max-threads" in told


@pytest.mark.parametrize(
    ("words", "place"),
    [
        (["--without", "clip"], "--without"),
        (["--sigma", "nan"], "--sigma"),
        (["--cores", "0"], "--cores"),
        (["--max-threads", "10"], "--max-threads"),
        (["--index-bits", "7-8"], "--index-bits"),
        (["--index-bits", ""], "--index-bits"),
        (["--index-bits", "99,98,97,96,95"], "--index-bits"),
        (["--index-bits", "7^7,8,9,10,11"], "--index-bits"),
        (["--index-bits", "7,8,9,10,11", "--sweep", "line=64"], "--index-bits"),
        (["--l2", "--sweep", "size=16K"], "--l2"),
        (["--seed", "9" * 30], "--seed"),
        (["--sweep", "size=3K:12K"], "l1.index"),
        (["--sweep", "ways=3"], "l1.size"),
        (["--curve", "/nowhere/at/all.svg"], "/nowhere/at/all.svg"),
        (["--parquet", "/nowhere/at/all.parquet"], "/nowhere/at/all.parquet"),
        (["--sweep", "size=4K:63K"], "--sweep"),
        (["--sweep", "colour=1"], "--sweep"),
        (["--picture", "x.svg"], "--picture"),
        (["--grid", "1"], "--grid"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused_with_its_name(
    words: list[str], place: str, listed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cache", listed, "--gpu", "gtx470-16k", *words]) == 2
    assert place in capsys.readouterr().err
