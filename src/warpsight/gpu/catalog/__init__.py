"""The GPUs that come with Warpsight, one YAML file each, and the names by which people call them."""

from __future__ import annotations

import re
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from pathlib import Path

# The package is always installed unpacked: numba's cache needs that too.
_FOLDER = Path(str(files(__name__)))


@cache
def catalog_names() -> tuple[str, ...]:
    """Names of the catalogue's GPUs, sorted."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.yaml")))


def catalog_path(name: str) -> Path | None:
    """The file of a GPU of the catalogue by its name, or by another spelling that only one GPU has; None where there is none."""
    found = _found(name)
    return None if found is None else _FOLDER / f"{found}.yaml"


# -- Other spellings: `A100`, `4090`, `RTX 4090`, and the names that nvidia-smi prints, as `NVIDIA A100-SXM4-80GB`.

_BRANDS = {"nvidia", "geforce", "tesla", "quadro", "gpu"}
_OF_PATHS = re.compile(r"[./\\]")
_SERIES = re.compile(r"^(rtx|gtx)(?=\w)")
_MEANT = {"h100": "h100-sxm", "h10080gbhbm3": "h100-sxm"}
"""Spellings of several GPUs, and the one that most people mean; the second is what nvidia-smi prints of an SXM5 board."""


def _spelling(name: str) -> str:
    """`name` in small letters and digits alone, without brands."""
    return "".join(word for word in re.findall(r"[a-z0-9]+", name.lower()) if word not in _BRANDS)


def product_name(name: str) -> str:
    """What the catalogue's GPU `name` is: the first words of its description, up to the parenthesis or comma."""
    text = (_FOLDER / f"{name}.yaml").read_text("utf-8")
    described = re.search(r"^description: *(.*)$", text, re.MULTILINE)
    return re.split(r" *[(,]", described[1])[0].strip("\"'") if described else name


@cache
def _found(name: str) -> str | None:
    """The one GPU of the catalogue that `name` spells, in any case, with or without brand, series and separators; or None."""
    if name in (names := catalog_names()):
        return name
    wanted = "" if _OF_PATHS.search(name) else _spelling(name)
    if wanted in _MEANT:
        return _MEANT[wanted]
    plain = {each: _spelling(each) for each in names}
    for spellings in (
        plain,
        {each: _SERIES.sub("", plain[each]) for each in names},
        {each: _spelling(product_name(each)) for each in names},
    ):
        if wanted and len(found := [each for each in names if spellings[each] == wanted]) == 1:
            return found[0]
    return None


def variants(name: str) -> list[str]:
    """The GPUs of the catalogue with the model number of `name`, as `h100-pcie` and `h100-sxm` of `H100`, or that begin with it."""
    wanted = _model(name)
    names = catalog_names() if len(wanted) > 1 else ()
    return [each for each in names if _model(each) == wanted or (wanted.isalpha() and _model(each).startswith(wanted))]


def _model(name: str) -> str:
    """The first word with a digit, without series and suffix: `2080` of `RTX 2080 Ti`; the whole spelling where there is none."""
    words = (_SERIES.sub("", word) for word in re.findall(r"[a-z0-9]+", name.lower()))
    numbers = (re.match(r"[a-z]*\d+", word) for word in words)
    return next((number[0] for number in numbers if number), _spelling(name))


def no_such_gpu(name: str) -> tuple[str, str]:
    """What is wrong with a `name` that is neither in the catalogue nor a file, and the remedy: its variants, else every name."""
    near = variants(name)
    if not near:  # a typing mistake: as many letters as meant, most of them right
        alike = get_close_matches(name.lower(), catalog_names(), n=3, cutoff=0.6)
        near = sorted(alike, key=lambda each: abs(len(each) - len(name)))[:1]
    quoted = " or ".join(f'"{each}"' for each in near)
    what = f'"{name}" is neither a GPU of the catalogue nor a file' + (f"; did you mean {quoted}?" if near else "")
    if name.endswith((".yaml", ".yml")):
        return what, "check the path, or name a GPU that `warpsight gpus list` shows"
    listed = "; ".join(f"{each}, the {product_name(each)}" for each in near) or ", ".join(catalog_names())
    return what, f"name one: {listed}; `warpsight gpus list` shows all" if near else f"the catalogue has: {listed}"
