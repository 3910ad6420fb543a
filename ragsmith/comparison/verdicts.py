"""Verdicts on pairs of pipelines, with their power and the number of questions that would show a difference.

A family of comparisons is tested together (Holm 1979), and each look at the same questions is tested at half the level
of the previous one (`ragsmith.comparison.questions`).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ragsmith.comparison.difference import (
    POWER,
    Difference,
    Power,
    compute_difference,
    min_p,
    most_dissenting,
    noninferiority_p,
)
from ragsmith.comparison.questions import ALPHA, MIN_GROUPS, Clusters, adjust_for_looks
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.fitness import FALSE_REFUSAL, REFUSAL, Fitness
from ragsmith.evaluation.ranking import MAX_FAILURE_RATE, Terms, common_questions
from ragsmith.evaluation.statistics import MAX_EXACT_DIFFERENCES, Verdict, holm, paired_differences, sign_flip_test
from ragsmith.pipelines.genes import label

MARGIN = 0.02
"""The default margin of *not worse*, in fitness."""

MAX_QUESTION_FACTOR = 20
"""Maximum factor of the number of questions that is recommended to show a difference."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Comparison of the first pipeline with another, on the test questions that all compared pipelines finished.

    ``difference`` is first minus other; it, ``adjusted_p`` and ``verdict`` are None if one of the two failed on more
    questions than allowed. ``adjusted_p`` is corrected for the ``family``, the number of comparisons tested together,
    and for the number of this ``look``, and is compared with 0.05. An estimate without a test has
    a difference, and neither p nor verdict. ``of`` is ``fitness``, or ``retrieval`` for
    questions drafted by a machine. ``margin`` is that of *not worse*.

    ``detectable`` is the smallest true difference that would have been shown with power 0.8, given the observed spread;
    None if none would. ``more_questions`` in ``more_groups`` would show the observed difference, if it is true; None
    without a difference, or if it takes more than `MAX_QUESTION_FACTOR` times the questions. ``declining`` is None if
    each question has an answer. ``imputed`` is whether failures of the pipeline that is ahead had the lowest score.
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
    declining: Declining | None = None
    imputed: bool = False

    @property
    def dissenting(self) -> int | None:
        """How many groups of equal size may be on the other side of a difference that is shown; None if none is."""
        found = self.difference
        return None if found is None else most_dissenting(found.groups, ALPHA / (self.family * 2 ** (self.look - 1)))

    @property
    def spent(self) -> bool:
        """Whether nothing could be shown only because of earlier looks at the questions."""
        found = self.difference
        if found is None or self.verdict is not Verdict.TOO_FEW or found.groups < MIN_GROUPS:
            return False
        return self.look > 1 and can_be_significant(found.telling, self.family)

    @property
    def excluded(self) -> tuple[float, float] | None:
        """The largest loss and the largest gain within the interval, both at least 0."""
        found = self.difference
        return None if found is None else (max(0.0, -found.low), max(0.0, found.high))


@dataclass(frozen=True, slots=True)
class Declining:
    """How the two pipelines of a comparison decline: the second half of SQuAD 2.0 (Rajpurkar et al. 2018).

    ``declined`` counts the ``unanswerable`` questions that each declined, which is right, and ``refused`` the
    ``answerable`` ones that each declined, which is wrong; the first pipeline comes first. ``p`` is of the difference
    on unanswerable questions (McNemar 1947, by sign flips: exact if up to 20 differ), adjusted neither for other
    comparisons nor for earlier looks.
    """

    unanswerable: int
    declined: tuple[int, int]
    answerable: int
    refused: tuple[int, int]
    p: float


def compare_declining(first: Evaluation, second: Evaluation) -> Declining | None:
    """Compare how two pipelines decline the questions that both finished; None if all of these have an answer."""
    both = common_questions([first, second])
    counts: dict[str, list[list[float]]] = {}
    for name in (REFUSAL, FALSE_REFUSAL):
        values = [[one.records[question]["measures"].get(name) for question in both] for one in (first, second)]
        pairs = [(a, b) for a, b in zip(*values, strict=True) if a is not None and b is not None]
        counts[name] = [[a for a, _ in pairs], [b for _, b in pairs]]
    (ours, theirs), (wrong, other_wrong) = counts[REFUSAL], counts[FALSE_REFUSAL]
    if not ours:
        return None
    return Declining(
        len(ours),
        (round(sum(ours)), round(sum(theirs))),
        len(wrong),
        (round(sum(wrong)), round(sum(other_wrong))),
        sign_flip_test(ours, theirs),
    )


def compare_pipelines(
    first: Evaluation,
    others: Mapping[str, Evaluation],
    terms: Terms,
    clusters: Clusters,
    *,
    look: int = 1,
    margin: float = MARGIN,
    of: str = "fitness",
) -> tuple[Comparison, ...]:
    """Compare ``first`` with each of ``others``, as one family, on the questions that all of them finished.

    Questions without gold, by ``clusters``, are compared by declining alone. A pipeline that is incomplete by ``terms``
    is not compared, but stays in Holm's family with p = 1, so that a failure does not make the other comparisons
    easier. ``look`` is the number of this look at the questions.
    """
    able = [evaluation for evaluation in (first, *others.values()) if terms.admits(evaluation)]
    questions = clusters.tested(common_questions(able))
    pairs = {
        name: _Pair(first, other, questions, terms, clusters) if first in able and other in able and questions else None
        for name, other in others.items()
    }
    found = {name: None if pair is None else pair.difference() for name, pair in pairs.items()}
    corrected = holm([1.0 if one is None else one.p for one in found.values()])
    family = len(others)
    compared = []
    for (name, one), p in zip(found.items(), corrected, strict=True):
        other, pair = others[name], pairs[name]
        comparison = Comparison(
            name,
            name,
            label(other.candidate),
            difference=None,
            adjusted_p=None,
            verdict=None,
            of=of,
            margin=margin,
            look=look,
            family=family,
            declining=compare_declining(first, other) if first in able and other in able else None,
        )
        if one is not None and pair is not None:
            final = adjust_for_looks(p, look)
            within = adjust_for_looks(min(1.0, family * pair.shifted(margin)), look) <= ALPHA
            comparison = _with_power(
                replace(
                    comparison,
                    difference=one,
                    adjusted_p=final,
                    verdict=decide_verdict(one, final, family, look, within=within),
                    imputed=pair.imputes(one),
                ),
                pair,
            )
        compared.append(comparison)
    return tuple(compared)


def compare_two(
    first: Evaluation,
    second: Evaluation,
    clusters: Clusters,
    fitness: Fitness | None = None,
    *,
    look: int = 1,
    margin: float = MARGIN,
    max_failure_rate: float = MAX_FAILURE_RATE,
    name: str = "other",
    of: str = "fitness",
) -> Comparison:
    """Compare two evaluations on the same questions, outside a run; ``name`` is that of the second."""
    terms = Terms.from_evaluations([first, second], fitness or Fitness(), max_failure_rate)
    [found] = compare_pipelines(first, {name: second}, terms, clusters, look=look, margin=margin, of=of)
    return found


def decide_verdict(
    found: Difference, adjusted_p: float, family: int = 1, look: int = 1, *, within: bool = False
) -> Verdict:
    """Return the verdict on a difference; ``within`` is whether the first is shown not to be behind by the margin.

    There are too few questions with fewer than eight groups, or if nothing is shown and could not be even with all
    groups on one side: ``least p * family * 2 ** (look - 1) > 0.05``.
    """
    if found.groups < MIN_GROUPS:
        return Verdict.TOO_FEW
    if adjusted_p <= ALPHA and found.mean_difference != 0:
        return Verdict.BETTER if found.mean_difference > 0 else Verdict.WORSE
    if within:
        return Verdict.NOT_WORSE
    return Verdict.NO_DIFFERENCE if can_be_significant(found.telling, family, look) else Verdict.TOO_FEW


def can_be_significant(groups: int, family: int = 1, look: int = 1) -> bool:
    """Return whether ``groups`` that are all on one side would show a difference."""
    return adjust_for_looks(min(1.0, family * min_p(groups)), look) <= ALPHA


def _with_power(comparison: Comparison, pair: _Pair) -> Comparison:
    """Return the comparison with the detectable difference, and the questions that would show the observed one.

    The level is divided by the number of comparisons, which is conservative: Holm's correction is that strict only for
    the smallest p.
    """
    found = comparison.difference
    assert found is not None
    level = ALPHA / (comparison.family * 2 ** (comparison.look - 1))
    if found.groups < MIN_GROUPS:
        return comparison
    detectable = pair.power(level).smallest()
    shown = comparison.verdict in (Verdict.BETTER, Verdict.WORSE)
    if detectable is None or shown or not found.mean_difference:
        return replace(comparison, detectable=detectable)
    times = (detectable / abs(found.mean_difference)) ** 2
    if times > MAX_QUESTION_FACTOR:
        return replace(comparison, detectable=detectable)
    groups = max(found.groups + 1, math.ceil(found.groups * times))
    if found.groups < MAX_EXACT_DIFFERENCES:  # the fewer the groups, the more of them have to agree
        candidates = range(found.groups + 1, groups)
        seen = abs(found.mean_difference)
        groups = candidates.start + bisect_left(
            candidates, True, key=lambda count: pair.power(level, count).at(seen) >= POWER
        )
    questions = max(1, math.ceil(found.n * groups / found.groups) - found.n)
    return replace(comparison, detectable=detectable, more_questions=questions, more_groups=groups - found.groups)


@dataclass(frozen=True)
class _Pair:
    """Two evaluations on the ``questions`` that are compared.

    The pipeline that is ahead must also be ahead on all questions that the other finished, with the lowest score for
    its own failures: neither these nor the failures of a third pipeline may make the difference. The larger p of the
    two tests counts; if the lead is lost, p is 1.
    """

    first: Evaluation
    other: Evaluation
    questions: tuple[str, ...]
    terms: Terms
    clusters: Clusters

    @cached_property
    def scores(self) -> tuple[Mapping[str, float], Mapping[str, float]]:
        """The scores of both by question."""
        return self.first.by_question(self.terms.fitness), self.other.by_question(self.terms.fitness)

    def difference(self) -> Difference:
        ours, theirs = self.scores
        found = compute_difference(*self._paired(ours, theirs, self.questions))
        ahead, behind = (ours, theirs) if found.mean_difference > 0 else (theirs, ours)
        finished = self.clusters.tested(behind)
        if len(finished) == len(self.questions):
            return found
        other = compute_difference(*self._paired(ahead, behind, finished))
        p = max(found.p, other.p) if other.mean_difference > 0 else 1.0
        return replace(found, p=p)

    def imputes(self, found: Difference) -> bool:
        """Return whether the pipeline that is ahead failed on a question with gold that the other finished."""
        ahead, behind = (self.first, self.other) if found.mean_difference > 0 else (self.other, self.first)
        return not ahead.records.keys() >= set(self.clusters.tested(behind.records))

    def power(self, level: float, count: int | None = None) -> Power:
        """Return the power at a ``level`` with ``count`` groups, by default as many as there are."""
        ours, theirs, groups = self._paired(*self.scores, self.questions)
        return Power(paired_differences(ours, theirs, "power"), groups, level, count=count)

    def shifted(self, margin: float) -> float:
        """Return the p of the test that the first is not behind by ``margin``."""
        ours, theirs = self.scores
        p = noninferiority_p(*self._paired(ours, theirs, self.questions), margin)
        finished = self.clusters.tested(theirs)
        if len(finished) == len(self.questions):
            return p
        return max(p, noninferiority_p(*self._paired(ours, theirs, finished), margin))

    def _paired(
        self, ahead: Mapping[str, float], behind: Mapping[str, float], questions: Sequence[str]
    ) -> tuple[list[float], list[float], list[int]]:
        """Return the scores on ``questions``, all of which ``behind`` finished, and the groups of these questions."""
        lead = [ahead.get(question, self.terms.lowest) for question in questions]
        return lead, [behind[question] for question in questions], self.clusters.group_numbers(questions)
