"""Tree-structured Parzen estimator (Bergstra et al. 2011), through Optuna's ask and tell on a study in memory.

Optuna is imported when the first genome is proposed: it takes a second that other strategies need not wait for.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ragsmith.extensions import Package
from ragsmith.plugins import Count
from ragsmith.strategies.genomes import shuffled_space
from ragsmith.strategies.registry import SearchProblem, strategy
from ragsmith.strategies.strategy import Feasible, Genome, Population, Pruned, Sizes, SteppedSearch, Told, anything

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.distributions import BaseDistribution

ATTEMPTS = 20
"""Suggestions in a row that may be known or not feasible before a genome is drawn at random instead."""


class TPESearch(SteppedSearch):
    """Suggests genomes whose options were frequent among good ones.

    Observations from before it began are trials, too, and what a race pruned is a pruned trial. It ends at
    ``max_evaluations``, or else when the whole feasible space is known.
    """

    name = "tpe"

    def __init__(
        self,
        sizes: Sizes,
        *,
        seed: int = 42,
        batch: int = 4,
        feasible: Feasible = anything,
        max_evaluations: int | None = None,
    ) -> None:
        super().__init__(sizes, seed=seed, feasible=feasible, max_evaluations=max_evaluations)
        self._seed = seed
        self._size = batch
        self._spare = shuffled_space(self.sizes, feasible, self._rng)

    def steps(self) -> Iterator[Population]:
        """Ask for ``batch`` new genomes, then tell the study what they are worth."""
        study, options = new_study(self._seed), gene_options(self.sizes)
        for genome, told in self.told.items():
            answer(study, enqueued(study, options, genome), told)
        while True:
            size = self.batch_of(self._size)
            asked: dict[Genome, Trial] = {}
            while len(asked) < size and (suggestion := self._suggest(study, options, asked)):
                genome, trial = suggestion
                asked[genome] = trial
            if not asked:
                return
            yield Population(tuple(asked))
            for genome, trial in asked.items():
                answer(study, trial, self.told.get(genome))

    def _suggest(
        self, study: Study, options: dict[str, BaseDistribution], asked: dict[Genome, Trial]
    ) -> tuple[Genome, Trial] | None:
        """A genome that is new, with its trial; None when there is no such genome."""
        for _ in range(ATTEMPTS):
            trial = study.ask(options)
            genome = tuple(int(trial.params[gene]) for gene in options)
            if genome not in self.told and genome not in asked and self.feasible(genome):
                return genome, trial
            answer(study, trial, self.told.get(genome))
        for genome in self._spare:
            if genome not in self.told and genome not in asked:
                return genome, enqueued(study, options, genome)
        return None


def gene_options(sizes: Sizes) -> dict[str, BaseDistribution]:
    """One categorical parameter for each gene, in order."""
    from optuna.distributions import CategoricalDistribution  # noqa: PLC0415  # slow import

    return {f"gene_{i}": CategoricalDistribution(tuple(range(size))) for i, size in enumerate(sizes)}


def new_study(seed: int) -> Study:
    """A study in memory, to be maximised, whose sampler owns its random numbers (of 32 bits of the seed)."""
    import optuna  # noqa: PLC0415  # slow import

    with quiet():
        return optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed % 2**32))


def enqueued(study: Study, options: dict[str, BaseDistribution], genome: Genome) -> Trial:
    """A trial of ``genome``, whatever the sampler would suggest."""
    study.enqueue_trial(dict(zip(options, genome, strict=True)))
    return study.ask(options)


def answer(study: Study, trial: Trial, told: Told) -> None:
    """Finish a trial: one that a race pruned is pruned, and one without a score failed, which the sampler ignores."""
    from optuna.trial import TrialState  # noqa: PLC0415  # slow import

    if told is None:
        study.tell(trial, state=TrialState.FAIL)
    elif isinstance(told, Pruned):
        trial.report(told.estimate, told.questions)
        study.tell(trial, state=TrialState.PRUNED)
    else:
        study.tell(trial, told)


@contextmanager
def quiet() -> Iterator[None]:
    """Optuna announces every study on standard error; not while this is open."""
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
