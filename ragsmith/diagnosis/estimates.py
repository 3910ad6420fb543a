"""Estimates with their uncertainty: weighted sums of pipelines, effects of options, pooled means and transfers.

A transfer is the winner of a search on one data set, evaluated on another and compared with the winner there. Nothing
of the target had a part in the choice of the pipeline that comes from elsewhere, so its score is fair on all of the
target's questions. That of the target's own winner is not on search questions, which chose it: there, what a
pipeline from elsewhere is behind looks a little larger than it is.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import TYPE_CHECKING

from ragsmith.comparison.difference import effective_groups, interval, variance, widened
from ragsmith.comparison.questions import FEWEST_GROUPS, Clusters
from ragsmith.diagnosis.changes import identify_unfitted
from ragsmith.evaluation.baselines import baseline
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.fitness import HEADLINE, Fitness
from ragsmith.evaluation.ranking import Terms, common, ranked
from ragsmith.evaluation.statistics import student_quantile
from ragsmith.pipelines.genes import GENES, label
from ragsmith.text.restoring import restore

if TYPE_CHECKING:
    from ragsmith.store.store import Store

Weighted = Sequence[tuple[Evaluation, float]]
"""Evaluations on the same questions, each with a weight."""

FEWEST_TO_VARY = 2
"""Groups without which nothing is known of how a mean varies."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over ``n`` questions in ``groups`` and its 95 % interval by itself, not adjusted for how many there are.

    ``error`` is the standard error of the mean. Both are by group, as questions of a group are not independent, and
    wider where groups differ in size (`ragsmith.comparison.difference.widened`). Of fewer than `FEWEST_GROUPS`, with
    which no verdict is given either, there is no interval: one by so few groups is far too narrow too often.
    """

    mean: float
    low: float | None
    high: float | None
    n: int
    groups: int
    error: float

    @property
    def shown(self) -> bool:
        """Whether the interval is clear of 0; never where there is none."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)

    @property
    def variance(self) -> float:
        """That of the mean; 0 where it is not known, as there are too few groups to tell."""
        return self.error**2 if self.groups >= FEWEST_GROUPS else 0.0

    @classmethod
    def of(cls, values: Mapping[str, float], clusters: Clusters) -> Estimate:
        """The mean of values by question, of which there is at least one; drawn anew by group (bootstrap)."""
        # sums of weighted scores differ from 0 by rounding where nothing differs
        settled = {question: 0.0 if abs(value) < 1e-12 else value for question, value in values.items()}
        numbers = clusters.numbers(list(settled))
        groups = len(set(numbers))
        low, high = interval(list(settled.values()), numbers) if groups >= FEWEST_GROUPS else (None, None)
        error, _ = error_of(settled, clusters)
        return cls(_mean(settled.values()), low, high, len(settled), groups, error)

    @classmethod
    def by_student(
        cls, mean: float, moved: Mapping[str, float], clusters: Clusters, weights: Mapping[str, float] | None = None
    ) -> Estimate:
        """A mean, and how far each question moves it, all of them together by nothing; its interval is Student's.

        The degrees of freedom are those of the effective number of groups, by what the questions weigh: 1 each, unless
        ``weights`` says otherwise. Scores lie between 0 and 1, so the interval ends at -1 and 1.
        """
        error, degrees = error_of(moved, clusters, weights)
        groups = len(set(clusters.numbers(list(moved))))
        if groups < FEWEST_GROUPS:
            return cls(mean, None, None, len(moved), groups, error)
        reach = student_quantile(0.975, degrees) * error
        return cls(mean, max(-1.0, mean - reach), min(1.0, mean + reach), len(moved), groups, error)


def error_of(
    values: Mapping[str, float], clusters: Clusters, weights: Mapping[str, float] | None = None
) -> tuple[float, int]:
    """The standard error by group of a mean of values by question, and its degrees of freedom.

    Both are those of the effective number of groups: with one large group among small ones a mean is little surer than
    that group is. 0 of one group, of which nothing is known.
    """
    sizes: defaultdict[int, float] = defaultdict(float)
    for question, group in zip(values, clusters.numbers(list(values)), strict=True):
        sizes[group] += 1.0 if weights is None else weights[question]
    if len(sizes) < FEWEST_TO_VARY:
        return 0.0, 1
    error = math.sqrt(variance(values, clusters.groups) / len(values))
    return widened(error, len(sizes), effective_groups(list(sizes.values())))


def contrast(weighted: Weighted, name: str, fitness: Fitness, clusters: Clusters) -> Estimate | None:
    """The weighted sum of a value on the questions that all have finished; None where none has such a value.

    ``name`` is ``fitness``, ``retrieval`` or ``generation``. A question that has no such value is left out.
    """
    questions = common([one for one, _ in weighted])
    columns = [(one.on(questions).column(name, fitness), weight) for one, weight in weighted]
    sums = {}
    for place, question in enumerate(questions):
        values = [(column[place], weight) for column, weight in columns]
        if all(value is not None for value, _ in values):
            sums[question] = math.fsum(weight * value for value, weight in values if value is not None)
    return Estimate.of(sums, clusters) if sums else None


def contrasts(weighted: Weighted, fitness: Fitness, clusters: Clusters) -> dict[str, Estimate]:
    """The same of F, and of R and G where they are known."""
    found = {name: contrast(weighted, name, fitness, clusters) for name in HEADLINE}
    return {name: estimate for name, estimate in found.items() if estimate is not None}


def mean_difference(first: Evaluation, second: Evaluation, name: str) -> float:
    """The mean of ``first`` less ``second`` in a count of the usage, on the questions that both have finished."""
    both = common([first, second])
    return (math.fsum(first.on(both).values(name)) - math.fsum(second.on(both).values(name))) / len(both)


def _mean(values: Collection[float]) -> float:
    return math.fsum(values) / len(values)


FEWEST = 2
"""Data sets without which there is nothing to pool."""


@dataclass(frozen=True, slots=True)
class PooledEstimate:
    """The mean over ``datasets`` data sets with its 95 % interval, and the standard deviation ``between`` them.

    ``agree`` of them have the sign of the mean, and in ``unchanged`` the estimate is 0.
    """

    mean: float
    low: float
    high: float
    between: float
    datasets: int
    agree: int
    unchanged: int

    @property
    def shown(self) -> bool:
        """Whether the interval is clear of 0."""
        return self.low > 0 or self.high < 0


def pooled(means: Sequence[float], errors: Sequence[float]) -> PooledEstimate | None:
    """Pool the mean and standard error of each data set; None of fewer than `FEWEST`.

    An error of 0 says that nothing differed on any question that was asked, and is not known better than that: it
    counts as large as those of the other data sets are on average, in variance.
    """
    if len(means) != len(errors):
        raise ValueError(f"pooled: {len(means)} means and {len(errors)} errors; give one of each for a data set")
    if len(means) < FEWEST:
        return None
    positive = [error**2 for error in errors if error > 0]
    usual = math.fsum(positive) / len(positive) if positive else 1.0
    within = [error**2 if error > 0 else usual for error in errors]
    between = _between(means, within)
    weights = [1.0 / (variance + between) for variance in within]
    total = math.fsum(weights)
    mean = math.fsum(weight * one for weight, one in zip(weights, means, strict=True)) / total
    k = len(means)
    spread = math.fsum(weight * (one - mean) ** 2 for weight, one in zip(weights, means, strict=True)) / (k - 1)
    if positive:
        spread = max(1.0, spread)
    reach = student_quantile(0.975, k - 1) * math.sqrt(spread / total)
    agree = sum((one > 0 and mean > 0) or (one < 0 and mean < 0) for one in means)
    return PooledEstimate(
        mean, mean - reach, mean + reach, math.sqrt(between), k, agree, sum(one == 0 for one in means)
    )


def _between(means: Sequence[float], within: Sequence[float]) -> float:
    """The variance between data sets by the method of moments."""
    weights = [1.0 / variance for variance in within]
    total = math.fsum(weights)
    fixed = math.fsum(weight * one for weight, one in zip(weights, means, strict=True)) / total
    q = math.fsum(weight * (one - fixed) ** 2 for weight, one in zip(weights, means, strict=True))
    scale = total - math.fsum(weight**2 for weight in weights) / total
    return max(0.0, (q - (len(means) - 1)) / scale)


@dataclass(frozen=True, slots=True)
class OptionEffect:
    """What an option gains in F over naive RAG's option of its family, over ``pairs`` pairs of pipelines of a run."""

    family: str
    option: str
    instead: str
    gain: Estimate
    pairs: int


def option_effects(evaluations: Sequence[Evaluation], fitness: Fitness, clusters: Clusters) -> list[OptionEffect]:
    """The effects of all options that any pair of ``evaluations`` shows, family by family."""
    found, whole = [], [(identify_unfitted(one.candidate), one) for one in evaluations]
    for place, plain in islice(enumerate(baseline("naive")), GENES):
        alike: defaultdict[tuple[str, ...], dict[str, Evaluation]] = defaultdict(dict)
        for genes, one in whole:
            alike[(*genes[:place], *genes[place + 1 :])].setdefault(str(one.candidate[place]), one)
        pairs: defaultdict[str, list[tuple[Evaluation, Evaluation]]] = defaultdict(list)
        for its in alike.values():
            if (without := its.get(str(plain))) is not None:
                for option, one in its.items():
                    if one is not without:
                        pairs[option].append((one, without))
        for option in sorted(pairs):
            gain = _gain(pairs[option], fitness, clusters)
            if gain is not None:
                effect = OptionEffect(plain.technique.family, option, str(plain), gain, len(pairs[option]))
                found.append(effect)
    return found


def _gain(pairs: Sequence[tuple[Evaluation, Evaluation]], fitness: Fitness, clusters: Clusters) -> Estimate | None:
    """The mean difference over all questions of all pairs: a ratio of two sums over questions.

    Its error is that of the ratio, linearised: a question in which more pairs were compared weighs more, and so does
    its group in the effective number of groups.
    """
    sums: defaultdict[str, list[float]] = defaultdict(list)
    for one, other in pairs:
        ours, theirs = one.by_question(fitness), other.by_question(fitness)
        for question, value in ours.items():
            if question in theirs:
                sums[question].append(value - theirs[question])
    if not sums:
        return None
    counted = sum(map(len, sums.values()))
    mean = math.fsum(map(math.fsum, sums.values())) / counted
    n = len(sums)
    moved = {q: n / counted * (math.fsum(values) - len(values) * mean) for q, values in sums.items()}
    return Estimate.by_student(mean, moved, clusters, {q: float(len(values)) for q, values in sums.items()})


FINDING = "transfer"
"""Under what the store keeps it, by the runs that it leads from and to."""


@dataclass(frozen=True, slots=True)
class TransferEstimate:
    """The winner of the search on ``source`` on questions of ``target``, its search or test questions by ``part``.

    ``fitness`` and ``calls`` are its means there, and ``behind`` is what the target's own winner is ahead of it,
    question by question; None where only means are known. ``place`` is the one it would have in the ranking of the
    target's search, of ``of``; there is none on test questions.
    """

    source: str
    target: str
    part: str
    label: str
    key: str
    questions: int
    fitness: float
    calls: float
    own: float
    behind: Estimate | None = None
    place: int | None = None
    of: int | None = None

    @property
    def regret(self) -> float:
        """What the target's own winner is ahead by."""
        return self.own - self.fitness if self.behind is None else self.behind.mean


def estimate_transfer(
    source: str,
    target: str,
    part: str,
    found: Evaluation,
    own: Evaluation,
    searched: Sequence[Evaluation],
    terms: Terms,
    clusters: Clusters,
) -> TransferEstimate | None:
    """What became of a winner elsewhere, ``own`` being the winner there and ``searched`` what it won against, if asked.

    None where it failed on more questions than it may.
    """
    if not terms.admit(found) or not terms.admit(own):
        return None
    behind = contrast([(own, 1.0), (found, -1.0)], "fitness", terms.fitness, clusters)
    if behind is None:
        return None
    place = of = None
    if searched:
        listed = ranked([one for one in searched if one.phenotype != found.phenotype], terms)
        score = terms.score(found)
        ahead = [one for one in listed if (its := terms.score(one)) is not None and score is not None and its > score]
        place, of = len(ahead) + 1, len(listed) + 1
    return TransferEstimate(
        source,
        target,
        part,
        label(found.candidate),
        found.key,
        len(found.questions),
        _mean(found.values("fitness", terms.fitness)),
        _mean(found.values("calls")),
        _mean(own.values("fitness", terms.fitness)),
        behind,
        place,
        of,
    )


def store_transfer(store: Store, found: TransferEstimate, source: str, target: str, dataset: str) -> None:
    """Keep a transfer from the run ``source`` to ``target``, which is on the data set of the digest ``dataset``."""
    store.put_finding(FINDING, _key(source, target, found.part), dataset, asdict(found))


def kept_transfers(
    store: Store, runs: Iterable[str], parts: Sequence[str] = ("search", "test")
) -> list[TransferEstimate]:
    """What the store has of transfers among ``runs``, in their order."""
    listed = list(runs)
    keys = [_key(one, other, part) for part in parts for one in listed for other in listed if one != other]
    found = store.findings(FINDING, keys)
    return [restore(TransferEstimate, found[key]) for key in keys if key in found]


def _key(source: str, target: str, part: str) -> str:
    return f"{source}:{target}:{part}"
