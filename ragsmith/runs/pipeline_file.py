"""Reading an exported pipeline: every complaint has file and line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ragsmith.datasets.bundled import bundled
from ragsmith.datasets.dataset import load_dataset
from ragsmith.errors import SpaceError
from ragsmith.evaluation.scoring import GENERATION_METRICS, RETRIEVAL_METRICS, Weights
from ragsmith.models.file import models_in
from ragsmith.models.names import ModelNames
from ragsmith.pipelines.genes import Candidate, read_configuration
from ragsmith.text.strict_yaml import Tree, YamlError, read_yaml, unknown_key_message
from ragsmith.types import Dataset

FORMAT = 1
METRICS = ("fitness", "retrieval", "generation", *RETRIEVAL_METRICS, *GENERATION_METRICS)
"""The scores that a file is exported with, for each kind of questions."""

KEYS = ("format", "ragsmith", "dataset", "chunk_size", "models", "weights", "pipeline", "run", "expected")


class ExportedFile:
    """Reads an exported file; every complaint has file and line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._tree: Tree = read_yaml(path)
        except YamlError as error:
            raise SpaceError(str(error)) from error
        if not isinstance(self._tree.data, dict):
            raise self._error((), "this is not an exported pipeline: it must be 'name: value' pairs")
        self._data: dict[str, Any] = self._tree.data
        for key in self._data:
            if key not in KEYS:
                raise self._error((key,), unknown_key_message(key, KEYS))
        if self._data.get("format") != FORMAT:
            raise self._error(("format",), f"this ragsmith reads format {FORMAT}, not {self._data.get('format')!r}")

    def candidate(self) -> Candidate:
        """The pipeline, every technique and parameter checked."""
        pipeline = self._section("pipeline")
        for family, gene in pipeline.items():
            well = isinstance(gene, dict) and isinstance(gene.get("technique"), str)
            known = well and not set(gene) - {"technique", "parameters", "fitted"}
            if not known or not isinstance(gene.get("parameters", {}), dict):
                raise self._error(("pipeline", family), f"{family} must have a 'technique' by name, and 'parameters'")
        return read_configuration(pipeline, self._tree.where("pipeline"))

    def models(self) -> ModelNames:
        """The models by name, with what determines results; where a server is, the file does not say."""
        given = {key: value for key, value in self._section("models").items() if key != "ids"}
        try:
            return ModelNames().overridden(models_in(self._tree, given, "models", shaping=True))
        except YamlError as error:
            raise SpaceError(str(error)) from error

    def model_ids(self) -> dict[str, str]:
        """Role to the id that the model had at export."""
        ids = self._section("models").get("ids", {})
        if not isinstance(ids, dict) or not all(isinstance(value, str) for value in ids.values()):
            raise self._error(("models", "ids"), "ids must be 'role: model id' pairs")
        return ids

    def chunk_size(self) -> int:
        """Characters in a chunk, at most."""
        size = self._data.get("chunk_size")
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise self._error(("chunk_size",), f"chunk_size must be a positive whole number, not {size!r}")
        return size

    def weights(self) -> Weights:
        """How much retrieval and generation count."""
        given = self._section("weights")
        numbers = all(isinstance(v, int | float) and not isinstance(v, bool) and v >= 0 for v in given.values())
        if set(given) != {"retrieval", "generation"} or not numbers or not sum(given.values()) > 0:
            raise self._error(("weights",), "weights must have 'retrieval' and 'generation', not both 0")
        return Weights(**given)

    def expected(self) -> dict[str, Any]:
        """The scores at export: ``search`` and ``test`` to metric to mean."""
        expected = self._section("expected")
        for part, scores in expected.items():
            wanted = {"questions", *METRICS}
            if part not in ("search", "test") or not isinstance(scores, dict) or set(scores) != wanted:
                raise self._error(("expected", part), f"{part} must have exactly {', '.join(sorted(wanted))}")
            for metric, score in scores.items():
                if not isinstance(score, int | float) or isinstance(score, bool):
                    raise self._error(("expected", part, metric), f"{metric} must be a number, not {score!r}")
        return expected

    def dataset(self, other: str | Path | None) -> Dataset:
        """The data set that the file names, which must not have changed; or ``other``."""
        if other is not None:
            return load_dataset(str(other))
        section = self._section("dataset")
        location = section.get("path", section.get("bundled"))
        if not isinstance(location, str) or len({"path", "bundled"} & set(section)) != 1:
            raise self._error(("dataset",), "'dataset' must have a 'path', or the name of a 'bundled' one")
        data = load_dataset(self._path.parent / location if "path" in section else bundled("datasets", location))
        if data.digest != section.get("digest"):
            raise self._error(
                ("dataset", "digest"),
                f"data set {location!r} is not the one this pipeline was found on: its documents or questions changed; "
                "search again, or name the data set to use with --dataset",
            )
        return data

    def _section(self, name: str) -> dict[str, Any]:
        value = self._data.get(name)
        if not isinstance(value, dict):
            raise self._error(
                (name,), f"{name!r} is missing" if value is None else f"{name!r} must be 'name: value' pairs"
            )
        return value

    def _error(self, path: tuple[Any, ...], message: str) -> SpaceError:
        return SpaceError(f"{self._tree.where(*path)}: {message}")
