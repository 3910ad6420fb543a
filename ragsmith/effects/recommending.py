"""From what was learned to a pipeline for documents without questions, and to what a search may expect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice
from math import inf

from ragsmith.effects.beliefs import Beliefs, student_95
from ragsmith.effects.corpus import CorpusProfile
from ragsmith.effects.knowledge import Knowledge
from ragsmith.effects.prior import Prior
from ragsmith.effects.terms import ModelClasses, labels_of, usual
from ragsmith.errors import SpaceError
from ragsmith.evaluation.baselines import BASELINES, baseline
from ragsmith.evaluation.fitness import Weights
from ragsmith.pipelines.genes import Candidate
from ragsmith.pipelines.space import Space

COST_CLASSES: tuple[int | None, ...] = (1, 2, None)
"""Most calls of a language model a question, the answer's own among them; None is any number."""

ROUNDING = 0.05
"""Calls: what is learned of costs is a mean over questions, and a little off where options meet."""

CAUTION = 0.25
"""Standard deviations on unseen documents that are subtracted from an expected gain, as a risk penalty.

Set on search questions of data sets that were left out: in the default space from 0.2 to 0.3 all is alike, and half a
deviation leaves little but BM25."""

NEGLIGIBLE = 0.001
"""Fitness: a change that gains less is not made, however sure it is."""

WITHIN_NOISE = 1.0
"""Standard deviations by which a change has to gain that is paid for with calls."""

FEWEST_FREEDOM = 1.0
"""Degrees of freedom of the interval of a gain, at least: data sets that were learned from, less one."""


@dataclass(frozen=True)
class Reason:
    """An option of a pipeline, and what the pipeline is expected to lose without it.

    ``datasets`` counts those that the option was learned on.
    """

    option: str
    gain: float
    sd: float
    datasets: int


@dataclass(frozen=True)
class Recommendation:
    """A pipeline for documents that nothing was asked about yet.

    ``gain`` is the fitness over BM25 that is expected, ``sd`` its standard deviation, and ``low`` and ``high`` bound it
    with 95 % probability. ``calls`` are calls of a language model a question. ``unlike`` says what sets the documents
    apart from all that was learned from, and ``datasets`` counts these.
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


def alike(classes: Iterable[Recommendation]) -> list[list[Recommendation]]:
    """Classes of costs, from few calls to many, those one after another together for which the same is recommended."""
    return [list(same) for _, same in groupby(classes, key=lambda one: replace(one, most_calls=None))]


def recommended(
    space: Space,
    knowledge: Knowledge,
    corpus: CorpusProfile,
    models: ModelClasses,
    *,
    most_calls: int | None,
    weights: Weights | None = None,
) -> Recommendation:
    """The pipeline of ``space`` to begin with on ``corpus``, at ``most_calls`` a question; see `recommendations`.

    Raises:
        SpaceError: the space has no pipeline of so few calls that needs no fitting.
    """
    for found in recommendations(space, knowledge, corpus, models, classes=(most_calls,), weights=weights):
        return found
    calls = "" if most_calls is None else f" of at most {most_calls} calls a question"
    raise SpaceError(f"space {space.name!r} has no pipeline{calls} that needs no fitting: take another space")


def recommendations(
    space: Space,
    knowledge: Knowledge,
    corpus: CorpusProfile,
    models: ModelClasses,
    *,
    classes: Sequence[int | None] = COST_CLASSES,
    weights: Weights | None = None,
) -> tuple[Recommendation, ...]:
    """The pipelines of ``space`` to begin with on ``corpus``, one for each class of costs that any pipeline is in.

    It begins with what most people would build, or with BM25, and changes one option after the other as long as that
    pays: the gain over BM25 that is expected grows, less some of its standard deviation, and what is paid for with
    calls gains more than its own. The largest of all expected gains would be the luckiest error, and where documents
    are unlike all others, a large risk. What has to be fitted needs questions, and is left out.
    """
    ready = space.of_families().without(lambda gene: gene.learns)
    beliefs = knowledge.beliefs(corpus, models, weights)
    walk = _Walk(ready, knowledge, beliefs)
    unlike = knowledge.unlike(corpus, models)
    found = []
    for most_calls in classes:
        candidate = walk.end(inf if most_calls is None else most_calls)
        if candidate is None:
            continue
        labels = labels_of(candidate)
        gain, sd = beliefs.gain(labels, labels_of(baseline("bm25")))
        reach = student_95(max(FEWEST_FREEDOM, len(knowledge.observed) - 1)) * sd
        calls, reasons = knowledge.calls(labels), tuple(walk.reasons(candidate))
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
    """For a search of ``space``: what each pipeline is expected to gain over BM25.

    It knows the genomes of ``space``, and the baselines where the space lacks them.
    """
    options = [dict.fromkeys(map(str, genes)) for genes in space.of_families().options]
    for pipeline in map(baseline, BASELINES):
        for its, gene in zip(options, pipeline, strict=True):
            its.setdefault(str(gene))
    beliefs = knowledge.beliefs(corpus, models, weights)
    further = [tuple(map(str, genes)) for genes in space.settings]
    return Prior.from_beliefs(beliefs, [tuple(its) for its in options], labels_of(baseline("bm25")), further)


class _Walk:
    """From a pipeline that is well known to a better one, by single changes for which there is evidence."""

    def __init__(self, space: Space, knowledge: Knowledge, beliefs: Beliefs) -> None:
        self._space = space
        self._knowledge = knowledge
        self._beliefs = beliefs
        self._worths: dict[Candidate, float] = {}

    def end(self, most: float) -> Candidate | None:
        """Where the walk ends over pipelines of at most so many calls; None if there is none to begin with."""
        starts = [one for one in self._starts() if self._calls(one) <= most + ROUNDING]
        if not starts:
            return None
        here = max(starts, key=self._worth)
        while True:  # each step gains, so none comes back
            near = [one for one in self._neighbours(here) if self._calls(one) <= most + ROUNDING]
            there = max((one for one in near if self._pays(one, here)), key=self._worth, default=here)
            if self._worth(there) < self._worth(here) + NEGLIGIBLE:
                return here
            here = there

    def reasons(self, candidate: Candidate) -> list[Reason]:
        """What each option that is not plain is worth in the pipeline, the best first."""
        found = []
        for place, (gene, plain) in enumerate(zip(candidate, baseline("naive"), strict=True)):
            if gene != plain:
                simpler = (*candidate[:place], plain, *candidate[place + 1 :])
                gain, sd = self._beliefs.gain(labels_of(candidate), labels_of(simpler))
                family = gene.technique.family
                found.append(Reason(f"{family} {gene}", gain, sd, self._knowledge.datasets_with(family, str(gene))))
        return sorted(found, key=lambda reason: -reason.gain)

    def _starts(self) -> list[Candidate]:
        """What most people would build and BM25, as far as the space has them; else its first pipeline."""
        known = [
            one
            for one in (usual(), baseline("bm25"))
            if all(gene in options for gene, options in zip(one, self._space.options, strict=True))
            and self._space.allows(one)
        ]
        return known or [self._space.candidate(genome) for genome in islice(self._space.genomes(), 1)]

    def _neighbours(self, candidate: Candidate) -> Iterator[Candidate]:
        """Feasible pipelines with one option changed, and the pipeline itself."""
        for place, options in enumerate(self._space.options):
            changed = ((*candidate[:place], gene, *candidate[place + 1 :]) for gene in options)
            yield from (one for one in changed if self._space.allows(one))

    def _worth(self, candidate: Candidate) -> float:
        """The expected gain over BM25, less what is taken off because it is uncertain."""
        if candidate not in self._worths:
            gain, sd = self._beliefs.gain(labels_of(candidate), labels_of(baseline("bm25")))
            self._worths[candidate] = gain - CAUTION * sd
        return self._worths[candidate]

    def _pays(self, changed: Candidate, here: Candidate) -> bool:
        """Whether a change is worth its calls, if it takes more of them."""
        if self._calls(changed) <= self._calls(here) + ROUNDING:
            return True
        gain, sd = self._beliefs.gain(labels_of(changed), labels_of(here))
        return gain > WITHIN_NOISE * sd

    def _calls(self, candidate: Candidate) -> float:
        return self._knowledge.calls(labels_of(candidate))
