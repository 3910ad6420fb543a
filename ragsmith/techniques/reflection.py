"""The loop of self-reflective retrieval: search, judge and reformulate until it stops (Verma et al. 2026)."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from ragsmith.techniques.fusion import normalize, reciprocal_rank_fusion
from ragsmith.types import Hits

Candidates = tuple[tuple[str, float], ...]
"""Queries with their probabilities in [0, 1]."""

CONFIDENCE_HITS = 5
"""Number of hits whose scores determine the confidence."""

Stop = Literal["sufficient", "converged", "budget", "no candidate"]


@dataclass(frozen=True, slots=True)
class Round:
    """A search, the passages that the controller read, and its verdict."""

    query: str
    hits: Hits
    passages: tuple[str, ...]
    sufficient: bool


@dataclass(frozen=True, slots=True)
class Reflection:
    """The searches in order, and why the loop stopped."""

    rounds: tuple[Round, ...]
    stop: Stop


def reflect(
    question: str,
    look: Callable[[str], Round],
    propose: Callable[[Round], Candidates],
    settled: Callable[[Hits, Hits], bool],
    reformulations: int,
) -> Reflection:
    """Search at most ``1 + reformulations`` times.

    ``look`` searches and judges, ``propose`` returns candidates for the next query, and ``settled`` says whether the
    new hits have converged to the last ones. No query is searched twice.
    """
    rounds: list[Round] = []
    query = question
    for left in range(reformulations, -1, -1):
        rounds.append(look(query))
        if rounds[-1].sufficient:
            return Reflection(tuple(rounds), "sufficient")
        if len(rounds) > 1 and settled(rounds[-1].hits, rounds[-2].hits):
            return Reflection(tuple(rounds), "converged")
        if left:
            fresh = most_probable(propose(rounds[-1]), tried=[done.query for done in rounds])
            if fresh is None:
                return Reflection(tuple(rounds), "no candidate")
            query = fresh
    return Reflection(tuple(rounds), "budget")


def most_probable(candidates: Candidates, tried: Iterable[str]) -> str | None:
    """Return the most probable query, the first of equals, that was not tried, ignoring case and white space."""
    known = {_fold(query) for query in tried}
    fresh = [candidate for candidate in candidates if _fold(candidate[0]) not in known]
    return max(fresh, key=lambda candidate: candidate[1])[0] if fresh else None


def _fold(query: str) -> str:
    return " ".join(query.casefold().split())


def has_converged(now: Hits, before: Hits, *, rule: str, beta: float, tau: float) -> bool:
    """Whether the stopping rule ends the loop between two searches."""
    return rule != "none" and change(now, before, rule=rule, beta=beta) < tau


def change(now: Hits, before: Hits, *, rule: str, beta: float) -> float:
    """Return the quantity that the stopping rule, as printed or corrected, compares with its threshold."""
    one, other = ({hit.chunk.id for hit in hits} for hits in (now, before))
    similarity = len(one & other) / len(one | other) if one | other else 1.0  # Jaccard
    # as printed: Delta_t = Sim(D_t, D_t-1) + beta |Conf(D_t) - Conf(D_t-1)|;  corrected: 1 - Sim in the place of Sim
    return (similarity if rule == "as_printed" else 1 - similarity) + beta * abs(confidence(now) - confidence(before))


def confidence(hits: Hits) -> float:
    """Return the mean of the five best normalised scores, which is high if the first hits stand out from the rest."""
    best = sorted(normalize(hits, "minmax"), reverse=True)[:CONFIDENCE_HITS]
    return sum(best) / len(best) if best else 0.0


def select_hits(reflection: Reflection, keep: str) -> Hits:
    """Return the hits of the last round if they are sufficient, else those chosen by ``keep``."""
    rounds = reflection.rounds
    if reflection.stop == "sufficient" or keep == "last" or len(rounds) == 1:
        return rounds[-1].hits
    if keep == "best_conf":
        return max(rounds, key=lambda done: confidence(done.hits)).hits
    return reciprocal_rank_fusion(done.hits for done in rounds)
