"""What the tables of a study's folder say of themselves: of which study and GPU they are, so that no two runs are taken for one.

A run that ends between the two tables, or before both, leaves tables of another study beside the new description.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from warpsight.base.errors import FormatError
from warpsight.explore.sweep.folder import StudyFolder
from warpsight.explore.sweep.plan import Plan
from warpsight.explore.sweep.study import Study
from warpsight.explore.sweep.study_document import study_document

if TYPE_CHECKING:
    import pyarrow as pa

    from warpsight.gpu.spec import GpuSpec

_STUDY, _GPU, _CONSTANTS = b"warpsight.study", b"warpsight.gpu", b"warpsight.constants"
Constants = dict[str, float | str]


def labelled(plan: Plan, folder: StudyFolder, schema: pa.Schema) -> pa.Schema:
    """`schema` with the labels of the folder's study, and the values of the GPU around which its designs lie."""
    from warpsight.gpu.describe import spec_hash

    constants = json.dumps(constants_of(plan.around), sort_keys=True)
    return schema.with_metadata({
        _STUDY: _study_hash(folder.study).encode(), _GPU: spec_hash(plan.base).encode(), _CONSTANTS: constants.encode(),
    })  # fmt: skip


def checked_constants(folder: StudyFolder, table: pa.Table, designs: pa.Table) -> Constants:
    """The values of the GPU around which the designs lie. Raises FormatError for tables that are not of the folder's study."""
    found, beside = ({**(each.schema.metadata or {})} for each in (table, designs))
    same = all(found.get(label) == beside.get(label) for label in (_STUDY, _GPU))
    if not same or found.get(_STUDY) != _study_hash(folder.study).encode():
        what = "is of another run than the rest of its folder: of an earlier study, or of a GPU that was described otherwise"
        raise FormatError(what, place=str(folder.table), remedy=f"`warpsight sweep resume {folder.path}` makes it anew")
    try:
        constants: Constants = json.loads(beside[_CONSTANTS])
    except (KeyError, ValueError):
        remedy = f"`warpsight sweep collect {folder.path}` writes it again"
        raise FormatError("does not say what its GPU is", place=str(folder.designs), remedy=remedy) from None
    return constants


def constants_of(gpu: GpuSpec) -> Constants:
    """The values of a GPU's keys as columns of designs have them: numbers in base units, words, flags as `true` and `false`."""
    from warpsight.gpu.keys import FLAG, KEYS
    from warpsight.gpu.values import flatten

    texts: dict[str, Any] = {
        name: str(value).lower() if KEYS[name].kind == FLAG else value for name, value in flatten(gpu).items()
    }
    return {name: value if isinstance(value, str) else float(value) for name, value in texts.items()}


def _study_hash(study: Study) -> str:
    return hashlib.sha256(json.dumps(study_document(study), sort_keys=True).encode()).hexdigest()
