"""Optuna's tables in a cache: opened beside ours, and written many trials at a time.

Optuna itself commits every trial and asks the database for each of its parameters: 300 trials take 300 waits for the
disk. Here they are a transaction or two, of Optuna's own classes, so that what is written is what it would write.
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

TIMEOUT = 30.0
BATCH = 250
"""Trials in one transaction, which holds up a search by some tenths of a second."""
ATTEMPTS = 5
PAUSE = 0.1
"""Seconds before the next attempt to create tables that another process is creating, too."""


@dataclass(frozen=True, slots=True)
class StudyTables:
    """A database by both ways of writing to it: Optuna's for studies, ours for many trials at once."""

    storage: RDBStorage
    engine: Engine

    def trials(self, study_id: int) -> list[FrozenTrial]:
        """The trials of a study."""
        return self.storage.get_all_trials(study_id, deepcopy=False)

    def bring_up(self, study_id: int, wanted: Sequence[FrozenTrial], *, batch: int = BATCH) -> int:
        """Bring the trials of a study to ``wanted``, each numbered once; return how many were written.

        What is there and agrees stays. A transaction writes ``batch``; several processes may do so at the same time.
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
        """Write ``new`` and delete what had the numbers ``gone``; not if another process has changed the study."""
        records = [_record(study_id, trial) for trial in new]
        with Session(self.engine) as session, session.begin():
            session.get(models.StudyModel, study_id, with_for_update=True)  # Optuna's own lock, where rows have any
            rows = session.scalars(select(models.TrialModel).where(models.TrialModel.study_id == study_id)).all()
            if Counter(row.number for row in rows) != expected:
                return False
            session.add_all(records)
            session.flush()  # before anything is deleted, so that no id is used twice: dashboards remember them
            for row in rows:
                if row.number in gone:
                    session.delete(row)
        return True


def agrees(trial: FrozenTrial, wanted: FrozenTrial) -> bool:
    """Whether a trial says all that ``wanted`` says, and perhaps more."""
    same = (trial.state, trial.value, trial.params) == (wanted.state, wanted.value, wanted.params)
    return same and wanted.user_attrs.items() <= trial.user_attrs.items()


@contextmanager
def study_tables(location: Path | URL, place: str, *, timeout: float = TIMEOUT) -> Iterator[StudyTables]:
    """Optuna's tables in a cache, made on first use; ``place`` is what the cache is called in messages.

    ``timeout`` is how many seconds a write to a file waits for another process.

    Raises:
        StoreError: they cannot be written, or are of another version of Optuna.
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
    """Optuna's storage; several processes may be about to create its tables."""
    if isinstance(location, URL):
        url = location.render_as_string(hide_password=False).replace("{", "{{").replace("}", "}}")  # it is a template
        options: dict[str, Any] = {"pool_pre_ping": True}
    else:
        url, options = "sqlite://", {"creator": _connecting(location, timeout), "poolclass": NullPool}
    for attempt in range(ATTEMPTS):
        try:
            return RDBStorage(url, engine_kwargs=options)
        except DBAPIError as error:
            met_another = isinstance(error, IntegrityError) or "already exists" in str(error)
            if not met_another or attempt == ATTEMPTS - 1:
                raise
            time.sleep(PAUSE)
        except RuntimeError as error:  # how Optuna says that the version of its tables is not its own
            raise StoreError(f"the studies in the cache cannot be written: {' '.join(str(error).split())}") from error
    raise AssertionError("the last attempt returns or raises")


def _connecting(path: Path, timeout: float) -> Callable[[], sqlite3.Connection]:
    """Connections for Optuna to a file that exists, whatever its name; a transaction that writes waits at its start."""
    uri = f"{path.absolute().as_uri()}?mode=rw"
    return lambda: sqlite3.connect(uri, uri=True, timeout=timeout, isolation_level="IMMEDIATE", check_same_thread=False)


@contextmanager
def _explained(place: str) -> Iterator[None]:
    with translate_errors(place):
        try:
            yield
        except StorageInternalError as error:
            raise error.__cause__ or error from None  # what the driver said, which Optuna hides


def _record(study_id: int, trial: FrozenTrial) -> Any:
    """A trial as Optuna stores it."""
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
