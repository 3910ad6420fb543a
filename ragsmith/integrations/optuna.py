"""Copy searches to Optuna studies in the same database, for ``optuna-dashboard sqlite:///cache.sqlite``.

Searches never read the studies. A trial is a proposal: its parameters are the options of the families, its value the
fitness on the search questions. Trials of candidates that a race dropped are pruned; those without a fitness failed.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import CategoricalDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, TrialState

from ragsmith.errors import UsageError
from ragsmith.evaluation.evaluation import evaluation_of
from ragsmith.evaluation.fitness import COMPOSITES, HEADLINE
from ragsmith.integrations.optuna_tables import StudyTables, agrees, study_tables
from ragsmith.pipelines.genes import SETTINGS
from ragsmith.records.record import RunRecord, searches
from ragsmith.store.store import ProposalRow, RunRow, Store, open_store
from ragsmith.strategies.tpe import quiet
from ragsmith.techniques.families import FAMILIES

STUDY_PREFIX = "ragsmith "
"""First part of the names of studies."""
KEY_LENGTH = 12
"""Characters of a run's key in the name of its study."""


@dataclass(frozen=True, slots=True)
class Mirror:
    """The study of a run: its name, the number of its trials, and how many of them were written by this call."""

    run: str
    study: str
    trials: int
    written: int


def mirror_run(cache: Store | str | Path, run_key: str | None = None) -> Mirror:
    """Copy the run whose key begins with ``run_key``, or the latest run, to a study in its cache.

    ``cache`` is an open store, a file or a URL. Can be repeated, also during the search: only new and changed trials
    are written.

    Raises:
        UsageError: no run, or several, have such a key.
        StoreError: the cache cannot be written, or its studies are of another version of Optuna.
    """
    with open_store(cache, read_only=True) as store:  # does not create a cache
        run = _chosen(store, run_key)
        with quiet(), study_tables(store.location, store.place) as tables:
            return _mirror(store, run, tables)


def mirror_all(cache: Store | str | Path) -> list[Mirror]:
    """Copy every run of a cache by start time, see `mirror_run`, and delete studies of runs that were removed."""
    with open_store(cache, read_only=True) as store, quiet(), study_tables(store.location, store.place) as tables:
        runs = searches(store)
        _delete_studies_without_run(tables.storage, {run.key for run in runs})
        return [_mirror(store, run, tables) for run in runs]


def _chosen(store: Store, run_key: str | None) -> RunRow:
    runs = [run for run in store.runs() if run.key.startswith(run_key or "")]
    if not runs and run_key:
        raise UsageError(f"the cache {store.place} has no run {run_key!r}: see  ragsmith runs")
    if not runs:
        raise UsageError(f"the cache {store.place} has no run yet: start one with  ragsmith search --dataset NAME")
    if run_key and len(runs) > 1:
        raise UsageError(f"{len(runs)} runs have keys that begin with {run_key!r}: give more of it")
    return runs[-1]


def _mirror(store: Store, run: RunRow, tables: StudyTables) -> Mirror:
    study = _study(tables.storage, store, run)
    study_id = tables.storage.get_study_id_from_name(study.study_name)
    proposals = store.proposals(run.key)
    known = {trial.number: trial for trial in tables.trials(study_id)}
    wanted = _trials(store, run, proposals, known)
    written = tables.update(study_id, wanted)
    current = study.user_attrs
    for name, value in _study_attributes(run, proposals).items():
        if name not in current or current[name] != value:
            study.set_user_attr(name, value)
    return Mirror(run.key, study.study_name, len(wanted), written)


def _delete_studies_without_run(storage: RDBStorage, runs: Collection[str]) -> None:
    """Delete studies of runs that the cache no longer has; studies of other programs stay."""
    for study in storage.get_all_studies():
        run = study.user_attrs.get("run")
        if run is not None and run not in runs and study.study_name.startswith(STUDY_PREFIX):
            optuna.delete_study(study_name=study.study_name, storage=storage)


def _study(storage: RDBStorage, store: Store, run: RunRow) -> optuna.Study:
    """Return the study of a run; it keeps its name when the data set is renamed."""
    names = {study.user_attrs.get("run"): study.study_name for study in storage.get_all_studies()}
    dataset = next((row.name for row in store.datasets() if row.digest == run.dataset), run.dataset[:KEY_LENGTH])
    name = names.get(run.key, f"{STUDY_PREFIX}{dataset} {run.key[:KEY_LENGTH]}")
    study = optuna.create_study(storage=storage, study_name=name, direction="maximize", load_if_exists=True)
    if run.key not in names:
        study.set_user_attr("run", run.key)
        study.set_user_attr("dataset", dataset)
        with warnings.catch_warnings(category=ExperimentalWarning, action="ignore"):
            study.set_metric_names(["fitness"])
    return study


def _study_attributes(run: RunRow, proposals: Sequence[ProposalRow]) -> dict[str, Any]:
    """Return the user attributes of a study."""
    record = RunRecord.from_dict(run.value)
    best = record.winner, record.leader  # the winner may be a simplified leader that was never proposed
    winner = [row.position for key in best for row in proposals if row.evaluation == key]
    return {
        "state": run.state,
        "space": record.space.name,
        "strategy": record.settings.strategy,
        "seed": record.settings.seed,
        "split": f"{len(record.split.search)} search and {len(record.split.test)} test questions",
        "fitness": record.settings.fitness.plain(),
        "models": record.models,
        "chunk size": record.chunk_size,
        "winner": winner[0] if winner else None,
    }


def _state(row: ProposalRow) -> TrialState:
    if row.dropped is not None:
        return TrialState.PRUNED
    return TrialState.FAIL if row.fitness is None else TrialState.COMPLETE


def _trials(
    store: Store, run: RunRow, proposals: Sequence[ProposalRow], known: Mapping[int, FrozenTrial]
) -> list[FrozenTrial]:
    """Return a trial for every proposal. The scores of ``known`` trials are not read again."""
    record = RunRecord.from_dict(run.value)
    labels = record.space.options
    names = [name for name in (*(family.name for family in FAMILIES), *SETTINGS) if name in labels]
    distributions = {name: CategoricalDistribution(labels[name]) for name in names}
    began = datetime.fromisoformat(run.started).astimezone().replace(tzinfo=None) if run.started else None
    trials = []
    for row in proposals:
        fitness = row.fitness
        trial = FrozenTrial(
            number=row.position,
            state=_state(row),
            value=fitness,
            datetime_start=began,  # start of the run: proposals have no times
            datetime_complete=began,
            params={name: labels[name][i] for name, i in zip(distributions, row.genome, strict=True)},
            distributions=dict(distributions),
            user_attrs={"step": row.step, "evaluation": row.evaluation},
            system_attrs={},
            intermediate_values={},
            trial_id=-1,  # given by the database
        )
        before = known.get(row.position)
        if fitness is None or before is None or not agrees(before, trial):
            trial.user_attrs |= _measures(store, record, row.evaluation)
        trials.append(trial)
    return trials


def _measures(store: Store, record: RunRecord, key: str) -> dict[str, float]:
    """Return the mean scores of an evaluation, and the numbers of scored and failed search questions."""
    evaluation = evaluation_of(key, (), record.split.search, store.results(key))
    shown = {**{HEADLINE[name]: name for name in COMPOSITES}, "calls": "calls"}
    shown |= {name: name for name in evaluation.measures}
    means = {name: evaluation.mean(value) for name, value in shown.items()}
    found = {name: mean for name, mean in means.items() if mean is not None}
    return {**found, "questions scored": len(evaluation.records), "questions failed": len(evaluation.failures)}
