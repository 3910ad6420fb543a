"""Searches as Optuna studies, in the same database, where ``optuna-dashboard sqlite:///cache.sqlite`` shows them.

A study is a copy for looking at: nothing here is ever read back into a search. A trial is a proposal, its parameters
the options of the families, its value the fitness on the search questions; one that a race dropped is pruned, and one
without a fitness has failed. Optuna's tables lie beside ours, under its own names, and are written in short
transactions that wait for their turn.
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

NAMED = "ragsmith "
"""How the name of a study of ours begins."""
KEY_LENGTH = 12
"""Characters of a run's key in the name of its study."""


@dataclass(frozen=True, slots=True)
class Mirror:
    """The study that shows a run: its name, how many trials it has, and how many of them were written just now."""

    run: str
    study: str
    trials: int
    written: int


def mirror_run(cache: Store | str | Path, run_key: str | None = None) -> Mirror:
    """Mirror the run whose key begins with ``run_key``, or the latest, as a study in the cache it is in.

    ``cache`` is an open store, a file or a URL. It may be done again at any time, and during the search: only
    what is new or has changed is written.

    Raises:
        UsageError: there is no such run, or several.
        StoreError: the cache cannot be written, or its studies are of another version of Optuna.
    """
    with open_store(cache, read_only=True) as store:  # a cache that is not there is not made
        run = _chosen(store, run_key)
        with quiet(), study_tables(store.location, store.place) as tables:
            return _mirror(store, run, tables)


def mirror_all(cache: Store | str | Path) -> list[Mirror]:
    """Mirror every run of a cache, by the time it started; see `mirror_run`. Studies of runs that are gone go, too."""
    with open_store(cache, read_only=True) as store, quiet(), study_tables(store.location, store.place) as tables:
        runs = searches(store)
        _delete_others(tables.storage, {run.key for run in runs})
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
    written = tables.bring_up(study_id, wanted)
    said = study.user_attrs
    for name, value in _about(run, proposals).items():
        if name not in said or said[name] != value:
            study.set_user_attr(name, value)
    return Mirror(run.key, study.study_name, len(wanted), written)


def _delete_others(storage: RDBStorage, runs: Collection[str]) -> None:
    """Delete our studies of runs that the cache no longer has; others' studies stay."""
    for study in storage.get_all_studies():
        run = study.user_attrs.get("run")
        if run is not None and run not in runs and study.study_name.startswith(NAMED):
            optuna.delete_study(study_name=study.study_name, storage=storage)


def _study(storage: RDBStorage, store: Store, run: RunRow) -> optuna.Study:
    """The study of a run; it keeps its name when the data set is renamed."""
    names = {study.user_attrs.get("run"): study.study_name for study in storage.get_all_studies()}
    dataset = next((row.name for row in store.datasets() if row.digest == run.dataset), run.dataset[:KEY_LENGTH])
    name = names.get(run.key, f"{NAMED}{dataset} {run.key[:KEY_LENGTH]}")
    study = optuna.create_study(storage=storage, study_name=name, direction="maximize", load_if_exists=True)
    if run.key not in names:
        study.set_user_attr("run", run.key)
        study.set_user_attr("dataset", dataset)
        with warnings.catch_warnings(category=ExperimentalWarning, action="ignore"):
            study.set_metric_names(["fitness"])
    return study


def _about(run: RunRow, proposals: Sequence[ProposalRow]) -> dict[str, Any]:
    """What the study says of its run."""
    record = RunRecord.from_dict(run.value)
    best = record.winner, record.leader  # the winner may be what is left of the leader, which nothing proposed
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
    """A trial for every proposal. The scores behind one that is ``known`` are not read again."""
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
            datetime_start=began,  # when the run began: a proposal has no times of its own
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
    """What an evaluation scored, as far as it is complete, and on how many of the search questions."""
    evaluation = evaluation_of(key, (), record.split.search, store.results(key))
    shown = {**{HEADLINE[name]: name for name in COMPOSITES}, "calls": "calls"}
    shown |= {name: name for name in evaluation.measures}
    means = {name: evaluation.mean(value) for name, value in shown.items()}
    found = {name: mean for name, mean in means.items() if mean is not None}
    return {**found, "questions scored": len(evaluation.records), "questions failed": len(evaluation.failures)}
