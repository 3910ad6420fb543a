"""How long pipelines take: measured once, kept apart from results, and read by whoever goes on."""

from __future__ import annotations

from collections.abc import Sequence

from ragsmith.evaluation.evaluator import Evaluation, Evaluator
from ragsmith.evaluation.latency import timed_on
from ragsmith.store.store import LatencyRow, Store


class Latencies:
    """Seconds that pipelines take for a question on one kind of machine."""

    def __init__(self, evaluator: Evaluator, store: Store, machine: str, order: Sequence[str]) -> None:
        """``order`` has the questions in the order of the race."""
        self._evaluator = evaluator
        self._store = store
        self._machine = machine
        self._order = order
        self._failed: set[str] = set()

    def of(self, evaluation: Evaluation) -> float | None:
        """The median over the questions of `timed_on`; None where one fails now.

        Like an answer, one that failed in an earlier run is tried again, and one of this run is not.
        """
        key = evaluation.key
        questions = timed_on(self._order, evaluation.records)
        kept = self._store.latencies([key], self._machine).get(key)
        if kept is not None and kept.by_question.keys() == set(questions):
            return kept.seconds
        if key in self._failed:
            return None
        ok, value = self._evaluator.timed(evaluation.candidate, questions)
        if not ok:
            self._failed.add(key)
        return self._store.put_latency(LatencyRow(key, self._machine, "ok" if ok else "failed", value)).seconds
