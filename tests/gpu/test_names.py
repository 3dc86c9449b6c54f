"""Is a GPU found by the names that people and tools give it, and a key by those of data sheets? Is nothing guessed?"""

from __future__ import annotations

import pytest

from warpsight.base.errors import SpecError, UsageError
from warpsight.base.progress import listening
from warpsight.gpu.catalog import catalog_names, catalog_path
from warpsight.gpu.keys import COMMON_NAMES
from warpsight.gpu.loader import load_gpu
from warpsight.gpu.spec import KEYS

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("A100", "a100"), ("4090", "rtx4090"), ("rtx 4090", "rtx4090"), ("RTX-4090", "rtx4090"), ("2080ti", "rtx2080-ti"),
        ("NVIDIA GeForce RTX 3060 Ti", "rtx3060-ti"), ("3060", "rtx3060"), ("Tesla T4", "t4"), ("RTX A6000", "a6000"),
        ("NVIDIA A100-SXM4-40GB", "a100"), ("NVIDIA A100-SXM4-80GB", "a100-80gb"), ("NVIDIA H100 PCIe", "h100-pcie"),
        ("Titan V", "titan-v"), ("h100_sxm", "h100-sxm"), ("GTX1080", "gtx1080"), ("B200", "b200"),
        ("h100", "h100-sxm"), ("NVIDIA H100 80GB HBM3", "h100-sxm"),
    ],
)  # fmt: skip
def test_other_spellings_find_the_gpu(typed: str, name: str) -> None:
    assert load_gpu(typed) == load_gpu(name)


def test_every_name_of_the_catalogue_is_found_in_capitals() -> None:
    for name in catalog_names():
        path = catalog_path(name.upper())
        assert path is not None
        assert path.stem == name


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("8800", '"8800gt" or "8800gtx"'),
        ("gtx470", '"gtx470-16k" or "gtx470-48k"'), ("mdm", '"mdm-letter" or "mdm-pascal"'),
        ("RTX 2080", '"rtx2080-ti"'), ("V100-PCIE-32GB", '"v100"'), ("rtx4009", '"rtx4090"'), ("GTX 4090", '"rtx4090"'),
        ("a101", '"a100"'),
    ],
)  # fmt: skip
def test_what_may_be_several_gpus_or_another_one_is_not_guessed(typed: str, meant: str) -> None:
    with pytest.raises(UsageError) as raised:
        load_gpu(typed)
    assert raised.value.what.endswith(f"did you mean {meant}?")


def test_variants_are_listed_with_what_they_are() -> None:
    with pytest.raises(UsageError) as raised:
        load_gpu("8800")
    assert raised.value.remedy.startswith("name one: 8800gt, the ")
    assert "; 8800gtx, the " in raised.value.remedy


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("A100", ['"A100" is a100, the NVIDIA A100 SXM4 40 GB; the catalogue also has a100-80gb']), ("a100", []), ("4090", []),
        ("h100", ['"h100" is h100-sxm, the NVIDIA H100 SXM5 80 GB; the catalogue also has h100-pcie']),
    ],
)  # fmt: skip
def test_a_spelling_with_variants_is_noted(typed: str, expected: list[str]) -> None:
    notes: list[str] = []
    with listening(notes.append):
        load_gpu(typed)
    assert notes == expected


def test_a_path_is_no_spelling() -> None:
    with pytest.raises(UsageError, match=r'"\./a100" is neither'):
        load_gpu("./a100")


@pytest.mark.parametrize(
    ("setting", "key"), [("sms=80", "sm_count"), ("L2=40 MiB", "l2.size"), ("mem-bw=1 TB/s", "dram.bandwidth")]
)
def test_common_names_of_keys_are_suggested(setting: str, key: str) -> None:
    with pytest.raises(SpecError, match=f'did you mean "{key}"'):
        load_gpu("a100", [setting])


def test_common_names_mean_one_key_each_and_are_none_themselves() -> None:
    names = [name for each in COMMON_NAMES.values() for name in each]
    assert len(set(names)) == len(names)
    assert not set(names) & set(KEYS)
    assert set(COMMON_NAMES) <= set(KEYS)
