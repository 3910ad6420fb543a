"""What is believed of the pipelines of one data set that has not been searched: gains with their uncertainty."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import sqrt

import numpy as np

from ragsmith.effects.mixed_model import Effects
from ragsmith.effects.terms import PAIRS, PLAIN, Labels, ModelClasses, Term, option_terms, pair_term, terms_of

Weighted = Sequence[tuple[Labels, float]]
"""Pipelines, each with a weight."""


@dataclass(frozen=True)
class PartOfFitness:
    """What is believed of R, or of G: ``known`` effects at the ``places`` of their terms.

    An option that nothing was learned of is expected to do what the plain one of its family does. By group of terms,
    ``before`` has the variance of an effect of which nothing is known, and ``own`` that from one data set to another;
    ``rest`` is the variance of what terms do not explain of a pipeline.
    """

    name: str
    share: float
    places: Mapping[str, int]
    known: Effects
    before: tuple[float, ...]
    own: tuple[float, ...]
    rest: float
    models: ModelClasses

    def of_option(self, place: int, label: str) -> list[Term]:
        """The terms that an option of the family at ``place`` is taken to have.

        One that nothing was learned of has those of the plain option of its family, and its own besides.
        """
        taken = option_terms(place, self._known(place, label), self.name, self.models)
        own = option_terms(place, label, self.name, self.models)
        return [*taken, *(term for term in own if term not in taken)]

    def of_pair(self, i: int, first: str, j: int, second: str) -> list[Term]:
        """The terms that two options, of the families at ``i`` and ``j``, are taken to have together."""
        taken = pair_term(i, self._known(i, first), j, self._known(j, second), self.name, self.models)
        own = pair_term(i, first, j, second, self.name, self.models)
        return [taken] if own == taken else [taken, own]

    def sum(self, pipelines: Weighted) -> tuple[float, float]:
        """The weighted sum of what ``pipelines`` are expected to score, and the variance of that."""
        known: dict[int, float] = {}
        strange: dict[Term, float] = {}
        for labels, times in pipelines:
            for term in self._terms(labels):
                if (place := self.places.get(term.name)) is not None:
                    known[place] = known.get(place, 0.0) + times * term.weight
                else:
                    strange[term] = strange.get(term, 0.0) + times * term.weight
        at, by = np.fromiter(known, dtype=int), np.fromiter(known.values(), dtype=float)
        variance = float(by @ self.known.covariance[np.ix_(at, at)] @ by) if len(at) else 0.0
        variance += sum(weight**2 * self.before[term.group] for term, weight in strange.items())
        return float(by @ self.known.mean[at]), max(0.0, variance)

    def between(self, pipeline: Labels, rival: Labels) -> float:
        """The variance of the difference from one data set to another."""
        weights: dict[Term, float] = {}
        for labels, sign in ((pipeline, 1.0), (rival, -1.0)):
            for term in terms_of(labels, self.name, self.models):
                weights[term] = weights.get(term, 0.0) + sign * term.weight
        return sum(weight**2 * self.own[term.group] for term, weight in weights.items())

    def _terms(self, labels: Labels) -> Iterator[Term]:
        known = self._terms_by_options
        for place, label in enumerate(labels):
            if (place, label) not in known:
                known[place, label] = self.of_option(place, label)
            yield from known[place, label]
        for i, j in PAIRS:
            pair = i, labels[i], j, labels[j]
            if pair not in known:
                known[pair] = self.of_pair(*pair)
            yield from known[pair]

    @cached_property
    def _terms_by_options(self) -> dict[tuple[int | str, ...], list[Term]]:
        return {}

    def _known(self, place: int, label: str) -> str:
        technique, _ = option_terms(place, label, self.name, self.models)
        return label if technique.name in self.places else PLAIN[place]


@dataclass(frozen=True)
class Beliefs:
    """What to expect of pipelines, whose fitness is the weighted mean of ``parts``."""

    parts: tuple[PartOfFitness, ...]

    def gain(self, pipeline: Labels, rival: Labels) -> tuple[float, float]:
        """The gain in fitness over a rival that is expected, and its standard deviation."""
        return self.sum(((pipeline, 1.0), (rival, -1.0)))

    def sum(self, pipelines: Weighted) -> tuple[float, float]:
        """The sum of the fitness of pipelines, by weights that add up to 0, and its standard deviation.

        The errors of R and G are taken to go together, which is the worst case.
        """
        mean = deviation = 0.0
        for part in self.parts:
            found, variance = part.sum(pipelines)
            mean += part.share * found
            deviation += part.share * sqrt(variance)
        return mean, deviation

    def between(self, pipeline: Labels, rival: Labels) -> float:
        """The standard deviation of a gain from one data set to another, which no learning takes away."""
        return sum(part.share * sqrt(part.between(pipeline, rival)) for part in self.parts)
