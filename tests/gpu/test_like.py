from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from warpsight.base.errors import SpecError
from warpsight.gpu.loader import load_gpu

pytestmark = pytest.mark.unit

Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write_file


def test_file_like_another_differs_in_what_it_says_only(write: Write) -> None:
    text = "like: mdm-pascal\nsm_count: 56\nl1: {mshrs: 256}\nsources: {sm_count: planned, l1.mshrs: estimated}\n"
    path = write("big.yaml", text)
    base, gpu = load_gpu("mdm-pascal"), load_gpu(path)
    assert (gpu.name, gpu.description, gpu.sm_count, gpu.l1.mshrs) == ("big", "like mdm-pascal", 56, 256)
    own = {"sm_count": 28, "l1": base.l1}
    assert replace(gpu, name=base.name, description=base.description, sources=base.sources, **own) == base
    assert gpu.reference == base.reference
    assert (gpu.sources["sm_count"], gpu.sources["l1.mshrs"]) == ("planned", "estimated")
    assert gpu.sources["l1.ways"] == base.sources["l1.ways"]


def test_file_like_a_file_is_found_beside_it_whatever_the_working_directory(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write("base.yaml", "like: gpumech\nsm_count: 8\nsources: estimated\n")
    path = write("derived.yaml", "like: base.yaml\nname: small\ncore_clock: 2 GHz\nsources: estimated\n")
    monkeypatch.chdir("/")
    gpu = load_gpu(path)
    assert (gpu.name, gpu.sm_count, gpu.core_clock_hz, gpu.l1.mshrs) == ("small", 8, 2e9, 32)


def test_files_like_each_other_are_refused_with_the_circle(write: Write) -> None:
    write("a.yaml", "name: a\nlike: b.yaml\n")
    path = write("b.yaml", "like: a.yaml\n")
    with pytest.raises(SpecError) as caught:
        load_gpu(path)
    said = str(caught.value).replace(f"{path.parent}/", "")
    assert said.startswith("a.yaml:2: `like` is circular: b.yaml -> a.yaml -> b.yaml")


def test_mistake_in_the_file_that_another_is_like_names_that_file(write: Write) -> None:
    write("base.yaml", "like: gpumech\nsources: estimated\nl1: {ways: many}\n")
    path = write("derived.yaml", "like: base.yaml\nsm_count: 4\nsources: estimated\n")
    with pytest.raises(SpecError, match=r"base\.yaml:3: l1\.ways is not a count"):
        load_gpu(path)


def test_number_that_a_file_overrides_needs_its_own_source(write: Write) -> None:
    path = write("mine.yaml", "like: mdm-pascal\nsm_count: 56\n")
    with pytest.raises(SpecError) as caught:
        load_gpu(path)
    said = str(caught.value)
    assert "mine.yaml:2: sm_count has no source, and every number must say where it comes from" in said
    assert 'under `sources:` add `sm_count: "..."`' in said
    assert '"estimated"' in said


def test_defaults_follow_what_the_derived_file_changes(write: Write) -> None:
    base = write("base.yaml", "like: mdm-pascal\nlatency: {fp32: 5 cycles}\nsources: estimated\n")
    derived = write("derived.yaml", "like: base.yaml\nlatency: {fp32: 9 cycles}\nsources: estimated\n")
    assert load_gpu(base).latency_cycles["fp16"] == 5
    assert load_gpu(derived).latency_cycles["fp16"] == 9
    assert load_gpu(load_gpu(base), ["latency.fp32=7 cycles"]).latency_cycles["fp16"] == 7


def test_key_written_with_its_section_is_the_same_key(write: Write) -> None:
    nested = load_gpu(write("x.yaml", "like: gpumech\nl1: {mshrs: 64}\nsources: estimated\n"))
    dotted = load_gpu(write("x.yaml", "like: gpumech\nl1.mshrs: 64\nsources: estimated\n"))
    assert nested == dotted
    with pytest.raises(SpecError, match=r"y\.yaml:3: l1\.mshrs is given twice"):
        load_gpu(write("y.yaml", "like: gpumech\nl1.mshrs: 64\nl1: {mshrs: 32}\nsources: estimated\n"))
