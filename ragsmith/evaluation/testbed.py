"""What a process needs to evaluate: a data set cut into chunks, and models by name.

Small and picklable: a worker process is handed a `Setup` and builds its own engine from it. Models that are objects
stay in their process, and are asked from threads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from ragsmith.datasets.chunking.chunking import chunk_documents
from ragsmith.datasets.dataset import load_dataset
from ragsmith.datasets.relevance import ChunkMap, Relevance
from ragsmith.datasets.splits import folds, split, stratified
from ragsmith.errors import DatasetError, UsageError
from ragsmith.gateway.budget import Budget
from ragsmith.gateway.claims import CallStore
from ragsmith.gateway.failures import Failures
from ragsmith.gateway.gateway import Gateway
from ragsmith.index.index import Corpus
from ragsmith.index.stores import open_vectors
from ragsmith.measures.registry import Measure, measures
from ragsmith.models.loading import ModelNames, load_models
from ragsmith.models.roles import Models
from ragsmith.pipelines.engine import Engine
from ragsmith.types import Dataset, Example

SMALLEST_CHUNK = 100
"""Characters; below this a chunk is hardly a sentence."""

FOLDS = 5
"""Parts of the search questions that are held out in turn, for techniques that learn."""

CHUNK_SIZE = 900
"""Characters. The published law data has chunks of about 700; see `chunking`."""


@dataclass(frozen=True)
class Setup:
    """A data set, how it is cut, which models work on it, and whether answers are checked claim by claim.

    By default they are where the judge costs nothing. ``given`` holds, by role, the models that are objects.
    """

    dataset: Dataset
    models: ModelNames = field(default_factory=ModelNames)
    chunk_size: int = CHUNK_SIZE
    faithfulness: bool | None = None
    given: Mapping[str, Any] = field(default_factory=dict, kw_only=True, hash=False)

    @cached_property
    def corpus(self) -> Corpus:
        """Documents and chunks."""
        return Corpus(self.dataset.documents, chunk_documents(self.dataset.documents, size=self.chunk_size))

    @cached_property
    def loaded_models(self) -> Models:
        """The models, which load their weights when first used."""
        return load_models(self.models, [chunk.text for chunk in self.corpus.chunks], self.given)

    @cached_property
    def examples(self) -> dict[str, Example]:
        """Questions by id."""
        return {example.id: example for example in self.dataset.examples}

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The ids of all questions in the order in which candidates meet them: each beginning is a fair sample."""
        parts = split(self.dataset)
        return tuple(example.id for part in (parts.search, parts.test, parts.unused) for example in stratified(part))

    @cached_property
    def relevance(self) -> dict[str, Relevance]:
        """The chunks relevant to each question, by the question's id."""
        chunk_map = ChunkMap(self.corpus.chunks)
        return {example.id: chunk_map.relevance(example.evidence) for example in self.dataset.examples}

    @cached_property
    def folds(self) -> list[list[str]]:
        """The ids of the calibration questions, in parts that are held out together; one where all hang together."""
        return [[example.id for example in part] for part in folds(self.dataset, self.calibration, FOLDS)]

    def modality(self, example: Example) -> str:
        """The kind of text that holds a question's evidence: that of its relevant chunks, or ``mixed``."""
        kinds = {self._modalities[chunk] for chunk in self.relevance[example.id].relevant}
        return kinds.pop() if len(kinds) == 1 else "mixed"

    @cached_property
    def _modalities(self) -> dict[str, str]:
        return {chunk.id: chunk.modality.value for chunk in self.corpus.chunks}

    @cached_property
    def calibration(self) -> tuple[Example, ...]:
        """The questions that fitted techniques may learn from: those of the search split."""
        return split(self.dataset).search

    def engine(
        self, store: CallStore | None = None, budget: Budget | None = None, failures: Failures | None = None
    ) -> Engine:
        """A fresh engine with a gateway of its own."""
        models = self.loaded_models
        return Engine(self.corpus, models, Gateway(store, budget, failures), partial(open_vectors, models.vectors_at))

    @property
    def checks_claims(self) -> bool:
        """Whether records have a faithfulness."""
        return self.models.embedded if self.faithfulness is None else self.faithfulness

    @cached_property
    def measures(self) -> tuple[Measure, ...]:
        """The measures that records have: costly ones where the judge costs nothing, or they are asked for."""
        free = self.models.embedded
        wanted = {"faithfulness": self.checks_claims}
        return tuple(known for known in measures().values() if wanted.get(known.name, free or not known.costly))

    @cached_property
    def model_ids(self) -> dict[str, str]:
        """What identifies the models, by role."""
        return self.loaded_models.ids()


def ordered(examples: Sequence[Example]) -> list[Example]:
    """Examples in the one order in which results are listed and averaged."""
    return sorted(examples, key=lambda example: example.id)


def prepare(
    dataset: Dataset | str | Path,
    models: ModelNames,
    chunk_size: int,
    *,
    faithfulness: bool | None = None,
    given: Mapping[str, Any] | None = None,
) -> Setup:
    """Load and check everything a run needs before anything is computed.

    Answers are checked claim by claim if ``faithfulness`` says so; by default where the judge costs nothing.

    Raises:
        UsageError: the data set or a model name cannot be used, or a question cannot be scored on these chunks.
    """
    if chunk_size < SMALLEST_CHUNK:
        raise UsageError(f"the chunk size is {chunk_size}: give at least {SMALLEST_CHUNK} characters")
    data = dataset if isinstance(dataset, Dataset) else load_dataset(dataset)
    setup = Setup(data, models, chunk_size, faithfulness, given=given or {})
    setup.loaded_models.ids()
    unreachable = [e.id for e in ordered(setup.dataset.examples) if not setup.relevance[e.id].relevant]
    if unreachable:
        raise DatasetError(
            [
                f"{question}: all its evidence lies in headings, which are in no chunk: quote the text"
                for question in unreachable
            ]
        )
    return setup
