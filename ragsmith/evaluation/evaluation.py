"""A candidate on some questions: what came of each, and the numbers that are read from it."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from ragsmith.caches import register_cache
from ragsmith.errors import StoreError
from ragsmith.evaluation.fitness import COMPOSITES, Fitness, composite
from ragsmith.gateway.memo import EvictionPolicy, MemoEntry
from ragsmith.pipelines.genes import CHUNK_SETTINGS, Candidate, read_configuration

if TYPE_CHECKING:
    from ragsmith.store.store import ResultRow, Store


Record = dict[str, Any]


@dataclass(frozen=True)
class Evaluation:
    """A candidate on some questions: a record or a failure for each."""

    key: str
    candidate: Candidate
    questions: tuple[str, ...]
    records: dict[str, Record]
    failures: dict[str, Record]

    @property
    def complete(self) -> bool:
        """Whether every question has a record."""
        return len(self.records) == len(self.questions)

    @property
    def attempted(self) -> bool:
        """Whether every question has a record or failed."""
        return len(self.records) + len(self.failures) == len(self.questions)

    @property
    def measures(self) -> tuple[str, ...]:
        """The measures that any question has a value of, in the order in which the store returns them."""
        return tuple(sorted({n for r in self.records.values() for n, v in r["measures"].items() if v is not None}))

    def values(self, name: str, fitness: Fitness | None = None) -> list[float]:
        """A value of each question that has a record, in the order of ``questions``.

        ``name`` is a measure, and questions that have no value of it are left out; or ``fitness``, ``retrieval`` or
        ``generation``, or a count of the usage such as ``calls``.
        """
        key = (name, fitness or Fitness()) if name == "fitness" else (name, None)
        if key not in self._values:
            self._values[key] = array("d", [value for value in self._worked_out(*key) if value is not None])
        return self._values[key].tolist()

    def column(self, name: str, fitness: Fitness | None = None) -> list[float | None]:
        """The same with a place for each question that has a record: None where it has no such value."""
        return self._worked_out(name, (fitness or Fitness()) if name == "fitness" else None)

    def _worked_out(self, name: str, fitness: Fitness | None) -> list[float | None]:
        records = [self.records[question] for question in self.questions if question in self.records]
        if fitness:
            return [fitness(record["measures"]) for record in records]
        if name in COMPOSITES:
            first = COMPOSITES[name][0]
            each = (record["measures"] for record in records)
            return [composite(name, measures) if first in measures else None for measures in each]
        part = "usage" if records and name in records[0]["usage"] else "measures"
        return [None if (value := record[part][name]) is None else float(value) for record in records]

    def by_question(self, fitness: Fitness) -> Mapping[str, float]:
        """The fitness of each question that has a record, in the order of ``questions``."""
        if fitness not in self._by_question:
            finished = (question for question in self.questions if question in self.records)
            self._by_question[fitness] = dict(zip(finished, self.values("fitness", fitness), strict=True))
        return self._by_question[fitness]

    def mean(self, name: str, fitness: Fitness | None = None) -> float | None:
        """The mean of a value over the questions that have one; None unless all have a record."""
        values = self.values(name, fitness) if self.complete else []
        return math.fsum(values) / len(values) if values else None

    def on(self, questions: tuple[str, ...]) -> Evaluation:
        """The same evaluation on some of its questions."""
        if questions == self.questions:
            return self
        records = {question: self.records[question] for question in questions if question in self.records}
        failures = {question: self.failures[question] for question in questions if question in self.failures}
        return replace(self, questions=questions, records=records, failures=failures)

    @cached_property
    def phenotype(self) -> str:
        """Digest of what the candidate found and answered: equal ones are the same pipeline in effect."""
        state = blake2b(digest_size=16)
        for gene in self.candidate:
            if gene.technique.family in CHUNK_SETTINGS:  # chunks of another size may have the same names
                state.update(f"{gene.technique.family} {gene}\n".encode())
        for question, record in sorted(self.records.items()):
            state.update("\0".join([question, *record["retrieved"], "", record.get("answer", ""), "\n"]).encode())
        return state.hexdigest()

    @cached_property
    def _by_question(self) -> dict[Fitness, dict[str, float]]:
        return {}

    @cached_property
    def _values(self) -> dict[tuple[str, Fitness | None], array[float]]:
        return {}


Evaluations = Mapping[tuple[str, tuple[str, ...]], Evaluation]
"""Evaluations by their keys and questions."""


def stored_evaluation(store: Store, key: str, questions: Sequence[str]) -> Evaluation:
    """An evaluation as the store has it, of a candidate that may come from an earlier run.

    Raises:
        SpaceError: its pipeline uses a technique or parameter that is not there any more.
        StoreError: the store does not have it.
    """
    described = store.evaluation(key)
    if described is None:
        raise StoreError(f"the cache has no evaluation {key}: run the search again")
    candidate = read_configuration(described.configuration["pipeline"])
    return evaluation_of(key, candidate, tuple(questions), store.results(key))


def evaluation_of(
    key: str, candidate: Candidate, questions: tuple[str, ...], rows: Mapping[str, ResultRow]
) -> Evaluation:
    """An evaluation on ``questions`` from the rows that are there."""
    there = [(question, rows[question]) for question in questions if question in rows]
    return Evaluation(
        key,
        candidate,
        questions,
        {question: row.value for question, row in there if row.state == "ok"},
        {question: row.value for question, row in there if row.state == "failed"},
    )


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

    def __iter__(self) -> Iterator[str]:
        return iter(self._whole())

    def __len__(self) -> int:
        return len(self._whole())


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
