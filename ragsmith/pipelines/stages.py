"""Engines that observe the stages of a pipeline, and one that measures their latency."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, TypeVar

from ragsmith.pipelines.engine import Engine
from ragsmith.pipelines.genes import Candidate, Gene
from ragsmith.techniques.families import FAMILIES
from ragsmith.types import Question

T = TypeVar("T")

START = "start"
"""The stage before the first question: loading of models, chunking and indexing."""

TOTAL = "in all"
"""The time from the question to the answer, which for a cold pipeline includes `START`."""

_QUESTION_FAMILIES = [family.name for family in FAMILIES if family.tier != "collection"]
STAGES = (START, *_QUESTION_FAMILIES[:-1], "generation", _QUESTION_FAMILIES[-1])
"""The timed stages in order; retrieval is timed separately from the query expansion that calls it."""

WARM, COLD = "warm", "cold"
"""The state of a pipeline: whether its models and index are loaded when a question arrives."""

Clock = Callable[[], float]
"""Returns seconds since a fixed time."""


@dataclass(frozen=True, slots=True)
class StageTimes:
    """The latency of a question in seconds, by stage and in total; ``state`` is `WARM` or `COLD`."""

    question: str
    state: str
    seconds: Mapping[str, float]


class ObservedEngine(Engine):
    """An engine that runs each stage by `_run_stage`, also retrieval, which is called within query expansion.

    ``seconds`` sums the time of each stage.
    """

    def __init__(self, *collection: Any, clock: Clock = perf_counter) -> None:
        """``collection`` are the arguments of `Engine`."""
        super().__init__(*collection)
        self._clock = clock
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def _run_stage(self, name: str, technique: str, run: Callable[[], T]) -> T:
        """Return the result of ``run``, which is the stage ``name``."""
        started, retrieval_before = self._clock(), self.seconds.get("retrieval", 0.0)
        try:
            return run()
        finally:
            self.seconds[name] += self._clock() - started - (self.seconds.get("retrieval", 0.0) - retrieval_before)

    def call(self, gene: Gene, *arguments: Any) -> Any:
        """See `Engine.call`."""
        family, run = gene.technique.family, partial(super().call, gene, *arguments)
        return self._run_stage(family, gene.technique.name, run) if family == "retrieval" else run()

    def _technique(self, gene: Gene, *arguments: Any) -> Any:
        technique = gene.technique
        return self._run_stage(technique.family, technique.name, partial(super()._technique, gene, *arguments))

    def _generation(self, *arguments: Any) -> Any:
        return self._run_stage("generation", "generate", partial(super()._generation, *arguments))


class TimedEngine(ObservedEngine):
    """A copy of ``engine`` with empty caches."""

    def __init__(self, engine: Engine, clock: Clock = perf_counter) -> None:
        super().__init__(engine.corpus, engine.models, engine.gateway, engine._open_store, clock=clock)

    def ask(self, candidate: Candidate, question: Question) -> dict[str, float]:
        """Return the seconds that ``candidate`` takes for ``question``, by stage and in total."""
        self._run_plan(candidate)  # building the collection is not timed
        self.seconds.clear()
        started = self._clock()
        self.answer(candidate, question)
        total = self._clock() - started
        return {**self.seconds, TOTAL: total}
