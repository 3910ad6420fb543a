"""Recommend pipelines for documents without questions, and build priors for searches, from learned effects."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice
from math import inf

from ragsmith.effects.beliefs import Beliefs
from ragsmith.effects.corpus import CorpusProfile
from ragsmith.effects.knowledge import Knowledge
from ragsmith.effects.prior import Prior
from ragsmith.effects.terms import ModelClasses, option_labels, usual_pipeline
from ragsmith.errors import SpaceError
from ragsmith.evaluation.baselines import BASELINES, baseline
from ragsmith.evaluation.fitness import Weights
from ragsmith.evaluation.statistics import student_quantile
from ragsmith.pipelines.genes import Candidate
from ragsmith.pipelines.space import Space

COST_CLASSES: tuple[int | None, ...] = (1, 2, None)
"""Maximum calls of a language model per question, including that of the answer; None for no limit."""

ROUNDING = 0.05
"""Tolerance of learned costs in calls per question; costs are means that ignore interactions."""

RISK_PENALTY = 0.25
"""Number of standard deviations on unseen documents that are subtracted from an expected gain.

Tuned on the search questions of left-out data sets: results in the default space are the same from 0.2 to 0.3, and a
penalty of 0.5 recommends little but BM25."""

MIN_GAIN = 0.001
"""Minimum gain in fitness of a change."""

MIN_GAIN_SD = 1.0
"""Minimum gain of a change that adds calls, in standard deviations."""

MIN_DEGREES_OF_FREEDOM = 1
"""Minimum degrees of freedom of the interval of a gain; they are the number of data sets minus 1."""


@dataclass(frozen=True)
class Reason:
    """Option of a recommended pipeline, and the gain that the pipeline would lose without it.

    ``datasets`` is the number of data sets on which the option was observed.
    """

    option: str
    gain: float
    sd: float
    datasets: int


@dataclass(frozen=True)
class Recommendation:
    """Recommended pipeline for documents without questions.

    ``gain`` is the expected gain in fitness over BM25, ``sd`` its standard deviation, and ``low`` and ``high`` its 95 %
    interval. ``calls`` are calls of a language model per question. ``unlike`` are the differences of the documents from
    all observed data sets, and ``datasets`` the number of these.
    """

    candidate: Candidate
    most_calls: int | None
    calls: float
    gain: float
    sd: float
    low: float
    high: float
    reasons: tuple[Reason, ...]
    datasets: int
    unlike: tuple[str, ...]


def merge_equal_classes(classes: Iterable[Recommendation]) -> list[list[Recommendation]]:
    """Group consecutive cost classes with the same recommended pipeline."""
    return [list(same) for _, same in groupby(classes, key=lambda one: replace(one, most_calls=None))]


def recommend_pipeline(
    space: Space,
    knowledge: Knowledge,
    corpus: CorpusProfile,
    models: ModelClasses,
    *,
    most_calls: int | None,
    weights: Weights | None = None,
) -> Recommendation:
    """Return the recommended pipeline of ``space`` for ``corpus`` with at most ``most_calls`` calls per question.

    See `recommend_pipelines`.

    Raises:
        SpaceError: every pipeline of the space makes more calls or needs fitting.
    """
    for found in recommend_pipelines(space, knowledge, corpus, models, classes=(most_calls,), weights=weights):
        return found
    calls = "" if most_calls is None else f" of at most {most_calls} calls a question"
    raise SpaceError(f"space {space.name!r} has no pipeline{calls} that needs no fitting: take another space")


def recommend_pipelines(
    space: Space,
    knowledge: Knowledge,
    corpus: CorpusProfile,
    models: ModelClasses,
    *,
    classes: Sequence[int | None] = COST_CLASSES,
    weights: Weights | None = None,
) -> tuple[Recommendation, ...]:
    """Return the recommended pipelines of ``space`` for ``corpus``, one for each cost class that has a pipeline.

    Local search starts from the usual pipeline or BM25, and changes one option at a time as long as the expected gain
    over BM25, less a share of its standard deviation, grows; a change that adds calls must also gain more than its own
    standard deviation. The maximum over the whole space would select overestimated pipelines (winner's curse), a large
    risk for unusual documents. Pipelines that need fitting are left out, as they require questions.
    """
    ready = space.without_settings().without(lambda gene: gene.learns)
    beliefs = knowledge.beliefs(corpus, models, weights)
    search = _LocalSearch(ready, knowledge, beliefs)
    unlike = knowledge.unlike(corpus, models)
    found = []
    for most_calls in classes:
        candidate = search.optimum(inf if most_calls is None else most_calls)
        if candidate is None:
            continue
        labels = option_labels(candidate)
        gain, sd = beliefs.gain(labels, option_labels(baseline("bm25")))
        reach = student_quantile(0.975, max(MIN_DEGREES_OF_FREEDOM, len(knowledge.observed) - 1)) * sd
        calls, reasons = knowledge.calls(labels), tuple(search.reasons(candidate))
        found.append(
            Recommendation(
                candidate,
                most_calls,
                calls,
                gain,
                sd,
                gain - reach,
                gain + reach,
                reasons,
                len(knowledge.observed),
                unlike,
            )
        )
    return tuple(found)


def prior_for(
    space: Space, knowledge: Knowledge, corpus: CorpusProfile, models: ModelClasses, weights: Weights | None = None
) -> Prior:
    """Return the prior of the gains over BM25 of the pipelines of ``space``.

    It includes the baselines even if the space does not.
    """
    options = [dict.fromkeys(map(str, genes)) for genes in space.without_settings().options]
    for pipeline in map(baseline, BASELINES):
        for labels, gene in zip(options, pipeline, strict=True):
            labels.setdefault(str(gene))
    beliefs = knowledge.beliefs(corpus, models, weights)
    setting_options = [tuple(map(str, genes)) for genes in space.settings]
    return Prior.from_beliefs(
        beliefs, [tuple(labels) for labels in options], option_labels(baseline("bm25")), setting_options
    )


class _LocalSearch:
    """Local search from a common pipeline, by single changes with sufficient expected gain."""

    def __init__(self, space: Space, knowledge: Knowledge, beliefs: Beliefs) -> None:
        self._space = space
        self._knowledge = knowledge
        self._beliefs = beliefs
        self._utilities: dict[Candidate, float] = {}

    def optimum(self, max_calls: float) -> Candidate | None:
        """Return the local optimum among pipelines of at most ``max_calls`` calls; None if there is no initial one."""
        starts = [one for one in self._starts() if self._calls(one) <= max_calls + ROUNDING]
        if not starts:
            return None
        current = max(starts, key=self._utility)
        while True:  # each step gains, so the loop terminates
            neighbours = [one for one in self._neighbours(current) if self._calls(one) <= max_calls + ROUNDING]
            best = max(
                (one for one in neighbours if self._justifies_calls(one, current)), key=self._utility, default=current
            )
            if self._utility(best) < self._utility(current) + MIN_GAIN:
                return current
            current = best

    def reasons(self, candidate: Candidate) -> list[Reason]:
        """Return the expected gain of each option that is not plain, the largest first."""
        found = []
        for place, (gene, plain) in enumerate(zip(candidate, baseline("naive"), strict=True)):
            if gene != plain:
                simpler = (*candidate[:place], plain, *candidate[place + 1 :])
                gain, sd = self._beliefs.gain(option_labels(candidate), option_labels(simpler))
                datasets = self._knowledge.datasets_with(place, str(gene))
                found.append(Reason(f"{gene.technique.family} {gene}", gain, sd, datasets))
        return sorted(found, key=lambda reason: -reason.gain)

    def _starts(self) -> list[Candidate]:
        """Return the usual pipeline and BM25 if the space has them, otherwise its first pipeline."""
        known = [
            one
            for one in (usual_pipeline(), baseline("bm25"))
            if all(gene in options for gene, options in zip(one, self._space.options, strict=True))
            and self._space.allows(one)
        ]
        return known or [self._space.candidate(genome) for genome in islice(self._space.genomes(), 1)]

    def _neighbours(self, candidate: Candidate) -> Iterator[Candidate]:
        """Yield the feasible pipelines with one option changed, and the pipeline itself."""
        for place, options in enumerate(self._space.options):
            changed = ((*candidate[:place], gene, *candidate[place + 1 :]) for gene in options)
            yield from (one for one in changed if self._space.allows(one))

    def _utility(self, candidate: Candidate) -> float:
        """Return the expected gain over BM25, less the penalty for its uncertainty."""
        if candidate not in self._utilities:
            gain, sd = self._beliefs.gain(option_labels(candidate), option_labels(baseline("bm25")))
            self._utilities[candidate] = gain - RISK_PENALTY * sd
        return self._utilities[candidate]

    def _justifies_calls(self, changed: Candidate, current: Candidate) -> bool:
        """Whether a change adds no calls or gains enough to justify them."""
        if self._calls(changed) <= self._calls(current) + ROUNDING:
            return True
        gain, sd = self._beliefs.gain(option_labels(changed), option_labels(current))
        return gain > MIN_GAIN_SD * sd

    def _calls(self, candidate: Candidate) -> float:
        return self._knowledge.calls(option_labels(candidate))
