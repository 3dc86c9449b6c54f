"""Does the tool that puts real output into documents run what stands there, and only compare what can be the same twice?"""

from __future__ import annotations

from pathlib import Path

import pytest

import refresh_docs

pytestmark = pytest.mark.unit


def test_commands_run_in_the_folder_with_the_files_of_the_page(tmp_path: Path) -> None:
    page = "<!-- file: a.txt -->\n```text\none\n```\n\n```console\n$ cat a.txt\nold\n$ pwd\n```\n"
    after = refresh_docs.refreshed(page, tmp_path)
    assert after.endswith("```console\n$ cat a.txt\none\n$ pwd\n/tmp/study\n```\n")


def test_command_of_several_lines_is_one_command(tmp_path: Path) -> None:
    page = "```console\n$ echo one \\\n    two\nold\n$ echo three\n```\n"
    assert refresh_docs.refreshed(page, tmp_path) == "```console\n$ echo one \\\n    two\none two\n$ echo three\nthree\n```\n"


def test_program_of_a_page_that_ends_in_an_exception_is_no_output(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="ZeroDivisionError"):
        refresh_docs.refreshed("```console\n$ python3 -c 1/0\n```\n", tmp_path)


def test_a_page_may_prepare_its_folder_and_keep_a_block(tmp_path: Path) -> None:
    page = (
        "<!-- run: test -d \"$CLONE/tools\" && echo there > a.txt -->\n\n```console\n$ cat a.txt\n```\n"
        "<!-- not run: no GPU here -->\n\n```console\n$ nvidia-smi\nas it was\n```\n"
    )  # fmt: skip
    after = refresh_docs.refreshed(page, tmp_path)
    assert "$ cat a.txt\nthere\n```" in after
    assert after.endswith("$ nvidia-smi\nas it was\n```\n")
    assert list(refresh_docs.blocks(page)) == [("run", "$ cat a.txt\n"), ("not run", "no GPU here")]


def test_a_choice_of_this_machine_is_not_in_an_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPSIGHT_GPU", "t4")
    monkeypatch.setenv("WARPSIGHT_CACHE", "kept")
    page = "```console\n$ echo $WARPSIGHT_GPU $WARPSIGHT_CACHE\n```\n"
    assert refresh_docs.refreshed(page, tmp_path) == "```console\n$ echo $WARPSIGHT_GPU $WARPSIGHT_CACHE\nkept\n```\n"


def test_times_of_the_host_are_not_compared_and_predicted_ones_are() -> None:
    page = "  emulation            {} ms (3 warp instructions per second)\n  {} s; results are kept in /tmp/study\n  time  {} us\n"
    assert refresh_docs.differences(page.format("3.1", "4.0", "7.1"), page.format("2.9", "5.2", "7.1"), "a.md") == ""
    assert "+  time  7.2 us" in refresh_docs.differences(page.format("3", "4", "7.1"), page.format("3", "4", "7.2"), "a.md")


def test_the_quick_pages_and_those_with_needs_are_pages_with_commands(root: Path) -> None:
    found = refresh_docs.documents()
    assert {*refresh_docs.QUICK, *refresh_docs.NEEDS} <= set(found)
    assert not set(refresh_docs.QUICK) & set(refresh_docs.NEEDS)
    assert {path.relative_to(root).as_posix() for path in root.glob("docs/howto/*.md")} <= set(found)  # each shows real output
