"""Racing: a candidate that is shown to be worse than the best candidates is pruned before it answers all questions.

All questions are ranked first, as rankings are cheap and shared by candidates that differ only after the filter; R is
then known. Answers follow in blocks of questions. After each block every candidate is compared, question by question,
with the candidate at rank ``front`` of all finished and running ones. One that is shown to be worse is pruned, which is
a state with the number of questions answered, not a score; all others answer every question (races: Maron and Moore
1994; paired by question: F-Race, Birattari et al. 2002).

Two tests prune a candidate, each at a stated error rate.

- Before the first answer: its G would have to exceed the upper end of a prediction interval for one more candidate,
  given the means of all finished candidates. A technique that answers far better than all earlier ones can be pruned
  wrongly.
- After each block: a one-sided paired t test over questions on its R, which is known, plus its G so far. The number of
  questions is finite, so the variance of the mean shrinks to zero at the end.

If ranking calls a model that costs something, questions are ranked in blocks as well, and the first test follows each
block with an estimate of R and a wider interval. Answers still follow after all rankings: a ranking mostly takes one
call and an answer several, and in experiments ranking and answering block by block took more answers than it saved
rankings. A candidate that answers the first block in any case is ranked together with its answers, so that the whole
fitness is compared on the questions answered.

A custom fitness is not a sum of R and G, and a fitness of retrieval has no G. Questions are then not ranked first, and
the second test compares the fitness question by question.

Decisions depend only on scores and on the order of the questions, so a race repeated on stored results has the same
decisions with any number of workers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from ragsmith.errors import WrongOption
from ragsmith.evaluation.fitness import Fitness, composite
from ragsmith.evaluation.ranking import Terms
from ragsmith.evaluation.statistics import Vector, student_quantile
from ragsmith.models.calls import is_costly
from ragsmith.pipelines.genes import Candidate, system_parameters
from ragsmith.strategies.strategy import Pruned
from ragsmith.techniques.families import FAMILIES, FILTER_INDEX
from ragsmith.types import Example

if TYPE_CHECKING:  # how evaluations are computed does not change a decision or its fingerprint
    from ragsmith.evaluation.evaluation import Evaluation
    from ragsmith.evaluation.evaluator import Evaluator
    from ragsmith.models.roles import Models

PRIOR_DEGREES = 4
"""Prior degrees of freedom of the variance of differences (moderated t test).

Two pipelines often score the same on the first questions, so the sample variance alone would be too small.
"""


@dataclass(frozen=True, slots=True)
class Racing:
    """Parameters of races.

    ``block`` is the number of questions between two tests. ``error`` bounds the probability that a candidate is pruned
    which would have ended as high as the reference: each of n tests has the level ``error`` / n (Bonferroni), and tests
    of rankings in blocks share one more such level. ``front`` is the rank of the reference.
    """

    block: int = 10
    error: float = 0.05
    front: int = 3

    def __post_init__(self) -> None:
        for name, value in (("race_block", self.block), ("race_front", self.front)):
            if value < 1:
                raise WrongOption(name, f"is {value}: give at least 1")
        if not 0 < self.error < 1:
            raise WrongOption("race_error", f"is {self.error}: give a probability above 0 and below 1")

    def looks(self, questions: int) -> tuple[int, ...]:
        """Return the number of questions answered at each test; all at the last, which prunes no candidate."""
        return (*range(self.block, questions, self.block), questions) if questions else ()

    def level(self, questions: int) -> float:
        """Return the level of each test: one before the first answer, and one after each block but the last."""
        return self.error / max(1, len(self.looks(questions)))


@dataclass(frozen=True, slots=True)
class PartialScores:
    """Scores of a candidate by question, shape (questions,) each, in the order of the race.

    ``exact`` is the part of the fitness that is known before there are answers: the share of R on all questions or, if
    the candidate is not fully ``ranked``, on those ranked so far. ``sampled`` is the rest on the questions answered so
    far. Unknown values and excluded questions are NaN.
    """

    exact: Vector
    sampled: Vector
    ranked: bool = True

    @property
    def fitness(self) -> Vector:
        """The fitness on the questions answered so far."""
        return self.exact + self.sampled

    def value(self, answered: int | None = None) -> float:
        """Return the mean of ``exact`` plus that of ``sampled`` over the first ``answered`` questions."""
        return _mean(self.exact) + _mean(self.sampled[:answered])


class RaceState:
    """The finished candidates, and the tests that prune a candidate."""

    def __init__(self, questions: int, racing: Racing) -> None:
        self._questions = questions
        self._racing = racing
        self._level = racing.level(questions)
        self._finished: list[PartialScores] = []

    def add(self, scores: PartialScores) -> None:
        """Add a candidate that answered all questions."""
        self._finished.append(scores)

    def find_futile(self, runners: Mapping[int, PartialScores]) -> list[int]:
        """Return the ``runners`` that would be behind even with the upper bound of the predicted G."""
        n = len(self._finished)
        if n < max(2, self._racing.front):
            return []
        means = np.array([_mean(scores.sampled) for scores in self._finished])
        usual, spread = float(means.mean()), float(means.std(ddof=1)) * math.sqrt(1 + 1 / n)
        reference = self._reference(self._finished, self._questions)
        bar = reference.value()
        looks = self._racing.looks(self._questions)

        def is_behind(scores: PartialScores) -> bool:
            retrieval, error, known = self._retrieval(scores, reference)
            if scores.ranked:
                level, degrees = self._level, n - 1
            elif known:
                level, degrees = self._level / len(looks), min(n - 1, known)
            else:
                return False
            return retrieval + (usual + student_quantile(1 - level, degrees) * math.hypot(spread, error)) < bar

        return [number for number, found in runners.items() if is_behind(found)]

    def find_behind(self, answered: int, runners: Mapping[int, PartialScores]) -> list[int]:
        """Return the ``runners`` that are shown to be behind after ``answered`` questions."""
        field = [*self._finished, *runners.values()]
        if answered >= self._questions or len(field) <= self._racing.front:
            return []
        reference = self._reference(field, answered)
        return [number for number, found in runners.items() if self._is_behind(found, reference, answered)]

    def estimate_pruned(self, scores: PartialScores, answered: int) -> Pruned:
        """Estimate the fitness on all questions of a candidate that is pruned after ``answered`` questions.

        The estimate is corrected by the mean difference on the remaining questions of finished candidates.
        """
        sampled = [found.sampled for found in self._finished]
        easier = [_mean(values) - _mean(values[:answered]) for values in sampled]
        estimate = self._value(scores, answered) + (math.fsum(easier) / len(easier) if easier else 0.0)
        if not self._finished:
            return Pruned(answered, estimate, 0.0)
        reference = self._reference(self._finished, self._questions)
        if answered:
            return Pruned(answered, estimate, self._difference(scores, reference, answered)[1])
        means = [_mean(values) for values in sampled]
        spread = float(np.std(means, ddof=1)) if len(means) > 1 else 0.0
        return Pruned(0, estimate, math.hypot(spread, self._retrieval(scores, reference)[1]))

    def _value(self, scores: PartialScores, answered: int) -> float:
        """Return the value after ``answered`` questions, corrected for unranked questions by finished candidates."""
        value = scores.value(answered)
        if scores.ranked or not self._finished:
            return value
        known = ~np.isnan(scores.exact)
        easier = [_mean(found.exact) - _mean(found.exact[known]) for found in self._finished]
        return value + math.fsum(easier) / len(easier)

    def _reference(self, field: Sequence[PartialScores], answered: int) -> PartialScores:
        ranked = sorted(field, key=lambda scores: -self._value(scores, answered))
        return ranked[min(self._racing.front, len(ranked)) - 1]

    def _retrieval(self, scores: PartialScores, reference: PartialScores) -> tuple[float, float, int]:
        """Return the share of R in the fitness, its standard error and degrees of freedom; error 0 if R is known."""
        if scores.ranked:
            return _mean(scores.exact), 0.0, 0
        known = np.count_nonzero(~np.isnan(scores.exact))
        ahead, error, degrees = self._paired(attrgetter("exact"), scores, reference, int(known))
        return _mean(reference.exact) + ahead, error, degrees

    def _is_behind(self, scores: PartialScores, reference: PartialScores, answered: int) -> bool:
        """Return whether a candidate is behind, by a t test with moderated variance (Smyth 2004)."""
        ahead, error, degrees = self._difference(scores, reference, answered)
        return degrees > 0 and ahead < -student_quantile(1 - self._level, degrees) * error

    def _difference(self, scores: PartialScores, reference: PartialScores, answered: int) -> tuple[float, float, int]:
        """Return the mean difference on all questions, its standard error and degrees of freedom; see `_paired`."""
        if not (scores.ranked and reference.ranked):
            return self._paired(attrgetter("fitness"), scores, reference, answered)
        ahead, error, degrees = self._paired(attrgetter("sampled"), scores, reference, answered)
        return _mean(scores.exact - reference.exact) + ahead, error, degrees

    def _paired(
        self, part: Callable[[PartialScores], Vector], scores: PartialScores, reference: PartialScores, met: int
    ) -> tuple[float, float, int]:
        """Return the mean difference in a part, its standard error and degrees of freedom; 0 degrees if unknown.

        The finite-population correction reduces the error to 0 when all questions are evaluated.
        """
        differences = part(scores) - part(reference)
        differences = differences[~np.isnan(differences)]
        n = len(differences)
        if n < 2:
            return _mean(differences), 0.0, 0
        degrees = n - 1 + PRIOR_DEGREES
        variance = (
            (n - 1) * float(differences.var(ddof=1)) + PRIOR_DEGREES * self._variance(part, reference)
        ) / degrees
        left = 1 - met / self._questions
        return _mean(differences), math.sqrt(variance * left / n), degrees

    def _variance(self, part: Callable[[PartialScores], Vector], reference: PartialScores) -> float:
        """Return the mean variance of differences between finished candidates and the reference; 0 if none finished."""
        seen = [part(found) - part(reference) for found in self._finished if found is not reference]
        known = [values[~np.isnan(values)] for values in seen]
        usual = [float(values.var(ddof=1)) for values in known if len(values) > 1]
        return math.fsum(usual) / len(usual) if usual else 0.0


def _mean(values: Vector) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else 0.0


@dataclass(frozen=True, slots=True)
class RaceResult:
    """The result of a candidate; the evaluation of a pruned one (``dropped``) covers the questions that it answered.

    ``behaviour`` is equal for candidates with equal outputs on all evaluated questions.
    """

    evaluation: Evaluation
    behaviour: str
    dropped: Pruned | None = None

    @classmethod
    def from_evaluation(cls, evaluation: Evaluation) -> RaceResult:
        """Return the result of a candidate that was evaluated on every question."""
        return cls(evaluation, evaluation.phenotype)


def list_costly_tools(models: Models) -> frozenset[str]:
    """Return the kinds of tools that cost money or time with each new request."""
    asked = {"language_model": models.technique_model, "cross_encoder": models.cross_encoder}
    return frozenset(kind for kind, model in asked.items() if is_costly(model))


def calls_models_to_rank(candidate: Candidate, costly: AbstractSet[str]) -> bool:
    """Return whether ranking a question with ``candidate`` calls tools of a ``costly`` kind.

    Requests made once for a collection do not count, nor those before a fitted gene, which learns from the rankings of
    all questions. Retrieval is fitted before any request. Another system is asked for its contexts.
    """
    asks = bool(system_parameters(candidate))
    for family, gene in zip(FAMILIES[: FILTER_INDEX + 1], candidate, strict=False):
        asked = family.tier != "collection" and not costly.isdisjoint(gene.technique.tools.values())
        asks = asked or (asks and not (gene.learns and family.tier == "question"))
    return asks


class Races:
    """Races batches of candidates on the same questions, each batch against all candidates that finished before.

    ``examples`` are the questions in the order of the race. Without ``racing`` every candidate answers all of them.
    ``models_of`` returns the models of a candidate.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        examples: Sequence[Example],
        racing: Racing | None,
        fitness: Fitness,
        max_failure_rate: float,
        models_of: Callable[[Candidate], Models],
    ) -> None:
        self._evaluator = evaluator
        self._examples = tuple(examples)
        self._order = tuple(example.id for example in examples)
        self._questions = tuple(sorted(self._order))
        self._racing = racing
        self._fitness = fitness
        self._max_failure_rate = max_failure_rate
        self._models_of = models_of
        self._state = RaceState(len(examples), racing or Racing())
        self._finished: list[Evaluation] = []

    @property
    def questions(self) -> int:
        """The number of questions of a candidate that is not pruned."""
        return len(self._examples)

    def add_finished(self, evaluations: Sequence[Evaluation]) -> None:
        """Add reference evaluations: candidates that answered all questions outside of a race."""
        terms = self._terms(evaluations)
        for evaluation in evaluations:
            self._finish(evaluation, terms)

    def run(self, candidates: Sequence[Candidate], *, answering: bool = False) -> list[RaceResult]:
        """Race ``candidates`` and return their results in order; each evaluation names all questions.

        With ``answering`` every candidate answers at least the first block.
        """
        if self._racing is None:
            return [
                RaceResult.from_evaluation(evaluation)
                for evaluation in self._evaluator.evaluate(candidates, self._examples)
            ]
        running = dict(enumerate(self._evaluator.evaluate(candidates, ())))
        ended: dict[int, RaceResult] = {}
        terms = self._terms(())
        ranked = self._ranked(candidates, running, ended, terms, answering=answering)
        if ranked and not answering:
            partial = {number: self._partial_scores(ranked[number], None, terms) for number in running}
            self._prune(running, ended, self._state.find_futile(partial), ranked, partial, 0)
        for answered in self._racing.looks(len(self._examples)):
            running = self._answered(candidates, running, answered)
            terms = self._terms([*running.values(), *(raced.evaluation for raced in ended.values())])
            partial = {number: self._partial_scores(ranked.get(number), one, terms) for number, one in running.items()}
            self._prune(running, ended, self._state.find_behind(answered, partial), ranked, partial, answered)
        for number, evaluation in running.items():
            self._finish(evaluation, terms)
            ended[number] = RaceResult.from_evaluation(evaluation)
        return [ended[number] for number in range(len(candidates))]

    def _ranked(
        self,
        candidates: Sequence[Candidate],
        running: dict[int, Evaluation],
        ended: dict[int, RaceResult],
        terms: Terms,
        *,
        answering: bool,
    ) -> dict[int, Evaluation]:
        """Rank all questions; empty where the fitness is not a sum of shares of R and G.

        Rankings that cost something come in blocks, and futile candidates are pruned after each, except with
        ``answering``, where rankings come with the answers.
        """
        if self._racing is None or not self._fitness.is_additive:
            return {}
        costly = [list_costly_tools(self._models_of(candidate)) for candidate in candidates]
        asking = [n for n, candidate in enumerate(candidates) if calls_models_to_rank(candidate, costly[n])]
        ranked = self._rank(candidates, [number for number in running if number not in asking], len(self._examples))
        for met in () if answering or not asking else self._racing.looks(len(self._examples)):
            asking = [number for number in asking if number in running]
            ranked |= self._rank(candidates, asking, met)
            if met < len(self._examples):
                partial = {number: self._partial_scores(ranked[number], None, terms) for number in asking}
                self._prune(running, ended, self._state.find_futile(partial), ranked, partial, 0)
        return ranked

    def _rank(self, candidates: Sequence[Candidate], numbers: Sequence[int], met: int) -> dict[int, Evaluation]:
        """Rank the first ``met`` questions with the candidates of these ``numbers``."""
        evaluations = self._evaluator.rank([candidates[number] for number in numbers], self._examples[:met])
        return dict(zip(numbers, evaluations, strict=True))

    def _answered(
        self, candidates: Sequence[Candidate], running: Iterable[int], answered: int
    ) -> dict[int, Evaluation]:
        """Answer the first ``answered`` questions with the ``running`` candidates."""
        numbers = list(running)
        able = [candidates[number] for number in numbers]
        evaluations = self._evaluator.evaluate(able, self._examples[:answered])
        return {
            number: replace(evaluation, questions=self._questions)
            for number, evaluation in zip(numbers, evaluations, strict=True)
        }

    def _prune(
        self,
        running: dict[int, Evaluation],
        ended: dict[int, RaceResult],
        pruned: Iterable[int],
        ranked: Mapping[int, Evaluation],
        partial: Mapping[int, PartialScores],
        answered: int,
    ) -> None:
        """Move the pruned candidates from ``running`` to ``ended``."""
        for number in pruned:
            evaluation = running.pop(number)
            known = None if evaluation.records else ranked.get(number)
            behaviour = f"ranked {known.phenotype}" if known else evaluation.phenotype
            ended[number] = RaceResult(evaluation, behaviour, self._state.estimate_pruned(partial[number], answered))

    def _finish(self, evaluation: Evaluation, terms: Terms) -> None:
        self._finished.append(evaluation)
        if terms.admits(evaluation):
            self._state.add(self._partial_scores(evaluation, evaluation, terms))

    def _terms(self, evaluations: Iterable[Evaluation]) -> Terms:
        return Terms.from_evaluations([*self._finished, *evaluations], self._fitness, self._max_failure_rate)

    def _partial_scores(self, ranked: Evaluation | None, answered: Evaluation | None, terms: Terms) -> PartialScores:
        """Return the partial scores of a candidate; a failed question counts as the lowest score.

        Without separate rankings (``ranked``) they are taken from the answers.
        """
        exact, sampled = np.full((2, len(self._order)), math.nan)
        known = ranked or answered
        for place, question in enumerate(self._order):
            if question in terms.excluded:
                continue
            retrieval = self._share(known, question)
            if retrieval is not None:
                exact[place] = retrieval
            elif known and question in known.failures:
                exact[place] = terms.lowest
            if answered and question in answered.records:
                sampled[place] = self._fitness(answered.records[question]["measures"]) - exact[place]
            elif answered and question in answered.failures:
                sampled[place] = terms.lowest - exact[place]
        return PartialScores(exact, sampled, ranked=ranked is not None and len(ranked.questions) == len(self._order))

    def _share(self, ranked: Evaluation | None, question: str) -> float | None:
        """Return the share of R in the fitness of a question; 0 if there is none, None if not ranked."""
        if not self._fitness.is_additive:
            return 0.0
        if ranked is None or question not in ranked.records:
            return None
        found = composite("retrieval", ranked.records[question]["measures"])
        return 0.0 if found is None else self._fitness.combine(found, 0.0)
