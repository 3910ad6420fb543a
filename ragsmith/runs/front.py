"""Which of the pipelines that a run evaluated one may want besides its winner: quality against model calls.

The front are the pipelines that no other beats in fitness with as few calls a question. Everything here is of the
search questions, and of pipelines that met all of them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragsmith.errors import UsageError
from ragsmith.evaluation.evaluator import Evaluation, stored_evaluation
from ragsmith.evaluation.ranking import Terms, best, common, ranked
from ragsmith.evaluation.statistics import student_quantile
from ragsmith.runs.choice import single
from ragsmith.runs.record import RunRecord
from ragsmith.store.store import Store

MARGIN, LEVEL = 0.02, 0.05
"""The cheapest is not shown, at this level, to be behind the winner by less than this fitness."""

PICKS = "best, knee, cheapest, single, a place in the ranking such as 3, or at most so many calls such as 'calls<=2'"

_CALLS = re.compile(r"calls\s*<=\s*(\d+(?:\.\d+)?)")


@dataclass(frozen=True, slots=True)
class Point:
    """A pipeline: what it is ranked by, and what it asks of models a question."""

    evaluation: Evaluation
    fitness: float
    calls: float


def points(evaluations: Sequence[Evaluation], terms: Terms) -> list[Point]:
    """The pipelines that are complete enough, one for each phenotype, best first."""
    found = []
    for evaluation in ranked(evaluations, terms):
        calls = evaluation.values("calls")
        score = terms.score(evaluation)
        assert score is not None
        found.append(Point(evaluation, score, math.fsum(calls) / len(calls)))
    return found


def front(found: Sequence[Point]) -> list[Point]:
    """Those that no other beats with as few calls, best first; the last is the cheapest worth having."""
    kept: list[Point] = []
    for point in sorted(found, key=lambda point: (-point.fitness, point.calls)):
        if not kept or point.calls < kept[-1].calls:
            kept.append(point)
    return kept


def knee(along: Sequence[Point]) -> Point:
    """The point of a front that is farthest above the line between its ends, both axes scaled to 1."""
    top, last = along[0], along[-1]
    rise, run = top.fitness - last.fitness, top.calls - last.calls
    if not rise or not run:
        return top

    def above(point: Point) -> float:
        return (point.fitness - last.fitness) / rise - (point.calls - last.calls) / run

    return max(along, key=above)  # the first of equals, and the best comes first


def cheapest(found: Sequence[Point], winner: Evaluation, terms: Terms) -> Point:
    """The one with the fewest calls that is shown not to be behind ``winner`` by as much as `MARGIN`."""
    able = [point for point in found if point.evaluation.key == winner.key or _not_worse(point, winner, terms)]
    return min(able, key=lambda point: (point.calls, -point.fitness))


def _not_worse(point: Point, winner: Evaluation, terms: Terms) -> bool:
    """One-sided paired t test that the loss is below the margin."""
    both = common([point.evaluation, winner])
    n = len(both)
    if n < 2 or n < len(terms.counted) * (1 - terms.may_miss):
        return False
    ours, theirs = winner.by_question(terms.fitness), point.evaluation.by_question(terms.fitness)
    losses = [ours[question] - theirs[question] for question in both]
    mean = math.fsum(losses) / n
    variance = math.fsum((loss - mean) ** 2 for loss in losses) / (n - 1)
    return mean + student_quantile(1 - LEVEL, n - 1) * math.sqrt(variance / n) < MARGIN


def picked(store: Store, run_key: str, record: RunRecord, pick: str) -> Evaluation:
    """The pipeline of a run that ``pick`` names: see `PICKS`.

    Raises:
        UsageError: it names nothing, or nothing that the run has.
    """
    assert record.winner is not None
    winner = stored_evaluation(store, record.winner, record.split.search)
    if pick == "best":
        return winner
    met = _finishers(store, run_key, record)
    terms = Terms.of(list(met.values()), record.settings.fitness, record.settings.may_miss)
    found = points(list(met.values()), terms)
    if pick == "knee":
        return knee(front(found)).evaluation
    if pick == "cheapest":
        return cheapest(found, winner, terms).evaluation
    if pick == "single":
        alone = best(single(met.values()), terms)
        if alone is None:
            raise UsageError("--pick single: the search finished no pipeline one option away from naive RAG")
        return alone
    if pick.isdecimal():
        order = [winner, *(point.evaluation for point in found if point.evaluation.key != winner.key)]
        if not 1 <= int(pick) <= len(order):
            raise UsageError(f"--pick {pick}: the ranking has the places 1 to {len(order)}")
        return order[int(pick) - 1]
    if bound := _CALLS.fullmatch(pick):
        few = [point for point in found if point.calls <= float(bound[1])]
        if not few:
            fewest = min(point.calls for point in found)
            raise UsageError(
                f"--pick {pick!r}: the cheapest pipeline of this search asks {fewest:.1f} calls a question"
            )
        return few[0].evaluation
    raise UsageError(f"--pick {pick!r} names no pipeline: give {PICKS}")


def _finishers(store: Store, run_key: str, record: RunRecord) -> Mapping[str, Evaluation]:
    """Everything that the search met on all of its questions, by key."""
    proposed = (row.evaluation for row in store.proposals(run_key))
    keys = dict.fromkeys([*proposed, *record.told, *(removal.key for removal in record.removals)])
    keys.pop("", None)
    able = [key for key in keys if key not in record.dropped]
    return {key: stored_evaluation(store, key, record.split.search) for key in able}
