"""Do programs of the driver's interface run, do libraries that they load, and graphs, built or captured?"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from programs_build import build, needs_nvcc, run

from warpsight.kernels.fatbin import image_entries
from warpsight.programs import host

pytestmark = pytest.mark.unit


RUNTIME = {path.name: path.read_text() for path in (Path(host.__file__).parent / "runtime").glob("*.c")}
DRIVER_FUNCTIONS = sorted(set(re.findall(r"(?:^API \w+ |\bSTUB\()(cu[A-Z]\w+)[()]", "".join(RUNTIME.values()), re.MULTILINE)))


def stub(folder: Path) -> tuple[str, ...]:
    """What links a program to the driver: a library that has its functions by name alone, as the toolkit's stub."""
    source = folder / "stub.c"
    source.write_text("".join(f"int {name}(void) {{ return 34; }}\n" for name in DRIVER_FUNCTIONS))
    options = ["-shared", "-fPIC", f"-Wl,-soname,{host.DRIVER}", "-o", str(folder / "libcuda.so")]
    subprocess.run([host.compiler(), *options, str(source)], check=True, capture_output=True)
    return f"-L{folder}", "-lcuda"


@needs_nvcc
def test_program_of_the_driver_with_graphs_runs(tmp_path: Path) -> None:
    """It says of each of its checks whether it is good."""
    program = build("driver.cpp", options=stub(tmp_path))
    code, output, errors = run(program, options=("--gpu", "a100", "--level", "ptx", "--kernels", "none"))
    assert code == 0, errors
    said = re.findall(r"^(.*) (good|BAD)$", output, re.MULTILINE)
    assert len(said) == 41 and all(verdict == "good" for _, verdict in said), output


@needs_nvcc
def test_program_links_images_and_launches_only_the_block_that_its_kernel_is_compiled_for(tmp_path: Path) -> None:
    """PTX with a function and a variable of another one. CUDA_ERROR_INVALID_VALUE is 1, CUDA_ERROR_NO_BINARY_FOR_GPU 209."""
    program = build("linked.cpp", options=stub(tmp_path))
    options = ("--gpu", "h100-sxm", "--kernels", "none", "--level")
    code, output, errors = run(program, options=(*options, "sass"))
    assert code == 3, errors  # the last link is refused
    assert output.splitlines()[:6] == [
        "wide 0, corner -1, without swizzle 1, 2,000 pixels 1 and 0", "slices of 16 bytes 0, of 32 0, with another swizzle 1",
        "without an address 0", "added 0 0, linked 0", "loaded 0, found 0, blocks 64 1, 32 1, 32x2 0, good",
        "without the function 209",
    ]  # fmt: skip
    assert "Undefined reference to 'changed'" in errors
    code, output, errors = run(program, options=(*options, "ptx"))
    assert "added 0 0, linked 801" in output and "--level sass" in errors


def test_every_function_of_the_driver_is_found_by_its_name() -> None:
    named = {text: int(length) for text, length in re.findall(r'\{"(cu[A-Z]\w+)", (\d+), \d+\}', RUNTIME["driver_names.c"])}
    assert set(named) == set(DRIVER_FUNCTIONS) - {"cuGetProcAddress"}
    assert all(re.sub(r"_v\d$", "", name) == name[:length] for name, length in named.items())


def test_images_that_programs_load_are_told_apart() -> None:
    ptx = b".version 8.0\n.target sm_90a\n.address_size 64\n"
    assert [(entry.kind, entry.architecture.real) for entry in image_entries(ptx, "p")] == [("ptx", "sm_90a")]
