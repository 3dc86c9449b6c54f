"""Are the rows of published times launched as their benchmarks launch them, and does the README say what their page says?"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from marked_page import get
from published_launches import SMALLEST, Row, rows
from published_times import COMMAND, PAGE, Kept

pytestmark = pytest.mark.oracle

README = Path(__file__).resolve().parents[2] / "README.md"
EVENTS = "gpu,kernel,n,rows,cols,iters,block,grid_blocks,registers,shared_bytes,mean_us,std_us\n"


def _rows(folder: Path, **tables: str) -> list[Row]:
    heads = {"nvbench": "gpu,suite,benchmark,type,parameters,cold_us,batch_us\n", "events": EVENTS,
             "h100": "suite,benchmark,parameters,microseconds\n"}  # fmt: skip
    for name, head in heads.items():
        (folder / f"{name}.csv").write_text(head + tables.get(name, ""))
    return list(rows(folder))


def test_a_convolution_has_the_grid_and_shared_memory_of_its_benchmark_and_its_batch_time(tmp_path: Path) -> None:
    """1,000 elements in blocks of 128 are 8 blocks; a tile has 2 more on each side, 132 x 4 bytes (`convolution1D_test.cu`)."""
    name = "Convolution 1D Tiled (Different Array Sizes)"
    (row,) = _rows(tmp_path, nvbench=f"RTX 2060,convolution,{name},,Array size=1000;Mask width=5;Block dim=128,10.5,9.5\n")
    (launch,) = row.launches
    assert (row.line, row.measured, row.caches_before, row.family) == (2, 9.5, "warm", "convolution 1d")
    assert (launch.grid, launch.block, launch.shared) == ((8,), (128,), 528)
    assert launch.arguments == (("f4", 1000), ("f4", 1000), 5, 1000)
    assert row.work == 8 * 4 * 5, "8 blocks of 4 warps, 5 elements of the mask each"


def test_a_reduction_is_launched_until_one_block_is_left_and_starts_with_a_cold_l2(tmp_path: Path) -> None:
    """Two loads for each of 512 threads: 2^24 elements take 16,384 blocks, their sums 16, and those 1."""
    name = "Reduction - Two Loads per Thread (Different Input sizes)"
    large, small = (f"RTX 3080,reduction,{name},U32,Array Size={n};Num Threads=512,187.2,\n" for n in (SMALLEST, SMALLEST // 2))
    (row,) = _rows(tmp_path, nvbench=large + small)
    assert [one.grid for one in row.launches] == [(16384,), (16,), (1,)]
    assert (row.caches_before, row.measured, {one.kernel for one in row.launches}) == ("cold", 187.2, {"reduction4"})


def test_rows_of_the_other_tables_have_the_launches_of_their_programs(tmp_path: Path) -> None:
    events = "TITAN V,reduce_sum,4194304,0,0,0,256,16384,10,1024,30.552,0.021\n"
    reduced, product = _rows(tmp_path, events=events, h100="polybench,gemm,size=96;blockDimX=32,8.5\n")
    assert (reduced.launches[0].grid, reduced.launches[0].shared) == ((8192,), 1024), "each thread adds two elements"
    assert (product.launches[0].grid, product.launches[0].block) == ((3, 12), (32, 8))
    assert ("NI", 96) in product.launches[0].defines


def test_the_mean_of_trials_with_one_and_two_times_the_iterations_is_launched_with_three_halves(tmp_path: Path) -> None:
    (row,) = _rows(tmp_path, events="TITAN V,atomic_hotspot,262144,0,0,50,256,1024,7,0,486.523,161.583\n")
    assert row.launches[0].arguments == (("u4", 1), 75)


def test_what_is_kept_of_a_row_is_read_again_with_what_joined_it_later(tmp_path: Path) -> None:
    events = "TITAN V,saxpy,262144,0,0,0,256,1024,10,0,4.415,0.01\n" * 2
    one, other = _rows(tmp_path, events=events)
    kept = Kept(tmp_path / "kept")
    kept.add(one, "sass", {"us": {"warpsight": 4.0}, "refused": {}, "sampling": None, "instructions": 7})
    kept.add(one, "sass", {"us": {"simulator": 5.0}})
    again = Kept(tmp_path / "kept")
    assert again.of(one) == {"table": "events.csv", "line": 2, "level": "sass", "us": {"warpsight": 4.0, "simulator": 5.0},
                             "refused": {}, "sampling": None, "instructions": 7}  # fmt: skip
    assert not again.of(other)["us"] and not again.of(one, "ptx")["us"]


def _held_out(name: str) -> dict[str, tuple[int, float]]:
    """Number of held-out rows and their mean error in percent, by table."""
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in get(PAGE, COMMAND, name).splitlines()[2:]]
    return {row[0]: (int(row[3]), float(row[4].removesuffix(" %"))) for row in cells if row[1:3] == ["held out", "all"]}


def test_the_readme_has_the_errors_of_held_out_rows_of_the_page() -> None:
    text = re.sub(r"\s+", " ", README.read_text())
    whole, long = _held_out("errors"), _held_out("long")
    summary = re.findall(r"(\d+) held-out rows, mean error ([\d.]+) %, median ([\d.]+) %", get(PAGE, COMMAND, "summary"))
    mean_and_median = r"mean error of the model `warpsight` is (\d+) %, and half of the predictions are within (\d+) %"
    said = re.findall(rf"on (\d+) published .*?{mean_and_median}", text)
    said += re.findall(r"On (\d+) more, of long launches .*?it is (\d+) %, and half of them are within (\d+) %", text)
    assert said == [(number, f"{float(mean):.0f}", f"{float(median):.0f}") for number, mean, median in summary]
    by_gpus = re.search(r"(\d+) % on an RTX 2060 and RTX 3080, (\d+) % on a TITAN V and RTX 4070, (\d+) % on an H100", text)
    assert by_gpus and [int(each) for each in by_gpus.groups()] == [whole[t][1] for t in ("nvbench.csv", "events.csv", "h100.csv")]
    for table, (number, mean, _) in zip((whole, long), summary, strict=True):
        assert int(number) == sum(count for count, _ in table.values())
        weighted = sum(count * error for count, error in table.values()) / int(number)
        assert weighted == pytest.approx(float(mean), abs=1), "the tables' means are rounded to a percent"


def test_long_launches_are_sampled_within_2_percent_and_no_table_is_off_by_more_than_a_fifth() -> None:
    """2 % is the interval that `predict` brings a sample within if nobody asks for another (ADR 0037)."""
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in get(PAGE, COMMAND, "long").splitlines()[2:]]
    assert cells and all(float(row[-1].removesuffix(" %")) <= 2 for row in cells)
    assert all(error <= 20 for name in ("errors", "long") for _, error in _held_out(name).values())
