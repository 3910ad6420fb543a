"""The pipeline's file as it stands in a kit: everything that it names is named from there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ragsmith.deploying.data import DATA
from ragsmith.deploying.own_files import OwnFiles
from ragsmith.digest import fingerprint
from ragsmith.exported.pipeline import Pipeline
from ragsmith.exported.writing import exported_yaml
from ragsmith.plugins import loaded_modules

FILE = "winner.yaml"
HEAD = '# A pipeline of ragsmith, on the documents in data/.  Ask it:  ragsmith ask winner.yaml "your question"\n'


def in_kit(content: Mapping[str, Any], loaded: Pipeline, own: OwnFiles, *, questions: bool) -> dict[str, Any]:
    """The ``content`` of the file that was ``loaded``, for a kit whose data has ``questions``, or has not.

    Scores stay where they are of the same documents and questions. Where vectors lie is a setting of the kit.
    """
    data = loaded.setup.dataset
    moved = {key: value for key, value in content.items() if key != "vector_store"}
    if not questions or loaded.found_on != data.digest:
        moved = {key: value for key, value in moved.items() if key not in ("expected", "reference")}
    place = {"path" if questions else "documents": DATA}
    moved["dataset"] = {"name": data.name, **place, "digest": data.digest}
    if listed := content.get("imports"):
        moved["imports"] = [{**entry, "file": own.take(_place_of(entry["digest"]))} for entry in listed]
    if loaded.fitness.file:
        moved["fitness"] = {**content["fitness"], "file": own.take(Path(loaded.fitness.file))}
    return moved


def written(content: Mapping[str, Any]) -> bytes:
    """The file of a kit with that content."""
    return (HEAD + exported_yaml(content)).encode()


def _place_of(digest: str) -> Path:
    """The file with the code of that fingerprint, which was imported to load the pipeline."""
    return next(Path(str(one.__file__)) for one in loaded_modules() if fingerprint(one.__name__) == digest)
