"""Search by expected improvement per call, from given genomes on, for pipelines whose answers cost money.

The improvement is that of Bayesian optimisation (`ragsmith.strategies.model_search`), divided by the price of a genome
(Snoek, Larochelle and Adams 2012, "expected improvement per second"). Candidates differ in one gene from the best.
Fitness is net of the price: otherwise a dear option that gains nearly nothing would be in every further candidate.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

import numpy as np

from ragsmith.strategies.genomes import iterate_neighbours, sort_by_score
from ragsmith.strategies.model_search import fit_observations
from ragsmith.strategies.strategy import Feasible, Genome, Population, Prior, Sizes, SteppedSearch, always_feasible
from ragsmith.strategies.surrogate import expected_improvement

BATCH_SIZE = 3
"""Number of genomes in a batch; each changes another gene of the best."""

MIN_IMPROVEMENT = 0.001
"""Improvement in fitness per unit of price below which a genome is not worth it."""


class PricedSearch(SteppedSearch):
    """Search of the neighbours of the best genome by expected improvement per unit of ``price_of``.

    It begins with ``starts``, and ends when no neighbour has an expected improvement of `MIN_IMPROVEMENT` per price.
    """

    name = "priced"

    def __init__(
        self,
        sizes: Sizes,
        starts: Sequence[Genome],
        price_of: Callable[[Genome], float],
        *,
        seed: int = 42,
        prior: Prior | None = None,
        feasible: Feasible = always_feasible,
        max_evaluations: int | None = None,
    ) -> None:
        super().__init__(sizes, seed=seed, feasible=feasible, max_evaluations=max_evaluations)
        self._starts = tuple(starts)
        # the improvement that is worth the price
        self._cost_of: Callable[[Genome], float] = lambda genome: MIN_IMPROVEMENT * price_of(genome)
        self._prior = prior

    @property
    def remaining(self) -> int | None:
        """The number of genomes that may still be proposed; repeats count, as they are paid for like others."""
        return None if self.max_evaluations is None else self.max_evaluations - len(self._proposed)

    def steps(self) -> Iterator[Population]:
        """Yield the starts, and then the best changes of the best genome until none is expected to pay."""
        if self._starts:
            yield Population(self._starts, by="rankings")
        while batch := self._changes():
            yield Population(batch)

    def _changes(self) -> tuple[Genome, ...]:
        """Return the changes of highest expected improvement per price, one for each of a few genes."""
        surrogate = fit_observations(self.observations, self._prior)
        net = {one: score - self._cost_of(one) for one, score in sort_by_score(self.observations).items()}
        best = max(net, key=net.__getitem__, default=None)
        around = iterate_neighbours(best, self.sizes, self.feasible) if best is not None else ()
        near = [one for one in around if one not in self.observations]
        if surrogate is None or best is None or not near:
            return ()
        mean, sd = surrogate.posterior(near)
        costs = np.array([self._cost_of(one) for one in near])
        level = float(surrogate.posterior([best])[0][0]) - self._cost_of(best)
        gain = np.round(expected_improvement(mean - costs, sd, level), 12)
        chosen: dict[int, Genome] = {}
        for place in np.argsort(-gain / costs, kind="stable"):
            changed = next(gene for gene, (a, b) in enumerate(zip(near[place], best, strict=True)) if a != b)
            if gain[place] >= costs[place]:
                chosen.setdefault(changed, near[place])
        return tuple(islice(chosen.values(), BATCH_SIZE))
