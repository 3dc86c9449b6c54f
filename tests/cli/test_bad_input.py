"""Is every wrong input answered by one clear line, with the right exit code and no traceback?"""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import LAUNCH, assert_one_error, run

from warpsight.kernels.sources import load_source

pytestmark = pytest.mark.unit

Capture = pytest.CaptureFixture[str]


def _changed(**changes: str) -> list[str]:
    """`LAUNCH` with some options replaced."""
    words = list(LAUNCH)
    for option, value in changes.items():
        at = words.index(f"--{option}")
        words[at + 1] = value
    return words


def test_empty_file_is_refused(tmp_path: Path, capsys: Capture) -> None:
    empty = tmp_path / "empty.cu"
    empty.write_text("")
    assert_one_error(run(capsys, "predict", empty, *LAUNCH), 2, f"{empty}: is empty")


def test_output_without_a_name_is_refused_and_nothing_is_written(
    saxpy: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(saxpy.parent)
    before = set(saxpy.parent.iterdir())
    for command in ("report", "trace", "init"):
        launch = [] if command == "init" else LAUNCH
        assert_one_error(run(capsys, command, saxpy, *launch, "-o", ""), 2, "-o: is empty", "leave it out")
    assert set(saxpy.parent.iterdir()) == before


def test_file_that_is_not_there_is_refused_with_the_nearest(saxpy: Path, capsys: Capture) -> None:
    missing = saxpy.parent / "saxpi.cu"
    assert_one_error(run(capsys, "predict", missing, *LAUNCH), 2, "no such file", 'did you mean "saxpy.cu"?')
    (saxpy.parent / "saxpy.yaml").write_text("source: saxpy.cu\n")
    missing = saxpy.parent / "sxpy.yaml"
    assert_one_error(run(capsys, "predict", missing), 2, "no such launch file", 'did you mean "saxpy.yaml"?')


def test_ptx_cut_in_half_is_refused_with_its_line(saxpy: Path, capsys: Capture) -> None:
    text = load_source(saxpy).ptx
    cut = saxpy.parent / "cut.ptx"
    cut.write_text(text[: len(text) // 2])
    assert_one_error(run(capsys, "predict", cut, *LAUNCH), 2, f"{cut}:")


def test_kernel_name_misspelt_is_refused_with_suggestions(saxpy: Path, capsys: Capture) -> None:
    outcome = run(capsys, "predict", saxpy, *_changed(kernel="saxby"))
    assert_one_error(outcome, 2, 'there is no kernel "saxby"; did you mean "saxpy"?', "the kernels are: saxpy, spin")


def test_kernel_name_left_out_of_several_lists_them(saxpy: Path, capsys: Capture) -> None:
    assert_one_error(run(capsys, "predict", saxpy, "--grid", "1", "--block", "32"), 2, "saxpy, spin", "--kernel")


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"grid": "0"}, ["--grid", "0 in x"]),
        ({"grid": "1,0,1"}, ["--grid", "0 in y"]),
        ({"grid": "many"}, ["--grid", "many"]),
        ({"block": "2048"}, ["--block", "2,048 threads", "1,024"]),
        ({"block": "64,64"}, ["--block", "4,096 threads"]),
        ({"block": "0"}, ["--block", "0 in x"]),
        ({"arg": "f32[64]:zeros"}, ["argument"]),
        ({"arg": "hex:00ff"}, ["argument"]),
        ({"arg": "q7:1"}, ['"q7" is not a type']),
    ],
)
def test_launch_that_cuda_would_refuse_is_refused(changes: dict[str, str], parts: list[str], saxpy: Path, capsys: Capture) -> None:
    assert_one_error(run(capsys, "predict", saxpy, *_changed(**changes)), 2, *parts)


@pytest.mark.parametrize("dropped", [2, -2])
def test_arguments_too_few_or_too_many_are_refused_with_what_is_needed(dropped: int, saxpy: Path, capsys: Capture) -> None:
    words = LAUNCH[:-2] if dropped > 0 else (*LAUNCH, "--arg", "1")
    assert_one_error(run(capsys, "predict", saxpy, *words), 2, "argument")


def test_grid_left_out_is_asked_for(saxpy: Path, capsys: Capture) -> None:
    assert_one_error(
        run(capsys, "trace", saxpy, "--kernel", "spin", "--block", "32", "-o", saxpy.parent / "t"), 2, "--grid: is missing"
    )


def test_shared_memory_above_the_gpu_s_is_refused_before_the_run(saxpy: Path, capsys: Capture) -> None:
    outcome = run(capsys, "predict", saxpy, *LAUNCH, "--shared", str(200 * 1024))
    assert_one_error(outcome, 2, "mdm-pascal", "204,800", "98,304")


def test_endless_loop_stops_at_the_limit_with_exit_4(saxpy: Path, capsys: Capture) -> None:
    words = ["--kernel", "spin", "--grid", "1", "--block", "32", "--arg", "i32[1]:zeros", "--max-instructions", "100000"]
    outcome = run(capsys, "trace", saxpy, *words, "-o", saxpy.parent / "t")
    assert_one_error(outcome, 4, "100,000", "--max-instructions")
    assert not (saxpy.parent / "t").exists()


def test_limit_of_zero_instructions_is_refused(saxpy: Path, capsys: Capture) -> None:
    assert_one_error(run(capsys, "predict", saxpy, *LAUNCH, "--max-instructions", "0"), 2, "--max-instructions")


def test_registers_beyond_the_hardware_are_refused(saxpy: Path, capsys: Capture) -> None:
    assert_one_error(run(capsys, "predict", saxpy, *LAUNCH, "--registers", "300"), 2, "--registers", "255")


def test_compiler_error_is_shown_in_the_compiler_s_words(tmp_path: Path, capsys: Capture) -> None:
    broken = tmp_path / "broken.cu"
    broken.write_text("__global__ void k(float* x) {\n  x[0] = yy;\n}\n")
    outcome = run(capsys, "predict", broken, "--grid", "1", "--block", "32", "--arg", "f32[1]:zeros")
    assert outcome.code == 2
    assert "Traceback" not in outcome.err
    assert f"{broken}(2)" in outcome.err or f"{broken}:2" in outcome.err
    assert "yy" in outcome.err


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("l1: {size: 48 KiB, way: 6}", ["gpu.yaml:3", "l1.way", 'did you mean "ways"?']),
        ("sm_count: 14\nsm_count: 15", ["gpu.yaml:4", "sm_count"]),
        ("core_clock: 1.4", ["gpu.yaml:3", "core_clock", "no unit"]),
        ("l1: {size: -48 KiB}", ["gpu.yaml:3", "l1.size", "negative"]),
        ("sm_count: 0", ["gpu.yaml:3", "sm_count"]),
        ("dram: {bandwidth: 480 GHz}", ["gpu.yaml:3", "dram.bandwidth"]),
    ],
)
def test_gpu_file_with_a_slip_is_refused_with_its_line(line: str, parts: list[str], launch_file: Path, capsys: Capture) -> None:
    gpu = launch_file.parent / "gpu.yaml"
    gpu.write_text(f'like: mdm-pascal\nsources: {{"*": "made up"}}\n{line}\n')
    assert_one_error(run(capsys, "predict", launch_file, "--gpu", gpu), 2, *parts)
    checked = run(capsys, "gpus", "check", gpu)
    assert checked.code == 2
    assert all(part in checked.err for part in parts)


@pytest.mark.parametrize(
    ("setting", "part"),
    [
        ("l1.mshr=4", 'did you mean "l1.mshrs"?'),
        ("sm_count", "key=value"),
        ("sm_count=-1", "negative"),
        ("core_clock=2", "no unit"),
    ],
)
def test_setting_that_cannot_be_meant_is_refused(setting: str, part: str, launch_file: Path, capsys: Capture) -> None:
    assert_one_error(run(capsys, "predict", launch_file, "--set", setting), 2, "--set", part)


@pytest.mark.parametrize(
    ("words", "part"),
    [(["--gpu", "mdm-pasqal"], 'did you mean "mdm-pascal"?'), (["--model", "mdn"], 'did you mean "mdm"?')],
)
def test_name_that_is_not_known_is_refused_with_the_nearest(
    words: list[str], part: str, launch_file: Path, capsys: Capture
) -> None:
    assert_one_error(run(capsys, "predict", launch_file, *words), 2, part)


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ("block: 256", "blok: 256", ["launch.yaml:4", "blok", 'did you mean "block"?']),
        ("block: 256", "grid: 9", ["launch.yaml:4", "grid", "twice"]),
        ("block: 256", "block: -256", ["-256"]),
        ("block: 256\n", "", ["block", "missing"]),
        ("source: saxpy.cu", "source: other.cu", ["other.cu"]),
    ],
)
def test_launch_file_with_a_slip_is_refused(old: str, new: str, parts: list[str], launch_file: Path, capsys: Capture) -> None:
    launch_file.write_text(launch_file.read_text().replace(old, new))
    assert_one_error(run(capsys, "predict", launch_file), 2, *parts)


def test_profile_that_is_no_json_is_refused(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "profile.json"
    path.write_text("{")
    assert_one_error(run(capsys, "model", "--profile", path), 2, str(path))


def test_folder_that_is_no_trace_is_refused(tmp_path: Path, capsys: Capture) -> None:
    assert_one_error(run(capsys, "predict", tmp_path), 2, str(tmp_path))


def test_unknown_opcode_names_the_file_and_its_line(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "w.ptx"
    text = ".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n .reg .b32 %r<4>;\n"
    file.write_text(text + " mov.u32 %r1, %tid.x;\n foo.bar.u32 %r2, %r1;\n ret;\n}\n")
    answer = run(capsys, "predict", file, "--grid", "1", "--block", "32", "--arg", "f32[32]:zeros")
    assert_one_error(answer, 3, f'{file}:8: opcode "foo.bar.u32"')
