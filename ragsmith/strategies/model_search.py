"""Bayesian optimisation: a surrogate of the fitness predicts which genomes may beat the best known one.

Efficient global optimisation (Jones, Schonlau and Welch 1998) with a Gaussian process over options and pairs of them.
Batches are chosen one by one, as if what was chosen before had come out as expected (the kriging believer of
Ginsbourger, Le Riche and Carraro 2010).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import numpy as np

from ragsmith.strategies.genomes import best_known, neighbours, shuffled_space
from ragsmith.strategies.registry import SearchProblem, strategy
from ragsmith.strategies.strategy import (
    Feasible,
    Genome,
    Population,
    Prior,
    Pruned,
    Sizes,
    SteppedSearch,
    Told,
    anything,
)
from ragsmith.strategies.surrogate import Surrogate, expected_improvement, fit

BATCH = 5
"""Genomes chosen at once."""

POOL = 50_000
"""Genomes that are looked at in a space with more than that: random ones, and the neighbours of the best known."""

SHORTLIST = 300
"""Genomes among which a batch is chosen one by one."""

NEIGHBOURED = 5
"""Known genomes whose neighbours are looked at."""


class ModelSearch(SteppedSearch):
    """Proposes the genomes of highest expected improvement.

    It begins with ``first`` genomes drawn at random, less those that are known; with a prior, with none.
    """

    name = "model"

    def __init__(
        self,
        sizes: Sizes,
        *,
        seed: int = 42,
        first: int = 16,
        prior: Prior | None = None,
        feasible: Feasible = anything,
        max_evaluations: int | None = None,
    ) -> None:
        super().__init__(sizes, seed=seed, feasible=feasible, max_evaluations=max_evaluations)
        self._first = 0 if prior else first
        self._prior = prior

    def steps(self) -> Iterator[Population]:
        """Random genomes until something can be learned, then batches by expected improvement."""
        drawn = shuffled_space(self.sizes, self.feasible, self._rng)
        yield from islice(self.in_batches(drawn, max(self._first - len(self.told), 1)), 1)
        pool = list(islice(drawn, POOL))  # all others, or as many random ones as are looked at
        while candidates := self._candidates(pool):
            yield Population(most_promising(self.told, candidates, self.batch_of(BATCH), self._prior))

    def _candidates(self, pool: Sequence[Genome]) -> list[Genome]:
        best = islice(best_known(self.told), NEIGHBOURED)
        near = (other for genome in best for other in neighbours(genome, self.sizes, self.feasible))
        return [genome for genome in dict.fromkeys((*near, *pool)) if genome not in self.told]


def learned(told: Mapping[Genome, Told], prior: Prior | None = None) -> Surrogate | None:
    """Fit a surrogate to the observations; None where there are none."""
    seen: dict[Genome, tuple[float, float]] = {}
    for genome, one in told.items():
        if isinstance(one, Pruned):
            seen[genome] = one.estimate, one.error**2
        elif one is not None:
            seen[genome] = one, 0.0
    if not seen:
        return None
    return fit(list(seen), [mean for mean, _ in seen.values()], [noise for _, noise in seen.values()], prior)


def most_promising(
    told: Mapping[Genome, Told], candidates: Sequence[Genome], n: int, prior: Prior | None = None
) -> tuple[Genome, ...]:
    """The ``n`` of ``candidates`` that may improve most on the best known genome, the most promising first."""
    surrogate = learned(told, prior)
    if surrogate is None or not candidates:
        return tuple(candidates[:n])
    best = max(best_known(told).values(), default=float(surrogate.posterior(list(told))[0].max()))
    mean, sd = surrogate.posterior(candidates)
    gain = np.round(expected_improvement(mean, sd, best), 12)  # so that the last bits of sums decide nothing
    shortlist = np.argsort(-gain, kind="stable")[:SHORTLIST]
    mean, covariance = surrogate.joint([candidates[i] for i in shortlist])
    chosen: list[int] = []
    for _ in range(min(n, len(shortlist))):
        variance = np.maximum(covariance.diagonal(), 0.0)
        gain = np.round(expected_improvement(mean, np.sqrt(variance), best), 12)
        gain[chosen] = -1.0
        i = int(gain.argmax())
        chosen.append(i)
        best = max(best, float(mean[i]))
        covariance = covariance - np.outer(covariance[i], covariance[i]) / max(float(covariance[i, i]), 1e-12)
    return tuple(candidates[int(shortlist[i])] for i in chosen)


@strategy("model", reads=("population",), paper="https://doi.org/10.1023/A:1008306431147")
def model(problem: SearchProblem) -> ModelSearch:
    """What may improve most on the best known pipeline, by a Gaussian process over options and pairs of options."""
    first, prior = problem.settings.population, problem.prior
    return ModelSearch(problem.sizes, seed=problem.seed, first=first, prior=prior, **problem.bounds)
