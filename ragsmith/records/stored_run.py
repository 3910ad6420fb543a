"""Read the evaluations of a run from the store, for reports and repeated commands."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from ragsmith.evaluation.evaluation import Evaluation, build_evaluation, read_candidate
from ragsmith.pipelines.genes import label
from ragsmith.records.record import WINNER_SOURCES, RunRecord
from ragsmith.store.store import ProposalRow, Store


class StoredRun:
    """The keys of the evaluations of a run, and the numbers of questions of pruned ones; `read` returns them."""

    def __init__(self, store: Store, run: str, dataset: str, record: RunRecord) -> None:
        """``run`` is the key of the run, ``dataset`` the digest of its data set."""
        self._store = store
        self._dataset = dataset
        self._record = record
        self.proposals = _proposals(store, run, record)
        self.keys = _evaluation_keys(record, self.proposals)
        self.dropped = {key: dropped.questions for key, dropped in record.dropped.items()}
        if record.winner is None and not record.no_winner:  # the record of a running search has none yet
            self.dropped |= {row.evaluation: row.dropped for row in self.proposals if row.dropped is not None}
        self.searched, self.tested = record.split.search, record.split.test

    @property
    def lists_all(self) -> bool:
        """Whether all proposals of the run are stored."""
        history = self._record.history
        return not history or len(self.proposals) == sum(step.evaluations for step in history)

    def read(self, keys: Collection[str]) -> dict[tuple[str, tuple[str, ...]], Evaluation]:
        """Return the stored evaluations of ``keys``, on the search and on the test questions."""
        found: dict[tuple[str, tuple[str, ...]], Evaluation] = {}
        described = {row.key: row for row in self._store.evaluations(self._dataset) if row.key in keys} if keys else {}
        for key, rows in self.by_question(described, self._store.results_many).items():
            candidate = read_candidate(described[key])
            answered = {question: row for question, row in rows.items() if self._was_evaluated(key, question)}
            for part in {self.searched, self.tested}:
                found[key, part] = build_evaluation(key, candidate, part, answered)
        return found

    def by_question(
        self, keys: Iterable[str], read: Callable[[Iterable[str]], Mapping[str, Mapping[str, Any]]]
    ) -> dict[str, dict[str, Any]]:
        """Return what ``read`` returns by evaluation and question, for test questions from their keys in the store."""
        pairs = {key: (key, self._record.key_on_test(key)) for key in keys}
        stored = read(dict.fromkeys(each for pair in pairs.values() for each in pair if each))
        tested = frozenset(self.tested)
        return {
            key: {
                question: value
                for part in (False, True)
                for question, value in stored.get(pair[part], {}).items()
                if (question in tested) is part
            }
            for key, pair in pairs.items()
        }

    def read_all(self) -> dict[tuple[str, tuple[str, ...]], Evaluation] | None:
        """Return all evaluations of the run, or None if an answer is missing or failed."""
        record = self._record
        if record.failed or record.excluded or record.unfinished or not self.lists_all:
            return None
        found = self.read(frozenset(self.keys))
        if record.winner and (record.winner, self.searched) not in found:
            return None
        tested = set(record.test.values())
        for key in self.keys:
            expected = record.split.order[: self.dropped[key]] if key in self.dropped else self.searched
            wanted = {self.searched: expected, **({self.tested: self.tested} if key in tested else {})}
            for part, questions in wanted.items():
                if (key, part) not in found or not found[key, part].records.keys() >= set(questions):
                    return None
        return found

    def _was_evaluated(self, key: str, question: str) -> bool:
        """Whether the run evaluated a question: another run may have evaluated a pruned candidate further."""
        answered = self.dropped.get(key)
        return answered is None or question in self.tested or question in self._record.split.order[:answered]


def _proposals(store: Store, run: str, record: RunRecord) -> tuple[ProposalRow, ...]:
    """Return the proposals of the run, without rows of an earlier, longer attempt or with genomes of another space."""
    stored = [row for row in store.proposals(run) if record.space.includes(row.genome)]
    return tuple(stored[: sum(step.evaluations for step in record.history)] if record.history else stored)


def _evaluation_keys(record: RunRecord, proposals: Sequence[ProposalRow]) -> tuple[str, ...]:
    """Return the keys of all evaluations of a run, each once."""
    named = [
        *record.baselines.values(),
        *(proposal.evaluation for proposal in proposals),
        *record.random,
        *(probe.key for probe in record.probes),
        *(probe.reference for probe in record.probes),
        *record.test.values(),
        *(removal.key for removal in record.removals),
        *([record.recommended] if record.recommended else []),
        *([record.declining.key] if record.declining and record.declining.key else []),
        *record.unfinished,
    ]
    return tuple(dict.fromkeys(named))


def out_of_fold_evaluations(store: Store, record: RunRecord) -> dict[str, Evaluation]:
    """Return an evaluation on the questions of all folds for each role in the comparison; empty without folds.

    The winner has the key and the pipeline of the run's winner; a role with several pipelines has a separate key, and
    the most frequent pipeline. A role that is the winner in every fold is left out. A fold without a winner has no
    answers.
    """
    able = [fold for fold in record.folds if fold.entrants]
    if not able or record.winner is None:
        return {}
    everywhere = [name for name in able[0].entrants if all(name in fold.entrants for fold in able)]
    roles = [
        name
        for name in everywhere
        if name == "winner"
        or (name not in WINNER_SOURCES and any(fold.entrants[name] != fold.entrants["winner"] for fold in able))
    ]
    rows = store.results_many({key for fold in able for key in fold.entrants.values()})
    found = {}
    for role in roles:
        keys = Counter(fold.entrants[role] for fold in able)
        [(most, count)] = keys.most_common(1)
        described = store.evaluation(record.winner if role == "winner" else most)
        if described is None:
            continue
        key = record.winner if role == "winner" else most if count == len(able) else f"{role} of each fold"
        answered = {
            question: rows.get(fold.entrants[role], {}).get(question) for fold in able for question in fold.test
        }
        known = {question: row for question, row in answered.items() if row is not None}
        candidate = read_candidate(described)
        found[role] = build_evaluation(key, candidate, record.tested, known)
    return found


def fold_winners(store: Store, record: RunRecord) -> tuple[str, ...]:
    """Return the labels of the winners of the folds of a crossfit; "" for a fold without one."""
    keys = [fold.entrants.get("winner", "") for fold in record.folds]
    described = [store.evaluation(key) if key else None for key in keys]
    return tuple(label(read_candidate(one)) or "naive RAG" if one else "" for one in described)
