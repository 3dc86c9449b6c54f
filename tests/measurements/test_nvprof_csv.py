"""Are nvprof's CSV files read: summary, trace of launches, metrics of either, several tables in one file?"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsight.base.errors import FormatError, WarpsightError
from warpsight.hardware.measurements.launch import Measurements
from warpsight.hardware.references import measurements_of

pytestmark = pytest.mark.unit

SUMMARY = """\
==31415== NVPROF is profiling process 31415, command: ./app
==31415== Profiling application: ./app
==31415== Profiling result:
"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"
,%,ms,,us,us,us,
"GPU activities",71.2,4.000000,2,2000.5,1990.0,2011.0,"saxpy(float, float*, float*, int)"
"GPU activities",20.0,1.000000,1,1000.0,1000.0,1000.0,"void reduce<int=256>(int*)"
"GPU activities",8.8,0.500000,1,500.0,500.0,500.0,"[CUDA memcpy HtoD]"
"API calls",99.0,200.0,3,66.0,1.0,198.0,"cudaMalloc"
"""
METRICS = """\
==31415== Profiling result:
==31415== Metric result:
"Device","Kernel","Invocations","Metric Name","Metric Description","Min","Max","Avg"
"K20c (0)","saxpy(float, float*, float*, int)",2,"inst_executed","Instructions Executed",1000,1200,1100
"K20c (0)","saxpy(float, float*, float*, int)",2,"l2_tex_hit_rate","L2 Hit Rate (Texture Reads)",10.0%,30.0%,20.00%
"K20c (0)","saxpy(float, float*, float*, int)",2,"dram_read_transactions","Device Memory Read Transactions",90,110,100
"K20c (0)","saxpy(float, float*, float*, int)",2,"dram_utilization","Device Memory Utilization","Low (1)","Low (2)","Low (1)"
"K20c (0)","saxpy(float, float*, float*, int)",2,"stall_memory_dependency","Stall Reasons",70.0%,80.0%,75.00%
"K20c (0)","saxpy(float, float*, float*, int)",2,"stall_sync","Issue Stall Reasons",25.0%,25.0%,25.00%
"K20c (0)","saxpy(float, float*, float*, int)",2,"gld_transactions","Global Load Transactions",<OVERFLOW>,<OVERFLOW>,<OVERFLOW>
"""
_TRACE_HEAD = (
    '"Start","Duration","Grid X","Grid Y","Grid Z","Block X","Block Y","Block Z","Registers Per Thread","Static SMem",'
    '"Dynamic SMem","Size","Throughput","SrcMemType","DstMemType","Device","Context","Stream","Name","Correlation_ID"'
)
TRACE = f"""\
======== Warning: 12 records have invalid timestamps
======== Profiling result:
{_TRACE_HEAD}
ms,us,,,,,,,,KB,B,MB,GB/s,,,,,,,
220.0,1.888,,,,,,,,,,1.003906,0.507097,"Device",,"GeForce RTX 2080 Ti (0)","1","7","[CUDA memset]",272
230.0,12.5,128,2,1,256,1,1,16,0.0,0,,,,,"GeForce RTX 2080 Ti (0)","1","7","saxpy(float, float*, float*, int)",300
231.0,13.5,128,2,1,256,1,1,16,0.0,0,,,,,"GeForce RTX 2080 Ti (0)","1","7","saxpy(float, float*, float*, int)",310
"""
PER_LAUNCH = """\
==1== Metric result:
"Device","Context","Stream","Kernel","Correlation_ID","Instructions Executed","Executed IPC","achieved_occupancy"
"GeForce RTX 2080 Ti (0)","1","7","saxpy(float, float*, float*, int)",300,4096,1.25,0.5
"GeForce RTX 2080 Ti (0)","1","7","saxpy(float, float*, float*, int)",310,4098,1.5,0.75
"""


def _read(text: str) -> Measurements:
    found = measurements_of(text, "nvprof.csv")
    assert found is not None and found.tool == "nvprof"
    return found


def test_summary_gives_the_mean_of_each_kernel_and_no_copies_or_calls() -> None:
    found = _read(SUMMARY)
    many, one = found.launches
    assert (many.kernel, many.invocations, many.number, many.value("seconds")) == (
        "saxpy(float, float*, float*, int)", 2, "mean", pytest.approx(2.0005e-3),
    )  # fmt: skip
    assert (one.kernel, one.invocations, one.number, one.grid) == ("void reduce<int=256>(int*)", 1, "0", None)
    assert one.value("seconds") == pytest.approx(1e-3)
    assert "mean of a kernel's launches" in found.notes[0]


def test_metrics_join_the_times_of_the_same_file() -> None:
    launch = _read(f"{SUMMARY}\n{METRICS}").launches[0]
    assert launch.device == "K20c (0)"
    assert {name: measure.value for name, measure in launch.measures.items()} == pytest.approx(
        {"seconds": 2.0005e-3, "warp_instructions": 1100, "l2_hit_rate": 0.2, "dram_read_bytes": 3200}
    )
    assert launch.absent == ("gld_transactions",)
    assert launch.value("cycles") is None
    assert [(stall.reason, stall.share, stall.component) for stall in launch.stalls] == [
        ("long scoreboard", 0.75, "mem_data"), ("barrier", 0.25, "sync"),
    ]  # fmt: skip


def test_trace_has_every_launch_with_its_grid_and_block() -> None:
    first, second = _read(TRACE).launches
    assert (first.grid, first.block, first.number) == ((128, 2, 1), (256, 1, 1), "0")
    assert first.value("seconds") == pytest.approx(12.5e-6)
    assert (second.number, second.value("seconds"), second.place) == ("1", pytest.approx(13.5e-6), "nvprof.csv:7")


def test_metrics_of_launches_join_their_trace_in_order() -> None:
    first, second = _read(f"{TRACE}\n{PER_LAUNCH}").launches
    assert first.value("seconds") == pytest.approx(12.5e-6)
    assert (first.value("warp_instructions"), first.value("occupancy")) == (4096, 0.5)
    assert (second.value("ipc_active"), second.value("occupancy")) == (1.5, 0.75)


def test_older_summary_without_types_leaves_calls_of_the_host_out() -> None:
    head = '"Time(%)","Time","Calls","Avg","Min","Max","Name"\n%,ms,,us,us,us,\n'
    rows = '9,4.0,2,2000.5,1990.0,2011.0,"k(int*)"\n5,4.0,2,2000.5,1990.0,2011.0,"[CUDA memcpy DtoH]"\n'
    text = f"==1== Profiling result:\n{head}{rows}\n==1== API calls:\n{head}5,1,1,1,1,1,\"cudaMalloc\"\n"
    assert [launch.kernel for launch in _read(text).launches] == ["k(int*)"]


@pytest.mark.parametrize(
    ("text", "old", "new", "place", "part"),
    [
        (SUMMARY, ",%,ms,,us,us,us,\n", "", "nvprof.csv:5", 'Duration has the unit ""'),
        (SUMMARY, "2000.5", "2000.5x9", "nvprof.csv:6", "x9"),
        (SUMMARY, ",2,2000.5", ",two,2000.5", "nvprof.csv:6", "Calls"),
        (TRACE, "128,2,1", "128,,1", "nvprof.csv:6", "Grid"),
        (TRACE, '"saxpy(float, float*, float*, int)",310', '"saxpy', "nvprof.csv:7", "cells"),
        (TRACE, '"1","7","saxpy(float, float*, float*, int)",310', "", "nvprof.csv:7", "cells"),
        (METRICS, "20.00%", "20.00", "nvprof.csv:5", "l2_tex_hit_rate"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(text: str, old: str, new: str, place: str, part: str) -> None:
    with pytest.raises(FormatError) as found:
        _read(text.replace(old, new, 1))
    assert (found.value.place, part in found.value.what) == (place, True), found.value


def test_table_without_a_kernel_is_refused() -> None:
    with pytest.raises(FormatError, match="no kernel"):
        _read("\n".join(TRACE.splitlines()[:5]) + "\n")


@pytest.mark.property
@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damaged_nvprof_files_end_in_an_answer_or_a_located_error(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from([SUMMARY, f"{SUMMARY}\n{METRICS}", f"{TRACE}\n{PER_LAUNCH}"]))
    for _ in range(data.draw(st.integers(1, 6))):
        place = data.draw(st.integers(0, len(text)))
        damage = data.draw(st.sampled_from(["", '"', ",", "\n", "(", "9" * 70, "e999", "n/a", "\x00", "%", ";", "é", "=="]))
        text = text[:place] + damage + text[place + data.draw(st.integers(0, 30)) :]
    try:
        measurements_of(text, "nvprof.csv")
    except WarpsightError as error:
        assert error.place.startswith("nvprof.csv")
