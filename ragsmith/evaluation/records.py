"""The records of a run's answers, which are known to its end: those that there is no room for are in the store alone.

A record is a dictionary of dictionaries, of which a run can have hundreds of thousands. Stored records
need not stay in memory: an evicted one is read again when it is needed, with all others of its evaluation, which are
nearly always needed as well. Which are let go depends on how much a process may have
(`ragsmith.gateway.memory`); what is read does not.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any

from ragsmith.caches import register_cache
from ragsmith.errors import StoreError
from ragsmith.evaluation.evaluation import Record
from ragsmith.gateway.memo import EvictionPolicy, MemoEntry
from ragsmith.store.rows import ResultRow

READING_SECONDS = 2e-5
"""About what it takes to read a record from the store."""
AT_ONCE = 3
"""Evaluations that are held as they were read: two pipelines, say, that are compared question by question."""


class Recallable(Mapping[str, Any]):
    """A record that is stored, and may be let go: a mapping equal to it either way."""

    __slots__ = ("_evaluation", "_question", "_record", "_records")

    def __init__(self, record: Record, evaluation: str, question: str, records: Records) -> None:
        self._record: Record | None = record
        self._evaluation = evaluation
        self._question = question
        self._records = records

    def let_go(self) -> None:
        """Hold it no longer."""
        self._record = None

    def _whole(self) -> Record:
        record = self._record  # once: another thread may let it go in between
        return self._records.read(self._evaluation, self._question) if record is None else record

    def __getitem__(self, name: str) -> Any:
        return self._whole()[name]

    def __contains__(self, name: object) -> bool:
        return name in self._whole()

    def __iter__(self) -> Iterator[str]:
        return iter(self._whole())

    def __len__(self) -> int:
        return len(self._whole())

    def __repr__(self) -> str:
        return repr(self._whole())


class Records(dict[Hashable, MemoEntry[Recallable]]):
    """Records that there is ``room`` for; of the others ``stored`` gives the rows of an evaluation by question."""

    def __init__(self, room: EvictionPolicy, stored: Callable[[str], Mapping[str, ResultRow]]) -> None:
        super().__init__()
        self._room = room
        self._stored = stored
        self._number = 0
        self._read: dict[str, dict[str, Record]] = {}
        register_cache(self._forget, key="an evaluation", entries=AT_ONCE)

    def keep(self, row: ResultRow) -> Recallable:
        """The record of a row that is in the store: it may be let go from now on."""
        recallable = Recallable(row.value, row.evaluation, row.question, self)
        self._number += 1
        entry = self[self._number] = MemoEntry(recallable, READING_SECONDS, self._room.level)
        self._room.admit(self, self._number, entry, _record)
        return recallable

    def __delitem__(self, key: Hashable) -> None:
        self.pop(key).value.let_go()

    def read(self, evaluation: str, question: str) -> Record:
        """A record that was let go.

        Raises:
            StoreError: the store has lost it.
        """
        found = self._read.get(evaluation, {}).get(question)
        if found is None:  # not read yet, or finished since
            rows = self._stored(evaluation)
            while len(self._read) >= AT_ONCE:
                self._read.pop(next(iter(self._read)), None)
            records = {name: row.value for name, row in rows.items() if row.state == "ok"}
            self._read[evaluation] = records
            found = records.get(question)
        if found is None:
            raise StoreError(
                f"the cache has lost what came of question {question!r} (evaluation {evaluation}) during this search: "
                "the same command computes it again"
            )
        return found

    def _forget(self) -> None:
        self._read = {}


def _record(key: Hashable, recallable: Recallable) -> tuple[Any, ...]:
    """What of an entry takes memory."""
    return (recallable._record,)
