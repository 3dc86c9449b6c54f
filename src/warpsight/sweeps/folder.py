"""The folder of a study: its description, so that the study can be resumed and analyzed, and the tables of its results."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpsight.base.errors import FormatError, UsageError, WarpsightError
from warpsight.base.inputs import read_input
from warpsight.base.outputs import write_whole
from warpsight.gpu.catalog import catalog_path
from warpsight.gpu.loader import load_gpu
from warpsight.pipeline.provenance import TOOL
from warpsight.sweeps.files import forget_the_unfinished, is_unfinished
from warpsight.sweeps.study import Study
from warpsight.sweeps.study_document import study_document, study_from_document

STUDY, RESULTS, DESIGNS = "study.json", "results.parquet", "designs.parquet"
BEFORE = "results.before.parquet"
FOLDER_SCHEMA = 1


@dataclass(frozen=True)
class StudyFolder:
    """`study` as it was run, and `results`, the folder with what is kept of it."""

    path: Path
    study: Study
    results: str

    @property
    def table(self) -> Path:
        """The file with the rows."""
        return self.path / RESULTS

    @property
    def before(self) -> Path:
        """An earlier table with results that `table` has lost, as when a kernel's file has gone; absent otherwise."""
        return self.path / BEFORE

    @property
    def designs(self) -> Path:
        """The file with the designs: their numbers, axes and derived keys."""
        return self.path / DESIGNS


def base_gpus(study: Study) -> str:
    """The names of the GPUs of a study, for people."""
    return ", ".join(gpu if catalog_path(gpu) is not None else _described(gpu) for gpu in study.gpus)


def _described(file: str) -> str:
    """The name in a description file, or the file's where it cannot be read any more."""
    with suppress(WarpsightError):
        return load_gpu(file).name
    return file


def make_folder(path: str | Path, study: Study, results: str) -> StudyFolder:
    """The folder with the study's description in it; an existing folder is used if it is a study's or empty.

    Raises UsageError for a folder with something else in it, or that cannot be written.
    """
    folder = Path(path)
    try:
        another = not folder.is_dir() or not all(map(is_unfinished, folder.iterdir())) if folder.exists() else False
        if another and not (folder / STUDY).exists():
            raise UsageError("exists and is not the folder of a study", place=str(folder), remedy="give another folder as `out`")
        folder.mkdir(parents=True, exist_ok=True)
        document = {"schema": FOLDER_SCHEMA, "tool": TOOL, "results": results, "study": study_document(study)}
        forget_the_unfinished(folder)
        write_whole(folder / STUDY, json.dumps(document, indent=1) + "\n")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        remedy = "give a folder that you can write to, on a disk with space, as `out`"
        raise UsageError(f"cannot be written: {reason}", place=str(folder), remedy=remedy) from None
    return StudyFolder(folder, study, results)


def is_study(path: str | Path) -> bool:
    """Whether a study's description lies in that folder."""
    return path != "-" and (Path(path) / STUDY).is_file()


def open_folder(path: str | Path) -> StudyFolder:
    """A study's folder. Raises UsageError when there is none, FormatError when its description is damaged."""
    folder = Path(path)
    place = folder / STUDY
    try:
        data = read_input(place)
    except (OSError, ValueError):
        remedy = "give the folder that `warpsight sweep` wrote"
        raise UsageError("is not the folder of a study", place=str(folder), remedy=remedy) from None
    try:
        document: Any = json.loads(data)
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else "it is not JSON"
        raise FormatError(f"is damaged: {reason}", place=str(place), remedy="run the study again") from None
    if not isinstance(document, dict) or document.get("schema") != FOLDER_SCHEMA or not isinstance(document.get("results"), str):
        what = f"is not a study's description of schema {FOLDER_SCHEMA}"
        raise FormatError(what, place=str(place), remedy="run the study again with this version")
    return StudyFolder(folder, study_from_document(document.get("study"), str(place)), document["results"])
