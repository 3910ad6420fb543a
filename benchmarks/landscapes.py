"""Landscapes: what every pipeline of a space, or a sample of them, is worth on every question of a data set.

`landscape.py` makes them. A search that is replayed on one costs no model call, so strategies, races and choices can be
compared over many seeds, and over many ways to divide the questions.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragsmith.pipelines.space import Genome, Space
from ragsmith.pipelines.space_file import load_space

ARRAYS = ("genomes", "R", "G", "calls", "parts", "units", "phenotypes", "rankings")
TEXTS = ("questions", "types")


@dataclass(frozen=True, eq=False)
class Landscape:
    """A row for each pipeline, a column for each question.

    ``R``, ``G`` (float32) and ``calls`` (uint16: calls of a language model) are matrices, nan where a question failed.
    ``parts`` says where a question belongs: "search", "test" or "unused". ``units`` has three rows, which number the
    groups of questions that hang together by document, by neighbourhood and by section. ``phenotypes`` numbers what
    the pipelines did on the search questions, by passages found and answer: equal numbers are one pipeline in effect.
    ``rankings`` does so by the passages alone, so equal numbers have equal R there. ``about`` is what it was made with.
    """

    genomes: NDArray[np.int16]
    R: NDArray[np.float32]
    G: NDArray[np.float32]
    calls: NDArray[np.uint16]
    parts: NDArray[np.str_]
    units: NDArray[np.int32]
    phenotypes: NDArray[np.int32]
    rankings: NDArray[np.int32]
    questions: tuple[str, ...]
    types: tuple[str, ...]
    space_text: str
    about: dict[str, Any]

    @classmethod
    def load(cls, path: str | Path) -> Landscape:
        """Read a landscape that `save` wrote."""
        with np.load(path) as file:
            arrays = {name: file[name] for name in ARRAYS}
            texts = {name: tuple(file[name].tolist()) for name in TEXTS}
            return cls(**arrays, **texts, space_text=str(file["space_text"]), about=json.loads(str(file["about"])))

    def save(self, path: Path) -> None:
        """Write it; nothing half-written is ever found at ``path``."""
        named = {name: getattr(self, name) for name in (*ARRAYS, *TEXTS, "space_text")}
        write_arrays(path, **named, about=json.dumps(self.about))

    @cached_property
    def F(self) -> NDArray[np.float32]:  # noqa: N802  as it is written everywhere
        """The fitness, the mean of R and G; R alone where the data set has no answers."""
        return (self.R + self.G) / 2 if self.about["answers"] else self.R

    @property
    def search(self) -> NDArray[np.bool_]:
        """Which questions a search may see."""
        return self.parts == "search"

    @property
    def test(self) -> NDArray[np.bool_]:
        """Which questions are for the verdict."""
        return self.parts == "test"

    @cached_property
    def space(self) -> Space:
        """The space that the genomes are of."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "space.yaml"
            path.write_text(self.space_text, encoding="utf-8")
            return load_space(path)

    @cached_property
    def row(self) -> dict[Genome, int]:
        """The row of each genome."""
        return {tuple(genome): row for row, genome in enumerate(self.genomes.tolist())}

    def evaluate(self, genome: Genome) -> float:
        """The mean fitness on the search questions; nan where one failed.

        Raises:
            KeyError: the landscape is a sample that lacks the genome, or it is not feasible.
        """
        return float(self._means[self.row[genome]])

    @cached_property
    def _means(self) -> NDArray[np.float64]:
        return self.F[:, self.search].mean(axis=1, dtype=np.float64)


def write_arrays(path: Path, **arrays: Any) -> None:
    """Write a compressed file of arrays at once, or not at all."""
    draft = path.with_name(f"{path.name}.part")
    with draft.open("wb") as file:
        np.savez_compressed(file, **arrays)
    draft.replace(path)
