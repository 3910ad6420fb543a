"""Racing: what is shown to be behind the front-runners leaves before it costs more.

All questions are ranked before anything is generated: rankings are cheap, and candidates that differ only behind the
filter share theirs. R is known then. The answers follow a block of questions at a time, and after each block every
candidate is compared, question by question, with the one at the place ``front`` of all who finished or still race. Who
is shown to be behind it is dropped: that is a state, with the number of questions answered, and no score. All others
answer every question, the front-runners among them always (races: Maron and Moore 1994; paired by question: F-Race,
Birattari et al. 2002).

Two tests drop a candidate, each at a stated error.

- Before the first answer: its G would have to be higher than what the means of all who finished let expect (the upper
  end of a prediction interval for one more of them). This rests on the past: where a technique answers better than any
  before it by far, it may do wrong.
- After each block: with its R, which is known, and its G so far, a one-sided paired t test over questions. What is
  still to come is a finite number of questions, so the variance of the mean shrinks to nothing towards the end.

Where ranking asks a model that costs something, questions are ranked in blocks, too, and the first test follows each:
R is then what these questions let expect, beside the one at the front, and the interval as much wider. Answers wait for
all rankings all the same. One more question ranked is mostly one call, and one more answered several: of candidates
who answered first and ranked as they went, those who come near the front stayed longer for want of their R, and that
took more answers than it saved rankings. Who answers the first block whatever its R is ranks as it answers: then like
is compared with like, the whole fitness on the questions answered.

A fitness of one's own is no formula of R and G, and one of retrieval has no G: then nothing is ranked first, and the
second test is of the fitness, question by question.

Decisions rest on values and on the order of the questions alone, so a race that is run again on stored results goes the
same way, with any number of workers.
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
from ragsmith.pipelines.genes import Candidate
from ragsmith.strategies.strategy import Pruned
from ragsmith.techniques.families import FAMILIES, FILTER
from ragsmith.types import Example

if TYPE_CHECKING:  # how evaluations are come by is no part of what is decided, nor of its fingerprint
    from ragsmith.evaluation.evaluation import Evaluation
    from ragsmith.evaluation.evaluator import Evaluator
    from ragsmith.models.roles import Models

USUAL = 4
"""So many degrees of freedom the usual variance of differences has beside that of a candidate's own.

Two pipelines often answer alike on the first questions; from that alone it would follow that they always do.
"""


@dataclass(frozen=True, slots=True)
class Racing:
    """How candidates are raced.

    ``block`` is how many questions are answered between two looks. ``error`` bounds the chance that a candidate which
    would have ended as high as the one it is compared with is dropped: each of n looks tests at ``error`` / n
    (Bonferroni), and those at rankings that come in blocks share one such level more. ``front`` is the place of the one
    that all are compared with.
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
        """How many questions are answered at each look; at the last, after which nobody leaves, all of them."""
        return (*range(self.block, questions, self.block), questions) if questions else ()

    def level(self, questions: int) -> float:
        """The level of each test: there is one before the first answer, and one at each look but the last."""
        return self.error / max(1, len(self.looks(questions)))


@dataclass(frozen=True, slots=True)
class PartialScores:
    """What is known of somebody: shape (questions,) each, in the order of the race.

    ``exact`` is what counts of the fitness and is known before there are answers: the share of R, on all questions, or,
    where somebody is not ``ranked``, on those met so far. ``sampled`` is what is known of the rest, on the questions
    answered so far. What is not known is NaN, and so is a question that counts for nobody.
    """

    exact: Vector
    sampled: Vector
    ranked: bool = True

    @property
    def whole(self) -> Vector:
        """Both together, on the questions answered so far."""
        return self.exact + self.sampled

    def value(self, answered: int | None = None) -> float:
        """The mean of both, the second over so many questions: over all of them it is the fitness."""
        return _mean(self.exact) + _mean(self.sampled[:answered])


class RaceState:
    """Everyone who finished, and the tests that drop whoever is behind them."""

    def __init__(self, questions: int, racing: Racing) -> None:
        self._questions = questions
        self._racing = racing
        self._level = racing.level(questions)
        self._finished: list[PartialScores] = []

    def finish(self, standing: PartialScores) -> None:
        """Note somebody who answered all questions."""
        self._finished.append(standing)

    def hopeless(self, runners: Mapping[int, PartialScores]) -> list[int]:
        """Those of ``runners``, of whom rankings are known, who are behind with the best that answers may be."""
        n = len(self._finished)
        if n < max(2, self._racing.front):
            return []
        means = np.array([_mean(standing.sampled) for standing in self._finished])
        usual, spread = float(means.mean()), float(means.std(ddof=1)) * math.sqrt(1 + 1 / n)
        reference = self._reference(self._finished, self._questions)
        bar = reference.value()
        looks = self._racing.looks(self._questions)

        def is_behind(standing: PartialScores) -> bool:
            retrieval, error, known = self._retrieval(standing, reference)
            if standing.ranked:
                level, degrees = self._level, n - 1
            elif known:
                level, degrees = self._level / len(looks), min(n - 1, known)
            else:
                return False
            return retrieval + (usual + student_quantile(1 - level, degrees) * math.hypot(spread, error)) < bar

        return [number for number, found in runners.items() if is_behind(found)]

    def behind(self, answered: int, runners: Mapping[int, PartialScores]) -> list[int]:
        """Those of ``runners`` who are shown to be behind, with so many questions ``answered``."""
        field = [*self._finished, *runners.values()]
        if answered >= self._questions or len(field) <= self._racing.front:
            return []
        reference = self._reference(field, answered)
        return [number for number, found in runners.items() if self._is_behind(found, reference, answered)]

    def dropped(self, standing: PartialScores, answered: int) -> Pruned:
        """What somebody may be worth on all questions who leaves after so many answers.

        That is what is known, and what those to come are easier by; if there are none, what answers have been worth.
        """
        sampled = [found.sampled for found in self._finished]
        easier = [_mean(values) - _mean(values[:answered]) for values in sampled]
        estimate = self._value(standing, answered) + (math.fsum(easier) / len(easier) if easier else 0.0)
        if not self._finished:
            return Pruned(answered, estimate, 0.0)
        reference = self._reference(self._finished, self._questions)
        if answered:
            return Pruned(answered, estimate, self._difference(standing, reference, answered)[1])
        means = [_mean(values) for values in sampled]
        spread = float(np.std(means, ddof=1)) if len(means) > 1 else 0.0
        return Pruned(0, estimate, math.hypot(spread, self._retrieval(standing, reference)[1]))

    def _value(self, standing: PartialScores, answered: int) -> float:
        """The value after so many answers, with what the questions not ranked have been easier by for all others."""
        value = standing.value(answered)
        if standing.ranked or not self._finished:
            return value
        known = ~np.isnan(standing.exact)
        easier = [_mean(found.exact) - _mean(found.exact[known]) for found in self._finished]
        return value + math.fsum(easier) / len(easier)

    def _reference(self, field: Sequence[PartialScores], answered: int) -> PartialScores:
        ranked = sorted(field, key=lambda standing: -self._value(standing, answered))
        return ranked[min(self._racing.front, len(ranked)) - 1]

    def _retrieval(self, standing: PartialScores, reference: PartialScores) -> tuple[float, float, int]:
        """What R counts of the fitness, its standard error and degrees of freedom; no error where R is known."""
        if standing.ranked:
            return _mean(standing.exact), 0.0, 0
        known = np.count_nonzero(~np.isnan(standing.exact))
        ahead, error, degrees = self._paired(attrgetter("exact"), standing, reference, int(known))
        return _mean(reference.exact) + ahead, error, degrees

    def _is_behind(self, standing: PartialScores, reference: PartialScores, answered: int) -> bool:
        """Whether somebody is behind, by a t test with moderated variance (Smyth 2004)."""
        ahead, error, degrees = self._difference(standing, reference, answered)
        return degrees > 0 and ahead < -student_quantile(1 - self._level, degrees) * error

    def _difference(self, standing: PartialScores, reference: PartialScores, answered: int) -> tuple[float, float, int]:
        """The mean difference on all questions, its standard error and degrees of freedom; see `_paired`."""
        if not (standing.ranked and reference.ranked):
            return self._paired(attrgetter("whole"), standing, reference, answered)
        ahead, error, degrees = self._paired(attrgetter("sampled"), standing, reference, answered)
        return _mean(standing.exact - reference.exact) + ahead, error, degrees

    def _paired(
        self, part: Callable[[PartialScores], Vector], standing: PartialScores, reference: PartialScores, met: int
    ) -> tuple[float, float, int]:
        """The mean difference in a part, its standard error, and the degrees of freedom; 0 of them where none is known.

        Of what is still to be met only so much is left that the error is nothing at the end.
        """
        differences = part(standing) - part(reference)
        differences = differences[~np.isnan(differences)]
        n = len(differences)
        if n < 2:
            return _mean(differences), 0.0, 0
        degrees = n - 1 + USUAL
        variance = ((n - 1) * float(differences.var(ddof=1)) + USUAL * self._variance(part, reference)) / degrees
        left = 1 - met / self._questions
        return _mean(differences), math.sqrt(variance * left / n), degrees

    def _variance(self, part: Callable[[PartialScores], Vector], reference: PartialScores) -> float:
        """The variance of a part against the reference that those who finished have had; 0 where nobody has."""
        seen = [part(found) - part(reference) for found in self._finished if found is not reference]
        known = [values[~np.isnan(values)] for values in seen]
        usual = [float(values.var(ddof=1)) for values in known if len(values) > 1]
        return math.fsum(usual) / len(usual) if usual else 0.0


def _mean(values: Vector) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else 0.0


@dataclass(frozen=True, slots=True)
class RaceResult:
    """How a candidate came through a race. The evaluation of one that was ``dropped`` has only what it answered.

    ``behaviour`` is equal for candidates that did the same on everything they met.
    """

    evaluation: Evaluation
    behaviour: str
    dropped: Pruned | None = None

    @classmethod
    def through(cls, evaluation: Evaluation) -> RaceResult:
        """Somebody who met every question."""
        return cls(evaluation, evaluation.phenotype)


def costly_kinds(models: Models) -> frozenset[str]:
    """The kinds of tools that cost something, in money or patience, each time they are asked for something new."""
    asked = {"language_model": models.asked, "cross_encoder": models.cross_encoder}
    return frozenset(kind for kind, model in asked.items() if is_costly(model))


def asks_to_rank(candidate: Candidate, costly: AbstractSet[str]) -> bool:
    """Whether each question that ``candidate`` is to rank is asked of tools of a ``costly`` kind.

    What the collection is asked for once is not among that, nor what is asked before a gene that is fitted: it learns
    from the rankings of all questions. Retrieval that learns does so before anything is asked.
    """
    asks = False
    for family, gene in zip(FAMILIES[: FILTER + 1], candidate, strict=False):
        asked = family.tier != "collection" and not costly.isdisjoint(gene.technique.tools.values())
        asks = asked or (asks and not (gene.learns and family.tier == "question"))
    return asks


class Races:
    """Races batches of candidates on the same questions, each batch against all who finished before.

    ``examples`` are the questions in the order in which they are met. Without ``racing`` everybody answers all of them.
    ``models_of`` are the models that a candidate asks: some cost something.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        examples: Sequence[Example],
        racing: Racing | None,
        fitness: Fitness,
        may_miss: float,
        models_of: Callable[[Candidate], Models],
    ) -> None:
        self._evaluator = evaluator
        self._examples = tuple(examples)
        self._order = tuple(example.id for example in examples)
        self._questions = tuple(sorted(self._order))
        self._racing = racing
        self._fitness = fitness
        self._may_miss = may_miss
        self._models_of = models_of
        self._track = RaceState(len(examples), racing or Racing())
        self._finished: list[Evaluation] = []

    @property
    def questions(self) -> int:
        """How many a candidate meets that is not dropped."""
        return len(self._examples)

    def enter(self, evaluations: Sequence[Evaluation]) -> None:
        """Take in those who answered all questions outside of a race."""
        terms = self._terms(evaluations)
        for evaluation in evaluations:
            self._finish(evaluation, terms)

    def run(self, candidates: Sequence[Candidate], *, answering: bool = False) -> list[RaceResult]:
        """Race ``candidates``; what is returned is in their order, and each evaluation is on all questions.

        Those who are ``answering`` give at least the answers of the first block.
        """
        if self._racing is None:
            return [
                RaceResult.through(evaluation) for evaluation in self._evaluator.evaluate(candidates, self._examples)
            ]
        running = dict(enumerate(self._evaluator.evaluate(candidates, ())))
        ended: dict[int, RaceResult] = {}
        terms = self._terms(())
        ranked = self._ranked(candidates, running, ended, terms, answering=answering)
        if ranked and not answering:
            standings = {number: self._standing(ranked[number], None, terms) for number in running}
            self._leave(running, ended, self._track.hopeless(standings), ranked, standings, 0)
        for answered in self._racing.looks(len(self._examples)):
            running = self._answered(candidates, running, answered)
            terms = self._terms([*running.values(), *(raced.evaluation for raced in ended.values())])
            standings = {number: self._standing(ranked.get(number), one, terms) for number, one in running.items()}
            self._leave(running, ended, self._track.behind(answered, standings), ranked, standings, answered)
        for number, evaluation in running.items():
            self._finish(evaluation, terms)
            ended[number] = RaceResult.through(evaluation)
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
        """The rankings of all questions; nothing where the fitness does not add up from R and G.

        Those that cost something come in blocks, after each of which the hopeless leave; not of those who are
        ``answering``: their rankings come with their answers.
        """
        if self._racing is None or not self._fitness.adds_up:
            return {}
        costly = [costly_kinds(self._models_of(candidate)) for candidate in candidates]
        asking = [n for n, candidate in enumerate(candidates) if asks_to_rank(candidate, costly[n])]
        ranked = self._rank(candidates, [number for number in running if number not in asking], len(self._examples))
        for met in () if answering or not asking else self._racing.looks(len(self._examples)):
            asking = [number for number in asking if number in running]
            ranked |= self._rank(candidates, asking, met)
            if met < len(self._examples):
                standings = {number: self._standing(ranked[number], None, terms) for number in asking}
                self._leave(running, ended, self._track.hopeless(standings), ranked, standings, 0)
        return ranked

    def _rank(self, candidates: Sequence[Candidate], numbers: Sequence[int], met: int) -> dict[int, Evaluation]:
        """How those of such ``numbers`` rank the first questions."""
        evaluations = self._evaluator.rank([candidates[number] for number in numbers], self._examples[:met])
        return dict(zip(numbers, evaluations, strict=True))

    def _answered(
        self, candidates: Sequence[Candidate], running: Iterable[int], answered: int
    ) -> dict[int, Evaluation]:
        """What those who are ``running`` make of the first questions."""
        numbers = list(running)
        able = [candidates[number] for number in numbers]
        evaluations = self._evaluator.evaluate(able, self._examples[:answered])
        return {
            number: replace(evaluation, questions=self._questions)
            for number, evaluation in zip(numbers, evaluations, strict=True)
        }

    def _leave(
        self,
        running: dict[int, Evaluation],
        ended: dict[int, RaceResult],
        leaving: Iterable[int],
        ranked: Mapping[int, Evaluation],
        standings: Mapping[int, PartialScores],
        answered: int,
    ) -> None:
        """Move those who are ``leaving`` from ``running`` to ``ended``."""
        for number in leaving:
            evaluation = running.pop(number)
            known = None if evaluation.records else ranked.get(number)
            behaviour = f"ranked {known.phenotype}" if known else evaluation.phenotype
            ended[number] = RaceResult(evaluation, behaviour, self._track.dropped(standings[number], answered))

    def _finish(self, evaluation: Evaluation, terms: Terms) -> None:
        self._finished.append(evaluation)
        if terms.admit(evaluation):
            self._track.finish(self._standing(evaluation, evaluation, terms))

    def _terms(self, evaluations: Iterable[Evaluation]) -> Terms:
        return Terms.of([*self._finished, *evaluations], self._fitness, self._may_miss)

    def _standing(self, ranked: Evaluation | None, answered: Evaluation | None, terms: Terms) -> PartialScores:
        """What the rankings and the answers of a candidate say of it; a failure is the lowest there is.

        Where nothing is ``ranked`` apart, answers have the rankings with them.
        """
        exact, sampled = np.full((2, len(self._order)), math.nan)
        known = ranked or answered
        for place, question in enumerate(self._order):
            if question in terms.aside:
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
        """What R counts of a question's fitness; 0 where that does not add up, or there is no R; None if not ranked."""
        if not self._fitness.adds_up:
            return 0.0
        if ranked is None or question not in ranked.records:
            return None
        found = composite("retrieval", ranked.records[question]["measures"])
        return 0.0 if found is None else self._fitness.combined(found, 0.0)
