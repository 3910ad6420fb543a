"""How long a pipeline takes for a question: percentiles by station, warm and cold apart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from ragsmith.pipelines.stations import COLD, STATIONS, WARM, WHOLE, Timing
from ragsmith.reporting import numbers
from ragsmith.reporting.tables import Table, columns
from ragsmith.reporting.values import TITLES, Domain, Latency, TimedPipeline

ALL = "all"

EXPLAINED = (
    "Each question was asked alone, by ragsmith evaluate --latency: warm with models opened and the index built, cold "
    "with nothing there, so that the first of them waits for both (the program itself was running, and had read its "
    "files before). Nothing that was found or answered before was remembered, and replies of models were waited for."
)


def latencies(timings: Sequence[Timing], groups: Callable[[str], Iterable[str]] = lambda _: ()) -> tuple[Latency, ...]:
    """Percentiles of all questions by station, warm and then cold; then, warm and in all, of the ``groups`` of each."""
    found = []
    for state in (WARM, COLD):
        of_state = [timing for timing in timings if timing.state == state]
        present = {station for timing in of_state for station in timing.seconds}
        for station in (*(one for one in STATIONS if one in present), *([WHOLE] if of_state else [])):
            found.append(_percentiles(ALL, state, station, [timing.seconds.get(station, 0.0) for timing in of_state]))
    by_group: defaultdict[str, list[float]] = defaultdict(list)
    for timing in timings:
        if timing.state == WARM:
            for group in groups(timing.question):
                by_group[group].append(timing.seconds[WHOLE])
    return (*found, *(_percentiles(group, WARM, WHOLE, by_group[group]) for group in sorted(by_group)))


def _percentiles(questions: str, state: str, station: str, seconds: Sequence[float]) -> Latency:
    """Over questions: one at which a station was not called took no time there."""
    p50, p90, p99 = (float(1000 * value) for value in np.quantile(seconds, [0.5, 0.9, 0.99]))
    return Latency(questions, state, station, len(seconds), p50, p90, p99)


def timed_pipelines(
    names: Mapping[str, str], labels: Mapping[str, str], kept: Mapping[str, Mapping[str, Sequence[Timing]]]
) -> tuple[TimedPipeline, ...]:
    """What was kept of the pipelines ``names``, by the key of each, and ``labels`` their words, by key."""
    return tuple(
        TimedPipeline(name, labels.get(key, ""), machine, latencies(timings))
        for name, key in names.items()
        for machine, timings in kept.get(key, {}).items()
    )


def table(domain: Domain) -> Table:
    """Percentiles by pipeline and station."""
    rows = [
        (
            TITLES.get(timed.name, timed.name),
            found.state,
            found.station,
            f"{found.n}",
            *(numbers.plain(value, 1) for value in (found.p50_ms, found.p90_ms, found.p99_ms)),
        )
        for timed in domain.timed
        for found in timed.latencies
    ]
    machines = "; ".join(dict.fromkeys(timed.machine for timed in domain.timed))
    figures = ["Questions", "p50, ms", "p90, ms", "p99, ms"]
    return Table(f"Latency by station, on {machines}", columns(["Pipeline", "State", "Station"], figures), tuple(rows))
