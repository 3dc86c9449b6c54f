"""Registries of named objects: models, executors, rules of advice. Each holds our own objects and those of plug-ins.

Our own register themselves when their module is imported: all modules of the registry's package are imported at the first use. An
installed distribution adds an object by an entry point in the registry's group. The entry point names either a module that
registers itself when imported, or the object itself. It is loaded when the object is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
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
    """Name to object. `kind` is the word in messages (`model`), `group` the entry-point group, empty for none.

    `package` is the package whose modules register our own objects, empty if something else imports them.
    """

    def __init__(self, kind: str, group: str = "", package: str = "") -> None:
        self.kind, self.group, self.package = kind, group, package
        self._objects: dict[str, T] = {}
        self._complete = not package

    def add(self, name: str, item: T) -> T:
        """Registers `item`. Raises UsageError when another object already has the name."""
        if name in self._objects and self._objects[name] is not item:
            raise self._twice(name)
        self._objects[name] = item
        return item

    def _own(self) -> dict[str, T]:
        """The registered objects, after the import of our own. Raises UsageError for a plug-in with the name of one of them."""
        if not self._complete:
            for module in iter_modules(import_module(self.package).__path__, f"{self.package}."):
                import_module(module.name)
            for name, point in _group(self.group).items():
                if name in self._objects and not point.value.startswith(self.package):
                    raise self._twice(name)
            self._complete = True
        return self._objects

    def _twice(self, name: str) -> UsageError:
        what = f'there are two {self.kind}s called "{name}"'
        return UsageError(what, remedy="rename one, or uninstall the plug-in that brings it")

    def names(self) -> list[str]:
        """All names, sorted, without loading plug-ins."""
        return sorted({*self._own(), *_group(self.group)})

    def __contains__(self, name: object) -> bool:
        """Whether `get` would know the name."""
        return name in self._own() or name in _group(self.group)

    def __iter__(self) -> Iterator[str]:
        """The names, sorted."""
        return iter(self.names())

    def get(self, name: str, *, place: str = "") -> T:
        """The object of that name. Raises UsageError when there is none, or when the plug-in that brings it cannot be loaded."""
        if name not in self._own() and name in _group(self.group):
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
def registry(kind: str, group: str, package: str = "") -> Registry[Any]:
    """The registry of an entry-point group, one for all that ask: a floor below those who fill it may read what they declare."""
    return Registry(kind, group, package)
