"""Tree-structured Parzen estimator (Bergstra et al. 2011) through Optuna's ask-and-tell interface.

Optuna is imported with the first proposal, as the import takes a second.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ragsmith.extensions import Package
from ragsmith.plugins import Count
from ragsmith.strategies.genomes import shuffle_space
from ragsmith.strategies.registry import SearchProblem, strategy
from ragsmith.strategies.strategy import (
    Feasible,
    Genome,
    Observation,
    Population,
    Pruned,
    Sizes,
    SteppedSearch,
    always_feasible,
)

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.distributions import BaseDistribution

MAX_SUGGESTIONS = 20
"""Consecutive suggestions that are observed or infeasible after which a genome is drawn at random."""


class TPESearch(SteppedSearch):
    """Search by the tree-structured Parzen estimator.

    Earlier observations are added to the study as trials; pruned candidates are pruned trials. The search ends at
    ``max_evaluations`` or when the whole feasible space is observed.
    """

    name = "tpe"

    def __init__(
        self,
        sizes: Sizes,
        *,
        seed: int = 42,
        batch: int = 4,
        feasible: Feasible = always_feasible,
        max_evaluations: int | None = None,
    ) -> None:
        super().__init__(sizes, seed=seed, feasible=feasible, max_evaluations=max_evaluations)
        self._seed = seed
        self._batch_size = batch
        self._random_genomes = shuffle_space(self.sizes, feasible, self._rng)

    def steps(self) -> Iterator[Population]:
        """Yield batches of ``batch`` new suggestions and report their observations to the study."""
        study, options = create_study(self._seed), gene_distributions(self.sizes)
        for genome, observation in self.observations.items():
            finish_trial(study, enqueue_trial(study, options, genome), observation)
        while True:
            size = self.limit_batch_size(self._batch_size)
            trials: dict[Genome, Trial] = {}
            while len(trials) < size and (suggestion := self._suggest(study, options, trials)):
                genome, trial = suggestion
                trials[genome] = trial
            if not trials:
                return
            yield Population(tuple(trials))
            for genome, trial in trials.items():
                finish_trial(study, trial, self.observations.get(genome))

    def _suggest(
        self, study: Study, options: dict[str, BaseDistribution], trials: dict[Genome, Trial]
    ) -> tuple[Genome, Trial] | None:
        """Return a new genome with its trial; None if the space is exhausted."""
        for _ in range(MAX_SUGGESTIONS):
            trial = study.ask(options)
            genome = tuple(int(trial.params[gene]) for gene in options)
            if genome not in self.observations and genome not in trials and self.feasible(genome):
                return genome, trial
            finish_trial(study, trial, self.observations.get(genome))
        for genome in self._random_genomes:
            if genome not in self.observations and genome not in trials:
                return genome, enqueue_trial(study, options, genome)
        return None


def gene_distributions(sizes: Sizes) -> dict[str, BaseDistribution]:
    """Return a categorical distribution for each gene, in order."""
    from optuna.distributions import CategoricalDistribution  # noqa: PLC0415  # slow import

    return {f"gene_{i}": CategoricalDistribution(tuple(range(size))) for i, size in enumerate(sizes)}


def create_study(seed: int) -> Study:
    """Create an in-memory study that maximises, with a TPE sampler seeded by the lower 32 bits of ``seed``."""
    import optuna  # noqa: PLC0415  # slow import

    with suppress_optuna_logs():
        return optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed % 2**32))


def enqueue_trial(study: Study, options: dict[str, BaseDistribution], genome: Genome) -> Trial:
    """Return a trial of ``genome``, bypassing the sampler."""
    study.enqueue_trial(dict(zip(options, genome, strict=True)))
    return study.ask(options)


def finish_trial(study: Study, trial: Trial, observation: Observation) -> None:
    """Finish a trial as complete, pruned or failed; the sampler ignores failed trials."""
    from optuna.trial import TrialState  # noqa: PLC0415  # slow import

    if observation is None:
        study.tell(trial, state=TrialState.FAIL)
    elif isinstance(observation, Pruned):
        trial.report(observation.estimate, observation.questions)
        study.tell(trial, state=TrialState.PRUNED)
    else:
        study.tell(trial, observation)


@contextmanager
def suppress_optuna_logs() -> Iterator[None]:
    """Suppress Optuna's log messages below warnings."""
    from optuna import logging  # noqa: PLC0415  # slow import

    verbosity = logging.get_verbosity()
    logging.set_verbosity(logging.WARNING)
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)


@strategy(
    "tpe",
    paper="https://papers.nips.cc/paper/4443-algorithms-for-hyper-parameter-optimization",
    package=Package("optuna", "optuna"),
)
def tpe(problem: SearchProblem, *, batch: Count = 4) -> TPESearch:
    """Optuna's tree-structured Parzen estimator."""
    return TPESearch(problem.sizes, seed=problem.seed, batch=batch, **problem.bounds)
