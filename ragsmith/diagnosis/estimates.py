"""Estimates with their uncertainty: weighted sums of pipelines, effects of options, pooled means and transfers.

A transfer is the winner of a search on one data set, evaluated on another, the target, and compared with the winner
there. The transferred pipeline was chosen without the target, so its score is unbiased on all questions of the target.
The target's own winner was chosen on its search questions, so the difference on these is biased upwards.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from ragsmith.comparison.difference import cluster_interval, cluster_variance, corrected_error, effective_groups
from ragsmith.comparison.questions import MIN_GROUPS, Clusters
from ragsmith.diagnosis.changes import identify_unfitted
from ragsmith.evaluation.baselines import baseline
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.fitness import HEADLINE, Fitness
from ragsmith.evaluation.ranking import Terms, common_questions, rank_evaluations
from ragsmith.evaluation.statistics import student_quantile
from ragsmith.grouping import group_values
from ragsmith.pipelines.genes import label
from ragsmith.text.restoring import restore, stored_by_other_code

if TYPE_CHECKING:
    from ragsmith.store.store import Store

WeightedEvaluations = Sequence[tuple[Evaluation, float]]
"""Evaluations on the same questions, each with a weight."""

MIN_GROUPS_FOR_ERROR = 2
"""The least number of groups for the standard error of a mean."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over ``n`` questions in ``groups``, with a 95 % interval that is not adjusted for multiple comparisons.

    ``error`` is the standard error of the mean. Both are clustered by group, as questions of a group are not
    independent, and wider where groups differ in size (`ragsmith.comparison.difference.corrected_error`). With fewer
    than `MIN_GROUPS` groups there is no interval, as its coverage would be too low.
    """

    mean: float
    low: float | None
    high: float | None
    n: int
    groups: int
    error: float

    @property
    def excludes_zero(self) -> bool:
        """Whether there is an interval, and it excludes 0."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)

    @property
    def variance(self) -> float:
        """The variance of the mean; 0 if there are too few groups to estimate it."""
        return self.error**2 if self.groups >= MIN_GROUPS else 0.0

    @classmethod
    def from_values(cls, values: Mapping[str, float], clusters: Clusters) -> Estimate:
        """Estimate the mean of at least one value by question, with a cluster bootstrap interval."""
        # sums of weighted scores of equal pipelines differ from 0 by rounding
        settled = {question: 0.0 if abs(value) < 1e-12 else value for question, value in values.items()}
        numbers = clusters.group_numbers(list(settled))
        groups = clusters.count(settled)
        low, high = cluster_interval(list(settled.values()), numbers) if groups >= MIN_GROUPS else (None, None)
        error, _ = standard_error(settled, clusters)
        return cls(fmean(settled.values()), low, high, len(settled), groups, error)

    @classmethod
    def from_influences(
        cls,
        mean: float,
        influences: Mapping[str, float],
        clusters: Clusters,
        weights: Mapping[str, float] | None = None,
    ) -> Estimate:
        """Estimate a mean from the influences of questions on it, which sum to 0, with Student's interval.

        The degrees of freedom are those of the effective number of groups, by the ``weights`` of questions, by default
        1 each. Scores are between 0 and 1, so the interval is clipped to -1 and 1.
        """
        error, degrees = standard_error(influences, clusters, weights)
        groups = clusters.count(influences)
        if groups < MIN_GROUPS:
            return cls(mean, None, None, len(influences), groups, error)
        reach = student_quantile(0.975, degrees) * error
        return cls(mean, max(-1.0, mean - reach), min(1.0, mean + reach), len(influences), groups, error)


def standard_error(
    values: Mapping[str, float], clusters: Clusters, weights: Mapping[str, float] | None = None
) -> tuple[float, int]:
    """Return the cluster-robust standard error of the mean of values by question, and its degrees of freedom.

    Both are those of the effective number of groups, as one large group among small ones dominates the error. The error
    is 0 for a single group, for which it cannot be estimated.
    """
    sizes: defaultdict[int, float] = defaultdict(float)
    for question, group in zip(values, clusters.group_numbers(list(values)), strict=True):
        sizes[group] += 1.0 if weights is None else weights[question]
    if clusters.count(values) < MIN_GROUPS_FOR_ERROR:  # questions without gold are in no group
        return 0.0, 1
    error = math.sqrt(cluster_variance(values, clusters.groups) / len(values))
    return corrected_error(error, len(sizes), effective_groups(list(sizes.values())))


def estimate_contrast(
    weighted: WeightedEvaluations, name: str, fitness: Fitness, clusters: Clusters
) -> Estimate | None:
    """Estimate the mean weighted sum of a score over the questions that all evaluations finished.

    ``name`` is ``fitness``, ``retrieval`` or ``generation``. Questions without that score are left out; None if no
    question has it.
    """
    questions = common_questions([one for one, _ in weighted])
    columns = [(one.restrict(questions).column(name, fitness), weight) for one, weight in weighted]
    sums = {}
    for place, question in enumerate(questions):
        values = [(column[place], weight) for column, weight in columns]
        if all(value is not None for value, _ in values):
            sums[question] = math.fsum(weight * value for value, weight in values if value is not None)
    return Estimate.from_values(sums, clusters) if sums else None


def estimate_contrasts(weighted: WeightedEvaluations, fitness: Fitness, clusters: Clusters) -> dict[str, Estimate]:
    """Estimate the contrasts of fitness, and of retrieval and generation if they are defined."""
    found = {name: estimate_contrast(weighted, name, fitness, clusters) for name in HEADLINE}
    return {name: estimate for name, estimate in found.items() if estimate is not None}


def mean_difference(first: Evaluation, second: Evaluation, name: str) -> float:
    """Return the mean usage count ``name`` of ``first`` minus that of ``second``, on questions that both finished."""
    both = common_questions([first, second])
    return (math.fsum(first.restrict(both).values(name)) - math.fsum(second.restrict(both).values(name))) / len(both)


MIN_POOLED_DATASETS = 2
"""The least number of data sets to pool."""


@dataclass(frozen=True, slots=True)
class PooledEstimate:
    """The mean over ``datasets`` data sets with its 95 % interval, and the standard deviation between them.

    ``agree`` of them have the sign of the mean, and in ``unchanged`` the estimate is 0.
    """

    mean: float
    low: float
    high: float
    between_sd: float
    datasets: int
    agree: int
    unchanged: int

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval excludes 0."""
        return self.low > 0 or self.high < 0


def pool_estimates(means: Sequence[float], errors: Sequence[float]) -> PooledEstimate | None:
    """Pool the mean and standard error of each data set; None for fewer than `MIN_POOLED_DATASETS`.

    An error of 0 means that no question differed; its variance is replaced by the mean of the other data sets.
    """
    if len(means) < MIN_POOLED_DATASETS:
        return None
    positive = [error**2 for error in errors if error > 0]
    usual = math.fsum(positive) / len(positive) if positive else 1.0
    within = [error**2 if error > 0 else usual for error in errors]
    between = _between_variance(means, within)
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


def _between_variance(means: Sequence[float], within: Sequence[float]) -> float:
    """Estimate the variance between data sets by the method of moments."""
    weights = [1.0 / variance for variance in within]
    total = math.fsum(weights)
    fixed = math.fsum(weight * one for weight, one in zip(weights, means, strict=True)) / total
    q = math.fsum(weight * (one - fixed) ** 2 for weight, one in zip(weights, means, strict=True))
    scale = total - math.fsum(weight**2 for weight in weights) / total
    return max(0.0, (q - (len(means) - 1)) / scale)


@dataclass(frozen=True, slots=True)
class OptionEffect:
    """The gain in fitness of an option over naive RAG's option of its family, over ``pairs`` pairs of pipelines."""

    family: str
    option: str
    instead: str
    gain: Estimate
    pairs: int


def estimate_option_effects(
    evaluations: Sequence[Evaluation], fitness: Fitness, clusters: Clusters
) -> Iterator[OptionEffect]:
    """Yield the effects of options by family, from pairs of ``evaluations`` that differ in one option only."""
    whole = [(identify_unfitted(one.candidate), one) for one in evaluations]
    for place, plain in enumerate(baseline("naive")):
        alike: defaultdict[tuple[str, ...], dict[str, Evaluation]] = defaultdict(dict)
        for genes, one in whole:
            alike[(*genes[:place], *genes[place + 1 :])].setdefault(str(one.candidate[place]), one)
        without = str(plain)
        pairs = group_values(
            (option, (one, its[without]))
            for its in alike.values()
            if without in its
            for option, one in its.items()
            if option != without
        )
        for option, each in sorted(pairs.items()):
            if (gain := _estimate_gain(each, fitness, clusters)) is not None:
                yield OptionEffect(plain.technique.family, option, without, gain, len(each))


def _estimate_gain(
    pairs: Sequence[tuple[Evaluation, Evaluation]], fitness: Fitness, clusters: Clusters
) -> Estimate | None:
    """Estimate the mean difference over all questions of all pairs, a ratio of two sums over questions.

    The error is that of the linearised ratio; questions, and their groups, are weighted by their numbers of pairs.
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
    influences = {q: n / counted * (math.fsum(values) - len(values) * mean) for q, values in sums.items()}
    return Estimate.from_influences(mean, influences, clusters, {q: float(len(values)) for q, values in sums.items()})


TRANSFER_KIND = "transfer"
"""The kind of stored findings whose keys have the source and target runs."""


@dataclass(frozen=True, slots=True)
class TransferEstimate:
    """The winner of the search on ``source``, evaluated on the search or test questions (``part``) of ``target``.

    ``fitness`` and ``calls`` are its means there, and ``behind`` is the lead of the target's own winner, paired by
    question; None if only means are known. ``place`` is its rank among the ``of`` pipelines of the target's search;
    None on test questions.
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
        """The lead of the target's own winner."""
        return self.own - self.fitness if self.behind is None else self.behind.mean


def estimate_transfer(
    source: str,
    target: str,
    part: str,
    transferred: Evaluation,
    own: Evaluation,
    target_evaluations: Sequence[Evaluation],
    terms: Terms,
    clusters: Clusters,
) -> TransferEstimate | None:
    """Compare a transferred winner with the target's winner ``own``, and rank it among ``target_evaluations``, if any.

    None if one of the two failed on too many questions.
    """
    if not terms.admits(transferred) or not terms.admits(own):
        return None
    behind = estimate_contrast([(own, 1.0), (transferred, -1.0)], "fitness", terms.fitness, clusters)
    if behind is None:
        return None
    place = of = None
    if target_evaluations:
        listed = rank_evaluations([one for one in target_evaluations if one.phenotype != transferred.phenotype], terms)
        score = terms.score(transferred)
        ahead = [one for one in listed if (its := terms.score(one)) is not None and score is not None and its > score]
        place, of = len(ahead) + 1, len(listed) + 1
    return TransferEstimate(
        source,
        target,
        part,
        label(transferred.candidate),
        transferred.key,
        len(transferred.questions),
        fmean(transferred.values("fitness", terms.fitness)),
        fmean(transferred.values("calls")),
        fmean(own.values("fitness", terms.fitness)),
        behind,
        place,
        of,
    )


def store_transfer(store: Store, estimate: TransferEstimate, source: str, target: str, dataset: str) -> None:
    """Store a transfer from the run ``source`` to ``target``, on the data set with the digest ``dataset``."""
    store.put_finding(TRANSFER_KIND, _transfer_key(source, target, estimate.part), dataset, asdict(estimate))


def load_transfers(
    store: Store, runs: Iterable[str], parts: Sequence[str] = ("search", "test")
) -> list[TransferEstimate]:
    """Return the stored transfers among ``runs``, in their order."""
    listed = list(runs)
    keys = [_transfer_key(one, other, part) for part in parts for one in listed for other in listed if one != other]
    found = store.findings(TRANSFER_KIND, keys)
    estimates = []
    for key in filter(found.__contains__, keys):
        with stored_by_other_code("a transfer between searches", f"finding:{TRANSFER_KIND}/{key}"):
            estimates.append(restore(TransferEstimate, found[key]))
    return estimates


def _transfer_key(source: str, target: str, part: str) -> str:
    return f"{source}:{target}:{part}"
