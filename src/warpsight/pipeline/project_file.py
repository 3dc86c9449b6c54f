"""A project file (`warpsight.yaml`): which kernels are predicted in CI, on which GPUs, and how much slower one may become."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from warpsight.base.errors import UsageError, suggestion
from warpsight.base.yaml_nodes import Composed, YamlNode, compose
from warpsight.models.base import get_model
from warpsight.pipeline.kernel_input import is_launch_file
from warpsight.pipeline.request import DEFAULT_MODEL, KernelRequest

NAME = "warpsight.yaml"
DEFAULT_LIMIT = 0.05
_KEYS = ("gpus", "kernels", "model", "limit")
_OF_KERNEL = ("launch", "gpus", "limit")
_KIND = Composed("project file", "a file with gpus and kernels", "write gpus: [a100] and kernels:", UsageError)
_NAMES = re.compile(r"[\w.+-]{1,100}")


@dataclass(frozen=True)
class ProjectKernel:
    """A kernel of a project: its `launch` file, the `gpus` that it is predicted on, and by what share of its time it may become
    slower (`limit`).
    """

    name: str
    launch: str
    gpus: tuple[str, ...]
    limit: float

    def request(self) -> KernelRequest:
        """The kernel as the pipeline takes one."""
        return KernelRequest(self.launch)


@dataclass(frozen=True)
class Project:
    """The kernels of a project file, in its order, and the model that predicts them."""

    path: str
    model: str
    kernels: tuple[ProjectKernel, ...]

    def pairs(self) -> list[tuple[ProjectKernel, str]]:
        """Each kernel with each of its GPUs, as the file names them."""
        return [(kernel, gpu) for kernel in self.kernels for gpu in kernel.gpus]


def read_project(path: str | Path) -> Project:
    """The project of a file. Raises UsageError with file and line for what is unknown, missing or not possible."""
    if not Path(path).exists():
        raise UsageError("does not exist", place=str(path), remedy="name the project file, or write one (docs/reference/gate.md)")
    root = YamlNode(compose(Path(path), str(path), _KIND), "the file", str(path))
    entries = root.entries(_KEYS)
    for key in ("gpus", "kernels"):
        if key not in entries:
            raise UsageError(f"has no {key}", place=str(path), remedy=_KIND.start)
    gpus, limit = _texts(entries["gpus"]), _limit(entries.get("limit"), DEFAULT_LIMIT)
    model = entries["model"].text() if "model" in entries else DEFAULT_MODEL
    get_model(model)
    kernels = tuple(_kernel(name, node, gpus, limit, Path(path).parent) for name, node in entries["kernels"].entries().items())
    if not kernels:
        entries["kernels"].refuse("kernels is empty", "write NAME: launch.yaml")
    return Project(str(path), model, kernels)


def _kernel(name: str, node: YamlNode, gpus: tuple[str, ...], limit: float, folder: Path) -> ProjectKernel:
    if not _NAMES.fullmatch(name):
        node.refuse(f'"{name}" is not a name of letters, digits, and . _ + -', "the name is that of the kernel's files")
    own: Mapping[str, YamlNode] = node.entries(_OF_KERNEL) if node.is_mapping else {"launch": node}
    if "launch" not in own:
        node.refuse(f"{name} has no launch", "write launch: FILE.yaml")
    launch = folder / own["launch"].text()
    if not launch.is_file() or not is_launch_file(str(launch)):
        near = suggestion(launch.name, [each.name for each in launch.parent.glob("*")] if launch.parent.is_dir() else [])
        remedy = "name a launch file (.yaml or .py), as `warpsight init` writes it"
        own["launch"].refuse(f"{launch} is not a launch file{near}", remedy)
    chosen = _texts(own["gpus"]) if "gpus" in own else gpus
    return ProjectKernel(name, str(launch), chosen, _limit(own.get("limit"), limit))


def _texts(node: YamlNode) -> tuple[str, ...]:
    """One text, or a list of them, each once."""
    texts = tuple(dict.fromkeys(each.text() for each in (node.items() if node.is_list else (node,))))
    if not texts:
        node.refuse(f"{node.name} is empty", "name a GPU, as gpus: [a100]")
    return texts


def _limit(node: YamlNode | None, default: float) -> float:
    if node is None:
        return default
    text = node.text()
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(%?)", text)
    if match is None:
        node.refuse(f'{node.name} is "{text[:60]}", not a share', "write limit: 5 %, or limit: 0.05")
    return float(match[1]) / (100.0 if match[2] else 1.0)
