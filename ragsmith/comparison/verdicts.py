"""Verdicts: what may be said of one pipeline beside another, and what it would take to say more.

A family of comparisons is tested together (Holm 1979), and each look at the same questions at half the level of the one
before: see `ragsmith.comparison.looks`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ragsmith.comparison import power
from ragsmith.comparison.clusters import FEWEST_GROUPS, Clusters
from ragsmith.comparison.difference import Difference, difference, least_p, shifted_p
from ragsmith.comparison.looks import ALPHA, adjusted
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.fitness import Fitness
from ragsmith.evaluation.ranking import MAY_MISS, Terms, common
from ragsmith.evaluation.statistics import Verdict, holm
from ragsmith.pipelines.genes import label

MARGIN = 0.02
"""By how much a pipeline may be behind and is still called not worse, unless one says otherwise."""

SETTLED = 20
"""A difference that would take more than this many times the questions is as good as none: nobody should settle it."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A pipeline, the first, against another on the test questions that all who were compared finished.

    ``difference`` is first minus other; it, ``adjusted_p`` and ``verdict`` are None when one of the two failed on more
    than it may. ``adjusted_p`` counts all comparisons of the family and earlier looks at the questions, and is held
    against 0.05; ``of`` says of what: ``fitness``, or ``retrieval`` where questions were drafted by a machine.

    ``detectable`` is the smallest true difference that would have been shown four times in five, by the spread that was
    seen; None where none could have been. ``more_questions``, in ``more_groups`` like those there are, would show the
    difference that was seen, if it is true; None where there is none, or it would take `SETTLED` times as many.
    ``margin`` is what *not worse* allows for, ``look`` is the number of this look at the questions, and ``family``
    how many comparisons were tested together.
    """

    name: str
    against: str
    label: str
    difference: Difference | None
    adjusted_p: float | None
    verdict: Verdict | None
    of: str = "fitness"
    detectable: float | None = None
    more_questions: int | None = None
    more_groups: int | None = None
    margin: float = MARGIN
    look: int = 1
    family: int = 1

    @property
    def spent(self) -> bool:
        """Whether nothing could be shown because the questions were looked at before, and something could have been."""
        found = self.difference
        if found is None or self.verdict is not Verdict.TOO_FEW or found.groups < FEWEST_GROUPS:
            return False
        return self.look > 1 and could_show(found.telling, self.family)

    @property
    def excluded(self) -> tuple[float, float] | None:
        """The most that it is worse, and the most that it is better, both as numbers that are not negative."""
        found = self.difference
        return None if found is None else (max(0.0, -found.low), max(0.0, found.high))


def compare(
    first: Evaluation,
    others: Mapping[str, Evaluation],
    terms: Terms,
    clusters: Clusters,
    *,
    look: int = 1,
    margin: float = MARGIN,
    of: str = "fitness",
) -> tuple[Comparison, ...]:
    """Compare ``first`` with each of ``others`` on the questions that all of them finished; they are one family.

    One that is incomplete by ``terms`` is not compared. All of them stay in Holm's family, so that a comparison that
    failed does not make the others easier (its p is 1). ``look`` is the number of this look at the questions.
    """
    able = [evaluation for evaluation in (first, *others.values()) if terms.admit(evaluation)]
    questions = common(able)
    pairs = {
        name: _Pair(first, other, questions, terms, clusters) if first in able and other in able and questions else None
        for name, other in others.items()
    }
    found = {name: None if pair is None else pair.difference() for name, pair in pairs.items()}
    corrected = holm([1.0 if one is None else one.p for one in found.values()])
    family = len(others)
    compared = []
    for (name, one), p in zip(found.items(), corrected, strict=True):
        made = Comparison(name, name, label(others[name].candidate), None, None, None, of)
        made = replace(made, margin=margin, look=look, family=family)
        pair = pairs[name]
        if one is not None and pair is not None:
            final = adjusted(p, look)
            within = adjusted(min(1.0, family * pair.shifted(margin)), look) <= ALPHA
            made = _with_power(
                replace(
                    made, difference=one, adjusted_p=final, verdict=decide(one, final, family, look, within=within)
                ),
                family,
                look,
            )
        compared.append(made)
    return tuple(compared)


def compare_two(
    first: Evaluation,
    second: Evaluation,
    clusters: Clusters,
    fitness: Fitness | None = None,
    *,
    look: int = 1,
    margin: float = MARGIN,
    may_miss: float = MAY_MISS,
    name: str = "other",
    of: str = "fitness",
) -> Comparison:
    """Compare two evaluations on the same questions, without a run: ``name`` is what the second is called.

    ``of`` says what ``fitness`` is about, as `Comparison` has it.
    """
    terms = Terms.of([first, second], fitness or Fitness(), may_miss)
    [found] = compare(first, {name: second}, terms, clusters, look=look, margin=margin, of=of)
    return found


def decide(found: Difference, adjusted_p: float, family: int = 1, look: int = 1, *, within: bool = False) -> Verdict:
    """What a difference shows; ``within`` says whether it is shown not to be behind by the margin.

    There are too few questions where fewer than eight groups were compared, and, with nothing shown, where even all
    groups on one side would not have been enough: ``least p * family * 2 ** (look - 1) > 0.05``.
    """
    if found.groups < FEWEST_GROUPS:
        return Verdict.TOO_FEW
    if adjusted_p <= ALPHA and found.mean_difference != 0:
        return Verdict.BETTER if found.mean_difference > 0 else Verdict.WORSE
    if within:
        return Verdict.NOT_WORSE
    return Verdict.NO_DIFFERENCE if could_show(found.telling, family, look) else Verdict.TOO_FEW


def could_show(groups: int, family: int = 1, look: int = 1) -> bool:
    """Whether so many groups, all of them on one side, would show a difference."""
    return adjusted(min(1.0, family * least_p(groups)), look) <= ALPHA


def _with_power(made: Comparison, family: int, look: int) -> Comparison:
    """The same with what could have been shown, and with what would settle what was seen.

    One of several comparisons is shown for certain at the level divided by their number; the step-down correction asks
    less of the others.
    """
    found = made.difference
    assert found is not None
    level = ALPHA / (family * 2 ** (look - 1))
    if found.groups < FEWEST_GROUPS:
        return made
    detectable = power.smallest(found.error, found.groups, level, effective=found.effective)
    shown = made.verdict in (Verdict.BETTER, Verdict.WORSE)
    if detectable is None or shown or not found.mean_difference:
        return replace(made, detectable=detectable)
    times = (detectable / abs(found.mean_difference)) ** 2
    if times > SETTLED:
        return replace(made, detectable=detectable)
    questions = max(1, math.ceil(found.n * times) - found.n)
    groups = max(1, math.ceil(found.groups * times) - found.groups)
    return replace(made, detectable=detectable, more_questions=questions, more_groups=groups)


@dataclass(frozen=True)
class _Pair:
    """Two evaluations on the ``questions`` that are compared.

    Whoever is ahead must be so, too, on everything that the other finished, its own failures being the lowest score
    there is: neither they nor what a third one failed on may make the difference. The larger p of the two tests counts;
    if the lead is lost, p is 1.
    """

    first: Evaluation
    other: Evaluation
    questions: tuple[str, ...]
    terms: Terms
    clusters: Clusters

    def difference(self) -> Difference:
        ours, theirs = self.first.by_question(self.terms.fitness), self.other.by_question(self.terms.fitness)
        found = difference(*self._both(ours, theirs, self.questions), self.clusters.numbers(self.questions))
        ahead, behind = (ours, theirs) if found.mean_difference > 0 else (theirs, ours)
        if len(behind) == len(self.questions):
            return found
        held, groups = self._held(ahead, behind)
        kept = difference(*held, groups)
        p = max(found.p, kept.p) if kept.mean_difference > 0 else 1.0
        return replace(found, p=p)

    def shifted(self, margin: float) -> float:
        """The p of not being behind by ``margin``."""
        ours, theirs = self.first.by_question(self.terms.fitness), self.other.by_question(self.terms.fitness)
        p = shifted_p(*self._both(ours, theirs, self.questions), self.clusters.numbers(self.questions), margin)
        if len(theirs) == len(self.questions):
            return p
        held, groups = self._held(ours, theirs)
        return max(p, shifted_p(*held, groups, margin))

    def _held(
        self, ahead: Mapping[str, float], behind: Mapping[str, float]
    ) -> tuple[tuple[list[float], list[float]], list[int]]:
        """The scores on all that ``behind`` has finished, and the groups of these questions."""
        questions = tuple(behind)
        lead = [ahead.get(question, self.terms.lowest) for question in questions]
        return (lead, list(behind.values())), self.clusters.numbers(questions)

    @staticmethod
    def _both(
        ours: Mapping[str, float], theirs: Mapping[str, float], questions: Sequence[str]
    ) -> tuple[list[float], list[float]]:
        return [ours[question] for question in questions], [theirs[question] for question in questions]
