"""Copy searches to Optuna studies in the same database, for ``optuna-dashboard sqlite:///cache.sqlite``.

Searches never read the studies. A trial is a proposal, with the options of the families as parameters, and the
fitness on the search questions as value. Candidates eliminated in a race are pruned, those without a fitness failed.

Optuna commits every trial and queries the database for each parameter. This module writes many trials in one or two
transactions with the same rows.
"""

from __future__ import annotations

import json
import sqlite3
import time
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import CategoricalDistribution, distribution_to_json
from optuna.exceptions import ExperimentalWarning, StorageInternalError
from optuna.storages import RDBStorage
from optuna.storages._rdb import models  # not public, and the only way to write many trials at once
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy import Engine, NullPool, select
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.orm import Session

from ragsmith.errors import StoreError, UsageError
from ragsmith.evaluation.evaluation import build_evaluation
from ragsmith.evaluation.fitness import COMPOSITES, HEADLINE
from ragsmith.pipelines.genes import sort_names
from ragsmith.records.record import RunRecord, list_searches
from ragsmith.store.engine import file_engine, server_engine, translate_errors
from ragsmith.store.store import ProposalRow, RunRow, Store, open_store
from ragsmith.strategies.tpe import suppress_optuna_logs

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

    ``cache`` is an open store, a file or a URL. Repeated calls, also during a search, write only new and changed
    trials.

    Raises:
        UsageError: no run or several runs have such a key.
        StoreError: the cache cannot be written, or its studies are of another version of Optuna.
    """
    with open_store(cache, read_only=True) as store:  # does not create a cache
        run = _find_run(store, run_key)
        with suppress_optuna_logs(), study_tables(store.location, store.place) as tables:
            return _mirror(store, run, tables)


def mirror_all(cache: Store | str | Path) -> list[Mirror]:
    """Copy every run of a cache by start time, see `mirror_run`, and delete studies of runs that were removed."""
    with (
        open_store(cache, read_only=True) as store,
        suppress_optuna_logs(),
        study_tables(store.location, store.place) as tables,
    ):
        runs = list_searches(store)
        _delete_studies_without_run(tables.storage, {run.key for run in runs})
        return [_mirror(store, run, tables) for run in runs]


def _find_run(store: Store, run_key: str | None) -> RunRow:
    runs = [run for run in store.runs() if run.key.startswith(run_key or "")]
    if not runs and run_key:
        raise UsageError(f"the cache {store.place} has no run {run_key!r}: see  ragsmith runs")
    if not runs:
        raise UsageError(f"the cache {store.place} has no run yet: start one with  ragsmith search NAME")
    if run_key and len(runs) > 1:
        raise UsageError(f"{len(runs)} runs have keys that begin with {run_key!r}: give more characters")
    return runs[-1]


def _mirror(store: Store, run: RunRow, tables: StudyTables) -> Mirror:
    study = _study(tables.storage, store, run)
    study_id = tables.storage.get_study_id_from_name(study.study_name)
    proposals = store.proposals(run.key)
    existing = {trial.number: trial for trial in tables.trials(study_id)}
    trials = list(_trials(store, run, proposals, existing))
    written = tables.update(study_id, trials)
    attributes = study.user_attrs
    for name, value in _study_attributes(run, proposals).items():
        if name not in attributes or attributes[name] != value:
            study.set_user_attr(name, value)
    return Mirror(run.key, study.study_name, len(trials), written)


def _delete_studies_without_run(storage: RDBStorage, runs: Collection[str]) -> None:
    """Delete the studies of removed runs; studies of other programs are kept."""
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
    record = RunRecord.from_dict(run.value, run.key)
    best = record.winner, record.leader  # the winner may be a simplified leader that was never proposed
    winner = [row.position for key in best for row in proposals if row.evaluation == key]
    return {
        "state": run.state,
        "space": record.space.name,
        "strategy": record.settings.strategy,
        "seed": record.settings.seed,
        "split": f"{len(record.split.search)} search and {len(record.split.test)} test questions",
        "fitness": record.settings.fitness.to_dict(),
        "models": record.models,
        "chunk size": record.chunk_size,
        "winner": winner[0] if winner else None,
    }


def _state(row: ProposalRow) -> TrialState:
    if row.dropped is not None:
        return TrialState.PRUNED
    return TrialState.FAIL if row.fitness is None else TrialState.COMPLETE


def _trials(
    store: Store, run: RunRow, proposals: Sequence[ProposalRow], existing: Mapping[int, FrozenTrial]
) -> Iterator[FrozenTrial]:
    """Yield a trial for every proposal; the scores of ``existing`` trials are not read again."""
    record = RunRecord.from_dict(run.value, run.key)
    labels = record.space.options
    names = sort_names(labels)
    distributions = {name: CategoricalDistribution(labels[name]) for name in names}
    began = datetime.fromisoformat(run.started).astimezone().replace(tzinfo=None) if run.started else None
    for row in (proposal for proposal in proposals if record.space.includes(proposal.genome)):
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
            trial_id=-1,  # assigned by the database
        )
        existing_trial = existing.get(row.position)
        if fitness is None or existing_trial is None or not is_up_to_date(existing_trial, trial):
            trial.user_attrs |= _measures(store, record, row.evaluation)
        yield trial


def _measures(store: Store, record: RunRecord, key: str) -> dict[str, float]:
    """Return the mean scores of an evaluation, and the numbers of scored and failed search questions."""
    evaluation = build_evaluation(key, (), record.split.search, store.results(key))
    columns = {**{HEADLINE[name]: name for name in COMPOSITES}, "calls": "calls"}
    columns |= {name: name for name in evaluation.measures}
    means = {name: evaluation.mean(value) for name, value in columns.items()}
    scores = {name: mean for name, mean in means.items() if mean is not None}
    return {**scores, "questions scored": len(evaluation.records), "questions failed": len(evaluation.failures)}


TIMEOUT_SECONDS = 30.0
BATCH_TRIALS = 250
"""Trials per transaction, which delays a running search by some tenths of a second."""
MAX_ATTEMPTS = 5
PAUSE_SECONDS = 0.1
"""Seconds before the next attempt to create tables, if another process creates them."""


@dataclass(frozen=True, slots=True)
class StudyTables:
    """A database with studies: Optuna's storage, and an engine that writes many trials at once."""

    storage: RDBStorage
    engine: Engine

    def trials(self, study_id: int) -> list[FrozenTrial]:
        """Return the trials of a study."""
        return self.storage.get_all_trials(study_id, deepcopy=False)

    def update(self, study_id: int, target: Sequence[FrozenTrial], *, batch: int = BATCH_TRIALS) -> int:
        """Update the trials of a study to ``target``, with distinct numbers; return the number of written trials.

        Equal trials are kept. A transaction writes ``batch`` trials; several processes can update at the same time.
        """
        written = 0
        while True:
            existing = self.trials(study_id)
            counts = Counter(trial.number for trial in existing)
            unique = {trial.number: trial for trial in existing if counts[trial.number] == 1}
            changed = (t for t in target if t.number not in unique or not is_up_to_date(unique[t.number], t))
            new = list(islice(changed, batch))
            obsolete = (counts.keys() - {t.number for t in target}) | (counts.keys() & {t.number for t in new})
            if not new and not obsolete:
                return written
            if self._replace_trials(study_id, new, obsolete, counts):
                written += len(new)

    def _replace_trials(
        self, study_id: int, new: Sequence[FrozenTrial], obsolete: set[int], expected: Counter[int]
    ) -> bool:
        """Write ``new`` and delete the trials numbered ``obsolete``; return False if the study has changed."""
        records = [_record(study_id, trial) for trial in new]
        with Session(self.engine) as session, session.begin():
            session.get(models.StudyModel, study_id, with_for_update=True)  # Optuna's lock, if the database locks rows
            rows = session.scalars(select(models.TrialModel).where(models.TrialModel.study_id == study_id)).all()
            if Counter(row.number for row in rows) != expected:
                return False
            session.add_all(records)
            session.flush()  # before deleting, so that no id is reused: dashboards remember ids
            for row in rows:
                if row.number in obsolete:
                    session.delete(row)
        return True


def is_up_to_date(trial: FrozenTrial, target: FrozenTrial) -> bool:
    """Whether a trial has the state, value, parameters and at least the attributes of ``target``."""
    same = (trial.state, trial.value, trial.params) == (target.state, target.value, target.params)
    return same and target.user_attrs.items() <= trial.user_attrs.items()


@contextmanager
def study_tables(location: Path | URL, place: str, *, timeout: float = TIMEOUT_SECONDS) -> Iterator[StudyTables]:
    """Open Optuna's tables in a cache, and create them on first use; ``place`` names the cache in messages.

    A write to a file waits up to ``timeout`` seconds for another process.

    Raises:
        StoreError: the tables cannot be written, or are of another version of Optuna.
    """
    with _translate_driver_errors(place), ExitStack() as stack:
        if isinstance(location, URL):
            engine = server_engine(location, timeout=timeout)
        else:
            engine = file_engine(location, timeout=timeout, options="mode=rw").execution_options(immediate=True)
        stack.callback(engine.dispose)
        storage = _storage(location, timeout)
        stack.callback(storage.engine.dispose)
        stack.callback(storage.remove_session)
        yield StudyTables(storage, engine)


def _storage(location: Path | URL, timeout: float) -> RDBStorage:
    """Open Optuna's storage; other processes may create its tables at the same time."""
    if isinstance(location, URL):
        url = location.render_as_string(hide_password=False).replace("{", "{{").replace("}", "}}")  # a template
        options: dict[str, Any] = {"pool_pre_ping": True}
    else:
        url, options = "sqlite://", {"creator": _connector(location, timeout), "poolclass": NullPool}
    for attempt in range(MAX_ATTEMPTS):
        try:
            return RDBStorage(url, engine_kwargs=options)
        except DBAPIError as error:
            is_race = isinstance(error, IntegrityError) or "already exists" in str(error)
            if not is_race or attempt == MAX_ATTEMPTS - 1:
                raise
            time.sleep(PAUSE_SECONDS)
        except RuntimeError as error:  # raised by Optuna for tables of another version
            raise StoreError(f"the studies in the cache cannot be written: {' '.join(str(error).split())}") from error
    raise AssertionError("the last attempt returns or raises")


def _connector(path: Path, timeout: float) -> Callable[[], sqlite3.Connection]:
    """Return a function that connects to an existing file; write transactions lock at their start."""
    uri = f"{path.absolute().as_uri()}?mode=rw"
    return lambda: sqlite3.connect(uri, uri=True, timeout=timeout, isolation_level="IMMEDIATE", check_same_thread=False)


@contextmanager
def _translate_driver_errors(place: str) -> Iterator[None]:
    with translate_errors(place):
        try:
            yield
        except StorageInternalError as error:
            raise error.__cause__ or error from None  # the error of the driver, which Optuna hides


def _record(study_id: int, trial: FrozenTrial) -> Any:
    """Return the row of a trial."""
    finite = models.TrialValueModel.TrialValueType.FINITE
    values = [] if trial.value is None else [models.TrialValueModel(objective=0, value=trial.value, value_type=finite)]
    return models.TrialModel(
        study_id=study_id,
        number=trial.number,
        state=trial.state,
        datetime_start=trial.datetime_start,
        datetime_complete=trial.datetime_complete,
        values=values,
        params=[
            models.TrialParamModel(
                param_name=name,
                param_value=distribution.to_internal_repr(trial.params[name]),
                distribution_json=distribution_to_json(distribution),
            )
            for name, distribution in trial.distributions.items()
        ],
        user_attributes=[
            models.TrialUserAttributeModel(key=name, value_json=json.dumps(value))
            for name, value in trial.user_attrs.items()
        ],
    )
