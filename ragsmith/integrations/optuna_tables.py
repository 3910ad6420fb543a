"""Write many trials to Optuna's tables in one transaction.

Optuna commits every trial and queries the database for each parameter. Here 300 trials are one or two transactions of
Optuna's own classes, so the stored rows are the same.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from optuna.distributions import distribution_to_json
from optuna.exceptions import StorageInternalError
from optuna.storages import RDBStorage
from optuna.storages._rdb import models  # not public, and the only way to write many trials at once
from optuna.trial import FrozenTrial
from sqlalchemy import Engine, NullPool, select
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.orm import Session

from ragsmith.errors import StoreError
from ragsmith.store.engine import file_engine, server_engine, translate_errors

TIMEOUT_SECONDS = 30.0
BATCH = 250
"""Trials in a transaction, which delays a running search by some tenths of a second."""
ATTEMPTS = 5
PAUSE_SECONDS = 0.1
"""Before the next attempt to create tables that another process is creating."""


@dataclass(frozen=True, slots=True)
class StudyTables:
    """A database with studies: Optuna's storage, and an engine that writes many trials at once."""

    storage: RDBStorage
    engine: Engine

    def trials(self, study_id: int) -> list[FrozenTrial]:
        """Return the trials of a study."""
        return self.storage.get_all_trials(study_id, deepcopy=False)

    def update(self, study_id: int, wanted: Sequence[FrozenTrial], *, batch: int = BATCH) -> int:
        """Update the trials of a study to ``wanted``, with distinct numbers; return how many were written.

        Equal trials stay. A transaction writes ``batch`` trials; several processes can update at the same time.
        """
        written = 0
        while True:
            listed = self.trials(study_id)
            times = Counter(trial.number for trial in listed)
            kept = {trial.number: trial for trial in listed if times[trial.number] == 1}
            differing = (t for t in wanted if t.number not in kept or not agrees(kept[t.number], t))
            new = list(islice(differing, batch))
            gone = (times.keys() - {t.number for t in wanted}) | (times.keys() & {t.number for t in new})
            if not new and not gone:
                return written
            if self._exchange(study_id, new, gone, times):
                written += len(new)

    def _exchange(self, study_id: int, new: Sequence[FrozenTrial], gone: set[int], expected: Counter[int]) -> bool:
        """Write ``new`` and delete the trials numbered ``gone``; return False if another process changed the study."""
        records = [_record(study_id, trial) for trial in new]
        with Session(self.engine) as session, session.begin():
            session.get(models.StudyModel, study_id, with_for_update=True)  # Optuna's lock, if the database locks rows
            rows = session.scalars(select(models.TrialModel).where(models.TrialModel.study_id == study_id)).all()
            if Counter(row.number for row in rows) != expected:
                return False
            session.add_all(records)
            session.flush()  # before deleting, so that no id is reused: dashboards remember ids
            for row in rows:
                if row.number in gone:
                    session.delete(row)
        return True


def agrees(trial: FrozenTrial, wanted: FrozenTrial) -> bool:
    """Whether a trial has the state, value, parameters and at least the attributes of ``wanted``."""
    same = (trial.state, trial.value, trial.params) == (wanted.state, wanted.value, wanted.params)
    return same and wanted.user_attrs.items() <= trial.user_attrs.items()


@contextmanager
def study_tables(location: Path | URL, place: str, *, timeout: float = TIMEOUT_SECONDS) -> Iterator[StudyTables]:
    """Open Optuna's tables in a cache, and create them on first use; ``place`` names the cache in messages.

    A write to a file waits up to ``timeout`` seconds for another process.

    Raises:
        StoreError: the tables cannot be written, or are of another version of Optuna.
    """
    with _explained(place), ExitStack() as stack:
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
    for attempt in range(ATTEMPTS):
        try:
            return RDBStorage(url, engine_kwargs=options)
        except DBAPIError as error:
            is_race = isinstance(error, IntegrityError) or "already exists" in str(error)
            if not is_race or attempt == ATTEMPTS - 1:
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
def _explained(place: str) -> Iterator[None]:
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
