"""A study file: YAML, every message with its line. docs/reference/study-file.md has every key."""

from __future__ import annotations

import os
from pathlib import Path

from warpsight.base.errors import UsageError, suggestion
from warpsight.base.yaml_nodes import Composed, YamlNode, compose
from warpsight.explore.request import DEFAULT_GPU, DEFAULT_METHOD, DEFAULT_MODEL, Method
from warpsight.explore.sweep.axes import axis_of_list, axis_of_text
from warpsight.explore.sweep.checks import KINDS, check_study
from warpsight.explore.sweep.drawing import MOST_DESIGNS
from warpsight.explore.sweep.expressions import Expression, parse_expression
from warpsight.explore.sweep.names import METHOD, known_names, study_key
from warpsight.explore.sweep.study import GRID, Axis, Referee, Sampling, Study, StudyKernel
from warpsight.explore.sweep.study_kernels import read_kernels, suite_kernels
from warpsight.explore.sweep.study_traces import members_of
from warpsight.gpu.document import Text
from warpsight.gpu.keys import KEYS
from warpsight.gpu.values import parse_value

SCHEMA = "1"
STUDY_KEYS = ("schema", "name", "kernels", "suite", "gpu", "set", "axes", "sampling", "derived", "constraints", "models", "method",
              "referee")
_FILE = Composed("study", "the YAML file of a study", "start with kernels: [...] and axes: {sm_count: 15:80:5}", UsageError)
_EITHER = Composed("study or launch", "YAML", "write a study file (docs/reference/study-file.md) or a launch file", UsageError)
_METHOD_KEYS = tuple(name.removeprefix("method.") for name in METHOD)


def read_study(path: str | os.PathLike[str]) -> Study:
    """The study of a file. Paths in it are relative to it. Nothing is compiled, run or drawn.

    Raises UsageError or SpecError with file and line: no YAML, a key that is unknown (with the nearest), missing or given twice, a
    value of the wrong kind, a kernel, suite, GPU or model that is not there, and whatever `check_study` refuses.
    """
    shown = os.fspath(path)
    root = YamlNode(compose(Path(shown), shown, _FILE), "the study", shown)
    return _Reader(root, Path(shown)).study()


class _Reader:
    """One file; `places` is where things were given, for what can only be said of them together."""

    def __init__(self, root: YamlNode, path: Path) -> None:
        self.root, self.path, self.folder = root, path, path.parent
        self.entries = root.entries(STUDY_KEYS)
        self.places: dict[str, str] = {name: node.place for name, node in self.entries.items()}

    def study(self) -> Study:
        """Everything that the file says."""
        self.schema()
        study = Study(
            name=self.name(),
            kernels=self.kernels(),
            gpu=self.gpu(),
            overrides=self.overrides(),
            axes=self.axes(),
            sampling=self.sampling(),
            derived=self.derived(),
            constraints=self.constraints(),
            models=self.models(),
            method=self.method(),
            referee=self.referee(),
        )
        check_study(study, {"kernels": str(self.path), **self.places})
        return study

    def schema(self) -> None:
        node = self.entries.get("schema")
        if node is not None and node.text() != SCHEMA:
            node.refuse(f'schema "{node.text()}" is not known', f"this version reads schema {SCHEMA}")

    def name(self) -> str:
        if "name" not in self.entries:
            return self.path.stem
        name = self.entries["name"].text()
        if not name.isprintable():
            self.entries["name"].refuse("name has characters that cannot be printed", "write a plain name")
        if not name.strip(" .") or "/" in name:
            remedy = "write a plain name; --out says where the folder is"
            self.entries["name"].refuse(f'"{name}" cannot be the name of a folder', remedy)
        return name

    def kernels(self) -> tuple[StudyKernel, ...]:
        found: list[tuple[StudyKernel, str]] = []
        for key, read in (("kernels", read_kernels), ("suite", suite_kernels)):
            if key in self.entries:
                for kernel, place in read(self.entries[key], self.folder):
                    found += [(member, place) for member in members_of(kernel)]
        self.places |= {f"kernels.{index}": place for index, (_, place) in enumerate(found)}
        return tuple(kernel for kernel, _ in found)

    def gpu(self) -> str:
        """A name of the catalogue, or a file beside the study."""
        from warpsight.gpu.catalog import catalog_names, catalog_path

        if "gpu" not in self.entries:
            return DEFAULT_GPU
        name = self.entries["gpu"].text()
        if catalog_path(name) is not None:
            return name
        if not os.path.isfile(self.folder / name):
            what = f'"{name}" is neither a GPU of the catalogue nor a file{suggestion(name, catalog_names())}'
            self.entries["gpu"].refuse(what, f"the catalogue has: {', '.join(catalog_names())}")
        return str(self.folder / name)

    def overrides(self) -> tuple[str, ...]:
        """`set`, as a mapping or as texts."""
        if "set" not in self.entries:
            return ()
        node = self.entries["set"]
        given: list[tuple[str, str, str]] = []
        if node.is_list:
            for item in node.items():
                key, equals, text = (part.strip() for part in item.text().partition("="))
                if not equals or not key or not text:
                    item.refuse(f'"{item.text()[:80]}" is not key=value', "write for example l1.ways=4")
                given.append((key, text, item.place))
        else:
            given = [(key, entry.text(), entry.place) for key, entry in node.entries().items()]
        for key, text, place in given:
            if f"set.{key}" in self.places:
                raise UsageError(f"{key} is set twice; which one is meant?", place=place, remedy="remove one of the two")
            self.places[f"set.{key}"] = place
            study_key(key, place)
            if key in KEYS:
                parse_value(KEYS[key], Text(text, place))
        return tuple(f"{key}={text}" for key, text, _ in given)

    def axes(self) -> tuple[Axis, ...]:
        if "axes" not in self.entries:
            return ()
        found = []
        for key, node in self.entries["axes"].entries().items():
            self.places[f"axes.{key}"] = node.place
            if node.is_mapping:
                names = [name for name in known_names() if name.startswith(f"{key}.")]
                node.refuse(f"{key} is a mapping, not values", f"write whole keys: {names[0] if names else 'l1.size'}: [...]")
            if node.is_list:
                found.append(axis_of_list(key, [(item.text(), item.place) for item in node.items()], node.place))
            else:
                found.append(axis_of_text(key, node.text(), node.place))
        return tuple(found)

    def sampling(self) -> Sampling:
        if "sampling" not in self.entries:
            return Sampling()
        node = self.entries["sampling"]
        entries = node.entries(("kind", "designs", "seed"))
        if "kind" not in entries:
            node.refuse("sampling has no kind", f"write kind: {' or kind: '.join(KINDS)}")
        kind = entries["kind"].one_of(KINDS)
        if kind == GRID and "seed" in entries:
            entries["seed"].refuse("a grid draws nothing, and takes no seed", "remove it")
        designs = entries["designs"].whole(1, MOST_DESIGNS) if "designs" in entries else 0
        return Sampling(kind, designs, entries["seed"].whole(0) if "seed" in entries else 0)

    def derived(self) -> tuple[tuple[str, Expression], ...]:
        if "derived" not in self.entries:
            return ()
        found = []
        for key, node in self.entries["derived"].entries().items():
            self.places[f"derived.{key}"] = node.place
            study_key(key, node.place)
            found.append((key, parse_expression(node.text(), node.place)))
        return tuple(found)

    def constraints(self) -> tuple[Expression, ...]:
        if "constraints" not in self.entries:
            return ()
        return tuple(parse_expression(item.text(), item.place) for item in self.entries["constraints"].items())

    def models(self) -> tuple[str, ...]:
        """Names that the registry knows."""
        from warpsight.models.registry import get_model

        if "models" not in self.entries:
            return (DEFAULT_MODEL,)
        node = self.entries["models"]
        items = list(node.items()) if node.is_list else [node]
        names = []
        for item in items:
            for name in (part.strip() for part in item.text().split(",")):
                try:
                    get_model(name)
                except UsageError as error:
                    hint = "; the referee has a key of its own, referee" if name == "referee" else ""
                    item.refuse(error.what, error.remedy + hint)
                self.places[f"models.{name}"] = item.place
                names.append(name)
        return tuple(names)

    def method(self) -> Method:
        if "method" not in self.entries:
            return DEFAULT_METHOD
        given = {}
        for name, node in self.entries["method"].entries(_METHOD_KEYS).items():
            given[name] = node.one_of(METHOD[f"method.{name}"].choices)
            if f"axes.method.{name}" in self.places or f"derived.method.{name}" in self.places:
                node.refuse(f"method.{name} is varied, and also given here; which one is meant?", "remove one of the two")
        return Method(**given)

    def referee(self) -> Referee | None:
        if "referee" not in self.entries:
            return None
        entries = self.entries["referee"].entries(("designs", "seed", "where", "max_cycles"))
        where = entries.get("where")
        return Referee(
            designs=entries["designs"].whole(1, MOST_DESIGNS) if "designs" in entries else 0,
            seed=entries["seed"].whole(0) if "seed" in entries else 0,
            where=parse_expression(where.text(), where.place) if where is not None else None,
            max_cycles=entries["max_cycles"].whole(1) if "max_cycles" in entries else None,
        )


def is_study_file(path: str) -> bool:
    """Whether `path` is a study and no launch file: YAML with kernels, a suite or axes at its top.

    Raises UsageError with file and line for YAML that cannot be read, which is neither.
    """
    if not path.endswith((".yaml", ".yml")) or not os.path.isfile(path):
        return False
    found = YamlNode(compose(Path(path), path, _EITHER), "the file", path).entries()
    return any(name in found for name in ("kernels", "suite", "axes", "sampling"))
