"""Plan: what a search would ask of models, before anything is spent.

The search is run on a sample of the questions with the embedded models standing in for those that cost something; what
they would have been asked is counted, and what the cache already holds is read from it. Replies and scores decide where
a search goes, so a plan is an estimate.
"""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any, Generic, TypeVar

from ragsmith.datasets.splits import split
from ragsmith.evaluation.testbed import Setup, ordered
from ragsmith.gateway.budget import Price, Prices
from ragsmith.gateway.claims import CallStore
from ragsmith.index.entity_graph import EXTRACT_RELATIONS
from ragsmith.models.calls import ChatModel, completes, completion_key, keeps, result_key
from ragsmith.models.embedded.extractive import ExtractiveModel
from ragsmith.models.embedded.late_interaction import LateInteractionScorer
from ragsmith.models.embedded.wordllama import WordLlamaEmbedder
from ragsmith.models.protocols import CrossEncoder, Embedder, LanguageModel, Vectors
from ragsmith.models.roles import Models
from ragsmith.models.tasks import Input, Task
from ragsmith.models.usage import AVERAGE_CHARACTERS_A_TOKEN, Usage
from ragsmith.pipelines.space import Space
from ragsmith.runs.record import RunSettings
from ragsmith.runs.requirements import refuse_missing_models
from ragsmith.runs.run import Run
from ragsmith.store.store import Store
from ragsmith.techniques.asked import tasks
from ragsmith.techniques.families import FAMILIES
from ragsmith.types import Example

T = TypeVar("T")
Real = TypeVar("Real", ChatModel, Embedder, CrossEncoder)
Embedded = TypeVar("Embedded", LanguageModel, Embedder, CrossEncoder)

SAMPLE = 15
"""Search questions that the plan is worked out on."""

COLLECTION_TEXTS = "embed a text of the collection"
TOTALS = ("calls", "cached", "input_tokens", "output_tokens", "seconds")
MOST_QUERIES = 16
"""More texts than that at once are a collection's, which does not grow with the questions."""


@dataclass
class Tally:
    """What one kind of request adds up to: requests to be made, found in the cache, and what those to be made hold."""

    needed: int = 0
    cached: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Line:
    """One kind of request of a plan; ``cost`` is None where the price is not known."""

    model: str
    request: str
    calls: int
    cached: int
    input_tokens: int
    output_tokens: int
    cost: float | None
    seconds: float


@dataclass(frozen=True)
class Plan:
    """What a search would spend. ``seconds`` is what waiting takes at ``latency`` a request, ``in_flight`` at once.

    Where no model costs anything nothing is rehearsed: ``genomes``, the number of pipelines, is None then.
    """

    genomes: int | None
    questions: int
    sampled: int
    lines: tuple[Line, ...]
    latency: float
    in_flight: int
    totals: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class _StandIn(Generic[Real, Embedded]):
    """Takes the place of a model that costs something: the embedded one works, ``tallies`` say what was asked."""

    real: Real
    embedded: Embedded
    store: CallStore
    tallies: dict[Any, Tally]

    @property
    def id(self) -> str:
        """Another one than the real model's: what this one returns is no reply of that."""
        return f"plan of {self.real.id}"

    def tally(self, request: str) -> Tally:
        """What is counted for one kind of request to the real model."""
        return self.tallies.setdefault((self.real.id, request), Tally())


class _ChatStandIn(_StandIn[ChatModel, LanguageModel], LanguageModel):
    """Answers in the place of a chat model, from the cache where it can, and tallies what it could not."""

    def run(self, task: Task[T], *, sample: int = 0, **inputs: Input) -> T:
        """Read the reply from the cache, or perform the task by its classical method."""
        prompt = task.render(inputs)
        tally = self.tally(task.name)
        known = self.store.get_call(completion_key(self.real.id, prompt, task.max_tokens, sample))
        if known is not None:
            try:
                reply = task.parse(known.value)
            except ValueError:
                pass  # it would be asked again
            else:
                tally.cached += 1
                return reply
        result = self.embedded.run(task, sample=sample, **inputs)
        tally.needed += 1
        tally.input_tokens += len(prompt) // AVERAGE_CHARACTERS_A_TOKEN + 1
        tally.output_tokens += min(task.max_tokens, len(str(result)) // AVERAGE_CHARACTERS_A_TOKEN + 1)
        return result


class _EmbedderStandIn(_StandIn[Embedder, Embedder]):
    """Embeds in the place of an embedder that costs something."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Embed by the embedded model, and tally what the cache has not."""
        kinds = ("text", "query") if hasattr(self.real, "embed_queries") else ("text",)
        keys = {text: [result_key("embedder", self.real.id, text, kind) for kind in kinds] for text in texts}
        known = self.store.get_calls([key for each in keys.values() for key in each])
        missing = [text for text in texts if not any(key in known for key in keys[text])]
        tally = self.tally(COLLECTION_TEXTS if len(texts) > MOST_QUERIES else "embed a query")
        tally.cached += len(texts) - len(missing)
        tally.needed += len(missing)
        tally.input_tokens += sum(len(text) // AVERAGE_CHARACTERS_A_TOKEN + 1 for text in missing)
        return self.embedded.embed(texts)


class _RerankerStandIn(_StandIn[CrossEncoder, CrossEncoder]):
    """Scores in the place of a reranker that costs something."""

    def score(self, query: str, texts: Sequence[str]) -> tuple[float, ...]:
        """Score by the embedded model, and tally what the cache has not."""
        keys = [result_key("cross_encoder", self.real.id, text, query) for text in texts]
        known = self.store.get_calls(keys)
        tally = self.tally("score a list of passages")
        missing = [text for text, key in zip(texts, keys, strict=True) if key not in known]
        tally.cached += not missing
        tally.needed += bool(missing)
        tally.input_tokens += sum(len(query) + len(text) for text in missing) // AVERAGE_CHARACTERS_A_TOKEN
        return self.embedded.score(query, texts)


@dataclass(frozen=True)
class _Rehearsal(Setup):
    """A setup whose models stand in for others."""

    stand_ins: Models | None = None

    @cached_property
    def loaded_models(self) -> Models:
        assert self.stand_ins is not None
        return self.stand_ins


def plan(
    setup: Setup,
    space: Space,
    store: CallStore,
    settings: RunSettings | None = None,
    *,
    prices: Prices | None = None,
    latency: float = 1.0,
    in_flight: int = 32,
    sample: int = SAMPLE,
) -> Plan:
    """Rehearse a search on up to ``sample`` of its questions and say what all of them would take."""
    count = len(setup.dataset.examples)
    refuse_missing_models(chain.from_iterable(space.options), setup.models)
    if not _costs(setup.loaded_models):
        return Plan(None, count, 0, (), latency, in_flight, {**dict.fromkeys(TOTALS, 0.0), "cost": 0.0})
    settings = settings or RunSettings()
    questions = _sampled(setup, sample)
    tallies: dict[Any, Tally] = {}
    dataset = replace(setup.dataset, examples=tuple(questions))
    rehearsal = _Rehearsal(
        dataset, setup.models, setup.chunk_size, setup.checks_claims, _stand_ins(setup, store, tallies)
    )
    with tempfile.TemporaryDirectory() as folder, Store.open(Path(folder) / "plan.sqlite") as scratch:
        outcome = Run(rehearsal, space, scratch, settings).go()
        genomes = len({key for key, _ in outcome.evaluations})
    share = len(questions) / count
    lines = [
        _line(model, request, tally, share, prices, latency, in_flight) for (model, request), tally in tallies.items()
    ]
    ordered_lines = tuple(sorted(lines, key=lambda line: (line.model, -line.calls, line.request)))
    totals: dict[str, float | None] = {name: sum(getattr(line, name) for line in lines) for name in TOTALS}
    totals["cost"] = None if any(line.cost is None for line in lines) else math.fsum(line.cost or 0.0 for line in lines)
    return Plan(genomes, count, len(questions), ordered_lines, latency, in_flight, totals)


def _costs(models: Models) -> bool:
    """Whether any model is asked elsewhere, or keeps its results because they are dear."""
    chat = (models.language_model, models.judge, models.controller)
    return any(model is not None and completes(model) for model in chat) or any(
        map(keeps, (models.embedder, models.cross_encoder))
    )


def _sampled(setup: Setup, sample: int) -> list[Example]:
    """Search and test questions in their proportion, with the split they have in the whole data set."""
    parts = split(setup.dataset)
    share = min(1.0, sample / max(1, len(parts.search)))
    found = []
    for name, examples in (("search", parts.search), ("test", parts.test)):
        size = min(len(examples), math.ceil(share * len(examples)))
        found += [replace(e, split=name) for e in Random(0).sample(ordered(examples), size)]
    return ordered(found) if parts.test else [replace(example, split=None) for example in ordered(found)]


def _stand_ins(setup: Setup, store: CallStore, tallies: dict[Any, Tally]) -> Models:
    real = setup.loaded_models
    texts = [chunk.text for chunk in setup.corpus.chunks]
    embedder = WordLlamaEmbedder()
    embedded = ExtractiveModel(texts, embedder)

    def language_model(model: LanguageModel | ChatModel) -> LanguageModel:
        return _ChatStandIn(model, embedded, store, tallies) if completes(model) else embedded

    return Models(
        language_model=language_model(real.language_model),
        embedder=_EmbedderStandIn(real.embedder, embedder, store, tallies) if keeps(real.embedder) else embedder,
        cross_encoder=_RerankerStandIn(real.cross_encoder, LateInteractionScorer(embedder, texts), store, tallies)
        if keeps(real.cross_encoder)
        else LateInteractionScorer(embedder, texts),
        judge=language_model(real.judge),
        controller=language_model(real.controller) if real.controller else None,
    )


def _line(
    model: str, request: str, tally: Tally, share: float, prices: Prices | None, latency: float, in_flight: int
) -> Line:
    """What was tallied on the sample, for all questions; what the collection needs does not grow with them."""
    scale = 1.0 if request in _collection_tasks() else 1 / share
    counts = Counter({name: math.ceil(getattr(tally, name) * scale) for name in vars(tally)})
    price: Price | None = (prices or Prices()).of(model)
    usage = Usage(counts["needed"], 0, 0, counts["input_tokens"], counts["output_tokens"])
    return Line(
        model,
        request,
        counts["needed"],
        counts["cached"],
        counts["input_tokens"],
        counts["output_tokens"],
        None if price is None else price.of(usage),
        counts["needed"] * latency / in_flight,
    )


def _collection_tasks() -> frozenset[str]:
    """Names of the tasks that are asked once for a collection."""
    asked = (
        task.name
        for family in FAMILIES
        if family.tier == "collection"
        for t in family.techniques.values()
        for task in tasks(t)
    )
    return frozenset([EXTRACT_RELATIONS.name, COLLECTION_TEXTS, *asked])
