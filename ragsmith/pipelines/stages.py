"""An engine that measures the latency of each stage of a pipeline."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragsmith.models.usage import Usage
from ragsmith.pipelines.engine import Engine
from ragsmith.pipelines.genes import Candidate, Gene
from ragsmith.pipelines.trace import StageOutput
from ragsmith.techniques.families import FAMILIES
from ragsmith.types import Gold, Question

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


class TimedEngine(Engine):
    """A copy of ``engine`` with empty caches; ``seconds`` sums the time of each stage."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        super().__init__(engine.corpus, engine.models, engine.gateway, engine._open_store)
        self._clock = clock
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def ask(self, candidate: Candidate, question: Question) -> dict[str, float]:
        """Return the seconds that ``candidate`` takes for ``question``, by stage and in total."""
        self._run_plan(candidate)  # building the collection is not timed
        self.seconds.clear()
        started = self._clock()
        self.answer(candidate, question)
        total = self._clock() - started
        return {**self.seconds, TOTAL: total}

    def call(self, gene: Gene, arguments: Sequence[Any], gold: Gold | None = None) -> tuple[Any, Usage]:
        """Call a technique, see `Engine.call`; retrieval is timed here, as it is called within another stage."""
        if gene.technique.family != "retrieval":
            return super().call(gene, arguments, gold)
        started = self._clock()
        try:
            return super().call(gene, arguments, gold)
        finally:
            self.seconds["retrieval"] += self._clock() - started

    def _technique(self, gene: Gene, reads: Sequence[StageOutput], gold: Gold | None) -> tuple[StageOutput, Usage]:
        started, retrieval_before = self._clock(), self.seconds["retrieval"]
        result = super()._technique(gene, reads, gold)
        retrieval = self.seconds["retrieval"] - retrieval_before
        self.seconds[gene.technique.family] += self._clock() - started - retrieval
        return result

    def _generation(self, prompt_maker: Gene, reads: Sequence[StageOutput]) -> tuple[StageOutput, Usage]:
        started = self._clock()
        result = super()._generation(prompt_maker, reads)
        self.seconds["generation"] += self._clock() - started
        return result
