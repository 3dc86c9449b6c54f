"""Do sweeps predict long launches from sampled waves of each design, with an interval that holds the whole launch?"""

from __future__ import annotations

from pathlib import Path

import pytest

import warpsight
from warpsight.base.errors import UsageError
from warpsight.cli.main import main
from warpsight.gpu.document import value_text
from warpsight.gpu.loader import load_gpu
from warpsight.pipeline import sampling
from warpsight.sweeps.study_file import read_study

pytestmark = pytest.mark.unit

# Each block reads 256 words of its own, later blocks with a larger stride: waves differ, and neighbours are alike.
SOURCE = """
extern "C" __global__ void scale(const float* in, float* out)
{
    int stride = 1 + blockIdx.x / 128;
    float sum = 0;
    for (int k = 0; k < 4; ++k) sum += in[blockIdx.x * 256 + (threadIdx.x * stride + k) % 256];
    out[blockIdx.x * 64 + threadIdx.x] = sum;
}
"""
BLOCKS = 512
AXES = {"sm_count": [2, 3], "dram.bandwidth": ["80GB/s", "480GB/s"]}
FEW = ["sm_count=2", "sm.max_blocks=4", "l2.size=528 KiB"]
SMALL = load_gpu("mdm-pascal", FEW)  # of the launch 64 waves


@pytest.fixture
def launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A launch that counts as a long one."""
    monkeypatch.setattr(sampling, "LEAST_INSTRUCTIONS", 0)
    (tmp_path / "scale.cu").write_text(SOURCE)
    path = tmp_path / "scale.yaml"
    path.write_text(f"source: scale.cu\ngrid: {BLOCKS}\nblock: 64\nargs: ['f32[131072]:uniform', 'f32[{BLOCKS * 64}]:zeros']\n")
    return path


def swept(launch: Path, **options: object) -> list[dict[str, object]]:
    found = warpsight.sweep(
        launch, SMALL, AXES, models=["warpsight", "mdm"], results=launch.parent / "kept", **options,  # type: ignore[arg-type]
    )
    return found.table.to_pylist()  # type: ignore[no-any-return]


def test_rows_are_those_of_sampled_predictions_and_hold_the_whole_launch(launch: Path) -> None:
    rows, whole = swept(launch, accuracy=0.5), swept(launch, exact=True)
    assert len(rows) == len(whole) == 8
    for row, exact in zip(rows, whole, strict=True):
        assert exact["half_width"] == 0 < row["half_width"]
        assert abs(row["cycles"] - exact["cycles"]) <= row["half_width"] * row["cycles"]  # type: ignore[operator]
        if row["model"] == "mdm":  # of a sample that is made for the first model
            continue
        settings = [f"{key}={value_text(key, row[key])}" for key in AXES]
        alone = warpsight.predict(launch, SMALL, overrides=settings, accuracy=0.5)
        assert row["cycles"] == pytest.approx(alone.cycles, rel=1e-12)
        assert row["half_width"] == pytest.approx(alone.provenance["sampling"]["half_width"], rel=1e-9)
    assert {row["half_width"] <= 0.5 for row in rows if row["model"] == "warpsight"} == {True}  # type: ignore[operator]


def test_designs_have_the_time_of_the_whole_launch_where_it_is_few_waves(launch: Path) -> None:
    """A product of 14 and 16 waves. All blocks read 320 KiB, and a wave up to 320 KiB more, for which the L2 has room, but not for
    the 4.6 MB that the launch reads besides.
    """
    (launch.parent / "product.cu").write_text("""
extern "C" __global__ void product(const float* a, const float* b, float* c)
{
    int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 8 + threadIdx.y;
    float sum = 0;
    for (int k = 0; k < 640; ++k) sum += a[row * 640 + k] * b[k * 128 + column];
    c[row * 128 + column] = sum;
}
""")
    product, arrays = launch.parent / "product.yaml", "['f32[1792*640]:zeros', 'f32[640*128]:zeros', 'f32[1792*128]:zeros']"
    product.write_text(f"source: product.cu\ngrid: 4x224\nblock: 32x8\nargs: {arrays}\n")
    gpu = load_gpu("gtx1650")
    axes, kept = {"sm_count": [14, 16], "dram.bandwidth": ["16GB/s", "128GB/s"]}, launch.parent / "kept"
    rows = warpsight.sweep(product, gpu, axes, results=kept, accuracy=0.02).table.to_pylist()
    whole = warpsight.sweep(product, gpu, axes, results=kept, exact=True).table.to_pylist()
    assert len(rows) == len(whole) == 4
    for row, exact in zip(rows, whole, strict=True):
        assert exact["half_width"] == 0 < row["half_width"] <= 0.02
        assert abs(row["cycles"] - exact["cycles"]) <= row["half_width"] * row["cycles"]


def test_what_is_kept_of_a_sampled_launch_is_its_rows_and_no_trace(launch: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sweep", str(launch), "--gpu", "mdm-pascal", "--results", str(launch.parent / "kept"), "--accuracy", "20%"]
    words += ["--jobs", "1"]
    words += [part for each in ("core_clock=1GHz,2GHz", *FEW) for part in ("--set", each)]
    assert main([*words, "--out", str(launch.parent / "out")]) == 0
    printed = capsys.readouterr().out
    assert "2 rows from sampled waves; 95 % confidence interval of the cycles: +-" in printed
    assert not list((launch.parent / "kept").rglob("trace.json"))
    assert main([*words, "--plan"]) == 0
    assert "to compute" in (plan := capsys.readouterr().out) and all(line.split()[-1] == "0" for line in plan.splitlines()[6:11])


def test_designs_that_cannot_be_sampled_run_whole(launch: Path) -> None:
    """On 24 SMs the launch is six waves, of which a sample would be most."""
    found = warpsight.sweep(launch, SMALL, {"sm_count": [2, 24]}, results=launch.parent / "kept", accuracy=0.5).table.to_pylist()
    few, many = found
    assert few["half_width"] > 0 == many["half_width"]
    alone = warpsight.predict(launch, SMALL, overrides=["sm_count=24"], exact=True)
    assert many["cycles"] == pytest.approx(alone.cycles, rel=1e-12)


def test_accuracy_of_a_study_file_is_a_share_or_exact(tmp_path: Path) -> None:
    (tmp_path / "scale.cu").write_text(SOURCE)
    arrays = "['f32[131072]:zeros', 'f32[32768]:zeros']"
    text = f"kernels: [{{path: scale.cu, grid: 512, block: 64, args: {arrays}}}]\naxes: {{sm_count: [2]}}\n"
    for written, read in (("", 0.02), ("accuracy: 1 %", 0.01), ("accuracy: exact", None)):
        (tmp_path / "study.yaml").write_text(text + written)
        assert read_study(tmp_path / "study.yaml").accuracy == read
    for wrong in ("much", "200 %"):
        (tmp_path / "study.yaml").write_text(f"{text}accuracy: {wrong}")
        with pytest.raises(UsageError, match="share"):
            read_study(tmp_path / "study.yaml")
    (tmp_path / "study.yaml").write_text(f"{text}accuracy: 1 %\nsimulator: {{designs: 1}}")
    with pytest.raises(UsageError, match="needs every block"):
        read_study(tmp_path / "study.yaml")
    with pytest.raises(UsageError, match="needs every block"):
        warpsight.sweep("none.yaml", axes=AXES, accuracy=0.01, simulator=1)
    with pytest.raises(UsageError, match="cannot be combined"):
        warpsight.sweep("none.yaml", axes=AXES, accuracy=0.01, exact=True)
    assert main(["sweep", str(tmp_path / "scale.cu"), "--accuracy", "1%", "--exact"]) == 2
