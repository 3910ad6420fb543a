"""What a run has left in the store, read back at once: for its report, and for the same command again."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ragsmith.evaluation.evaluation import Evaluation, evaluation_of
from ragsmith.pipelines.genes import read_configuration
from ragsmith.records.record import RunRecord
from ragsmith.store.store import ProposalRow, Store


class StoredRun:
    """The evaluations that a run names, and how far it took each; nothing of them is read before `read`."""

    def __init__(self, store: Store, run: str, dataset: str, record: RunRecord) -> None:
        """``run`` is the key of the run, ``dataset`` the digest of its data set."""
        self._store = store
        self._dataset = dataset
        self._record = record
        self.proposals = _proposals(store, run, record)
        self.keys = _named(record, self.proposals)
        self.dropped = {key: dropped.questions for key, dropped in record.dropped.items()}
        if record.winner is None and not record.no_winner:  # it is under way: the record knows of nobody yet
            self.dropped |= {row.evaluation: row.dropped for row in self.proposals if row.dropped is not None}
        self.searched, self.tested = record.split.search, record.split.test

    @property
    def lists_all(self) -> bool:
        """Whether everything that the run proposed is there."""
        history = self._record.history
        return not history or len(self.proposals) == sum(step.evaluations for step in history)

    def read(self, keys: Collection[str]) -> dict[tuple[str, tuple[str, ...]], Evaluation]:
        """Those of the evaluations ``keys`` that the store has, on the search and on the test questions."""
        found: dict[tuple[str, tuple[str, ...]], Evaluation] = {}
        described = {row.key: row for row in self._store.evaluations(self._dataset) if row.key in keys} if keys else {}
        for key, rows in self._store.results_many(described).items():
            candidate = read_configuration(described[key].configuration["pipeline"])
            met = {question: row for question, row in rows.items() if self._met(key, question)}
            for part in {self.searched, self.tested}:
                found[key, part] = evaluation_of(key, candidate, part, met)
        return found

    def whole(self) -> dict[tuple[str, tuple[str, ...]], Evaluation] | None:
        """Everything that the run had answered; None where the store lacks any of it, or any of it had failed."""
        record = self._record
        if record.failed or record.aside or record.unfinished or not self.lists_all:
            return None
        found = self.read(frozenset(self.keys))
        if record.winner and (record.winner, self.searched) not in found:
            return None
        tested = set(record.test.values())
        for key in self.keys:
            met = record.split.order[: self.dropped[key]] if key in self.dropped else self.searched
            wanted = {self.searched: met, **({self.tested: self.tested} if key in tested else {})}
            for part, questions in wanted.items():
                if (key, part) not in found or not found[key, part].records.keys() >= set(questions):
                    return None
        return found

    def _met(self, key: str, question: str) -> bool:
        """Whether the run had a question answered: another run may have gone on where this one dropped somebody."""
        answered = self.dropped.get(key)
        return answered is None or question in self.tested or question in self._record.split.order[:answered]


def _proposals(store: Store, run: str, record: RunRecord) -> tuple[ProposalRow, ...]:
    """What the run proposed; a longer list of an earlier attempt at it may stand behind that."""
    stored = store.proposals(run)
    return tuple(stored[: sum(step.evaluations for step in record.history)] if record.history else stored)


def _named(record: RunRecord, proposals: Sequence[ProposalRow]) -> tuple[str, ...]:
    """Every evaluation a run names, once."""
    named = [
        *record.baselines.values(),
        *(proposal.evaluation for proposal in proposals),
        *record.random,
        *(probe.key for probe in record.probes),
        *(probe.reference for probe in record.probes),
        *record.test.values(),
        *(removal.key for removal in record.removals),
        *([record.recommended] if record.recommended else []),
        *record.unfinished,
    ]
    return tuple(dict.fromkeys(named))
