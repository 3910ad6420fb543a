"""Tree-structured Parzen estimator (Bergstra et al. 2011), through Optuna's ask and tell on a study in memory.

Optuna is imported when the first genome is proposed: it takes a second that other strategies need not wait for.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING

from ragsmith.strategies.random_search import shuffled_space
from ragsmith.strategies.strategy import Genome, Population, Repair, Sizes, SteppedSearch, identity

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.distributions import BaseDistribution

ATTEMPTS = 20
"""Suggestions in a row that may be known already before a genome is drawn at random instead."""


class TPESearch(SteppedSearch):
    """Suggests genomes whose options were frequent among good ones (a `Strategy`).

    It ends at ``max_evaluations``, or else when the whole feasible space is known.
    """

    name = "tpe"

    def __init__(
        self,
        sizes: Sizes,
        *,
        seed: int = 42,
        batch: int = 4,
        repair: Repair = identity,
        max_evaluations: int | None = None,
    ) -> None:
        super().__init__(sizes, repair=repair, max_evaluations=max_evaluations)
        self._seed = seed
        self._size = batch
        self._spare = shuffled_space(self.sizes, repair, Random(seed))

    def steps(self) -> Iterator[Population]:
        """Ask for ``batch`` new genomes, then tell the study what they are worth."""
        study, options = new_study(self._seed), gene_options(self.sizes)
        while True:
            asked: dict[Genome, Trial] = {}
            while len(asked) < self._size and (suggestion := self._suggest(study, options, asked)):
                genome, trial = suggestion
                asked[genome] = trial
            if not asked:
                return
            yield Population(tuple(asked))
            for genome, trial in asked.items():
                answer(study, trial, self.scores.get(genome))

    def _suggest(
        self, study: Study, options: dict[str, BaseDistribution], asked: dict[Genome, Trial]
    ) -> tuple[Genome, Trial] | None:
        """A genome that is neither told nor asked for, with its trial; None when there is no such genome."""
        for _ in range(ATTEMPTS):
            genome, trial = self._ask(study, options)
            if genome not in self.scores and genome not in asked:
                return genome, trial
            # The study models the score of the repaired genome, so a known score answers this trial as well.
            answer(study, trial, self.scores.get(genome))
        for genome in self._spare:
            if genome not in self.scores and genome not in asked:
                study.enqueue_trial(dict(zip(options, genome, strict=True)))
                return self._ask(study, options)
        return None

    def _ask(self, study: Study, options: dict[str, BaseDistribution]) -> tuple[Genome, Trial]:
        trial = study.ask(options)
        return self.repair(tuple(int(trial.params[gene]) for gene in options)), trial


def gene_options(sizes: Sizes) -> dict[str, BaseDistribution]:
    """One categorical parameter for each gene, in order."""
    from optuna.distributions import CategoricalDistribution  # noqa: PLC0415  # slow import

    return {f"gene_{i}": CategoricalDistribution(tuple(range(size))) for i, size in enumerate(sizes)}


def new_study(seed: int) -> Study:
    """A study in memory, to be maximised, whose sampler owns its random numbers (of 32 bits of the seed)."""
    import optuna  # noqa: PLC0415  # slow import

    with quiet():
        return optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed % 2**32))


def answer(study: Study, trial: Trial, score: float | None) -> None:
    """Finish a trial; without a score it failed, which the sampler ignores."""
    from optuna.trial import TrialState  # noqa: PLC0415  # slow import

    if score is None:
        study.tell(trial, state=TrialState.FAIL)
    else:
        study.tell(trial, score)


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
