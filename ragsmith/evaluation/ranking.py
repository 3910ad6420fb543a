"""The order of candidates, and the terms on which they are compared where some questions failed.

No candidate gains by failing. A question that failed for every pipeline is excluded for all. On the others a failure
counts, for the order, as the lowest score there is: a pipeline that ranks above another would also do so with the worst
score wherever it failed. A good pipeline with bad luck may be ranked too low, so the leader is compared, on the
questions that both finished, with every candidate that failed somewhere. If one of them is shown to be better there,
the best candidate is not known, and there is no winner.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ragsmith.evaluation.evaluation import Evaluation, Record
from ragsmith.evaluation.fitness import Fitness
from ragsmith.evaluation.statistics import FEWEST_DIFFERENCES, sign_flip
from ragsmith.pipelines.genes import label

MAX_FAILURE_RATE = 0.1
"""Default of the share of the counted questions that a candidate may fail on."""

MAX_EXCLUDED = 0.5
"""The share of excluded questions beyond which the rest decides nothing."""

LEVEL = 0.05
"""Level of the paired test that the leader must not lose."""

TELLING = 0.25
"""The share of the leader's questions that another candidate must have finished for its higher mean to count
untested.
"""


@dataclass(frozen=True)
class Terms:
    """The terms on which evaluations on the same questions are compared.

    ``counted`` are the questions that count; ``excluded`` has those that no candidate finished, with their failures.
    A failure on a counted question is ranked as ``lowest``. A candidate that fails on more than the share
    ``max_failure_rate`` of them is incomplete and has no score.
    """

    counted: tuple[str, ...]
    excluded: dict[str, Record]
    max_failure_rate: float
    lowest: float
    fitness: Fitness

    @classmethod
    def of(
        cls, evaluations: Sequence[Evaluation], fitness: Fitness, max_failure_rate: float = MAX_FAILURE_RATE
    ) -> Terms:
        """The terms for ``evaluations``, all of them on the same questions."""
        questions = evaluations[0].questions if evaluations else ()
        partial = [evaluation for evaluation in evaluations if evaluation.failures]
        if not partial:
            return cls(questions, {}, max_failure_rate, 0.0, fitness)
        finished = {question for evaluation in evaluations for question in evaluation.records}
        hopeless: dict[str, Record] = {}
        for evaluation in partial:
            for question, failure in evaluation.failures.items():
                if question not in finished:
                    hopeless.setdefault(question, failure)
        excluded = {question: hopeless[question] for question in questions if question in hopeless}
        lowest = min([0.0, *(value for evaluation in evaluations for value in evaluation.values("fitness", fitness))])
        return cls(tuple(q for q in questions if q not in excluded), excluded, max_failure_rate, lowest, fitness)

    @property
    def decide(self) -> bool:
        """Whether enough questions are left to choose a winner."""
        questions = len(self.counted) + len(self.excluded)
        return len(self.counted) > 0 and len(self.excluded) <= MAX_EXCLUDED * questions

    def missed(self, evaluation: Evaluation) -> int:
        """The number of counted questions on which a candidate has no record."""
        return 0 if evaluation.complete else sum(question not in evaluation.records for question in self.counted)

    def admit(self, evaluation: Evaluation) -> bool:
        """Whether a candidate finished enough questions."""
        # divided, not multiplied: 0.29 * 100 is a little less than 29
        return bool(evaluation.records) and self.missed(evaluation) / len(self.counted) <= self.max_failure_rate

    def score(self, evaluation: Evaluation) -> float | None:
        """The mean fitness with failures as the lowest score; None if the candidate is incomplete."""
        if evaluation.complete and not self.excluded:
            return evaluation.mean("fitness", self.fitness)
        if not self.admit(evaluation):
            return None
        known = evaluation.by_question(self.fitness)
        return math.fsum(known.get(question, self.lowest) for question in self.counted) / len(self.counted)


def common(evaluations: Sequence[Evaluation]) -> tuple[str, ...]:
    """The questions that all evaluations have finished, in their order."""
    questions = evaluations[0].questions if evaluations else ()
    return tuple(q for q in questions if all(q in evaluation.records for evaluation in evaluations))


def ranked(evaluations: Sequence[Evaluation], terms: Terms, winner: str | None = None) -> list[Evaluation]:
    """The candidates that are not incomplete, best first, one for each phenotype.

    Ties go to fewer model calls, then to fewer techniques, then to the name, so that an option without effect is not
    part of the winner. A named ``winner`` comes first and represents its phenotype.
    """

    def place(score: float, evaluation: Evaluation) -> tuple[float, float, int, str]:
        calls = evaluation.values("calls")
        active = sum(gene.technique.name != "none" for gene in evaluation.candidate)
        return -round(score, 12), math.fsum(calls) / len(calls), active, label(evaluation.candidate)

    scored = [(score, e) for e in evaluations if (score := terms.score(e)) is not None]
    best: dict[str, Evaluation] = {e.phenotype: e for _, e in scored if e.key == winner}
    for _, evaluation in sorted(scored, key=lambda pair: place(*pair)):
        best.setdefault(evaluation.phenotype, evaluation)
    return list(best.values())


def best(evaluations: Sequence[Evaluation], terms: Terms) -> Evaluation | None:
    """The first candidate of `ranked`, with phenotypes compared for ties only."""
    scored = [(round(score, 12), e) for e in evaluations if (score := terms.score(e)) is not None]
    highest = max((score for score, _ in scored), default=None)
    return next(iter(ranked([e for score, e in scored if score == highest], terms)), None)


def shown_better(leader: Evaluation, others: Sequence[Evaluation], fitness: Fitness) -> Evaluation | None:
    """The candidate that is most clearly better than ``leader`` on the questions that both finished; None if none is.

    Incomplete candidates count. Where too few questions are shared for a test, the mean decides, unless they are fewer
    than the share `TELLING` of the leader's questions.
    """
    found: tuple[float, float, str] | None = None
    above = None
    own = leader.by_question(fitness)
    for other in others:
        if all(question in other.records for question in own):
            continue  # it finished all that the leader did, and ranks below it
        theirs = other.by_question(fitness)
        both = [question for question in own if question in theirs]
        gain = math.fsum(theirs[question] - own[question] for question in both)
        if gain <= 1e-12 * len(both):
            continue
        if len(both) < FEWEST_DIFFERENCES:
            p = 0.0 if len(both) >= TELLING * len(own) else 1.0
        else:
            p = sign_flip([theirs[question] for question in both], [own[question] for question in both])
        if p <= LEVEL and (found is None or (p, -gain, other.key) < found):
            found, above = (p, -gain, other.key), other
    return above
