"""Does `check` find operations on tensor memory that nobody waits for, operands without a fence, and nothing else?"""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from emulator_launch import REGISTERS
from test_tensor_memory import WAIT, Product, fill, kernel, stored

from warpsight.base.errors import LaunchFault
from warpsight.base.findings import RACECHECK, Finding
from warpsight.emulator.run.launch import emulate, prepare_kernel
from warpsight.kernels.launch import RunOptions
from warpsight.kernels.launch_check import make_launch
from warpsight.kernels.sources import load_source
from warpsight.kernels.toolkit import Architecture

pytestmark = pytest.mark.unit

PRODUCT = Product("f16", "f16", "f16", columns=16, adds=False)
AFTER = "tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;"
INTO_A = "mov.u32 %r9, memory; add.u32 %r9, %r9, 16; @%one st.shared.b32 [%r9], 7;"  # of A's first rows
STORES = """mov.b32 %d0, 1; mov.b32 %d1, 2; add.u32 %r9, %base, %r7;
    tcgen05.st.sync.aligned.32x32b.x2.b32 [%r9], {%d0, %d1};"""
WAITED = "tcgen05.wait::st.sync.aligned;"


def found(body: str, change: tuple[str, str] = ("", ""), *, native: bool = False) -> list[Finding]:
    """What racecheck finds in the kernel with `body`; `change` replaces a part of its text. `native`: in its machine code."""
    image = np.zeros(100 * 1024, np.uint8)
    fill(image, PRODUCT.right, np.ones((16, 16), np.uint64) * 0x3C00, "f16")
    text = kernel(body)
    assert change[0] in text
    source, checks = load_source(text.replace(*change), name="tensor.ptx"), frozenset({RACECHECK})
    architecture = Architecture(100, "a") if native else None
    prepared, findings = prepare_kernel(source, "k", architecture=architecture, checks=checks), []
    arguments = [image, np.zeros((128, 16), np.uint32)]
    with contextlib.suppress(LaunchFault):
        emulate(
            source, make_launch(source, "k", 1, 128, arguments), registers=REGISTERS,
            options=RunOptions(check=checks, found=findings.append), prepared=prepared
        )  # fmt: skip
    return findings


def kinds(findings: list[Finding]) -> set[tuple[str, str]]:
    return {(f.kind, f.space) for f in findings}


@pytest.mark.parametrize(
    "body",
    [
        f"{PRODUCT.text()}{WAIT}{stored(16)}",
        f"{PRODUCT.text()}{PRODUCT.text()}{WAIT}{stored(16)}",  # products of one thread follow each other
        f"{PRODUCT.text()}{WAIT}{INTO_A}{stored(16)}",
        f"{STORES}{WAITED}{AFTER}{PRODUCT.text()}{WAIT}{stored(16)}",
        f"{stored(16)}{AFTER}{PRODUCT.text()}{WAIT}",
    ],
    ids=["wait", "twice", "written behind", "stores", "loads before"],
)
def test_operations_that_are_waited_for_are_no_finding(body: str) -> None:
    assert found(body) == []


@pytest.mark.parametrize(
    ("body", "expected", "said"),
    [
        (f"{PRODUCT.text()}{AFTER}{stored(16)}", ("read-after-write", "tensor"), "tcgen05.commit"),
        (f"{PRODUCT.text()}{INTO_A}{WAIT}{stored(16)}", ("write-after-read", "shared"), "tcgen05.commit"),
        (f"{STORES}{AFTER}{PRODUCT.text()}{WAIT}{stored(16)}", ("write-after-write", "tensor"), "tcgen05.wait"),
        (f"{stored(16).replace('tcgen05.wait::ld.sync.aligned;', '')}{AFTER}{PRODUCT.text()}{WAIT}",
         ("write-after-read", "tensor"), "tcgen05.wait"),
    ],
    ids=["product not committed", "operand written early", "stores not waited for", "loads not waited for"],
)  # fmt: skip
def test_operation_that_is_not_waited_for_is_a_hazard(body: str, expected: tuple[str, str], said: str) -> None:
    findings = found(body)
    assert kinds(findings) == {expected}
    assert all("an operation on tensor memory that has not been waited for" in f.message and said in f.remedy for f in findings)


def test_operand_that_other_threads_write_is_waited_for_at_a_barrier() -> None:
    """Without the barrier the product reads what may not be written yet; without the fence, what may not be visible to it."""
    body = f"{PRODUCT.text()}{WAIT}{stored(16)}"
    findings = found(body, ("fence.proxy.async.shared::cta;", ""))
    assert kinds(findings) == {("read-after-write", "shared")}
    assert all("without a fence of the proxy" in f.message and "fence.proxy.async" in f.remedy for f in findings)
    unordered = f"mov.u32 %r9, memory; mad.lo.u32 %r9, %i, 4, %r9; st.shared.b32 [%r9], %i; fence.proxy.async.shared::cta;{body}"
    assert any("nothing that orders the two" in f.message for f in found(unordered))


def test_machine_code_has_the_same_hazards_of_products() -> None:
    assert found(f"{PRODUCT.text()}{WAIT}{INTO_A}{stored(16)}", native=True) == []
    early = found(f"{PRODUCT.text()}{INTO_A}{WAIT}{stored(16)}", native=True)
    assert kinds(early) == {("write-after-read", "shared")} and all("tcgen05.commit" in f.remedy for f in early)
    assert kinds(found(f"{PRODUCT.text()}{AFTER}{stored(16)}", native=True)) == {("read-after-write", "tensor")}
