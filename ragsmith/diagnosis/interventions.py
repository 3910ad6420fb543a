"""Interventions: the answers of a pipeline if the output of its filter had all gold, no other passages, or only gold.

The output of the filter is replaced, and the later stages run on it. Adding the gold shows the possible gain of
retrieval, removing other passages their harm to the generator, and gold alone the ceiling of the generator (the oracle
context of Lewis et al. 2020, arXiv 2005.11401). `Repetition` changes nothing and answers again, which shows the noise
of models from run to run.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum
from typing import Any

from ragsmith.digest import digest
from ragsmith.evaluation.evaluator import Evaluator
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.fitness import Fitness, composite
from ragsmith.evaluation.scoring import score_answer
from ragsmith.pipelines.engine import Engine
from ragsmith.pipelines.genes import Candidate, Gene
from ragsmith.pipelines.trace import Trace
from ragsmith.techniques.families import FILTER_INDEX
from ragsmith.techniques.registry import Technique
from ragsmith.types import Example, Gold, Hit, Hits, Question, Scale, get_ids

INTERVENTIONS_KIND = "interventions"
"""The kind of the findings in the store."""

AS_IT_IS, GOLD_IN, NOISE_OUT, GOLD_ALONE = "as it is", "gold put in", "noise taken out", "gold alone"
INTERVENTIONS = (GOLD_IN, NOISE_OUT, GOLD_ALONE)
"""The changes to the output of the filter."""

Measures = Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class Ceiling:
    """Means over the ``n`` questions of a split that have gold, with one change; it changed ``changed`` of them."""

    split: str
    what: str
    n: int
    changed: int
    retrieval: float
    generation: float
    fitness: float


def replace_hits(what: str, hits: Hits, gold: Sequence[Hit]) -> Hits:
    """Return the output of the filter with a change; ``gold`` are hits of all chunks that have gold.

    Added gold comes first. Other passages are only removed if some gold remains.
    """
    relevant = {hit.chunk.id for hit in gold}
    if what == GOLD_ALONE:
        return tuple(gold)
    if what == GOLD_IN:
        there = set(get_ids(hits))
        return (*(hit for hit in gold if hit.chunk.id not in there), *hits)
    return tuple(hit for hit in hits if hit.chunk.id in relevant) or tuple(hits)


@dataclass(frozen=True)
class FixedFilter(Technique):
    """A filter with a fixed output."""

    kept: Hits = field(default=(), compare=False)

    @property
    def code(self) -> str:
        """The digest of the output and its scores."""
        return digest("instead", [(hit.chunk.id, hit.score, hit.scale.value) for hit in self.kept])

    @classmethod
    def passing(cls, hits: Hits) -> Gene:
        """Return a gene whose output is always ``hits``."""

        def instead(question: Question, candidates: Hits) -> Hits:
            return tuple(hits)

        return Gene(cls("passage_filter", instead, "", kept=tuple(hits)), {})


@dataclass(frozen=True)
class InterventionRunner:
    """Runs the stages after the filter again with each intervention; instances are sent to worker processes."""

    answers: bool = True

    def __call__(
        self, engine: Engine, setup: Experiment, candidate: Candidate, trace: Trace, example: Example
    ) -> dict[str, tuple[Measures, bool]]:
        """Return the measures of a question without and with each change, and whether it changed the output."""
        marking = setup.scoring_engine(engine, example.id)
        found: dict[str, tuple[Measures, bool]] = {
            AS_IT_IS: (score_answer(marking, setup, trace, example)["measures"], False)
        }
        gold = _gold_hits(engine, setup, candidate, trace.hits, example)
        for what in INTERVENTIONS:
            hits = replace_hits(what, trace.hits, gold)
            if get_ids(hits) == get_ids(trace.hits):
                found[what] = found[AS_IT_IS]
                continue
            changed = (*candidate[:FILTER_INDEX], FixedFilter.passing(hits), *candidate[FILTER_INDEX + 1 :])
            relevant = Gold(setup.relevance[example.id].relevant)
            other = engine.answer(changed, example.as_question, relevant)
            found[what] = score_answer(marking, setup, other, example)["measures"], True
        return found


class Repetition:
    """Answers a question once more, with other samples of the replies of chat models, and scores the answer.

    Nothing of a collection is built again, and the judge scores the new answer like any other.
    """

    answers = True

    def __call__(self, engine: Engine, setup: Experiment, candidate: Candidate, trace: Trace, example: Example) -> Any:
        """Return the measures of the new answer."""
        gateway = engine.gateway.with_first_sample(1_000)  # no technique takes as many samples of a request
        again = Engine(engine.corpus, engine.models, gateway)
        again.share_collection(engine)
        repeated = again.answer(candidate, example.as_question, Gold(setup.relevance[example.id].relevant))
        return score_answer(setup.scoring_engine(again, example.id), setup, repeated, example)["measures"]


def _gold_hits(
    engine: Engine, setup: Experiment, candidate: Candidate, hits: Hits, example: Example
) -> tuple[Hit, ...]:
    """Return hits of all indexed chunks with gold, in the order of the documents, with the score of the best hit."""
    relevant = setup.relevance[example.id].relevant
    best = hits[0] if hits else None
    score, scale = (best.score, best.scale) if best else (1.0, Scale.COSINE)
    return tuple(Hit(chunk, score, scale) for chunk in engine.index(candidate[0]).chunks if chunk.id in relevant)


def intervene(
    evaluator: Evaluator, parts: Mapping[str, Sequence[str]], candidates: Sequence[Candidate], fitness: Fitness
) -> list[tuple[Ceiling, ...]]:
    """Evaluate each of ``candidates`` with each change, on the questions of ``parts`` of a data set.

    Questions that fail with any of the changes are left out.
    """
    questions = [question for part in parts.values() for question in part]
    found: list[dict[str, dict[str, tuple[Measures, bool]]]] = [{} for _ in candidates]
    wanted = [(candidate, questions) for candidate in candidates]
    for place, question, value in evaluator.observe(wanted, InterventionRunner()):
        found[place][question] = value
    return [
        tuple(
            _mean_scores(one, part, parts[part], what, fitness)
            for part in parts
            for what in (AS_IT_IS, *INTERVENTIONS)
            if one
        )
        for one in found
    ]


def _mean_scores(
    found: Mapping[str, Mapping[str, tuple[Measures, bool]]],
    part: str,
    questions: Iterable[str],
    what: str,
    fitness: Fitness,
) -> Ceiling:
    each = [found[question][what] for question in sorted(questions) if question in found]
    n = len(each)

    def mean(values: Iterable[float | None]) -> float:
        return fsum(value for value in values if value is not None) / max(1, n)

    return Ceiling(
        part,
        what,
        n,
        sum(changed for _, changed in each),
        mean(composite("retrieval", measures) for measures, _ in each),
        mean(composite("generation", measures) for measures, _ in each),
        mean(fitness(measures) for measures, _ in each),
    )


def select_parts(setup: Experiment, split: str) -> dict[str, list[str]]:
    """Return the questions with gold and an answer, by the parts ``search`` and ``test`` of which ``split`` is one."""
    parts = {"search": setup.split.search, "test": setup.split.test}
    wanted = {part: examples for part, examples in parts.items() if split in (part, "all")}
    return {part: [one.id for one in examples if one.evidence and one.answer] for part, examples in wanted.items()}
