"""What if a resource of the GPU were twice as large? The architect's levers, as `--set` would change them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from warpsight.advice.base import ARCHITECT, Case, WhatIf
from warpsight.advice.registry import RULES
from warpsight.base.format import percent
from warpsight.gpu.describe import resolved
from warpsight.gpu.loader import load_gpu
from warpsight.gpu.spec import GpuSpec
from warpsight.result.prediction import Prediction

# Key, what it is called, and the components of the CPI stack that it may relieve.
LEVERS = (
    ("l1.mshrs", "L1 miss registers", ("mshr",)),
    ("noc.bandwidth", "NoC bandwidth", ("noc", "mshr")),
    ("dram.bandwidth", "DRAM bandwidth", ("dram", "mshr")),
    ("l1.size", "L1 size", ("mem_data", "mshr", "noc")),
    ("l2.size", "L2 size", ("mem_data", "mshr", "dram")),
    ("sm.registers", "registers of an SM", ("com_data", "mem_data", "idle")),
)


def setting(gpu: GpuSpec, key: str) -> str:
    """`key=value` with twice the GPU's value, in its own unit: `dram.bandwidth=960 GB/s`."""
    section, name = key.split(".")
    found = re.fullmatch(r"([\d.]+)(.*)", str(resolved(gpu)[section][name]))
    assert found is not None, f"{key} is a number with a unit"
    return f"{key}={2 * float(found[1]):.15g}{found[2]}"


class Doubled:
    """Everything is made again for a GPU with one number changed."""

    name = "doubled"

    def propose(self, case: Case) -> Iterator[WhatIf]:
        """One change for each lever."""
        stack, cpi = case.prediction.cpi_stack, case.prediction.cpi
        for key, called, relieved in LEVERS:
            part = sum(stack[name] for name in relieved)
            yield WhatIf(
                title=f"{called} x 2",
                place=key,
                reason=_reason(relieved, part / cpi),
                cost="another GPU: area and power",
                owner=ARCHITECT,
                evaluate=lambda key=key: _on(case, key),  # type: ignore[misc]
                setting=setting(case.gpu, key),
            )


def _reason(relieved: tuple[str, ...], share: float) -> str:
    """What it may relieve. A model may say of none of it by itself, and still feel the change: MWP-CWP's bandwidth bounds MWP."""
    if share == 0:
        return f"nothing of the CPI stack is {' or '.join(relieved)}, but the model's other components depend on it"
    return f"{' and '.join(relieved)}: {percent(share)} of the cycles"


def _on(case: Case, key: str) -> Prediction:
    return case.with_gpu(load_gpu(case.gpu, overrides=[setting(case.gpu, key)]))


RULES.add(Doubled.name, Doubled())
