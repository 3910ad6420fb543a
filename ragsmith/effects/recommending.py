"""From what was learned to a pipeline for documents without questions, and to what a search may expect."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import inf

import numpy as np

from ragsmith.effects.beliefs import Beliefs
from ragsmith.effects.corpus import Corpus
from ragsmith.effects.knowledge import Knowledge
from ragsmith.effects.mixed_model import Array, student_95
from ragsmith.effects.terms import INTERACTING, ModelClasses, labels_of
from ragsmith.errors import SpaceError
from ragsmith.evaluation.baselines import baseline
from ragsmith.evaluation.fitness import Weights
from ragsmith.pipelines.genes import Candidate, Gene
from ragsmith.pipelines.space import Genome, Space

COST_CLASSES: tuple[int | None, ...] = (1, 2, None)
"""Most calls of a language model a question, the answer's own among them; None is any number."""

STEPS_OF_COST = (1, 2, 3, 5)
"""Calls a question at which it is asked whether more of them would pay."""

ROUNDING = 0.05
"""Calls: what is learned of costs is a mean over questions, and a little off where options meet."""

WITHIN_NOISE = 1.0
"""Standard deviations of a difference that has to be paid for with calls: one that is smaller is no reason to pay."""

NEGLIGIBLE = 0.001
"""Fitness: an option that is expected to add less is left out, even where it costs nothing."""

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


def recommended(
    space: Space,
    knowledge: Knowledge,
    corpus: Corpus,
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
    corpus: Corpus,
    models: ModelClasses,
    *,
    classes: Sequence[int | None] = COST_CLASSES,
    weights: Weights | None = None,
) -> tuple[Recommendation, ...]:
    """The pipelines of ``space`` to begin with on ``corpus``, one for each class of costs that any pipeline is in.

    It is the one whose expected gain is largest; of the pipelines whose loss against it is within noise, the one with
    the fewest calls; and no option that adds next to nothing. What has to be fitted needs questions, and is left out.
    """
    ready = space.without(lambda gene: gene.technique.fitting is not None)
    beliefs = knowledge.beliefs(corpus, models, weights)
    choice = _Choice(ready, knowledge, beliefs)
    unlike = corpus.unlike([one.corpus for one in knowledge.observed])
    found = []
    for most_calls in classes:
        candidate = choice.cheapest_within_noise(inf if most_calls is None else most_calls)
        if candidate is None:
            continue
        labels = labels_of(candidate)
        gain, sd = beliefs.gain(labels, labels_of(baseline("bm25")))
        reach = student_95(max(FEWEST_FREEDOM, len(knowledge.observed) - 1)) * sd
        calls, reasons = knowledge.calls(labels), tuple(choice.reasons(candidate))
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
    space: Space, knowledge: Knowledge, corpus: Corpus, models: ModelClasses, weights: Weights | None = None
) -> Callable[[Genome], tuple[float, float]]:
    """For a search of ``space``: the fitness to expect of a genome, and its standard deviation.

    The mean is that of BM25 where effects were learned, and the gain over it. How hard the questions are nobody knows
    before, and all genomes share it: the deviation is that of the gain alone.
    """
    beliefs = knowledge.beliefs(corpus, models, weights)
    rival = labels_of(baseline("bm25"))
    level = knowledge.level(rival, weights)

    def prior(genome: Genome) -> tuple[float, float]:
        gain, sd = beliefs.gain(labels_of(space.candidate(genome)), rival)
        return level + gain, sd

    return prior


class _Choice:
    """All pipelines of a space, what each is expected to gain over BM25, and what it costs.

    Options of the families that interact are looked at in every combination; the others add up, so each of their
    combinations meets the best that leaves it enough calls.
    """

    def __init__(self, space: Space, knowledge: Knowledge, beliefs: Beliefs) -> None:
        self._space = space
        self._knowledge = knowledge
        self._beliefs = beliefs
        labels = [[str(gene) for gene in genes] for genes in space.options]
        single, pairs = beliefs.tables(labels)
        costs = [np.array([knowledge.cost(place, label) for label in its]) for place, its in enumerate(labels)]
        shape = space.sizes[:INTERACTING]
        self._worth = _summed(shape, {**_axes(single), **pairs})
        self._calls = 1.0 + _summed(shape, _axes(costs))
        plain = baseline("naive")[INTERACTING:]
        able = (space.allows((*genes, *plain)) for genes in product(*space.options[:INTERACTING]))
        self._worth[~np.fromiter(able, dtype=bool).reshape(shape)] = -inf
        self._reading = [
            (
                genome,
                sum(t[g] for t, g in zip(single[INTERACTING:], genome, strict=True)),
                sum(t[g] for t, g in zip(costs[INTERACTING:], genome, strict=True)),
            )
            for genome in product(*map(range, space.sizes[INTERACTING:]))
        ]

    def best(self, most: float) -> Candidate | None:
        """The pipeline of which most is expected, of those that take at most so many calls; None if there is none."""
        found: list[tuple[float, Candidate]] = []
        for genome, worth, calls in self._reading:
            within = np.where(self._calls <= most + ROUNDING - calls, self._worth, -inf)
            first = np.unravel_index(int(within.argmax()), within.shape)
            candidate = self._space.candidate((*map(int, first), *genome))
            if within[first] > -inf and self._space.allows(candidate):
                found.append((worth + float(within[first]), candidate))
        return max(found, key=lambda pair: pair[0])[1] if found else None

    def cheapest_within_noise(self, most: float) -> Candidate | None:
        """The best pipeline of the fewest calls that is within noise of the best of all; None if there is none."""
        best = self.best(most)
        for fewer in (calls for calls in STEPS_OF_COST if calls < most):
            if best is None or (cheap := self.best(fewer)) is None:
                continue
            loss, sd = self._beliefs.gain(labels_of(best), labels_of(cheap))
            if loss <= WITHIN_NOISE * sd:
                return self._simplified(cheap)
        return None if best is None else self._simplified(best)

    def reasons(self, candidate: Candidate) -> list[Reason]:
        """What each option that is not plain is worth in the pipeline, the best first."""
        found = []
        for simpler, gene in _switched_off(candidate):
            gain, sd = self._beliefs.gain(labels_of(candidate), labels_of(simpler))
            family = gene.technique.family
            found.append(Reason(f"{family} {gene}", gain, sd, self._knowledge.datasets_with(family, str(gene))))
        return sorted(found, key=lambda reason: -reason.gain)

    def _simplified(self, candidate: Candidate) -> Candidate:
        """``candidate`` without the options that add next to nothing, the least first."""
        losses = [
            (self._beliefs.gain(labels_of(candidate), labels_of(simpler))[0], place)
            for place, (simpler, _) in enumerate(_switched_off(candidate))
            if self._space.allows(simpler)
        ]
        loss, place = min(losses, default=(inf, 0))
        return self._simplified(list(_switched_off(candidate))[place][0]) if loss < NEGLIGIBLE else candidate


def _axes(tables: Sequence[Array]) -> dict[tuple[int, ...], Array]:
    return {(axis,): table for axis, table in enumerate(tables[:INTERACTING])}


def _summed(shape: Sequence[int], tables: Mapping[tuple[int, ...], Array]) -> Array:
    """The sum of tables over all combinations; each is placed along the axes that it is about."""
    total = np.zeros(shape)
    for axes, table in tables.items():
        total += table.reshape([size if axis in axes else 1 for axis, size in enumerate(shape)])
    return total


def _switched_off(candidate: Candidate) -> Iterator[tuple[Candidate, Gene]]:
    """The pipeline with each option that is not plain switched off, and the option."""
    for place, (gene, plain) in enumerate(zip(candidate, baseline("naive"), strict=True)):
        if gene != plain:
            yield (*candidate[:place], plain, *candidate[place + 1 :]), gene
