"""Does `warpsight doctor` tell what this installation can do?"""

from __future__ import annotations

import json

import pytest
from command_line import run

from warpsight.base.errors import UnsupportedError
from warpsight.isa.ptx.opcodes import OPCODES, REFUSED
from warpsight.isa.ptx.parser import parse_module
from warpsight.isa.ptx.rules import lookup

pytestmark = pytest.mark.unit


def test_isa_table_lists_every_opcode_of_the_table_once(capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(run(capsys, "doctor", "--isa", "--json").out)
    assert [row["opcode"] for row in rows] == sorted({*OPCODES, *REFUSED})
    by_name = {row["opcode"]: row for row in rows}
    assert by_name["fma"]["executed"]
    assert not by_name["multimem"]["executed"]
    assert by_name["multimem"]["why_not"] == "refused"


def test_isa_table_as_text_says_what_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    lines = run(capsys, "doctor", "--isa").out.splitlines()
    assert any(line.split()[:2] == ["multimem", "no"] for line in lines)
    assert any(line.split()[:3] == ["ld", "yes", "access"] for line in lines)


def test_environment_names_versions_and_the_cache(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(run(capsys, "doctor", "--json").out)
    assert found["packages"]["llvmlite"]
    assert found["cache"]["folder"] in run(capsys, "doctor").out


def test_refused_opcode_names_itself_its_line_and_why() -> None:
    text = ".version 8.0\n.target sm_100a\n.address_size 64\n.visible .entry k()\n{\nmultimem.red.add.u32 [0], 1;\nret;\n}\n"
    instruction = parse_module(text, "k.ptx").functions["k"].instructions[0]
    with pytest.raises(UnsupportedError, match=r"multimem.red.add.u32.*several GPUs") as refusal:
        lookup(instruction)
    assert refusal.value.place.endswith(":6")
