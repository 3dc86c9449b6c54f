"""Things that have names: models, warp schedulers, set-index functions. Ours and other people's come through the same door.

An installed distribution adds to a registry by an entry point in the registry's group. The entry point names either a module that
registers itself when imported, or the object itself. It is loaded only when asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from warpsight.base.errors import UsageError, suggestion

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")


@cache
def _group(group: str) -> dict[str, EntryPoint]:
    """Entry points of a group by name. The import and the scan of what is installed take milliseconds: late, and once."""
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=group)} if group else {}


class Registry(Generic[T]):
    """Name to object. `kind` is the word in messages (`model`), `group` the entry-point group, empty for none."""

    def __init__(self, kind: str, group: str = "") -> None:
        self.kind, self.group = kind, group
        self._objects: dict[str, T] = {}

    def add(self, name: str, item: T) -> T:
        """Registers `item`. Raises UsageError when another object already has the name."""
        if name in self._objects and self._objects[name] is not item:
            what = f'there are two {self.kind}s called "{name}"'
            raise UsageError(what, remedy="rename one, or uninstall the plug-in that brings it")
        self._objects[name] = item
        return item

    def register(self, name: str) -> Callable[[T], T]:
        """Decorator form of `add`."""
        return lambda item: self.add(name, item)

    def names(self) -> list[str]:
        """All names, sorted; what is not loaded yet is listed, not loaded."""
        return sorted({*self._objects, *_group(self.group)})

    def __contains__(self, name: object) -> bool:
        """Whether `get` would know the name."""
        return name in self._objects or name in _group(self.group)

    def __iter__(self) -> Iterator[str]:
        """The names, sorted."""
        return iter(self.names())

    def get(self, name: str, *, place: str = "") -> T:
        """The object of that name. Raises UsageError when there is none, or when the plug-in that brings it cannot be loaded."""
        if name not in self._objects and name in _group(self.group):
            self._load(_group(self.group)[name])
        if name not in self._objects:
            what = f'"{name}" is not a known {self.kind}{suggestion(name, self.names())}'
            raise UsageError(what, place=place, remedy=f"known: {', '.join(self.names()) or 'none'}")
        return self._objects[name]

    def _load(self, point: EntryPoint) -> None:
        """Imports what an entry point names; a module has registered itself by then, anything else is registered here."""
        try:
            item = point.load()
        except Exception as error:
            # ours failing to import is a defect and must not look like the user's fault
            if point.value.startswith("warpsight."):
                raise
            origin = point.dist.name if point.dist else point.value
            what = f'the {self.kind} "{point.name}" from {origin} cannot be loaded: {type(error).__name__}: {error}'
            raise UsageError(what, remedy=f"update or uninstall {origin}") from error
        if not isinstance(item, ModuleType):
            self.add(point.name, item)
        elif point.name not in self._objects:
            what = f'{point.value} was imported but registered no {self.kind} called "{point.name}"'
            raise UsageError(what, remedy="correct the plug-in's entry point")


@cache
def registry(kind: str, group: str) -> Registry[Any]:
    """The registry of an entry-point group, one for all that ask: a floor below those who fill it may read what they declare."""
    return Registry(kind, group)
