from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from warpsight.base import registry
from warpsight.base.errors import UsageError
from warpsight.base.registry import Registry

pytestmark = pytest.mark.unit

GROUP = "warpsight_test.things"


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry[object]]:
    """An installed distribution with four entry points, and the registry that they are for."""
    metadata = tmp_path / "thing_plugin-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: thing-plugin\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        f"[{GROUP}]\nself = thing_selfmade\nobject = thing_object:THING\nbroken = thing_broken\nsilent = thing_silent\n"
    )
    (tmp_path / "thing_selfmade.py").write_text("import thing_home\nthing_home.things.add('self', 'registered on import')\n")
    (tmp_path / "thing_object.py").write_text("THING = 'the object itself'\n")
    (tmp_path / "thing_broken.py").write_text("import a_module_that_is_not_there\n")
    (tmp_path / "thing_silent.py").write_text("")
    home = f"from warpsight.base.registry import Registry\nthings = Registry('thing', {GROUP!r})\n"
    (tmp_path / "thing_home.py").write_text(home)
    monkeypatch.syspath_prepend(tmp_path)
    registry._group.cache_clear()
    import thing_home  # type: ignore[import-not-found]

    yield thing_home.things
    registry._group.cache_clear()
    for name in [name for name in sys.modules if name.startswith("thing_")]:
        del sys.modules[name]


def test_registry_with_two_objects_of_one_name_refuses_the_second() -> None:
    models: Registry[int] = Registry("model")
    models.add("mdm", 1)
    assert models.add("mdm", 1) == 1
    with pytest.raises(UsageError, match='two models called "mdm"'):
        models.add("mdm", 2)
    assert models.get("mdm") == 1


def test_registry_asked_for_an_unknown_name_suggests_the_nearest() -> None:
    models: Registry[int] = Registry("model")
    models.add("gpumech", 1)
    models.add("mdm", 2)
    with pytest.raises(UsageError) as caught:
        models.get("gpumec", place="--model")
    assert str(caught.value).startswith('--model: "gpumec" is not a known model; did you mean "gpumech"?')
    assert "known: gpumech, mdm" in str(caught.value)
    assert models.names() == ["gpumech", "mdm"]
    assert "mdm" in models
    assert "gpumec" not in models


def test_registry_with_entry_points_lists_them_without_loading(plugins: Registry[object]) -> None:
    assert list(plugins) == ["broken", "object", "self", "silent"]
    assert "broken" in plugins
    assert not {"thing_selfmade", "thing_object", "thing_broken"} & set(sys.modules)


def test_registry_loads_an_entry_point_that_registers_itself_or_is_the_object(plugins: Registry[object]) -> None:
    assert plugins.get("self") == "registered on import"
    assert plugins.get("object") == "the object itself"


def test_registry_with_a_broken_plugin_names_the_distribution(plugins: Registry[object]) -> None:
    with pytest.raises(UsageError, match="from thing-plugin cannot be loaded: ModuleNotFoundError") as caught:
        plugins.get("broken")
    assert "update or uninstall thing-plugin" in str(caught.value)


def test_registry_with_a_plugin_that_registers_nothing_says_so(plugins: Registry[object]) -> None:
    with pytest.raises(UsageError, match='registered no thing called "silent"'):
        plugins.get("silent")
