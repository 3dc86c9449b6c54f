"""Study files: what they say is what is run, and what is wrong in them is told with its line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from warpsight.base.errors import UsageError, WarpsightError
from warpsight.gpu.loader import load_gpu
from warpsight.pipeline.request import KernelRequest, Method
from warpsight.pipeline.suites import load_suite
from warpsight.sweeps.designs import design_table
from warpsight.sweeps.study import Axis, Sampling, SimulatorRuns, StudyKernel
from warpsight.sweeps.study_file import read_study

pytestmark = pytest.mark.unit

Write = Callable[[str], Path]

FULL = """\
schema: 1
name: caches of the future
kernels:
  - saxpy.cu
  - {path: saxpy.cu, name: saxpy small, kernel: saxpy, grid: [16, 4], block: 32x8, args: ['f32:2', 'f32[64]:uniform', x.npy, 64],
     seed: 3, registers: 40, shared: 1Ki, sample: 5%, arch: 80, defines: [N=4], include_dirs: [headers], max_instructions: 1_000,
     threads: 2, heap: 1Mi, stack: 4096, check: true}
  - deep/spmv/manifest.yaml
  - old.trace
suite: {name: warpsight, only: [haar_rows, kmeans_aos]}
gpu: mine.yaml
set: {l1.ways: 6, core_clock: 1.5 GHz}
axes:
  sm_count: 15:25:5
  noc.bandwidth: [525 GB/s, 1050 GB/s]
  l1.mshrs: 32,64
  sm.policy: [lrr, gto]
derived:
  l2.mshrs: 2 * l1.mshrs
constraints:
  - sm_count != 20
  - >-
    noc.bandwidth > 600*GB/s
    or l1.mshrs == 32
sampling: {kind: grid}
models: [mdm, "warpsight~spread"]
method: {caches: reuse-distance, representative: max}
simulator: {designs: 4, seed: 2, where: sm_count > 15, max_cycles: 10_000}
"""
DAMAGE = ["", "~", "[", "]", "{", "}", ": ", "- ", "1", "'", "&a ", "*a", "\0", "a" * 300, "/", "..", "x", "\n"]
SMALL = "kernels: [saxpy.cu]\n"


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """A study beside some kernels."""
    (tmp_path / "saxpy.cu").write_text("__global__ void saxpy(float a, float *x, float *y, int n) {}\n")
    (tmp_path / "mine.yaml").write_text("like: mdm-pascal\nname: mine\n")
    (tmp_path / "old.trace").mkdir()
    spmv = tmp_path / "deep" / "spmv"
    spmv.mkdir(parents=True)
    (spmv / "manifest.yaml").write_text("title: a stand-in\n")

    def write_file(text: str) -> Path:
        path = tmp_path / "study.yaml"
        path.write_text(text)
        return path

    return write_file


def refusal(path: Path) -> WarpsightError:
    with pytest.raises(WarpsightError) as caught:
        read_study(path)
    return caught.value


def test_every_key_of_a_file_is_in_the_study(write: Write, tmp_path: Path) -> None:
    study = read_study(write(FULL))
    launched = KernelRequest(
        str(tmp_path / "saxpy.cu"), kernel="saxpy", grid="16x4", block="32x8", shared="1Ki", seed=3, registers=40,
        args=("f32:2", "f32[64]:uniform", f"@{tmp_path}/x.npy", "64"), max_instructions=1000, threads=2, sample="5%", arch="80",
        defines=("N=4",), include_dirs=(str(tmp_path / "headers"),), heap_bytes="1Mi", stack_bytes=4096, check=True,
    )
    assert study.kernels[:4] == (
        StudyKernel("saxpy", KernelRequest(str(tmp_path / "saxpy.cu"))),
        StudyKernel("saxpy small", launched),
        StudyKernel("spmv", KernelRequest(str(tmp_path / "deep/spmv/manifest.yaml"))),
        StudyKernel("old", KernelRequest(str(tmp_path / "old.trace"))),
    )
    assert [kernel.name for kernel in study.kernels[4:]] == ["haar_rows", "kmeans_aos"]
    assert (study.name, study.gpu) == ("caches of the future", str(tmp_path / "mine.yaml"))
    assert study.overrides == ("l1.ways=6", "core_clock=1.5 GHz")
    assert study.axes == (
        Axis("sm_count", (15, 20, 25)), Axis("noc.bandwidth", (525e9, 1050e9)), Axis("l1.mshrs", (32, 64)),
        Axis("sm.policy", ("lrr", "gto")),
    )
    assert [(key, text.text) for key, text in study.derived] == [("l2.mshrs", "2 * l1.mshrs")]
    assert [each.text for each in study.constraints] == ["sm_count != 20", "noc.bandwidth > 600*GB/s or l1.mshrs == 32"]
    assert (study.models, study.method) == (("mdm", "warpsight~spread"), Method("max", "clocked", "reuse-distance"))
    assert study.simulator is not None and study.simulator.where is not None
    assert study.simulator == SimulatorRuns(4, 2, study.simulator.where, 10_000)
    table = design_table(study, {study.gpu: load_gpu(study.gpu, study.overrides)})
    # 3 x 2 x 2 x 2 designs; 20 SMs go, and of the other 16 those of 525 GB/s and 64 MSHRs
    assert (table.drawn, len(table)) == (24, 12)


def test_what_a_file_leaves_out_is_as_on_the_command_line(write: Write) -> None:
    study = read_study(write(SMALL))
    assert (study.name, study.gpu, study.models, study.method) == ("study", "mdm-pascal", ("warpsight",), Method())
    assert (study.axes, study.overrides, study.sampling, study.simulator) == ((), (), Sampling(), None)


def test_half_of_a_suite_is_the_half_that_its_manifests_say(write: Write) -> None:
    suite = load_suite("warpsight")
    for half, kernels in (("development", suite.development), ("holdout", suite.holdout)):
        study = read_study(write(f"suite: {{name: warpsight, half: {half}}}\n"))
        assert [kernel.name for kernel in study.kernels] == [kernel.name for kernel in kernels]
    assert len(read_study(write("suite: warpsight\n")).kernels) == len(suite)


def test_overrides_may_be_a_list_of_texts(write: Write) -> None:
    study = read_study(write(SMALL + "set:\n  - l1.ways=6\n  - core_clock = 1.5 GHz\n"))
    assert study.overrides == ("l1.ways=6", "core_clock=1.5 GHz")


def test_models_may_be_one_text(write: Write) -> None:
    assert read_study(write(SMALL + "models: mdm, gpumech\n")).models == ("mdm", "gpumech")


def test_empty_simulator_is_the_simulator_on_every_design(write: Write) -> None:
    assert read_study(write(SMALL + "simulator: {}\n")).simulator == SimulatorRuns()


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (SMALL + "axis: {sm_count: 1}\n", 2, 'axis is not a known key; did you mean "axes"?'),
        (SMALL + "gpu: mdm-pascal\ngpu: gpumech\n", 3, "gpu is given twice"),
        (SMALL + "axes:\n  sm_count: 1:5:1\n  sm_count: 6\n", 4, "sm_count is given twice"),
        (SMALL + "schema: 2\n", 2, 'schema "2" is not known'),
        (SMALL + "gpu: mdm-pascall\n", 2, 'did you mean "mdm-pascal"?'),
        (SMALL + "gpu:\n", 2, "gpu has no value"),
        (SMALL + "axes:\n  gpu: [a100, l44]\n", 3, 'did you mean "l4"?'),
        (SMALL + "gpu: a100\naxes: {gpu: [a100, l4]}\n", 3, "gpu is an axis, and also given"),
        (SMALL + "derived: {gpu: '\"a100\"'}\n", 2, "cannot be derived"),
        (SMALL + "set: {l1.wais: 6}\n", 2, 'did you mean "l1.ways"?'),
        (SMALL + "set:\n  l1.size: 48 KB\n", 3, "is ambiguous"),
        (SMALL + "set:\n  - l1.ways=4\n  - l1.ways=6\n", 4, "l1.ways is set twice"),
        (SMALL + "set:\n  - l1.ways\n", 3, "is not key=value"),
        (SMALL + "set:\n  launch.block: 128\n", 3, "is not a key of the GPU"),
        (SMALL + "set: {sm_count: 4}\naxes:\n  sm_count: 1:5:1\n", 4, "sm_count is set and also an axis"),
        (SMALL + "axes:\n  l1:\n    size: 16 KiB\n", 3, "l1 is a mapping, not values"),
        (SMALL + "axes:\n  l1.mshrs:\n    - 32\n    - many\n", 5, "l1.mshrs is not a count"),
        (SMALL + "axes:\n  l1.mshrs: [32, [64]]\n", 3, "more than one value"),
        (SMALL + "axes:\n  l1.mshrs: []\n", 3, "has no values"),
        (SMALL + "axes: [sm_count]\n", 2, "axes is not a mapping"),
        (SMALL + "axes:\n  core_clock: 1..2 GHz\n", 3, "a grid cannot have"),
        (SMALL + "axes:\n  sm_count: 15:78:5\n", 3, "does not reach its last value"),
        (SMALL + "axes: {sm_count: 1:5:1}\nsampling: {kind: latin, designs: 3}\n", 3, 'did you mean "latin-hypercube"?'),
        (SMALL + "axes: {sm_count: 1:5:1}\nsampling:\n  designs: 3\n", 3, "sampling has no kind"),
        (SMALL + "axes: {sm_count: 1:5:1}\nsampling: {kind: random}\n", 3, "needs a number of designs"),
        (SMALL + "axes: {sm_count: 1:5:1}\nsampling: {kind: random, designs: 6}\n", 3, "the axes have 5 combinations"),
        (SMALL + "axes: {sm_count: 1:5:1}\nsampling: {kind: random, designs: few}\n", 3, "not a whole number"),
        (SMALL + "axes: {sm_count: 1:5:1}\nsampling: {kind: random, designs: 3, sed: 1}\n", 3, 'did you mean "seed"?'),
        (SMALL + "sampling: {kind: grid, seed: 1}\n", 2, "takes no seed"),
        (SMALL + "derived:\n  l1.mshrs: 2 * l1.wais\n", 3, 'did you mean "l1.ways"?'),
        (SMALL + "derived:\n  l1.mshr: 2 * l1.ways\n", 3, 'did you mean "l1.mshrs"?'),
        (SMALL + "derived:\n  l1.mshrs: l2.mshrs\n  l2.mshrs: '64'\n", 3, "derived later"),
        (SMALL + "constraints:\n  - sm_count > 3\n  - sm_count\n", 4, "not to true or false"),
        (SMALL + "constraints:\n  - __import__('os')\n", 3, "not a known function"),
        (SMALL + "constraints: sm_count > 3\n", 2, "constraints is not a list"),
        (SMALL + "models: [mdm, gpumec]\n", 2, 'did you mean "gpumech"?'),
        (SMALL + "models:\n  - mdm\n  - mdm\n", 4, "given twice"),
        (SMALL + "models:\n  - simulator\n", 3, '"simulator" is not a known model'),
        (SMALL + "method: {cache: exact}\n", 2, 'did you mean "caches"?'),
        (SMALL + "method: {caches: exat}\n", 2, 'did you mean "exact"?'),
        (SMALL + "axes: {method.caches: [exact]}\nmethod: {caches: exact}\n", 3, "is varied, and also given here"),
        (SMALL + "simulator: {designs: 0}\n", 2, "not a whole number of 1"),
        (SMALL + "simulator: {where: sm_count}\n", 2, "not to true or false"),
        (SMALL + "simulator:\n", 2, "simulator is not a mapping"),
        ("name: x\nkernels:\n  - saxpi.cu\n", 3, 'did you mean "saxpy.cu"?'),
        ("kernels:\n  - saxpy.cu\n  - saxpy.cu\n", 3, 'two kernels are called "saxpy"'),
        ("kernels:\n  - {path: saxpy.cu, gird: 4}\n", 2, 'did you mean "grid"?'),
        ("kernels:\n  - {name: saxpy}\n", 2, "a kernel has no path"),
        ("kernels:\n  - path: saxpy.cu\n    grid: many\n", 3, "is not a whole number"),
        ("kernels:\n  - path: saxpy.cu\n    seed: -1\n", 3, "seed is"),
        ("kernels:\n  - path: old.trace\n    block: 64\n", 3, "applies to a kernel"),
        ("kernels:\n  - deep/spmv\n", 2, "is the folder of a kernel in a suite"),
        ("kernels: ['-']\n", 1, 'there is no kernel "-"'),
        ("kernels: [old.trace]\naxes:\n  launch.block: [64, 128]\n", 3, "whose launch cannot change"),
        ("suite: warpsigt\n", 1, 'did you mean "warpsight"?'),
        ("suite:\n  name: warpsight\n  only: [haar_row]\n", 3, 'did you mean "haar_rows"?'),
        ("suite:\n  name: warpsight\n  half: test\n", 3, '"test" is not known'),
        ("suite: {name: warpsight, half: holdout, only: [haar_rows]}\n", 1, "both choose kernels"),
        ("suite: {half: holdout}\n", 1, "suite has no name"),
        ("- a\n", 1, "is not a mapping"),
        ("kernels: [\n", 2, "is not YAML"),
        ("? [a]\n: b\n", 1, "a key is not a word"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(write: Write, text: str, line: int, words: str) -> None:
    path = write(text)
    error = refusal(path)
    assert words in error.what
    assert error.place == f"{path}:{line}"
    assert error.remedy


@pytest.mark.property
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_file_gives_a_study_or_a_refusal_with_its_place(write: Write, data: st.DataObject) -> None:
    lines = FULL.replace(", only: [haar_rows, kmeans_aos]", "").splitlines()
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(lines) - 1))
        start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(lines[at]))] * 2)))
        put = data.draw(st.sampled_from(DAMAGE))
        lines[at] = lines[at][:start] + put + lines[at][end:]
    path = write("\n".join(lines))
    try:
        read_study(path)
    except WarpsightError as error:
        assert error.place


def test_file_that_says_nothing_is_refused(write: Write) -> None:
    assert refusal(write("")).what == "is empty"
    assert refusal(write("name: x\n")).what == "there are no kernels"
    assert "cannot be read" in refusal(write("").parent / "other.yaml").what
    assert "cannot be read" in refusal(write("").parent / "other\0.yaml").what


def test_aliases_that_repeat_each_other_are_refused_and_not_followed(write: Write) -> None:
    first = f"  - {{path: saxpy.cu, name: k, args: &a [{', '.join(['1'] * 1000)}]}}\n"
    others = "".join(f"  - {{path: saxpy.cu, name: k{index}, args: *a}}\n" for index in range(300))
    error = refusal(write(f"kernels:\n{first}{others}"))
    assert "more than 262,144 values" in error.what


def test_study_that_ships_as_an_example_reads_and_has_designs(root: Path) -> None:
    found = sorted((root / "examples" / "studies").glob("*.yaml"))
    assert len(found) >= 2
    for path in found:
        study = read_study(path)
        gpus = {name: load_gpu(name, study.overrides) for name in study.gpus}
        table = design_table(study, gpus)
        assert len(table) > 10
        # every design is one that a GPU can be
        for design in range(0, len(table), max(1, len(table) // 20)):
            assert not table.refusal(design)
            load_gpu(gpus[str(table.values(design).get("gpu", study.gpu))], table.settings(design))


def test_study_in_the_reference_page_reads(root: Path, tmp_path: Path) -> None:
    page = (root / "docs" / "reference" / "study-file.md").read_text()
    text = page.split("```yaml\n")[1].split("```")[0]
    for name in ("saxpy.cu", "reduce.yaml"):
        (tmp_path / name).write_text("")
    (tmp_path / "spmv.trace").mkdir()
    (tmp_path / "study.yaml").write_text(text)
    study = read_study(tmp_path / "study.yaml")
    assert len(design_table(study, {study.gpu: load_gpu(study.gpu, study.overrides)})) > 0


def test_error_of_a_study_is_a_usage_error() -> None:
    with pytest.raises(UsageError):
        read_study("no such file.yaml")
