"""Which configurations of a kernel are tried, which is the default, and what is refused before anything is compiled?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from warpsight.base.errors import UsageError
from warpsight.pipeline.request import KernelRequest
from warpsight.sweeps.configurations import Budget, configurations
from warpsight.sweeps.launches import launched

pytestmark = pytest.mark.unit
LAUNCH = "source: k.cu\ngrid: ceil(n / block.x)\nblock: 128\ndefines: [TILE=16, OTHER=3]\nargs: ['i32:1000']\n"


@pytest.fixture
def request_(tmp_path: Path) -> KernelRequest:
    path = tmp_path / "launch.yaml"
    path.write_text(LAUNCH)
    return KernelRequest(str(path))


def test_every_combination_is_tried_after_the_default(request_: KernelRequest) -> None:
    space = configurations(request_, {"block": [64, 128], "define.TILE": "16,32"})
    assert [dict(choice) for choice in space.choices] == [
        {"block": "128", "define.TILE": "16"}, {"block": "64", "define.TILE": "16"}, {"block": "64", "define.TILE": "32"},
        {"block": "128", "define.TILE": "32"},
    ]  # fmt: skip
    assert (space.combinations, space.excluded, space.left_out) == (4, 0, 0)


def test_default_is_what_the_launch_says_also_where_no_axis_has_it(request_: KernelRequest) -> None:
    assert dict(configurations(request_, {"block": "32x2,64", "define.TILE": [8]}).default) == {"block": "128", "define.TILE": "16"}
    over = replace(request_, block="16,4", defines=("TILE=2",))
    assert dict(configurations(over, {"block": "64", "define.TILE": "8"}).default) == {"block": "16x4", "define.TILE": "2"}


def test_where_the_launch_says_nothing_it_is_the_first_or_none(request_: KernelRequest) -> None:
    assert dict(configurations(request_, {"maxrregcount": [32, 64], "define.NEW": "7,8"}).default) == {"define.NEW": "7"}
    computed = replace(request_, block="TILE, 4")
    assert dict(configurations(computed, {"block": [64, 128]}).default) == {}


def test_conditions_read_numbers_dimensions_and_words(request_: KernelRequest) -> None:
    axes = {"block": "16x16,32x8,64", "define.TILE": [16, 32], "define.T": "float,half"}
    where = ["block.x == TILE or block.y == 1", 'T == "half"', "block <= 256"]
    space = configurations(request_, axes, where)
    assert [dict(choice)["block"] for choice in space.choices[1:]] == ["16x16", "32x8", "64", "64"]
    assert space.excluded == 8


def test_budget_draws_the_same_ones_for_a_seed_beside_the_default(request_: KernelRequest) -> None:
    axes = {"block": "32:1024:32"}
    first, again, other = (configurations(request_, axes, (), Budget(5, seed)) for seed in (1, 1, 2))
    assert first == again != other
    assert (len(first.choices), first.left_out, first.default) == (5, 27, (("block", "128"),))
    assert len(configurations(request_, axes, (), Budget(99)).choices) == 32


def test_choice_changes_one_macro_and_keeps_the_others(request_: KernelRequest) -> None:
    chosen = launched(request_, (("block", "32x2"), ("define.TILE", "8"), ("maxrregcount", "40")))
    assert (chosen.block, chosen.defines, chosen.maxrregcount) == ("32,2", ("OTHER=3", "TILE=8"), 40)


@pytest.mark.parametrize(
    ("axes", "where", "what"),
    [({}, (), "there is nothing to vary"), ({"block": "64,64"}, (), "the value 64 twice"),
     ({"arg.1": "1,2"}, (), "another problem"), ({"blok": "1,2"}, (), "is not a known key"),
     ({"maxrregcount": "8,300"}, (), "maxrregcount"),
     ({"block": 7}, (), "no list of values"), ({"constant.B": "1,2"}, (), "only a Triton kernel"),
     ({"block": "32,64"}, ("TILE > 3",), "TILE is not a known key"), ({"block": "32,64"}, ("grid > 3",), "grid, which is not"),
     ({"block": "32,64"}, ("block",), "is not a condition"), ({"block": "32,64"}, ("block > 99",), "exclude every one"),
     ({"block": "1:1024:1", "define.A": "1:1000:1"}, (), "1,024,000 combinations")],
)  # fmt: skip
def test_what_cannot_be_varied_is_refused(
    request_: KernelRequest, axes: dict[str, str], where: tuple[str, ...], what: str
) -> None:
    with pytest.raises(UsageError, match=what):
        configurations(request_, axes, where)


def test_empty_budget_is_refused(request_: KernelRequest) -> None:
    with pytest.raises(UsageError, match="tries nothing"):
        configurations(request_, {"block": "32,64"}, (), Budget(0))


def test_macro_that_neither_source_nor_launch_reads_is_refused_with_the_nearest(request_: KernelRequest) -> None:
    source = Path(request_.path).parent / "k.cu"
    source.write_text("__global__ void k(int n) { int x[TILE]; }\n")
    with pytest.raises(UsageError, match=r'k\.cu does not read the macro TIEL; did you mean "TILE"\?'):
        configurations(request_, {"define.TIEL": "8,16"})
    assert len(configurations(request_, {"define.TILE": "8,16"}).choices) == 2
    assert len(configurations(replace(request_, block="ROWS"), {"define.ROWS": "8,16"}).choices) == 2
    source.write_text('#include "tile.h"\n' + source.read_text())
    (source.parent / "tile.h").write_text("static const int tiles = TIEL;\n")
    assert len(configurations(request_, {"define.TIEL": "8,16"}).choices) == 2
    source.write_text("#include <cub/cub.cuh>\n__global__ void k(int n) {}\n")  # reads macros of its own
    assert len(configurations(request_, {"define.OTHER_HEADER": "8,16"}).choices) == 2
