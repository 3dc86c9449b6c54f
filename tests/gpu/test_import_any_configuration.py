"""Does any configuration, however broken, end in a description that loads, or in one clear refusal?"""

from __future__ import annotations

from pathlib import Path

import pytest
from gpgpusim_files import BASE, NETWORK, TRACE, configuration
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from warpsight.base.errors import WarpsightError
from warpsight.gpu.describe import made_yaml
from warpsight.gpu.importers.gpgpusim import import_configuration
from warpsight.gpu.importers.gpgpusim_files import Option
from warpsight.gpu.importers.gpgpusim_memory import parse_cache
from warpsight.gpu.loader import load_gpu

pytestmark = pytest.mark.property

NAMES = sorted(name[1:].replace(":", "__") for name in BASE)
VALUES = st.one_of(
    st.none(),
    st.integers(-1, 10**20).map(str),
    st.sampled_from([*BASE.values(), "none", "0", "1", "1:1:1:1", "0:0:0:0", "4,4", ",", ":", "=", "-1", "1e9", "\u0663", "n=1:R"]),
    st.text(st.characters(exclude_categories=("Z", "C"), exclude_characters='#"'), min_size=1, max_size=12),
)
letters = st.sampled_from


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=4))
def test_a_changed_configuration_is_described_or_refused(changes: dict[str, str | None], tmp_path: Path) -> None:
    (tmp_path / "a.config").write_text(configuration(**changes), "utf-8")
    (tmp_path / "t.config").write_text(TRACE)
    try:
        made = import_configuration([tmp_path / "a.config", tmp_path / "t.config"])
    except WarpsightError:
        return
    (tmp_path / "a.yaml").write_text(made_yaml(made), "utf-8")
    gpu = load_gpu(tmp_path / "a.yaml")
    assert gpu.sources["sm_count"] == made.values["sm_count"].source


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_file_is_described_or_refused(data: st.DataObject, tmp_path: Path) -> None:
    text = data.draw(st.sampled_from([configuration(), TRACE, NETWORK]))
    cut, end = sorted(data.draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))))
    (tmp_path / "a.config").write_text(text[:cut] + data.draw(st.text(max_size=8)) + text[end:], "utf-8", newline="")
    (tmp_path / "b.config").write_text(configuration())
    try:
        import_configuration([tmp_path / "b.config", tmp_path / "a.config"])
    except WarpsightError as error:
        assert str(error)


@given(
    kind=letters("NS"), sets=st.integers(1, 4096), ways=st.integers(1, 512), write=letters("BTEL"), allocation=letters("mfs"),
    allocate=letters("NWFL"), index=letters("LHPXC"), mshr=letters("AS"), entries=st.integers(1, 999), merge=st.integers(1, 99),
    queue=st.integers(0, 99),
)  # fmt: skip
def test_a_cache_string_gives_back_its_numbers(
    kind: str, sets: int, ways: int, write: str, allocation: str, allocate: str, index: str, mshr: str, entries: int, merge: int,
    queue: int,
) -> None:  # fmt: skip
    text = f"{kind}:{sets}:128:{ways},L:{write}:{allocation}:{allocate}:{index},{mshr}:{entries}:{merge},{queue}:0,32"
    cache = parse_cache(Option("-gpgpu_cache:dl1", text, "a:1", "a:1"))
    assert (cache.sets, cache.line, cache.ways, cache.entries, cache.merge, cache.queue) == (sets, 128, ways, entries, merge, queue)
    assert cache.bytes == sets * ways * 128
    assert cache.sector == (32 if kind == "S" else 128)
