"""`transfer`: each data set's winner on the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ragsmith.api.resources import CACHE, Resources
from ragsmith.comparison.clusters import Clusters
from ragsmith.diagnosis.transfer import Transferred, keep, transferred
from ragsmith.errors import UsageError, WrongOption
from ragsmith.evaluation.evaluation import stored_evaluation
from ragsmith.evaluation.evaluator import Evaluator
from ragsmith.evaluation.experiment import Experiment, ordered
from ragsmith.evaluation.fitting import without_general
from ragsmith.evaluation.ranking import Terms
from ragsmith.exported.winner import run_setup
from ragsmith.pipelines.genes import Candidate, read_configuration
from ragsmith.pipelines.hyperparameters import GENES
from ragsmith.records.record import CROSSFIT, RunRecord
from ragsmith.reporting.run_data import RunData, choose_run
from ragsmith.store.store import Store
from ragsmith.types import Dataset

PARTS = ("search", "test")


@dataclass(frozen=True, slots=True)
class _Home:
    """A data set, its latest search, and the winner of that."""

    name: str
    run: str
    record: RunRecord
    setup: Experiment
    winner: Candidate

    @classmethod
    def of(cls, store: Store, dataset: Dataset | str | Path) -> _Home:
        key, setup = run_setup(store, dataset)
        run = store.run(key)
        record = RunRecord.from_dict(run.value if run else None)
        described = store.evaluation(record.winner or "")
        if described is None:
            raise UsageError(f"the cache has lost the winner on {setup.dataset.name!r}: the same search makes it again")
        candidate = without_general(read_configuration(described.configuration["pipeline"]))
        return cls(setup.dataset.name, key, record, setup.scoring(record.settings.fitness), candidate)

    def takes(self, other: _Home) -> Experiment:
        """This data set, cut and asked as the winner of ``other`` was found, and marked as here."""
        its = other.setup.of(other.winner)
        if (its.cut, its.models) == (self.setup.cut, self.setup.models):
            return self.setup
        own = self.setup
        size, overlap = its.chunk_size, its.chunk_overlap
        return replace(own, models=its.models, marked_by=own, chunk_size=size, chunk_overlap=overlap)


def transfer(
    datasets: Sequence[Dataset | str | Path],
    *,
    part: str = "search",
    workers: int | None = None,
    cache: Store | str | Path = CACHE,
    on_plan: Callable[[int, int], bool] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> list[Transferred]:
    """Evaluate the winner of the latest search on each of ``datasets`` on all others, and keep what comes of it.

    It is done on the ``search`` questions, unless ``part`` says ``test``: then the test questions of each data set are
    answered by pipelines from elsewhere, too, and nothing is tested. What a winner learned at home it keeps, and is
    asked with the models and chunks that it was found with. What ``cache`` has is not computed again; `report` shows
    it on the page across data sets. ``on_plan`` is told first how many pairs there are and how many answers are to be
    made at most; where it says False nothing is done.

    Raises:
        UsageError: there are fewer than two data sets, or all are the same one, or one has no search with a winner in
            the cache, or no test questions where these are asked for.
    """
    resources = Resources(workers=workers, cache=cache)
    if part not in PARTS:
        raise WrongOption("part", f"is {part!r}: give {' or '.join(PARTS)}")
    if len(datasets) < 2:
        raise UsageError("a winner is taken from one data set to another: name two data sets or more")
    found = []
    with resources.store(read_only=True) as store:  # a cache that is not there is not made
        found_at = (_Home.of(store, dataset) for dataset in datasets)
        homes = list({home.run: home for home in found_at}.values())
    if len(homes) < 2:
        raise UsageError(
            f"{' and '.join(dict.fromkeys(map(str, datasets)))}: that is one data set, {homes[0].name!r}, "
            f"{len(datasets)} times, and a winner is taken from one data set to another: name two that differ"
        )
    if part == "test":
        _refuse_untested(homes)
    with resources.store() as store:
        pairs = [(source, target) for target in homes for source in homes if source.run != target.run]
        if on_plan is not None and not on_plan(len(pairs), _answers(store, pairs, part)):
            return []
        for source, target in pairs:
            one = _transferred(store, source, target, part, workers, on_progress)
            if one is not None:
                keep(store, one, source.run, target.run, target.setup.dataset.digest)
                found.append(one)
    return found


def _refuse_untested(homes: Sequence[_Home]) -> None:
    """Raise UsageError where a data set has no test questions, as all are used up, or there were too few."""
    why = [
        f"{home.name!r} has no test questions "
        + (
            "(its search was a crossfit, and all were used to choose the winner that is at home)"
            if home.record.settings.verdict == CROSSFIT
            else f"({home.record.split.rule})"
        )
        for home in homes
        if not home.record.split.test
    ]
    if why:
        raise UsageError(f"{'; '.join(why)}: leave --part out, which asks search questions")


def _answers(store: Store, pairs: Sequence[tuple[_Home, _Home]], part: str) -> int:
    """How many answers are still to be made."""
    total = 0
    for source, target in pairs:
        with Evaluator(target.takes(source), store, 1, ranks=target.record.settings.fitness.ranks) as evaluator:
            asked = set(getattr(target.record.split, part))
            total += len(asked - store.results(evaluator.key(source.winner[:GENES])).keys())
    return total


def _transferred(
    store: Store,
    source: _Home,
    target: _Home,
    part: str,
    workers: int | None,
    on_progress: Callable[[int, int], None] | None,
) -> Transferred | None:
    record, setup = target.record, target.takes(source)
    fitness = record.settings.fitness
    asked = set(getattr(record.split, part))
    examples = ordered([example for example in target.setup.dataset.examples if example.id in asked])
    if not examples or record.winner is None:
        return None
    own = stored_evaluation(store, record.winner, [example.id for example in examples])
    processes = workers or setup.models.workers()
    with Evaluator(setup, store, processes, on_progress, ranks=fitness.ranks) as evaluator:
        [found] = evaluator.evaluate([source.winner[:GENES]], examples)
    searched = []
    if part == "search":
        material = RunData(store, choose_run(store, target.name, target.run), {})
        keys = [*(row.evaluation for row in material.proposals), *record.told, *(one.key for one in record.removals)]
        searched = material.finishers(list(dict.fromkeys(keys)))
    terms = Terms.of([found, own, *searched], fitness, record.settings.may_miss)
    clusters = Clusters.of(target.setup.dataset, examples)
    return transferred(source.name, target.name, part, found, own, searched, terms, clusters)
