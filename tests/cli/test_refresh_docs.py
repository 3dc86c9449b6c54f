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
