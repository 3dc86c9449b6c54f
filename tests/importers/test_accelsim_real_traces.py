"""Traces of real GPUs that others have published: is everything in them read, with the counts that an independent reader found?"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from accelsim_reader import same

from warpsight.gpu.loader import load_gpu
from warpsight.pipeline.predict import predict_launches
from warpsight.pipeline.request import KernelRequest
from warpsight.traces.events import EventReader
from warpsight.traces.exporters.accelsim.writer import export_accelsim
from warpsight.traces.importers.accelsim.importer import import_accelsim
from warpsight.traces.schema import KernelTrace
from warpsight.traces.store import open_trace, save_trace
from warpsight.traces.validate import validate

TRACES = Path(__file__).parents[3] / "shared" / "traces"
TABLE = TRACES / "README.md"
there = pytest.mark.skipif(not TABLE.is_file(), reason="the published traces are not here")
pytestmark = [pytest.mark.oracle, pytest.mark.shared, there]


def rows() -> list[tuple[str, list[int]]]:
    """File, and blocks, warps, instructions, lane-instructions, loads, stores and sectors, of the table that came with the
    traces; nothing where they are not.
    """
    found = []
    for line in TABLE.read_text(encoding="utf-8").splitlines() if TABLE.is_file() else ():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0].endswith(".xz"):
            found.append((cells[0], [int(n.replace(",", "")) for cell in cells[4:] for n in re.findall(r"[\d,]*\d", cell)]))
    return found


def imported(name: str) -> KernelTrace:
    return import_accelsim(TRACES / name)[0].trace()


def counts(trace: KernelTrace) -> list[int]:
    reader = EventReader(trace)
    is_global = np.array([i.space == "global" for i in trace.instructions])
    is_load = np.array([i.access == "load" for i in trace.instructions])
    loads = stores = sectors = 0
    for chunk in trace.chunks:
        events = reader.read(chunk)
        active = is_global[events.pc] & (events.sectors > 0)
        loads += int((active & is_load[events.pc]).sum())
        stores += int((active & ~is_load[events.pc]).sum())
        sectors += int(events.sectors[active].sum())
    header = trace.header
    return [header.recorded_blocks, header.warps, header.warp_instructions, header.thread_instructions, loads, stores, sectors]


@pytest.mark.parametrize(("name", "wanted"), rows())
def test_published_trace_has_the_counts_of_an_independent_reader(name: str, wanted: list[int]) -> None:
    trace = imported(name)
    validate(trace)
    assert counts(trace) == wanted
    assert not trace.header.sampled_blocks
    assert not any("not in the table" in note for note in trace.notes)


@pytest.mark.parametrize("name", [name for name, _ in rows()])
def test_published_trace_exported_and_imported_again_is_the_same(name: str, tmp_path: Path) -> None:
    trace = imported(name)
    export_accelsim(trace, tmp_path / "out")
    assert same(trace, import_accelsim(tmp_path / "out")[0].trace()) == []


def test_published_trace_stored_in_our_form_is_the_same(tmp_path: Path) -> None:
    trace = imported("bfs_v3/kernel-13.traceg.xz")
    save_trace(trace, tmp_path / "t")
    stored = open_trace(tmp_path / "t")
    assert same(trace, stored) == []
    assert (stored.notes, stored.extra) == (trace.notes, trace.extra)


@pytest.mark.parametrize("folder", ["bfs_v3", "btree_v5_sm90"])
def test_application_total_is_all_instructions_over_the_sum_of_cycles(folder: str) -> None:
    models = ["mdm", "gpumech", "warpsight"]
    answers = predict_launches(KernelRequest(path=str(TRACES / folder)), load_gpu("mdm-pascal"), models)
    for model in models:
        *launches, total = [a for a in answers if a.model == model]
        assert total.provenance["varied"]["launch"] == "total"
        assert total.cycles == pytest.approx(sum(a.cycles for a in launches))
        instructions = sum(a.warp_instructions for a in launches)
        assert total.warp_instructions == instructions
        assert total.ipc_gpu_warp == pytest.approx(instructions / total.cycles)
        assert sum(total.cpi_stack.values()) == pytest.approx(total.cpi, abs=1e-9)
        assert total.cpi == pytest.approx(1 / total.ipc_sm_warp, rel=1e-6)


def test_launches_and_kernels_choose_among_a_folder() -> None:
    gpu, folder = load_gpu("mdm-pascal"), str(TRACES / "bfs_v3")
    answers = predict_launches(KernelRequest(path=folder, kernels="Kernel"), gpu, ["gpumech"])
    assert [a.provenance["varied"]["launch"] for a in answers] == [1, 3, "total"]
    answers = predict_launches(KernelRequest(path=folder, launches="2-3"), gpu, ["gpumech"])
    assert [a.warp_instructions for a in answers[:-1]] == [3584, 15165]
