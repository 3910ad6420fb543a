"""Alternatives to the winner among the pipelines of a run: quality against costs.

The Pareto front has the pipelines that no other dominates. A pipeline that finds nothing relevant is cheap but useless:
it is on no front, and is picked by its rank only. Only pipelines that were evaluated on all search questions count.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from ragsmith.errors import WrongOption
from ragsmith.evaluation.evaluation import load_evaluation
from ragsmith.evaluation.ranking import Terms, best_evaluation, common_questions, rank_evaluations
from ragsmith.evaluation.statistics import mean_upper_bound
from ragsmith.records.objectives import load_latencies
from ragsmith.records.record import RunRecord
from ragsmith.store.store import Store

if TYPE_CHECKING:  # for annotations, which are not part of the fingerprint
    from ragsmith.evaluation.evaluation import Evaluation

Item = TypeVar("Item")

PICKS = (
    "best, winner, calibrated, knee, cheapest, single, recommended, naive, bm25, random, a place in the ranking such "
    "as 3, at most so many calls such as 'calls<=2', or at most so many seconds such as 'latency<=0.5'"
)
"""The pipelines of a run that can be picked, for messages."""

_BOUND = re.compile(r"(calls|latency)\s*<=\s*(\d+(?:\.\d+)?)")


@dataclass(frozen=True, slots=True)
class Point:
    """A pipeline with its fitness and its number of model calls per question."""

    evaluation: Evaluation
    fitness: float
    calls: float


def rank_points(evaluations: Sequence[Evaluation], terms: Terms, winner: str | None = None) -> Iterator[Point]:
    """Yield the pipelines with a score, one for each phenotype, best first; a ``winner`` comes before all others."""
    for evaluation in rank_evaluations(evaluations, terms, winner):
        calls = evaluation.values("calls")
        score = terms.score(evaluation)
        assert score is not None
        yield Point(evaluation, score, math.fsum(calls) / len(calls))


def finds_anything(evaluation: Evaluation) -> bool:
    """Return whether a pipeline retrieves anything relevant for any question."""
    return any(evaluation.values("retrieval"))


def pareto_front(items: Iterable[Item], objectives: Callable[[Item], tuple[float, ...]]) -> list[Item]:
    """Return the Pareto front by ``objectives``, where higher is better, best first; of equal ``items`` the first."""
    chosen: list[Item] = []
    for one in sorted(items, key=objectives, reverse=True):  # a dominating pipeline comes before the dominated ones
        if not any(all(a >= b for a, b in zip(objectives(other), objectives(one), strict=True)) for other in chosen):
            chosen.append(one)
    return chosen


def single_option_evaluations(evaluations: Iterable[Evaluation], naive: Evaluation) -> list[Evaluation]:
    """Return the evaluations that differ in one option from ``naive``, the run's naive RAG; another system never."""

    def changed(evaluation: Evaluation) -> int:
        pairs = zip(evaluation.candidate, naive.candidate, strict=True)
        return sum(gene.technique.name != plain.technique.name for gene, plain in pairs)

    pipelines = [one for one in evaluations if len(one.candidate) == len(naive.candidate)]
    return [evaluation for evaluation in pipelines if changed(evaluation) == 1]


def quality_and_calls(point: Point) -> tuple[float, float]:
    """Return the objectives of a point: fitness, and calls as the cost."""
    return point.fitness, -point.calls


def find_knee(front: Sequence[Point]) -> Point:
    """Return the point of a front that is farthest above the line between its ends, both axes scaled to 1.

    Ties are resolved by the fewest calls.
    """
    top, last = front[0], front[-1]
    rise, run = top.fitness - last.fitness, top.calls - last.calls
    if not rise or not run:
        return top

    def above(point: Point) -> float:
        return (point.fitness - last.fitness) / rise - (point.calls - last.calls) / run

    return max(front, key=lambda point: (above(point), -point.calls))


def find_cheapest(found: Sequence[Point], winner: Evaluation, terms: Terms, margin: float) -> Evaluation:
    """Return the pipeline with the fewest calls that is not worse by ``margin``; ``winner`` if none saves calls."""

    def able(point: Point) -> bool:
        loss = loss_upper_bound(winner, point.evaluation, terms)
        return loss is not None and loss < margin

    winner_calls = math.fsum(winner.values("calls")) / len(winner.records)
    saving = [point for point in found if point.calls < winner_calls and finds_anything(point.evaluation)]
    few = sorted(saving, key=lambda point: (point.calls, -point.fitness))
    return next((point.evaluation for point in few if able(point)), winner)


def loss_upper_bound(winner: Evaluation, other: Evaluation, terms: Terms) -> float | None:
    """Return the upper end of a one-sided confidence interval of the loss of ``other``, paired by question.

    The bound is used for selection only: it assumes independent questions and is not corrected for the number of
    pipelines. None if both finished too few questions.
    """
    both = common_questions([other, winner])
    if len(both) < 2 or len(both) < len(terms.counted) * (1 - terms.max_failure_rate):
        return None
    ours, theirs = winner.by_question(terms.fitness), other.by_question(terms.fitness)
    return mean_upper_bound([ours[question] - theirs[question] for question in both])


def pick_pipeline(store: Store, run_key: str, record: RunRecord, pick: str) -> Evaluation:
    """Return the pipeline of a run that ``pick`` names (see `PICKS`).

    Raises:
        UsageError: it names no pipeline of the run.
    """
    calibrated = (record.declining.key if record.declining else "") or None
    named: dict[str, str | None] = {
        "random": record.test.get("random"),
        **dict.fromkeys(("naive", "bm25")),
        **{role: record.test[role] for role in ("single", "cheapest") if role in record.test},
        **record.baselines,
        "recommended": record.recommended,
        "winner": record.winner,
        "calibrated": calibrated,
        "best": calibrated or record.winner,
    }
    if pick not in named:
        return _pick_among(_finished_evaluations(store, run_key, record), store, record, pick)
    if (key := named[pick]) is None:
        missing = {
            "recommended": "recommended for this search before it began",
            "calibrated": "calibrated: this search had no --max-risk that declining can keep",
        }
        raise WrongOption("pick", f"is {pick}, and nothing was {missing.get(pick, 'tested under this name')}")
    found = load_evaluation(store, key, record.split.search)
    if not found.records:
        raise WrongOption(
            "pick", f"is {pick}, and the cache has no intact result of evaluation {key}: run the search again"
        )
    return found


def _pick_among(finished: Mapping[str, Evaluation], store: Store, record: RunRecord, pick: str) -> Evaluation:
    """Return the pipeline that ``pick`` names among those evaluated on all search questions."""
    terms = Terms.from_evaluations(list(finished.values()), record.settings.fitness, record.settings.max_failure_rate)
    found = list(rank_points(list(finished.values()), terms, record.winner))
    if pick.isdecimal():
        if not 1 <= int(pick) <= len(found):
            raise WrongOption("pick", f"is {pick}, and the ranking has the places 1 to {len(found)}")
        return found[int(pick) - 1].evaluation
    offered = [point for point in found if finds_anything(point.evaluation)]
    if not offered:
        raise WrongOption(
            "pick",
            f"is {pick}, and no pipeline of this search finds anything: check the questions, or search another space",
        )
    if pick == "knee":
        return find_knee(pareto_front(offered, quality_and_calls)).evaluation
    if pick == "cheapest":
        winner = load_evaluation(store, record.winner or "", record.split.search)
        return find_cheapest(found, winner, terms, record.settings.margin)
    if pick == "single":
        naive = load_evaluation(store, record.baselines["naive"], record.split.search)
        alone = best_evaluation(single_option_evaluations(finished.values(), naive), terms)
        if alone is None or not finds_anything(alone):
            raise WrongOption(
                "pick", f"is {pick}, and no finished pipeline that finds anything differs from naive RAG in one option"
            )
        return alone
    if bound := _BOUND.fullmatch(pick):
        timed = bound[1] == "latency"
        costs = {point.evaluation.key: point.calls for point in offered}
        if timed:
            costs = load_latencies(store, record, [point.evaluation for point in offered])
        if not costs:
            raise WrongOption(
                "pick", f"is {pick}, and this search measured no latency: search with --objectives quality,latency"
            )
        able = [point for point in offered if costs.get(point.evaluation.key, math.inf) <= float(bound[2])]
        if not able:
            least = min(costs.values())
            says = (
                f"fastest pipeline of this search takes {least:.3f} s"
                if timed
                else (f"cheapest pipeline of this search makes {least:.1f} calls")
            )
            nothing = "" if len(offered) == len(found) else ", except those that find nothing"
            raise WrongOption("pick", f"is {pick}, and the {says} a question{nothing}")
        return max(able, key=lambda point: point.fitness).evaluation
    raise WrongOption("pick", f"is {pick}, and names no pipeline: give {PICKS}")


def _finished_evaluations(store: Store, run_key: str, record: RunRecord) -> Mapping[str, Evaluation]:
    """Return the pipelines that the search evaluated on all of its questions, by key."""
    proposed = (row.evaluation for row in store.proposals(run_key))
    keys = dict.fromkeys([*proposed, *record.told, *(removal.key for removal in record.removals)])
    keys.pop("", None)
    able = [key for key in keys if key not in record.dropped]
    return {key: load_evaluation(store, key, record.split.search) for key in able}
