"""What a process needs to evaluate: a data set cut into chunks, and models by name.

Small and picklable: a worker process receives an `Experiment` and builds its own engine from it. Models passed
as objects stay in their process and are called from threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import product
from pathlib import Path
from typing import Any

from ragsmith.building import log_progress
from ragsmith.datasets.chunking.chunking import cut_documents
from ragsmith.datasets.dataset import load_dataset
from ragsmith.datasets.groups import MAX_GAP
from ragsmith.datasets.relevance import ChunkMap, Relevance
from ragsmith.datasets.splits import Split, make_folds, split, stratify
from ragsmith.digest import fingerprint
from ragsmith.errors import DatasetError, UsageError
from ragsmith.evaluation.fitness import Fitness
from ragsmith.evaluation.general_weights import GeneralWeights, class_of, shipped
from ragsmith.gateway.budget import Budget
from ragsmith.gateway.claims import CallStore
from ragsmith.gateway.failures import Failures
from ragsmith.gateway.gateway import Gateway
from ragsmith.gateway.memo import EvictionPolicy
from ragsmith.index.index import Corpus
from ragsmith.index.stores import open_vectors
from ragsmith.measures.registry import Measure, measures
from ragsmith.models.loading import ModelNames, Shared, load_models
from ragsmith.models.names import model_name_from
from ragsmith.models.roles import MEASURES_EMBEDDER, Models
from ragsmith.models.vector_stores import resolve_address
from ragsmith.pipelines.engine import Engine
from ragsmith.pipelines.genes import CHUNK_SETTINGS, GENES, ROLES, Candidate, Gene
from ragsmith.techniques.listwise import General
from ragsmith.types import Dataset, Example

SMALLEST_CHUNK = 100
"""Characters; below this a chunk is hardly a sentence."""

MANY_DOCUMENTS = 5_000
"""It takes seconds to cut so many."""

FOLDS = 5
"""Parts of the search questions that are held out in turn, for techniques that learn."""

CHUNK_SIZE = 900
"""Characters. The published law data has chunks of about 700; see `chunking`."""


@dataclass(frozen=True)
class Experiment:
    """A data set, how it is cut, which models work on it, and whether answers are checked claim by claim.

    By default they are where the judge costs nothing. ``given`` holds, by role, the models that are objects. Chunks
    begin with up to ``chunk_overlap`` characters of the one before. A drawn split keeps the
    gold of search and test more than ``gap`` characters apart.

    Candidates may say how documents are cut and which models work, where that is ``searched``: `of` has the setup that
    a candidate asks for. Answers and rankings are marked by the models of ``marked_by``, if it is there: else what is
    searched over would choose its own judge. ``divided`` is a split to go by instead of the one that the data set is
    given or drawn. With ``of_rankings`` questions without evidence are in no part, as their rankings have no score.
    ``weights`` are the general weights of signals; None uses those that ship for the class of the embedder.
    """

    dataset: Dataset
    models: ModelNames = field(default_factory=ModelNames)
    chunk_size: int = CHUNK_SIZE
    faithfulness: bool | None = None
    given: Mapping[str, Any] = field(default_factory=dict, kw_only=True, hash=False)
    chunk_overlap: int = field(default=0, kw_only=True)
    gap: int = field(default=MAX_GAP, kw_only=True)
    searched: tuple[tuple[Gene, ...], ...] = field(default=(), kw_only=True)
    marked_by: Experiment | None = field(default=None, kw_only=True)
    of_rankings: bool = field(default=False, kw_only=True)
    divided: Split | None = field(default=None, kw_only=True)
    weights: GeneralWeights | None = field(default=None, kw_only=True, hash=False)

    def scoring(self, fitness: Fitness) -> Experiment:
        """The setup with the questions that have this fitness: all that have evidence, where it is about rankings."""
        if not fitness.needs_evidence or all(example.evidence for example in self.dataset.examples):
            return self
        return replace(self, of_rankings=True)

    def searching(self, settings: tuple[tuple[Gene, ...], ...]) -> Experiment:
        """The setup of a search over ``settings``: its own are the first option of each.

        Raises:
            UsageError: chunks would overlap by as much as they are long.
        """
        if settings == self.searched:
            return self
        first = self._changed([genes[0] for genes in settings])
        found = replace(first, searched=settings)
        sizes, overlaps = (set(values) for values in zip(*found.cuts, strict=True))
        if max(overlaps) >= min(sizes):
            raise UsageError(
                f"chunks of {min(sizes)} characters cannot overlap by {max(overlaps)}, as the space has it: list less "
                "as its chunk_overlap, or give longer chunks"
            )
        return replace(found, gap=max(self.gap, max(sizes) + max(overlaps))) if len(found.cuts) > 1 else found

    def of(self, candidate: Candidate) -> Experiment:
        """The setup that a candidate asks for; this one where it says nothing of it, or the same."""
        return self._at(candidate[GENES:])

    def _at(self, settings: tuple[Gene, ...]) -> Experiment:
        if settings not in self._variants:
            found = self._changed(settings)
            same = (found.cut, found.models) == (self.cut, self.models)
            self._variants[settings] = self if same else replace(found, searched=(), marked_by=self)
        return self._variants[settings]

    def _changed(self, settings: Sequence[Gene]) -> Experiment:
        """The setup with other settings."""
        values: dict[str, Any] = {gene.technique.family: gene.parameters["value"] for gene in settings}
        names = {role: model_name_from(values.pop(role)) for role in ROLES if role in values}
        return replace(self, models=self.models.overridden(names) if names else self.models, **values)

    @cached_property
    def _variants(self) -> dict[tuple[Gene, ...], Experiment]:
        return {(): self}

    @property
    def cut(self) -> int | list[Any]:
        """What identifies how documents are cut: the size of chunks and, if they overlap, by how much and how."""
        if not self.chunk_overlap:
            return self.chunk_size
        return [self.chunk_size, self.chunk_overlap, fingerprint(cut_documents.__module__, cut_documents.__name__)]

    @property
    def cuts(self) -> list[tuple[int, int]]:
        """Every size and overlap of chunks that is searched, or the one that is not."""
        values = {genes[0].technique.family: [gene.parameters["value"] for gene in genes] for genes in self.searched}
        return list(product(*(values.get(name, [getattr(self, name)]) for name in CHUNK_SETTINGS)))

    @cached_property
    def corpus(self) -> Corpus:
        """Documents and chunks."""
        documents = self.dataset.documents
        if len(documents) >= MANY_DOCUMENTS:
            log_progress(f"cutting {len(documents):,} documents")
        return Corpus(documents, cut_documents(documents, self.chunk_size, self.chunk_overlap))

    @cached_property
    def loaded_models(self) -> Models:
        """The models, which load their weights when first used."""
        shared = (self.marked_by or self)._shared
        chunks = self.corpus.chunks
        languages = [chunk.language for chunk in chunks]
        return load_models(self.models, [chunk.text for chunk in chunks], self.given, shared, languages=languages)

    @cached_property
    def _shared(self) -> Shared:
        """Models that depend on no corpus, and servers, for this setup and all that candidates ask for."""
        return Shared()

    @property
    def variants(self) -> list[Experiment]:
        """All setups that candidates may ask for."""
        return [self._at(chosen) for chosen in product(*self.searched)]

    @property
    def served(self) -> tuple[str, ...]:
        """The names of all models that may be asked over a network, which may cost money."""
        return tuple(dict.fromkeys(name for variant in self.variants for name in variant.loaded_models.served()))

    @property
    def workers(self) -> int:
        """How many workers suit the models; see `ModelNames.workers`."""
        return max(variant.models.workers() for variant in self.variants)

    @property
    def waits(self) -> bool:
        """Whether a model is remote or was passed as an object, so that threads suit it."""
        return bool(self.given) or any(variant.loaded_models.waits for variant in self.variants)

    @cached_property
    def split(self) -> Split:
        """The questions of the search and of the test."""
        found = self.divided or split(self.dataset, gap=self.gap)
        return found.with_evidence() if self.of_rankings else found

    @cached_property
    def examples(self) -> dict[str, Example]:
        """Questions by id."""
        return {example.id: example for example in self.dataset.examples}

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The ids of all questions in the order in which candidates meet them: each beginning is a fair sample."""
        parts = self.split
        return tuple(example.id for part in (parts.search, parts.test, parts.unused) for example in stratify(part))

    @cached_property
    def relevance(self) -> dict[str, Relevance]:
        """The chunks relevant to each question, by the question's id."""
        chunk_map = ChunkMap(self.corpus.chunks)
        return {example.id: chunk_map.relevance(example.evidence) for example in self.dataset.examples}

    def general(self, gene: Gene) -> General:
        """What data sets on other documents teach of a gene's signals; nothing, where it learns and they do not.

        Raises:
            UsageError: they teach nothing, and it needs their weights.
        """
        if gene.learns and self.lacks(gene):
            return General.nothing(gene.technique.signals)
        return self._others.of(gene.technique)

    def lacks(self, gene: Gene) -> bool:
        """Whether a gene has signals whose weights no data set on other documents teaches."""
        return bool(gene.technique.signals) and not self._others.teaches(gene.technique)

    @cached_property
    def _others(self) -> GeneralWeights:
        known = self.weights or shipped(class_of(self.models))
        return known.without(known.overlapping(self.dataset.documents))

    @cached_property
    def folds(self) -> list[list[str]]:
        """The ids of the calibration questions, in parts that are held out together; one where all hang together."""
        return [[example.id for example in part] for part in make_folds(self.dataset, self.calibration, FOLDS)]

    def modality(self, example: Example) -> str:
        """The kind of text that holds a question's evidence: that of its relevant chunks, ``mixed``, or ``none``."""
        if not example.evidence:
            return "none"
        kinds = {self._modalities[chunk] for chunk in self.relevance[example.id].relevant}
        return kinds.pop() if len(kinds) == 1 else "mixed"

    @cached_property
    def _modalities(self) -> dict[str, str]:
        return {chunk.id: chunk.modality.value for chunk in self.corpus.chunks}

    @cached_property
    def calibration(self) -> tuple[Example, ...]:
        """The questions that fitted techniques may learn from: those of the search split that have evidence."""
        return tuple(example for example in self.split.search if example.evidence)

    def engine(
        self,
        store: CallStore | None = None,
        budget: Budget | None = None,
        failures: Failures | None = None,
        *,
        gateway: Gateway | None = None,
        room: EvictionPolicy | None = None,
    ) -> Engine:
        """A fresh engine, with a gateway of its own, which remembers in ``room``, unless one is given."""
        models = self.loaded_models
        gateway = gateway or Gateway(store, budget, failures, room)
        return Engine(
            self.corpus, models, gateway, partial(open_vectors, resolve_address(models.vectors_at, Path.cwd()))
        )

    def marking(self, engine: Engine) -> Engine:
        """What marks what ``engine`` did: itself, unless others do."""
        if self.marked_by is None:
            return engine
        marking = Engine(engine.corpus, self.marked_by.loaded_models, engine.gateway)
        marking.share_companions(engine)
        return marking

    @property
    def checks_claims(self) -> bool:
        """Whether records have a faithfulness."""
        if self.marked_by:
            return self.marked_by.checks_claims
        return self.models.embedded if self.faithfulness is None else self.faithfulness

    @cached_property
    def measures(self) -> tuple[Measure, ...]:
        """The measures that records have: costly ones where the judge costs nothing, or they are asked for."""
        if self.marked_by:
            return self.marked_by.measures
        free = self.models.embedded
        declining = any(not example.answerable for example in self.dataset.examples)
        wanted = {"faithfulness": self.checks_claims, "refusal": declining, "false_refusal": declining}
        return tuple(known for known in measures().values() if wanted.get(known.name, free or not known.costly))

    @cached_property
    def model_ids(self) -> dict[str, str]:
        """What identifies the models, by role; those that mark among them, where others work."""
        ids = self.loaded_models.ids()
        if self.marked_by:
            marking = self.marked_by.loaded_models
            ids["judge"] = marking.judge.id
            if marking.embedder.id != self.loaded_models.embedder.id:
                ids[MEASURES_EMBEDDER] = marking.embedder.id
        return ids


class Engines:
    """The engine of a setup, and those of all setups that candidates ask for, behind one gateway.

    So what was asked of a model for one of them is known to all, and nothing is embedded twice.
    """

    def __init__(self, setup: Experiment, engine: Engine) -> None:
        self._setup = setup
        self._gateway = engine.gateway
        self._made = {id(setup): (engine, setup)}

    def of(self, candidate: Candidate) -> tuple[Engine, Experiment]:
        """The engine that runs a candidate, and its setup."""
        setup = self._setup.of(candidate)
        if id(setup) not in self._made:
            self._made[id(setup)] = setup.engine(gateway=self._gateway), setup
        return self._made[id(setup)]

    def copied(self, room: EvictionPolicy) -> Engines:
        """Fresh engines, which remember in ``room``, with what these have built for whole collections."""
        copy = Engines(self._setup, self._setup.engine(room=room))
        for key, (built, setup) in self._made.items():
            if key not in copy._made:
                copy._made[key] = setup.engine(gateway=copy._gateway), setup
            copy._made[key][0].share_collection(built)
        return copy

    def __iter__(self) -> Iterator[Engine]:
        return iter([engine for engine, _ in self._made.values()])


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
) -> Experiment:
    """Load and check everything a run needs before anything is computed.

    Answers are checked claim by claim if ``faithfulness`` says so; by default where the judge costs nothing.

    Raises:
        UsageError: the data set or a model name cannot be used, or a question cannot be scored on these chunks.
    """
    if chunk_size < SMALLEST_CHUNK:
        raise UsageError(f"the chunk size is {chunk_size}: give at least {SMALLEST_CHUNK} characters")
    data = dataset if isinstance(dataset, Dataset) else load_dataset(dataset)
    setup = Experiment(data, models, chunk_size, faithfulness, given=given or {})
    setup.loaded_models.ids()
    labelled = [example for example in ordered(setup.dataset.examples) if example.evidence]
    unreachable = [example.id for example in labelled if not setup.relevance[example.id].relevant]
    if unreachable:
        raise DatasetError(
            [
                f"{question}: all its evidence is in headings, which are in no chunk: quote the text"
                for question in unreachable
            ]
        )
    return setup
