"""Ranking of candidates, with failed questions.

No candidate gains by failing. A question that failed for every pipeline is excluded for all. Any other failure is
ranked as the lowest score, so a pipeline that ranks above another would also do so with the lowest score on its failed
questions. This may rank a good pipeline too low, so the leader is compared with every candidate that has failures, on
the questions that both finished. If one of them is shown to be better there, there is no winner; nor if one is ahead
there that failed by trouble of a provider, which says nothing of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragsmith.evaluation.evaluation import Evaluation, Record
from ragsmith.evaluation.fitness import Fitness
from ragsmith.evaluation.statistics import MIN_DIFFERENCES, sign_flip_test
from ragsmith.pipelines.genes import label

MAX_FAILURE_RATE = 0.1
"""Default maximum share of the counted questions that a candidate may fail on."""

MAX_EXCLUDED = 0.5
"""Maximum share of excluded questions with which a winner is chosen."""

SIGNIFICANCE_LEVEL = 0.05
"""Level of the paired test of the leader against candidates with failures."""

MIN_COMMON_SHARE = 0.25
"""Minimum share of the leader's questions that a candidate must have finished for its higher mean to count without a
test.
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
    def from_evaluations(
        cls, evaluations: Sequence[Evaluation], fitness: Fitness, max_failure_rate: float = MAX_FAILURE_RATE
    ) -> Terms:
        """Return the terms for ``evaluations``, which are on the same questions."""
        questions = evaluations[0].questions if evaluations else ()
        partial = [evaluation for evaluation in evaluations if evaluation.failures]
        if not partial:
            return cls(questions, {}, max_failure_rate, 0.0, fitness)
        finished = {question for evaluation in evaluations for question in evaluation.records}
        failed_everywhere: dict[str, Record] = {}
        for evaluation in partial:
            for question, failure in evaluation.failures.items():
                if question not in finished:
                    failed_everywhere.setdefault(question, failure)
        excluded = {question: failed_everywhere[question] for question in questions if question in failed_everywhere}
        lowest = min([0.0, *(value for evaluation in evaluations for value in evaluation.values("fitness", fitness))])
        return cls(tuple(q for q in questions if q not in excluded), excluded, max_failure_rate, lowest, fitness)

    @property
    def can_decide(self) -> bool:
        """Whether enough questions are left to choose a winner."""
        questions = len(self.counted) + len(self.excluded)
        return len(self.counted) > 0 and len(self.excluded) <= MAX_EXCLUDED * questions

    def count_missing(self, evaluation: Evaluation) -> int:
        """Return the number of counted questions without a record of a candidate."""
        return 0 if evaluation.complete else sum(question not in evaluation.records for question in self.counted)

    def admits(self, evaluation: Evaluation) -> bool:
        """Return whether a candidate finished enough questions."""
        # divided, not multiplied: 0.29 * 100 is a little less than 29
        return bool(evaluation.records) and self.count_missing(evaluation) / len(self.counted) <= self.max_failure_rate

    def score(self, evaluation: Evaluation) -> float | None:
        """Return the mean fitness with failures as the lowest score; None if the candidate is incomplete."""
        if evaluation.complete and not self.excluded:
            return evaluation.mean("fitness", self.fitness)
        if not self.admits(evaluation):
            return None
        known = evaluation.by_question(self.fitness)
        return math.fsum(known.get(question, self.lowest) for question in self.counted) / len(self.counted)


def common_questions(evaluations: Sequence[Evaluation]) -> tuple[str, ...]:
    """Return the questions that all evaluations have finished, in order."""
    questions = evaluations[0].questions if evaluations else ()
    return tuple(q for q in questions if all(q in evaluation.records for evaluation in evaluations))


def rank_evaluations(evaluations: Sequence[Evaluation], terms: Terms, winner: str | None = None) -> list[Evaluation]:
    """Return the candidates with a score, best first, one for each phenotype.

    Ties are broken by fewer model calls, then fewer techniques, then the name, so that the winner has no option without
    effect. A named ``winner`` represents its phenotype, and comes first.
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


def best_evaluation(evaluations: Sequence[Evaluation], terms: Terms) -> Evaluation | None:
    """Return the first candidate of `rank_evaluations`; phenotypes are computed for ties only."""
    scored = [(round(score, 12), e) for e in evaluations if (score := terms.score(e)) is not None]
    highest = max((score for score, _ in scored), default=None)
    return next(iter(rank_evaluations([e for score, e in scored if score == highest], terms)), None)


def find_significantly_better(leader: Evaluation, others: Sequence[Evaluation], fitness: Fitness) -> Evaluation | None:
    """Return the candidate with the smallest p of being better than ``leader`` on common questions; None if none is.

    Incomplete candidates are included. With too few common questions for a test, the mean decides, unless they are
    fewer than the share `MIN_COMMON_SHARE` of the leader's questions.
    """
    found: tuple[float, float, str] | None = None
    above = None
    own = leader.by_question(fitness)
    for other in others:
        theirs = other.by_question(fitness)
        both, gain = _compute_gain(own, theirs)
        if len(both) == len(own) or gain <= 0:
            continue  # it finished all questions of the leader, and ranks below it; or it is behind
        if len(both) < MIN_DIFFERENCES:
            p = 0.0 if len(both) >= MIN_COMMON_SHARE * len(own) else 1.0
        else:
            p = sign_flip_test([theirs[question] for question in both], [own[question] for question in both])
        if p <= SIGNIFICANCE_LEVEL and (found is None or (p, -gain, other.key) < found):
            found, above = (p, -gain, other.key), other
    return above


def find_undecided(leader: Evaluation, others: Sequence[Evaluation], fitness: Fitness) -> list[Evaluation]:
    """Return the candidates with failures that are ahead of ``leader`` on the questions that both finished.

    With fewer than the share `MIN_COMMON_SHARE` of the leader's questions, these are the ones that failed by trouble of
    a provider.
    """
    own = leader.by_question(fitness)
    found = []
    for other in others:
        both, gain = _compute_gain(own, other.by_question(fitness))
        if len(both) < len(own) and (gain > 0 if len(both) >= MIN_COMMON_SHARE * len(own) else other.has_trouble):
            found.append(other)
    return found


def _compute_gain(own: Mapping[str, float], theirs: Mapping[str, float]) -> tuple[list[str], float]:
    """Return the common questions, and the sum of the differences on them, 0 if it is rounding alone."""
    both = [question for question in own if question in theirs]
    gain = math.fsum(theirs[question] - own[question] for question in both)
    return both, gain if abs(gain) > 1e-12 * len(both) else 0.0
