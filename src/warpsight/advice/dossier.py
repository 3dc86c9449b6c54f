"""The dossier of a kernel with what would change its prediction: everything that its report shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from warpsight.advice.advise import advise_profiled
from warpsight.explore.dossier.kernel import DEFAULT_PARTS, Parts, check_asked, profiled_dossier
from warpsight.explore.pipeline import profile_trace
from warpsight.explore.request import DEFAULT_METHOD, KernelRequest, Method
from warpsight.explore.watch import Watch

if TYPE_CHECKING:
    from warpsight.gpu.spec import GpuSpec
    from warpsight.trace.schema import KernelTrace


def advised_dossier(
    trace: KernelTrace,
    gpu: GpuSpec,
    model: str,
    method: Method = DEFAULT_METHOD,
    *,
    beside: Sequence[str] | None = None,
    parts: Parts = DEFAULT_PARTS,
    request: KernelRequest | None = None,
    watch: Watch | None = None,
) -> dict[str, Any]:
    """`kernel_dossier` with `advice`: the document of `advise`, without the prediction, which is there. Profiled once for both."""
    check_asked(model, beside, parts)
    profiled = profile_trace(trace, gpu, method, watch=watch)
    document = profiled_dossier(profiled, gpu, model, beside=beside, parts=parts, request=request, watch=watch)
    advice = advise_profiled(profiled, gpu, model, watch=watch).to_json()
    return document | {"advice": {key: value for key, value in advice.items() if key not in ("tool", "prediction")}}
