"""Self-reflective retrieval: search, judge and reformulate in a loop (Verma et al. 2026)."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from ragsmith.techniques.fusion import normalize, reciprocal_rank_fusion
from ragsmith.types import Hits

Candidates = tuple[tuple[str, float], ...]
"""Reformulated queries with their probabilities in [0, 1]."""

CONFIDENCE_HITS = 5
"""Number of hits whose scores determine the confidence."""

Stop = Literal["sufficient", "converged", "budget", "no candidate"]


@dataclass(frozen=True, slots=True)
class Round:
    """A search, the passages shown to the controller, and its verdict."""

    query: str
    hits: Hits
    passages: tuple[str, ...]
    sufficient: bool


@dataclass(frozen=True, slots=True)
class Reflection:
    """The rounds in order, and the reason why the loop stopped."""

    rounds: tuple[Round, ...]
    stop: Stop


def reflect(
    question: str,
    run_round: Callable[[str], Round],
    propose: Callable[[Round], Candidates],
    converged: Callable[[Hits, Hits], bool],
    reformulations: int,
) -> Reflection:
    """Run up to ``1 + reformulations`` rounds.

    ``run_round`` searches and judges, ``propose`` returns candidates for the next query, and ``converged`` compares the
    new hits with the previous ones. No query is searched twice.
    """
    rounds: list[Round] = []
    query = question
    for left in range(reformulations, -1, -1):
        rounds.append(run_round(query))
        if rounds[-1].sufficient:
            return Reflection(tuple(rounds), "sufficient")
        if len(rounds) > 1 and converged(rounds[-1].hits, rounds[-2].hits):
            return Reflection(tuple(rounds), "converged")
        if left:
            reformulation = select_most_probable(propose(rounds[-1]), tried=[each.query for each in rounds])
            if reformulation is None:
                return Reflection(tuple(rounds), "no candidate")
            query = reformulation
    return Reflection(tuple(rounds), "budget")


def select_most_probable(candidates: Candidates, tried: Iterable[str]) -> str | None:
    """Return the first most probable query not yet tried, ignoring case and white space; None if there is none."""
    tried_queries = {_normalize_query(query) for query in tried}
    untried = [candidate for candidate in candidates if _normalize_query(candidate[0]) not in tried_queries]
    return max(untried, key=lambda candidate: candidate[1])[0] if untried else None


def _normalize_query(query: str) -> str:
    return " ".join(query.casefold().split())


def has_converged(now: Hits, before: Hits, *, rule: str, beta: float, tau: float) -> bool:
    """Whether the stopping rule ends the loop after two successive searches."""
    return rule != "none" and compute_change(now, before, rule=rule, beta=beta) < tau


def compute_change(now: Hits, before: Hits, *, rule: str, beta: float) -> float:
    """Return the statistic of the stopping rule, which is as printed in the paper or corrected."""
    new, old = ({hit.chunk.id for hit in hits} for hits in (now, before))
    similarity = len(new & old) / len(new | old) if new | old else 1.0  # Jaccard
    # as printed: Delta_t = Sim(D_t, D_t-1) + beta |Conf(D_t) - Conf(D_t-1)|;  corrected: 1 - Sim instead of Sim
    return (similarity if rule == "as_printed" else 1 - similarity) + beta * abs(
        compute_confidence(now) - compute_confidence(before)
    )


def compute_confidence(hits: Hits) -> float:
    """Return the mean of the five best normalised scores."""
    best = sorted(normalize(hits, "minmax"), reverse=True)[:CONFIDENCE_HITS]
    return sum(best) / len(best) if best else 0.0


def select_hits(reflection: Reflection, keep: str) -> Hits:
    """Return the hits of the last round if they are sufficient, otherwise those selected by ``keep``."""
    rounds = reflection.rounds
    if reflection.stop == "sufficient" or keep == "last" or len(rounds) == 1:
        return rounds[-1].hits
    if keep == "best_conf":
        return max(rounds, key=lambda each: compute_confidence(each.hits)).hits
    return reciprocal_rank_fusion(each.hits for each in rounds)
