"""What a process needs to evaluate: a data set cut into chunks, and models by name.

Small and picklable: a worker process is handed a `Setup` and builds its own engine from it. Models that are objects
stay in their process, and are asked from threads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from typing import Any

from ragsmith.code import fingerprint
from ragsmith.datasets.chunking.chunking import chunk_documents
from ragsmith.datasets.dataset import load_dataset
from ragsmith.datasets.relevance import ChunkMap, Relevance
from ragsmith.datasets.splits import folds, split
from ragsmith.digest import digest
from ragsmith.errors import DatasetError, UsageError
from ragsmith.gateway.budget import Budget
from ragsmith.gateway.claims import CallStore
from ragsmith.gateway.gateway import Gateway
from ragsmith.index.index import Corpus
from ragsmith.measures.registry import Measure, measures
from ragsmith.models.loading import ModelNames, load_models
from ragsmith.models.roles import Models
from ragsmith.pipelines.engine import Engine
from ragsmith.pipelines.genes import Candidate
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

    def engine(self, store: CallStore | None = None, budget: Budget | None = None) -> Engine:
        """A fresh engine with a gateway of its own."""
        return Engine(self.corpus, self.loaded_models, Gateway(store, budget))

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

    def evaluation_key(self, candidate: Candidate) -> str:
        """Identifies what every record of ``candidate`` on this data set depends on: a change in any of it misses."""
        return digest("record", self.pipeline_key(candidate), self._measured_by)

    def pipeline_key(self, genes: Candidate) -> str:
        """Identifies what the stages of ``genes``, a pipeline or the beginning of one, say of this data set."""
        models = dict(self._model_ids)
        used = {kind for gene in genes for kind in gene.technique.tools.values()}
        if "cross_encoder" not in used:
            del models["cross_encoder"]
        identities = [gene.identity for gene in genes]
        return digest("evaluation", self.dataset.digest, self.chunk_size, identities, models, self._code)

    @cached_property
    def _model_ids(self) -> dict[str, str]:
        return self.loaded_models.ids()

    @cached_property
    def _measured_by(self) -> list[tuple[str, str]]:
        return [measure.identity for measure in self.measures]

    @cached_property
    def _code(self) -> list[str]:
        """What scores depend on besides techniques, data and models: our code, and libraries that shape results."""
        modules = (
            "ragsmith.evaluation.scoring",
            "ragsmith.techniques.generation",
            "ragsmith.datasets.chunking.chunking",
        )
        return [*map(fingerprint, modules), *(f"{name} {version(name)}" for name in ("bm25s", "PyStemmer"))]


def ordered(examples: Sequence[Example]) -> list[Example]:
    """Examples in the one order in which results are listed and averaged."""
    return sorted(examples, key=lambda example: example.id)


def prepare(
    dataset: str,
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
    setup = Setup(load_dataset(dataset), models, chunk_size, faithfulness, given=given or {})
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
