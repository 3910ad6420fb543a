"""Measure the latency of pipelines, once a question; the same search reads it from the store again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.evaluator import Evaluator
from ragsmith.evaluation.latency import timed_on
from ragsmith.records.objectives import median_seconds
from ragsmith.store.store import LatencyRow, Store


class Latencies:
    """The seconds that pipelines take for a question on one kind of machine."""

    def __init__(self, evaluator: Evaluator, store: Store, machine: str, order: Sequence[str]) -> None:
        """``order`` has the questions in the order of the race."""
        self._evaluator = evaluator
        self._store = store
        self._machine = machine
        self._order = order
        self._failed: dict[tuple[str, str], LatencyRow] = {}

    def of(self, evaluation: Evaluation) -> float | None:
        """The median over the questions of `timed_on`; None if one fails.

        A question that failed in an earlier run is tried again, one that failed in this run is not.
        """
        key = evaluation.key
        rows = self._store.latencies([key], self._machine)[key]
        questions = timed_on(self._order, evaluation.records)
        for question in questions:
            if question not in rows or rows[question].state == "failed":
                rows[question] = self._failed.get((key, question)) or self._measured(evaluation, question)
            if rows[question].state == "failed":
                return None
        return median_seconds(rows, questions)

    def _measured(self, evaluation: Evaluation, question: str) -> LatencyRow:
        found = self._evaluator.timed(evaluation.candidate, question)
        state: Literal["ok", "failed"] = "failed" if isinstance(found, dict) else "ok"
        row = self._store.put_latency(LatencyRow(evaluation.key, self._machine, question, state, found))
        if row.state == "failed":
            self._failed[evaluation.key, question] = row
        return row
