"""Bayesian optimisation: expected improvement under a surrogate of the fitness.

Efficient global optimisation (Jones, Schonlau and Welch 1998) with a Gaussian process over options and pairs of them.
The genomes of a batch are selected one by one, with the predicted mean as the observation of those already selected
(the kriging believer of Ginsbourger, Le Riche and Carraro 2010).
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import numpy as np

from ragsmith.strategies.genomes import iterate_neighbours, shuffle_space, sort_by_score
from ragsmith.strategies.registry import SearchProblem, strategy
from ragsmith.strategies.strategy import (
    Feasible,
    Genome,
    Observation,
    Population,
    Prior,
    Pruned,
    Sizes,
    SteppedSearch,
    always_feasible,
)
from ragsmith.strategies.surrogate import Surrogate, expected_improvement, fit_surrogate

BATCH_SIZE = 5
"""Number of genomes in a batch."""

POOL_SIZE = 50_000
"""Maximum number of random candidates; neighbours of the best observed genomes are added to them."""

SHORTLIST_SIZE = 300
"""Number of candidates of highest expected improvement from which a batch is selected."""

N_LOCAL_CENTRES = 5
"""Number of best observed genomes whose neighbours are candidates."""


class ModelSearch(SteppedSearch):
    """Bayesian optimisation by expected improvement.

    The search begins with ``first`` random genomes, less those already observed; with a prior, with none.
    """

    name = "model"

    def __init__(
        self,
        sizes: Sizes,
        *,
        seed: int = 42,
        first: int = 16,
        prior: Prior | None = None,
        feasible: Feasible = always_feasible,
        max_evaluations: int | None = None,
    ) -> None:
        super().__init__(sizes, seed=seed, feasible=feasible, max_evaluations=max_evaluations)
        self._first = 0 if prior else first
        self._prior = prior

    def steps(self) -> Iterator[Population]:
        """Yield an initial random batch, then batches by expected improvement."""
        shuffled = shuffle_space(self.sizes, self.feasible, self._rng)
        yield from islice(self.in_batches(shuffled, max(self._first - len(self.observations), 1)), 1)
        pool = list(islice(shuffled, POOL_SIZE))  # the remainder of a small space, or a sample of a large one
        while candidates := self._candidates(pool):
            yield Population(
                select_by_improvement(self.observations, candidates, self.limit_batch_size(BATCH_SIZE), self._prior)
            )

    def _candidates(self, pool: Sequence[Genome]) -> list[Genome]:
        best = islice(sort_by_score(self.observations), N_LOCAL_CENTRES)
        near = (other for genome in best for other in iterate_neighbours(genome, self.sizes, self.feasible))
        return [genome for genome in dict.fromkeys((*near, *pool)) if genome not in self.observations]


def fit_observations(observations: Mapping[Genome, Observation], prior: Prior | None = None) -> Surrogate | None:
    """Fit a surrogate to the observations; return None if all of them failed."""
    moments: dict[Genome, tuple[float, float]] = {}
    for genome, observation in observations.items():
        if isinstance(observation, Pruned):
            moments[genome] = observation.estimate, observation.error**2
        elif observation is not None:
            moments[genome] = observation, 0.0
    if not moments:
        return None
    return fit_surrogate(
        list(moments), [mean for mean, _ in moments.values()], [noise for _, noise in moments.values()], prior
    )


def select_by_improvement(
    observations: Mapping[Genome, Observation], candidates: Sequence[Genome], n: int, prior: Prior | None = None
) -> tuple[Genome, ...]:
    """Return the ``n`` of ``candidates`` with the highest expected improvement, in the order of selection."""
    surrogate = fit_observations(observations, prior)
    if surrogate is None or not candidates:
        return tuple(candidates[:n])
    best = max(sort_by_score(observations).values(), default=float(surrogate.posterior(list(observations))[0].max()))
    mean, sd = surrogate.posterior(candidates)
    gain = np.round(expected_improvement(mean, sd, best), 12)  # rounding errors of sums do not decide
    shortlist = np.argsort(-gain, kind="stable")[:SHORTLIST_SIZE]
    mean, covariance = surrogate.joint([candidates[i] for i in shortlist])
    selected: list[int] = []
    for _ in range(min(n, len(shortlist))):
        variance = np.maximum(covariance.diagonal(), 0.0)
        gain = np.round(expected_improvement(mean, np.sqrt(variance), best), 12)
        gain[selected] = -1.0
        i = int(gain.argmax())
        selected.append(i)
        best = max(best, float(mean[i]))
        covariance = covariance - np.outer(covariance[i], covariance[i]) / max(float(covariance[i, i]), 1e-12)
    return tuple(candidates[int(shortlist[i])] for i in selected)


@strategy("model", reads=("population",), paper="https://doi.org/10.1023/A:1008306431147")
def model(problem: SearchProblem) -> ModelSearch:
    """Bayesian optimisation with a Gaussian process over options and pairs of options."""
    first, prior = problem.settings.population, problem.prior
    return ModelSearch(problem.sizes, seed=problem.seed, first=first, prior=prior, **problem.bounds)
