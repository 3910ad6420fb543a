"""Latencies in the store: medians of a search, and the timings of ``evaluate --latency``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.latency import timed_on
from ragsmith.pipelines.stages import COLD, WARM, StageTimes
from ragsmith.records.record import RunRecord
from ragsmith.store.store import LatencyRow, Store

TIMINGS = "latency"
"""The kind of finding of ``evaluate --latency``: seconds by machine, question, state and stage."""


def stored_latencies(store: Store, record: RunRecord, evaluations: Iterable[Evaluation]) -> dict[str, float]:
    """The median seconds of the pipelines of a run that were timed on all their questions, by key."""
    asked = {one.key: timed_on(record.split.order, one.records) for one in evaluations}
    machine = record.settings.measured_on
    rows = store.latencies(asked, machine) if machine else {}
    found = {key: median_seconds(rows[key], asked[key]) for key in rows}
    return {key: seconds for key, seconds in found.items() if seconds is not None}


def store_timings(store: Store, evaluation: str, dataset: str, machine: str, timings: Iterable[StageTimes]) -> None:
    """Store timings of ``evaluate --latency``, replacing those on the same kind of machine."""
    seconds: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for timing in timings:
        seconds[timing.question][timing.state] = dict(timing.seconds)
    before: Any = store.findings(TIMINGS, [evaluation]).get(evaluation, {})
    store.put_finding(TIMINGS, evaluation, dataset, {**before, machine: dict(seconds)})


def stored_timings(store: Store, evaluations: Iterable[str]) -> dict[str, dict[str, list[StageTimes]]]:
    """The stored timings by evaluation and kind of machine, sorted by question."""
    found: dict[str, Any] = store.findings(TIMINGS, evaluations)
    return {
        evaluation: {
            machine: [
                StageTimes(question, state, seconds[question][state])
                for question in sorted(seconds)
                for state in (WARM, COLD)
                if state in seconds[question]
            ]
            for machine, seconds in sorted(by_machine.items())
        }
        for evaluation, by_machine in found.items()
    }


def median_seconds(rows: Mapping[str, LatencyRow], questions: Sequence[str]) -> float | None:
    """The median over ``questions``; None if one is not known, or there is none."""
    known = [rows[question].value for question in questions if question in rows and rows[question].state == "ok"]
    return median(known) if known and len(known) == len(questions) else None
