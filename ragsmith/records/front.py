"""Alternatives to the winner among the pipelines of a run: quality against costs.

The Pareto front has the pipelines that no other dominates. A pipeline that finds nothing relevant is cheap but useless:
it is on no front, and is picked by its rank only. All of this is about the search questions, and pipelines that were
evaluated on all of them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from ragsmith.errors import UsageError
from ragsmith.evaluation.evaluation import stored_evaluation
from ragsmith.evaluation.ranking import Terms, best, common, ranked
from ragsmith.evaluation.statistics import mean_at_most
from ragsmith.records.objectives import stored_latencies
from ragsmith.records.record import RunRecord
from ragsmith.store.store import Store

if TYPE_CHECKING:  # evaluations are in no fingerprint
    from ragsmith.evaluation.evaluation import Evaluation

One = TypeVar("One")

PICKS = (
    "best, knee, cheapest, single, recommended, a place in the ranking such as 3, at most so many calls such as "
    "'calls<=2', or at most so many seconds such as 'latency<=0.5'"
)

_BOUND = re.compile(r"(calls|latency)\s*<=\s*(\d+(?:\.\d+)?)")


@dataclass(frozen=True, slots=True)
class Point:
    """A pipeline with its fitness and its model calls a question."""

    evaluation: Evaluation
    fitness: float
    calls: float


def points(evaluations: Sequence[Evaluation], terms: Terms, winner: str | None = None) -> list[Point]:
    """The complete pipelines, one for each phenotype, best first; a ``winner`` comes before all others."""
    found = []
    for evaluation in ranked(evaluations, terms, winner):
        calls = evaluation.values("calls")
        score = terms.score(evaluation)
        assert score is not None
        found.append(Point(evaluation, score, math.fsum(calls) / len(calls)))
    return found


def finds_anything(evaluation: Evaluation) -> bool:
    """Whether a pipeline finds anything relevant for any question."""
    return any(evaluation.values("retrieval"))


def pareto_front(found: Iterable[One], worth: Callable[[One], tuple[float, ...]]) -> list[One]:
    """The Pareto front by ``worth``, of which more is better, best first; of equals the first."""
    chosen: list[One] = []
    for one in sorted(found, key=worth, reverse=True):  # a dominating pipeline comes before the dominated ones
        if not any(all(a >= b for a, b in zip(worth(other), worth(one), strict=True)) for other in chosen):
            chosen.append(one)
    return chosen


def single(evaluations: Iterable[Evaluation], naive: Evaluation) -> list[Evaluation]:
    """The evaluations that differ in one option from ``naive``, the run's naive RAG."""

    def changed(evaluation: Evaluation) -> int:
        pairs = zip(evaluation.candidate, naive.candidate, strict=True)
        return sum(gene.technique.name != plain.technique.name for gene, plain in pairs)

    return [evaluation for evaluation in evaluations if changed(evaluation) == 1]


def by_calls(point: Point) -> tuple[float, float]:
    """The worth of a point if calls are the cost."""
    return point.fitness, -point.calls


def knee(along: Sequence[Point]) -> Point:
    """The point of a front that is farthest above the line between its ends, both axes scaled to 1.

    Of equals it is the one with the fewest calls.
    """
    top, last = along[0], along[-1]
    rise, run = top.fitness - last.fitness, top.calls - last.calls
    if not rise or not run:
        return top

    def above(point: Point) -> float:
        return (point.fitness - last.fitness) / rise - (point.calls - last.calls) / run

    return max(along, key=lambda point: (above(point), -point.calls))


def cheapest(found: Sequence[Point], winner: Evaluation, terms: Terms, margin: float) -> Evaluation:
    """The pipeline with the fewest calls shown not to be behind by ``margin``; ``winner`` if none saves any."""

    def able(point: Point) -> bool:
        loss = loss_at_most(winner, point.evaluation, terms)
        return loss is not None and loss < margin

    own = math.fsum(winner.values("calls")) / len(winner.records)
    saving = [point for point in found if point.calls < own and finds_anything(point.evaluation)]
    few = sorted(saving, key=lambda point: (point.calls, -point.fitness))
    return next((point.evaluation for point in few if able(point)), winner)


def loss_at_most(winner: Evaluation, other: Evaluation, terms: Terms) -> float | None:
    """The upper end of a one-sided interval of the loss of ``other``, paired by question.

    It chooses on search questions and is no verdict: it assumes independent questions and has no correction for the
    number of pipelines. None if both finished too few questions.
    """
    both = common([other, winner])
    if len(both) < 2 or len(both) < len(terms.counted) * (1 - terms.max_failure_rate):
        return None
    ours, theirs = winner.by_question(terms.fitness), other.by_question(terms.fitness)
    return mean_at_most([ours[question] - theirs[question] for question in both])


def pick_pipeline(store: Store, run_key: str, record: RunRecord, pick: str) -> Evaluation:
    """The pipeline of a run that ``pick`` names (see `PICKS`).

    Raises:
        UsageError: it names no pipeline of the run.
    """
    if pick not in ("best", "recommended"):
        return _among(_finishers(store, run_key, record), store, record, pick)
    key = record.winner if pick == "best" else record.recommended
    if key is None:
        raise UsageError(f"--pick {pick}: nothing was recommended for this search before it began")
    return stored_evaluation(store, key, record.split.search)


def _among(met: Mapping[str, Evaluation], store: Store, record: RunRecord, pick: str) -> Evaluation:
    """The pipeline that ``pick`` names among those evaluated on all search questions."""
    terms = Terms.of(list(met.values()), record.settings.fitness, record.settings.max_failure_rate)
    found = points(list(met.values()), terms, record.winner)
    if pick.isdecimal():
        if not 1 <= int(pick) <= len(found):
            raise UsageError(f"--pick {pick}: the ranking has the places 1 to {len(found)}")
        return found[int(pick) - 1].evaluation
    offered = [point for point in found if finds_anything(point.evaluation)]
    if not offered:
        raise UsageError(
            f"--pick {pick}: no pipeline of this search finds anything: look at the questions, or search another space"
        )
    if pick == "knee":
        return knee(pareto_front(offered, by_calls)).evaluation
    if pick == "cheapest":
        winner = stored_evaluation(store, record.winner or "", record.split.search)
        return cheapest(found, winner, terms, record.settings.margin)
    if pick == "single":
        naive = stored_evaluation(store, record.baselines["naive"], record.split.search)
        alone = best(single(met.values(), naive), terms)
        if alone is None or not finds_anything(alone):
            raise UsageError(
                "--pick single: the search finished none that finds anything and is one option away from naive RAG"
            )
        return alone
    if bound := _BOUND.fullmatch(pick):
        timed = bound[1] == "latency"
        costs = {point.evaluation.key: point.calls for point in offered}
        if timed:
            costs = stored_latencies(store, record, [point.evaluation for point in offered])
        if not costs:
            raise UsageError(
                f"--pick {pick!r}: this search measured no latency: one with --objectives quality,latency does"
            )
        able = [point for point in offered if costs.get(point.evaluation.key, math.inf) <= float(bound[2])]
        if not able:
            least = min(costs.values())
            says = (
                f"fastest pipeline of this search takes {least:.3f} s"
                if timed
                else (f"cheapest pipeline of this search asks {least:.1f} calls")
            )
            nothing = "" if len(offered) == len(found) else ", but for those that find nothing"
            raise UsageError(f"--pick {pick!r}: the {says} a question{nothing}")
        return max(able, key=lambda point: point.fitness).evaluation
    raise UsageError(f"--pick {pick!r} names no pipeline: give {PICKS}")


def _finishers(store: Store, run_key: str, record: RunRecord) -> Mapping[str, Evaluation]:
    """The pipelines that the search evaluated on all of its questions, by key."""
    proposed = (row.evaluation for row in store.proposals(run_key))
    keys = dict.fromkeys([*proposed, *record.told, *(removal.key for removal in record.removals)])
    keys.pop("", None)
    able = [key for key in keys if key not in record.dropped]
    return {key: stored_evaluation(store, key, record.split.search) for key in able}
