"""Are Nsight Compute's CSV files read, wide and long, in each unit and language, with what is not there left out?

The layouts are those of ncu 2020 to 2025; the figures are made up.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsight.base.errors import FormatError, UsageError, WarpsightError
from warpsight.hardware.measurements.launch import FIELDS, MeasuredLaunch
from warpsight.hardware.measurements.metrics import notation_of
from warpsight.hardware.references import measurements_of, read_measurements, text_of

pytestmark = pytest.mark.unit

_FIXED = '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC"'
_STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
# metric, its unit, its value of two launches
_COLUMNS = (
    ("dram__bytes_read.sum", "Mbyte", "8.39", "1.00"),
    ("dram__bytes_write.sum", "Kbyte", "4.10", "0"),
    ("gpc__cycles_elapsed.max", "cycle", "12,345", "2,000"),
    ("gpu__time_duration.sum", "usecond", "9.95", "1.60"),
    ("l1tex__t_sector_hit_rate.pct", "%", "0.00", "33.33"),
    ("lts__t_sector_hit_rate.pct", "%", "n/a", "50"),
    ("sm__cycles_elapsed.avg.per_second", "cycle/nsecond", "1.24", "1.25"),
    ("smsp__inst_executed.sum", "inst", "262,144", "1,000"),
    (_STALL.format("long_scoreboard"), "inst", "6", "(!) nan"),
    (_STALL.format("barrier"), "inst", "3", "0"),
    (_STALL.format("selected"), "inst", "1", "1"),
)


def _cells(which: int) -> str:
    return ",".join(f'"{column[which]}"' for column in _COLUMNS)


WIDE = f"""\
==PROF== Connected to process 4242 (/home/u/app)
result, 3.5
==PROF== Profiling "saxpy" - 0: 0%....50%....100% - 9 passes
==PROF== Disconnected from process 4242
{_FIXED},{_cells(0)}
"","","","","","","","","","","",{_cells(1)}
"0","4242","app","127.0.0.1","void saxpy<float>(const T1 *, T1 *)","1","7","(256, 1, 1)","(4096, 1, 1)","0","8.0",{_cells(2)}
"1","4242","app","127.0.0.1","(anonymous namespace)::reduce(int *)","1","7","(32, 4, 2)","(10, 20, 30)","0","8.0",{_cells(3)}
"""
_LONG = '"Section Name","Metric Name","Metric Unit","Metric Value","Rule Name","Rule Type","Rule Description"'
_ROW = '"0","7","app","h","saxpy(float, const float *, float *, int)","1","7","(256, 1, 1)","(128, 1, 1)","0","7.0"'
DETAILS = f"""\
==PROF== Connected to process 7
{_FIXED},{_LONG}
{_ROW},"GPU Speed Of Light Throughput","SM Frequency","cycle/nsecond","1.31",
{_ROW},"GPU Speed Of Light Throughput","Elapsed Cycles","cycle","4,321",
{_ROW},"GPU Speed Of Light Throughput","Memory Throughput","%","45.70",
{_ROW},"GPU Speed Of Light Throughput","Duration","usecond","3.30",
{_ROW},"SpeedOfLight","","","","SOLBottleneck","WRN","This kernel, ""small"", has
two lines of advice."
{_ROW},"Memory Workload Analysis","Memory Throughput","Gbyte/second","250.5",
{_ROW},"Memory Workload Analysis","L1/TEX Hit Rate","%","12.50",
{_ROW},"Memory Workload Analysis","L2 Hit Rate","%","66.67",
{_ROW},"Compute Workload Analysis","Executed Ipc Elapsed","inst/cycle","0.42",
{_ROW},"Instruction Statistics","Executed Instructions","inst","10,240",
{_ROW},"Occupancy","Achieved Occupancy","%","71.5",
"""


def _read(text: str) -> tuple[MeasuredLaunch, ...]:
    found = measurements_of(text, "ncu.csv")
    assert found is not None and found.tool == "ncu"
    return found.launches


def _values(launch: MeasuredLaunch) -> dict[str, float]:
    return {name: measure.value for name, measure in launch.measures.items()}


def test_wide_table_is_read_in_base_units_by_its_row_of_units() -> None:
    first, second = _read(WIDE)
    assert (first.kernel, first.grid, first.block) == ("void saxpy<float>(const T1 *, T1 *)", (4096, 1, 1), (256, 1, 1))
    assert (second.number, second.grid, second.block, second.place) == ("1", (10, 20, 30), (32, 4, 2), "ncu.csv:8")
    assert _values(first) == pytest.approx({
        "cycles": 12345, "seconds": 9.95e-6, "sm_clock": 1.24e9, "warp_instructions": 262144, "l1_hit_rate": 0,
        "dram_read_bytes": 8.39e6, "dram_write_bytes": 4100, "dram_bytes": 8.3941e6,
    })  # fmt: skip
    assert first.measures["cycles"].metric == "gpc__cycles_elapsed.max"


def test_metric_without_a_value_is_absent_and_never_zero() -> None:
    first, second = _read(WIDE)
    assert first.value("l2_hit_rate") is None
    assert first.absent == ("lts__t_sector_hit_rate.pct",)
    assert second.value("l2_hit_rate") == 0.5
    document = first.to_json()
    assert document["l2_hit_rate"] is None and document["l1_hit_rate"]["value"] == 0
    assert set(FIELDS) <= set(document)


def test_stall_reasons_have_shares_and_the_nearest_component() -> None:
    first, second = _read(WIDE)
    assert [(stall.reason, stall.share, stall.component) for stall in first.stalls] == [
        ("long scoreboard", 0.6, "mem_data"), ("barrier", 0.3, "sync"), ("selected", 0.1, "base"),
    ]  # fmt: skip
    assert first.component_shares() == {"mem_data": 0.6, "sync": 0.3, "base": 0.1}
    assert [stall.reason for stall in second.stalls] == ["selected", "barrier"]


def test_details_page_is_one_launch_of_many_rows() -> None:
    (launch,) = _read(DETAILS)
    assert _values(launch) == pytest.approx({
        "cycles": 4321, "seconds": 3.3e-6, "sm_clock": 1.31e9, "warp_instructions": 10240, "ipc": 0.42, "l1_hit_rate": 0.125,
        "l2_hit_rate": 0.6667, "dram_bytes": 250.5e9 * 3.3e-6, "occupancy": 0.715,
    })  # fmt: skip
    assert launch.measures["dram_bytes"].metric == "Memory Throughput x Duration"


def test_older_long_table_without_sizes_is_read() -> None:
    head = '"ID","Process ID","Process Name","Host Name","Kernel Name","Kernel Time","Context","Stream",'
    row = '"0","21","cfd","127.0.0.1","step(int)","2020-Apr-07 17:01:05","1","7","GPU Speed Of Light"'
    rows = f'{row},"SM Frequency","cycle/second","1138271055.75"\n{row},"Duration","nsecond","3520"\n'
    (launch,) = _read(f'{head}"Section Name","Metric Name","Metric Unit","Metric Value"\n\n{rows}')
    assert (launch.grid, launch.block) == (None, None)
    assert _values(launch) == pytest.approx({"sm_clock": 1138271055.75, "seconds": 3.52e-6})


@pytest.mark.parametrize(
    ("number", "value"),
    [("1.234,56", 1234.56), ("1234,5", 1234.5), ("1\u202f234,5", 1234.5), ("1 234 567,5", 1234567.5), ("0,125", 0.125)],
)
def test_decimal_comma_of_a_file_is_recognised(number: str, value: float) -> None:
    text = WIDE.replace('"12,345"', f'"{number}"')
    for old in ("8.39", "4.10", "9.95", "0.00", "1.24", "1.00", "1.60", "33.33", "1.25"):
        text = text.replace(f'"{old}"', f'"{old.replace(".", ",")}"')
    for old in ("262,144", "2,000", "1,000"):
        text = text.replace(f'"{old}"', f'"{old.replace(",", ".")}"')
    first, second = _read(text)
    assert (first.value("cycles"), first.value("warp_instructions")) == (pytest.approx(value), 262144)
    assert (second.value("cycles"), second.value("l1_hit_rate")) == (2000, pytest.approx(0.3333))


def test_semicolons_and_windows_line_ends_and_utf_16_are_read() -> None:
    text = "\r\n".join(DETAILS.replace('","', '";"').replace('",\n', '";\n').splitlines())
    assert _values(_read(text)[0]) == _values(_read(DETAILS)[0])
    assert _read(text_of(WIDE.encode("utf-16"), "x")) == _read(WIDE)


def test_two_decimal_marks_in_one_file_contradict() -> None:
    with pytest.raises(FormatError, match="decimal comma") as found:
        _read(WIDE.replace('"9.95"', '"9,95"'))
    assert found.value.place == "ncu.csv:7"


@pytest.mark.parametrize(
    ("old", "new", "place", "part"),
    [
        ('"12,345"', '"12,34x"', "ncu.csv:7", "gpc__cycles_elapsed.max"),
        ('"12,345"', '"-5"', "ncu.csv:7", "negative"),
        ('"usecond"', '""', "ncu.csv:7", "gpu__time_duration.sum has the unit"),
        ('"usecond"', '"furlong"', "ncu.csv:7", "furlong"),
        ('"(256, 1, 1)"', '"many"', "ncu.csv:7", "Block Size"),
        ('"(256, 1, 1)"', '"(0, 1, 1)"', "ncu.csv:7", "Block Size"),
        ('"1","4242"', '"0","4242"', "ncu.csv:8", "same ID"),
        ('"1","4242"', '"one","4242"', "ncu.csv:8", "not a number"),
        ('"1","4242"', '"","4242"', "ncu.csv:8", "no ID"),
        ('"Context"', '"Stream"', "ncu.csv:5", "two columns"),
    ],
)
def test_what_is_wrong_with_a_table_is_told_with_its_line(old: str, new: str, place: str, part: str) -> None:
    with pytest.raises(FormatError) as found:
        _read(WIDE.replace(old, new, 1))
    assert found.value.place == place
    assert part in found.value.what


@pytest.mark.parametrize("text", [WIDE, DETAILS], ids=["wide", "long"])
def test_table_that_is_cut_within_a_row_is_refused_with_its_line(text: str) -> None:
    last = text.rstrip().rindex("\n") + 1
    lines = text.count("\n", 0, last) + 1
    for cut in range(last + 2, last + 130, 7):
        with pytest.raises(FormatError) as found:
            _read(text[:cut])
        assert found.value.place == f"ncu.csv:{lines}"


def test_header_alone_and_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="no launch"):
        _read("\n".join(WIDE.splitlines()[:6]) + "\n")
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    with pytest.raises(FormatError, match="not a table of Nsight Compute or nvprof"):
        read_measurements(str(tmp_path / "x.csv"))
    with pytest.raises(UsageError):
        read_measurements(str(tmp_path / "none.csv"))


def test_shares_above_a_hundred_per_cent_are_kept_and_told() -> None:
    found = measurements_of(WIDE.replace('"50"', '"171.46"'), "ncu.csv")
    assert found is not None
    assert found.launches[1].value("l2_hit_rate") == pytest.approx(1.7146)
    assert any("171 %" in note for note in found.notes)


@pytest.mark.property
@settings(max_examples=200, deadline=None)
@given(st.floats(0, 1e15), st.sampled_from([",.", ".,", " ,", "'."]), st.integers(0, 4))
def test_numbers_in_any_language_read_back(number: float, marks: str, digits: int) -> None:
    text = f"{number:,.{digits}f}".translate(str.maketrans(",.", marks))
    certain = f"0{marks[1]}5"
    notation = notation_of([(certain, "a:1"), (text, "a:2")])
    assert notation.number(text, "x", "a:2") == pytest.approx(float(f"{number:.{digits}f}"))


@pytest.mark.property
@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damaged_files_end_in_an_answer_or_a_located_error(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from([WIDE, DETAILS]))
    for _ in range(data.draw(st.integers(1, 6))):
        place = data.draw(st.integers(0, len(text)))
        damage = data.draw(st.sampled_from(["", '"', ",", "\n", "(", "9" * 70, "e999", "n/a", "\x00", "%", ";", "é", "=="]))
        text = text[:place] + damage + text[place + data.draw(st.integers(0, 30)) :]
    try:
        measurements_of(text, "ncu.csv")
    except WarpsightError as error:
        assert error.place.startswith("ncu.csv")
