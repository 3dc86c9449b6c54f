"""Does a trace keep the shape of clusters, and refuse one that does not fit its grid?"""

from __future__ import annotations

import dataclasses
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import synthetic_trace

from warpsight.base.errors import FormatError, UsageError
from warpsight.emulator.run.launch import choose_blocks
from warpsight.kernels.launch import Launch
from warpsight.traces.store import open_trace, save_trace
from warpsight.traces.validate import validate

pytestmark = pytest.mark.unit


def clustered(**fields: Any) -> Any:
    trace = synthetic_trace.small_trace(4, 1)
    return dataclasses.replace(trace, header=dataclasses.replace(trace.header, **fields))


def test_shape_of_clusters_is_stored(tmp_path: Path) -> None:
    stored = save_trace(clustered(cluster=(2, 1, 1)), tmp_path / "t")
    assert stored.header.cluster == (2, 1, 1) and stored.header.cluster_blocks == 2


def test_trace_without_a_shape_of_clusters_has_none(tmp_path: Path) -> None:
    """Traces of an older Warpsight do not state it."""
    save_trace(clustered(), tmp_path / "t")
    path = tmp_path / "t" / "header.json"
    document = json.loads(path.read_text())
    del document["cluster"], document["crc32"]
    document["crc32"] = zlib.crc32(json.dumps(document, sort_keys=True, separators=(",", ":")).encode())
    path.write_text(json.dumps(document))
    assert open_trace(tmp_path / "t").header.cluster == (1, 1, 1)


@pytest.mark.parametrize("cluster", [(3, 1, 1), (1, 2, 1), (0, 1, 1)])
def test_clusters_that_do_not_divide_the_grid_are_refused(cluster: tuple[int, int, int]) -> None:
    with pytest.raises(FormatError, match="do not divide the grid"):
        validate(clustered(cluster=cluster))


def test_blocks_start_cluster_after_cluster() -> None:
    launch = Launch("k", (4, 2, 1), (32, 1, 1), (), cluster=(2, 2, 1))
    assert launch.block_at(np.arange(8)).tolist() == [0, 1, 4, 5, 2, 3, 6, 7]
    assert not launch.starts_in_order


def test_sample_has_whole_clusters() -> None:
    chosen = choose_blocks(64, 12, 7, (4, 1, 1)).reshape(16, 4)
    assert chosen.sum() == 12 and set(chosen.sum(axis=1).tolist()) == {0, 4}
    with pytest.raises(UsageError, match="a sample of 6 blocks is not whole clusters of 4"):
        choose_blocks(64, 6, 7, (4, 1, 1))
    with pytest.raises(UsageError, match="those of a cluster are apart"):
        choose_blocks(64, 8, 7, (2, 2, 1))
