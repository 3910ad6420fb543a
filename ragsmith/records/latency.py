"""How long pipelines take, as the store has it: medians of a search, and what ``evaluate --latency`` measured."""

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

BY_STATION = "latency"
"""The kind of finding that ``evaluate --latency`` leaves: machine to question to state to station to seconds."""


def kept_latencies(store: Store, record: RunRecord, evaluations: Iterable[Evaluation]) -> dict[str, float]:
    """The seconds of those pipelines of a run that were timed on all that they were to be timed on, by key."""
    asked = {one.key: timed_on(record.split.order, one.records) for one in evaluations}
    machine = record.settings.measured_on
    rows = store.latencies(asked, machine) if machine else {}
    found = {key: median_seconds(rows[key], asked[key]) for key in rows}
    return {key: seconds for key, seconds in found.items() if seconds is not None}


def keep_timings(store: Store, evaluation: str, dataset: str, machine: str, timings: Iterable[StageTimes]) -> None:
    """Keep what ``evaluate --latency`` measured, in the place of what it measured on that kind of machine before."""
    seconds: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for timing in timings:
        seconds[timing.question][timing.state] = dict(timing.seconds)
    before: Any = store.findings(BY_STATION, [evaluation]).get(evaluation, {})
    store.put_finding(BY_STATION, evaluation, dataset, {**before, machine: dict(seconds)})


def kept_timings(store: Store, evaluations: Iterable[str]) -> dict[str, dict[str, list[StageTimes]]]:
    """The same by evaluation and kind of machine, sorted by question; what was never timed is left out."""
    found: dict[str, Any] = store.findings(BY_STATION, evaluations)
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
    """Over ``questions``; None where one is not known, or there is none."""
    known = [rows[question].value for question in questions if question in rows and rows[question].state == "ok"]
    return median(known) if known and len(known) == len(questions) else None
