"""PTX instructions that are known and refused by name, each with why. An opcode in neither table is unknown."""

from __future__ import annotations

_WARPGROUP = "matrix multiplication by four warps together (sm_90a), with operands in shared memory"
_FIFTH = "matrix multiplication with tensor memory (sm_100 and later)"
_TENSOR_MAP = "the tensor memory accelerator: copies of boxes of a tensor map"

REFUSED: dict[str, str] = {
    "wgmma": _WARPGROUP,
    "tcgen05": _FIFTH,
    "tensormap": _TENSOR_MAP,
    "multimem": "one address for the memories of several GPUs",
    "clusterlaunchcontrol": "work stealing between clusters (sm_100 and later)",
}
