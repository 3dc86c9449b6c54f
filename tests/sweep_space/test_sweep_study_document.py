"""Studies from options, and their document: what is written is what is read back."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsight.base.errors import FormatError, UsageError, WarpsightError
from warpsight.pipeline.request import KernelRequest, Method
from warpsight.sweeps.axes import parse_axis
from warpsight.sweeps.expressions import parse_expression
from warpsight.sweeps.study import Axis, Sampling, SimulatorRuns, Study, StudyKernel
from warpsight.sweeps.study_arguments import study_of_options
from warpsight.sweeps.study_document import study_document, study_from_document

pytestmark = pytest.mark.unit

SAXPY = KernelRequest("saxpy.cu", grid=4, block=(32, 2), args=("f32:2", "f32[64]:uniform", "@x.npy", 64, 0.5), sample=3, check=True)

STUDY = Study(
    name="trial",
    kernels=(StudyKernel("saxpy", KernelRequest("/k/saxpy.cu", grid="4", block=32, args=("f32:2", 1, 0.5), include_dirs=("/i",))),),
    overrides=("l1.ways=4",),
    axes=tuple(parse_axis(text, "") for text in ("sm_count=15:25:5", "noc.bandwidth=0.3..0.7 TB/s", "l1.write_allocate=true,false",
               "sm.policy=gto,lrr", "launch.block=32x8,64", "launch.shared=0..1024", "launch.arg.1=f32:1,f32:2",
               "method.caches=exact")),
    sampling=Sampling("latin-hypercube", 50, 3),
    derived=(("l1.mshrs", parse_expression("2 * sm_count", "")), ("launch.grid", parse_expression("launch.block", ""))),
    constraints=(parse_expression("sm_count > 3", ""),),
    models=("mdm", "gpumech"),
    method=Method("max", "round-robin", "exact"),
    simulator=SimulatorRuns(4, 2, parse_expression("sm_count == 15", ""), 1000),
)
DOCUMENT = study_document(STUDY)


def test_one_value_is_an_override_and_several_are_an_axis() -> None:
    given = ["sm_count=15:25:5", "l1.ways = 4", "noc.bandwidth=1.05 TB/s", "launch.block=128", "l1.write_allocate=false",
             "sm.policy=gto,lrr"]
    study = study_of_options([SAXPY], settings=given, constraints=["sm_count > 15"], models=["mdm", "gpumech"], name="quick")
    assert study.overrides == ("l1.ways=4", "noc.bandwidth=1.05 TB/s", "l1.write_allocate=false")
    assert study.axes == (Axis("sm_count", (15, 20, 25)), Axis("launch.block", ("128",)), Axis("sm.policy", ("gto", "lrr")))
    assert (study.name, study.models, study.kernels) == ("quick", ("mdm", "gpumech"), (StudyKernel("saxpy", SAXPY),))
    assert [each.text for each in study.constraints] == ["sm_count > 15"]


def test_kernels_of_options_are_called_after_their_files_and_a_suite_adds_its_own(tmp_path: Path) -> None:
    def written() -> None:
        """Stands for a kernel of a Python program."""

    paths = ["a/saxpy.cu", "spmv/manifest.yaml", "old.trace/", "launch.v2.yaml", "-", "__global__ void f() {}\n", written]
    study = study_of_options([KernelRequest(path) for path in paths], suite="warpsight")
    names = [kernel.name for kernel in study.kernels]
    assert names[:7] == ["saxpy", "spmv", "old", "launch.v2", "stdin", "kernel", "written"]
    assert "haar_rows" in names[7:] and len(names) == 7 + 42


@pytest.mark.parametrize(
    ("given", "place", "words"),
    [
        (["sm_cout=4"], "overrides sm_cout=4", 'did you mean "sm_count"?'),
        (["sm_count=4", "sm_count=1:5:1"], "overrides sm_count=1:5:1", "sm_count is set and also an axis"),
        (["sm_count=4", "sm_count=5"], "overrides sm_count=5", "sm_count is set twice"),
        (["core_clock=1..2GHz"], "overrides core_clock=1..2GHz", "a grid cannot have"),
        (["sm_count"], "overrides sm_count", "is not key=values"),
    ],
)
def test_setting_that_is_wrong_is_told_as_it_was_written(given: list[str], place: str, words: str) -> None:
    with pytest.raises(WarpsightError) as caught:
        study_of_options([SAXPY], settings=given)
    assert caught.value.place == place and words in caught.value.what


def test_unknown_model_two_kernels_of_one_name_and_none_are_refused() -> None:
    with pytest.raises(UsageError, match="gpumec"):
        study_of_options([SAXPY], models=["gpumec"])
    with pytest.raises(UsageError, match="two kernels"):
        study_of_options([SAXPY, KernelRequest("other/saxpy.cu")])
    with pytest.raises(UsageError, match="no kernels"):
        study_of_options([])


def test_document_is_json_and_reads_back_as_the_same_study() -> None:
    text = json.dumps(DOCUMENT, allow_nan=False)
    again = study_from_document(json.loads(text))
    assert again == STUDY
    assert study_document(again) == DOCUMENT


def test_paths_of_a_document_hold_wherever_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    request = study_document(study_of_options([SAXPY], gpu="mine.yaml"))
    assert request["gpu"] == str(tmp_path / "mine.yaml")
    assert request["kernels"][0]["request"] == {
        "path": str(tmp_path / "saxpy.cu"), "grid": 4, "block": [32, 2],
        "args": ["f32:2", "f32[64]:uniform", f"@{tmp_path}/x.npy", 64, 0.5], "sample": 3, "check": True,
    }
    assert study_from_document(request).kernels[0].request.block == (32, 2)


@pytest.mark.parametrize(
    "request_",
    [KernelRequest(np.sin), KernelRequest("k.cu", args=(np.zeros(4),)), KernelRequest("k.cu", args=(np.float32(2),)),
     KernelRequest("k.cu", constants={"BLOCK": 4})],
)
def test_kernel_that_only_a_python_program_has_is_refused(request_: KernelRequest) -> None:
    with pytest.raises(UsageError, match="Python program"):
        study_document(study_of_options([StudyKernel("mine", request_)]))


@pytest.mark.property
@settings(max_examples=60)
@given(st.lists(st.integers(1, 4096), min_size=1, unique=True), st.lists(st.floats(1, 1e18), min_size=1, unique=True),
       st.sampled_from(["grid", "random", "latin-hypercube"]), st.integers(0, 2**60))
def test_any_values_survive_the_document(ways: list[int], rates: list[float], kind: str, seed: int) -> None:
    axes = (Axis("l1.ways", tuple(ways)), Axis("noc.bandwidth", tuple(rates)))
    study = Study("x", STUDY.kernels, axes=axes, sampling=Sampling(kind, 0 if kind == "grid" else 1, seed))
    assert study_from_document(json.loads(json.dumps(study_document(study)))) == study


VALUES = [None, True, -1, 3, 1e300, float("nan"), "", "x", "32x8", [], [1], [[1]], {}, {"a": 1}]


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place of a document."""
    found = [path] if path else []
    if isinstance(value, dict):
        for key, each in value.items():
            found += _paths(each, (*path, key))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            found += _paths(each, (*path, index))
    return found


@pytest.mark.property
@settings(max_examples=400)
@given(st.sampled_from(_paths(DOCUMENT)), st.sampled_from(VALUES))
def test_damaged_document_is_refused_or_is_a_study_that_can_be_written_again(path: tuple[Any, ...], value: Any) -> None:
    damaged = copy.deepcopy(DOCUMENT)
    at = damaged
    for part in path[:-1]:
        at = at[part]
    at[path[-1]] = value
    try:
        found = study_from_document(damaged, "study.json")
    except WarpsightError as error:
        assert error.place
    else:
        json.dumps(study_document(found), allow_nan=False)


@pytest.mark.parametrize("name", sorted(DOCUMENT))
def test_document_without_a_field_is_refused(name: str) -> None:
    with pytest.raises(FormatError, match=f"has no {name}"):
        study_from_document({key: value for key, value in DOCUMENT.items() if key != name}, "study.json")


@pytest.mark.parametrize("document", [None, 3, "x", [], [1]])
def test_what_is_no_document_is_refused(document: Any) -> None:
    with pytest.raises(FormatError):
        study_from_document(document)
