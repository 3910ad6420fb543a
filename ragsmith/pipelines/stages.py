"""An engine with a clock: how long each station of a pipeline takes for a question.

It does what any engine does, and is no part of what results depend on.
"""

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
"""Models opened, documents cut, index built: once, before the first question."""

WHOLE = "in all"
"""From the question to the answer; where nothing is there yet, with the start."""

_ASKED = [family.name for family in FAMILIES if family.tier != "collection"]
STATIONS = (START, *_ASKED[:-1], "generation", _ASKED[-1])
"""Where time goes, in the order of a question's way; retrieval is counted apart from the expansion that asks for it."""

WARM, COLD = "warm", "cold"
"""Whether models and index are there when a question comes."""

Clock = Callable[[], float]
"""Seconds since any moment."""


@dataclass(frozen=True, slots=True)
class StageTimes:
    """Seconds that a question took by station, and in all, on a pipeline that was ``warm`` or ``cold``."""

    question: str
    state: str
    seconds: Mapping[str, float]


class Timed(Engine):
    """``engine`` over again, with nothing remembered; ``seconds`` has what each station has taken so far."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        super().__init__(engine.corpus, engine.models, engine.gateway, engine._open_store)
        self._clock = clock
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def ask(self, candidate: Candidate, question: Question) -> dict[str, float]:
        """Seconds by station, and in all, that ``candidate`` takes for ``question``."""
        self._way(candidate)  # what is built once is no part of it
        self.seconds.clear()
        started = self._clock()
        self.answer(candidate, question)
        took = self._clock() - started
        return {**self.seconds, WHOLE: took}

    def call(self, gene: Gene, arguments: Sequence[Any], gold: Gold | None = None) -> tuple[Any, Usage]:
        """See `Engine.call`: retrieval is called from within another station."""
        if gene.technique.family != "retrieval":
            return super().call(gene, arguments, gold)
        started = self._clock()
        try:
            return super().call(gene, arguments, gold)
        finally:
            self.seconds["retrieval"] += self._clock() - started

    def _technique(self, gene: Gene, reads: Sequence[StageOutput], gold: Gold | None) -> tuple[StageOutput, Usage]:
        started, searched = self._clock(), self.seconds["retrieval"]
        found = super()._technique(gene, reads, gold)
        within = self.seconds["retrieval"] - searched
        self.seconds[gene.technique.family] += self._clock() - started - within
        return found

    def _generation(self, reads: Sequence[StageOutput]) -> tuple[StageOutput, Usage]:
        started = self._clock()
        found = super()._generation(reads)
        self.seconds["generation"] += self._clock() - started
        return found
