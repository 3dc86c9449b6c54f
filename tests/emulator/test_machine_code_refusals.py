"""Does a refusal of machine code say what is refused, where, for which architecture, and what to do?"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from warpsight.base.errors import UnsupportedError
from warpsight.emulator.run import launch
from warpsight.emulator.sass.instruction_set import is_executed
from warpsight.isa.sass.opcodes import TABLE
from warpsight.kernels.machine_code import machine_code
from warpsight.kernels.sources import load_source
from warpsight.kernels.toolkit import Architecture

pytestmark = pytest.mark.unit

SUM = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out)
{
    .reg .b32 %r<4>; .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [out];
    ld.global.u32 %r1, [%rd1];
    add.u32 %r2, %r1, 0x1234567;
    st.global.u32 [%rd1], %r2;
    ret;
}
"""
SOURCE = load_source(SUM, name="sum.ptx")
CODE = machine_code(SOURCE, Architecture(90))
ADD = re.compile(r"(?:VIADD|IADD3)\S* [^;]*0x1234567[^;]*;")


def refusal(text: str, monkeypatch: pytest.MonkeyPatch) -> UnsupportedError:
    """Of the kernel with `text` in place of its sum."""
    changed = replace(CODE, text=ADD.sub(text, CODE.text, count=1))
    monkeypatch.setattr(launch, "machine_code", lambda *_: changed)
    with pytest.raises(UnsupportedError) as raised:
        launch.prepare_kernel(SOURCE, "k", architecture=Architecture(90))
    return raised.value


BASES = {name.partition(".")[0] for name in TABLE}
BARRIERS = {"CGABAR_ARV", "CGABAR_WAIT", "UCGABAR_ARV", "UCGABAR_WAIT"}  # of a cluster, executed as those of PTX; JMP wants a label
NOT_EXECUTED = sorted(base for base in BASES - BARRIERS - {"JMP"} if not is_executed(base))


@pytest.mark.parametrize("base", NOT_EXECUTED)
def test_opcode_that_is_not_executed_is_refused_by_name_line_architecture_and_remedy(
    base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = refusal(f"{base} R2, R4, R6 ;", monkeypatch)
    assert re.search(rf"\b{base}\b", error.what) and "PTX line 9" in str(error)
    assert re.match(r"sum\.ptx: ?k\+0x[0-9a-f]+ ", error.place) and "(machine code for sm_90)" in error.place
    assert "level='ptx'" in error.remedy


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("IADD3.STRANGE R2, R4, R6, RZ ;", r"modifier \.STRANGE is not modelled"),
        ("BMOV.64 ATEXIT_PC, R8 ;", "only a convergence barrier is modelled here"),
        ("RPCMOV.32 R4, R8 ;", "its operands are not recognized"),
        ("IADD3 R2 ;", "number of its operands is not what is modelled"),
        ("NEWOPCODE R2, R4 ;", "NEWOPCODE"),
    ],
)
def test_form_that_is_not_modelled_is_refused_in_the_same_way(text: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    error = refusal(text, monkeypatch)
    assert re.search(said, error.what) and "PTX line 9" in str(error)
    assert "+0x" in error.place and "(machine code for sm_90)" in error.place and "level='ptx'" in error.remedy
