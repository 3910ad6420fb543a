"""Results of a candidate on a set of questions, and the scores computed from them."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from ragsmith.caches import register_cache
from ragsmith.errors import ProviderTrouble, StoreError
from ragsmith.evaluation.fitness import COMPOSITES, Fitness, composite
from ragsmith.gateway.memo import EvictionPolicy, MemoEntry
from ragsmith.pipelines.genes import CHUNK_SETTINGS, Candidate, read_configuration

if TYPE_CHECKING:
    from ragsmith.store.rows import EvaluationRow
    from ragsmith.store.store import ResultRow, Store


Record = dict[str, Any]


def is_trouble(failure: Record) -> bool:
    """Whether a question failed by `ProviderTrouble`, which says nothing of the pipeline."""
    return failure.get("kind") == ProviderTrouble.kind


@dataclass(frozen=True)
class Evaluation:
    """The records and failures of a candidate on a set of questions."""

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
    def has_trouble(self) -> bool:
        """Whether a question failed by trouble of a provider."""
        return any(map(is_trouble, self.failures.values()))

    @property
    def measures(self) -> tuple[str, ...]:
        """The names of the measures with a value for any question, in the order of the store."""
        return tuple(sorted({n for r in self.records.values() for n, v in r["measures"].items() if v is not None}))

    def values(self, name: str, fitness: Fitness | None = None) -> list[float]:
        """Return the values of the questions that have a record, in the order of ``questions``.

        ``name`` is a measure, ``fitness``, ``retrieval``, ``generation``, or a count of the usage such as ``calls``.
        Questions without a value are left out.
        """
        key = (name, fitness or Fitness()) if name == "fitness" else (name, None)
        if key not in self._values:
            self._values[key] = array("d", [value for value in self._compute_values(*key) if value is not None])
        return self._values[key].tolist()

    def column(self, name: str, fitness: Fitness | None = None) -> list[float | None]:
        """Return the values of all questions that have a record, with None for a missing value; see `values`."""
        return self._compute_values(name, (fitness or Fitness()) if name == "fitness" else None)

    def _compute_values(self, name: str, fitness: Fitness | None) -> list[float | None]:
        records = [self.records[question] for question in self.questions if question in self.records]
        if fitness:
            return [fitness(record["measures"]) for record in records]
        if name in COMPOSITES:
            first = COMPOSITES[name][0]
            each = (record["measures"] for record in records)
            return [composite(name, measures) if first in measures else None for measures in each]
        part = "usage" if records and name in records[0]["usage"] else "measures"
        if records and not any(name in record[part] for record in records):
            raise KeyError(name)
        return [None if (value := record[part].get(name)) is None else float(value) for record in records]

    def by_question(self, fitness: Fitness) -> Mapping[str, float]:
        """Return the fitness by question, for those that have a record, in the order of ``questions``."""
        if fitness not in self._by_question:
            finished = (question for question in self.questions if question in self.records)
            self._by_question[fitness] = dict(zip(finished, self.values("fitness", fitness), strict=True))
        return self._by_question[fitness]

    def mean(self, name: str, fitness: Fitness | None = None) -> float | None:
        """Return the mean of a value over the questions that have one; None unless all questions have a record."""
        values = self.values(name, fitness) if self.complete else []
        return math.fsum(values) / len(values) if values else None

    def restrict(self, questions: tuple[str, ...]) -> Evaluation:
        """Return the evaluation restricted to some of its questions."""
        if questions == self.questions:
            return self
        records = {question: self.records[question] for question in questions if question in self.records}
        failures = {question: self.failures[question] for question in questions if question in self.failures}
        return replace(self, questions=questions, records=records, failures=failures)

    @cached_property
    def phenotype(self) -> str:
        """Digest of all rankings and answers; candidates with equal digests behave the same."""
        state = blake2b(digest_size=16)
        for gene in self.candidate:
            if gene.technique.family in CHUNK_SETTINGS:  # chunks of other sizes may have the same ids
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


def load_evaluation(store: Store, key: str, questions: Sequence[str]) -> Evaluation:
    """Return an evaluation from the store, which may be of an earlier run.

    Raises:
        SpaceError: the pipeline uses a technique or parameter that no longer exists.
        StoreError: the store does not have it.
    """
    described = store.evaluation(key)
    if described is None:
        raise StoreError(f"the cache has no evaluation {key}: run the search again")
    return build_evaluation(key, read_candidate(described), tuple(questions), store.results(key))


def read_candidate(row: EvaluationRow) -> Candidate:
    """Return the candidate of a stored evaluation.

    Raises:
        SpaceError: the row has an unknown technique or parameter.
    """
    return read_configuration(row.configuration["pipeline"], f"the cache (row evaluation:{row.key})")


def build_evaluation(
    key: str, candidate: Candidate, questions: tuple[str, ...], rows: Mapping[str, ResultRow]
) -> Evaluation:
    """Return an evaluation on ``questions`` from stored rows by question, which may be incomplete."""
    there = [(question, rows[question]) for question in questions if question in rows]
    return Evaluation(
        key,
        candidate,
        questions,
        {question: row.value for question, row in there if row.state == "ok"},
        {question: row.value for question, row in there if row.state == "failed"},
    )


READ_SECONDS = 2e-5
"""Approximate time to read a record from the store."""
MAX_REREAD_EVALUATIONS = 3
"""Maximum number of evaluations in the cache of records read from the store."""


class EvictableRecord(Mapping[str, Any]):
    """A stored record as a mapping, which is read from the store again after its eviction from memory."""

    __slots__ = ("_evaluation", "_question", "_record", "_records")

    def __init__(self, record: Record, evaluation: str, question: str, records: RecordCache) -> None:
        self._record: Record | None = record
        self._evaluation = evaluation
        self._question = question
        self._records = records

    def evict(self) -> None:
        """Release the record from memory."""
        self._record = None

    def _get_record(self) -> Record:
        record = self._record  # read once: another thread may evict it in between
        return self._records.read(self._evaluation, self._question) if record is None else record

    def __getitem__(self, name: str) -> Any:
        return self._get_record()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._get_record())

    def __len__(self) -> int:
        return len(self._get_record())


class RecordCache(dict[Hashable, MemoEntry[EvictableRecord]]):
    """Cache of records with the eviction policy ``room``; ``stored`` reads the rows of an evaluation by question."""

    def __init__(self, room: EvictionPolicy, stored: Callable[[str], Mapping[str, ResultRow]]) -> None:
        super().__init__()
        self._room = room
        self._stored = stored
        self._number = 0
        self._read: dict[str, dict[str, Record]] = {}
        register_cache(self._forget, key="an evaluation", entries=MAX_REREAD_EVALUATIONS)

    def add(self, row: ResultRow) -> EvictableRecord:
        """Add the record of a stored row, and return it in a form that can be evicted."""
        recallable = EvictableRecord(row.value, row.evaluation, row.question, self)
        self._number += 1
        entry = self[self._number] = MemoEntry(recallable, READ_SECONDS, self._room.level)
        self._room.admit(self, self._number, entry, _counted_objects)
        return recallable

    def __delitem__(self, key: Hashable) -> None:
        self.pop(key).value.evict()

    def read(self, evaluation: str, question: str) -> Record:
        """Read an evicted record.

        Raises:
            StoreError: the record is not in the store any more.
        """
        found = self._read.get(evaluation, {}).get(question)
        if found is None:  # not read yet, or computed since
            rows = self._stored(evaluation)
            while len(self._read) >= MAX_REREAD_EVALUATIONS:
                self._read.pop(next(iter(self._read)), None)
            records = {name: row.value for name, row in rows.items() if row.state == "ok"}
            self._read[evaluation] = records
            found = records.get(question)
        if found is None:
            raise StoreError(
                f"the cache has lost the result of question {question!r} (evaluation {evaluation}) during this search: "
                "the same command computes it again"
            )
        return found

    def _forget(self) -> None:
        self._read = {}


def _counted_objects(key: Hashable, recallable: EvictableRecord) -> tuple[Any, ...]:
    """Return the objects whose memory counts for an entry."""
    return (recallable._record,)
