"""Which questions are shown in full, and which evaluations show what an option repaired."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from ragsmith.evaluation.baselines import baseline
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.pipelines.genes import Candidate, Gene
from ragsmith.techniques.families import FAMILIES

MOST = 10
"""Questions that gained most, and that lost most, which are shown."""

WRONG = 5
"""Of the other questions, those on which the winner scores least, which are shown."""

Why = Literal["gained", "lost", "wrong"]


def shown(winner: Mapping[str, float], naive: Mapping[str, float]) -> dict[str, Why]:
    """The questions that are shown in full, and why, by the fitness of each in the winner and in naive RAG.

    Those that gained most, those that lost most, and of the rest those with the lowest fitness; equals by their ids.
    """
    gain = {question: winner[question] - naive[question] for question in sorted(winner.keys() & naive.keys())}
    gained = sorted((q for q in gain if gain[q] > 0), key=lambda q: -gain[q])[:MOST]
    lost = sorted((q for q in gain if gain[q] < 0), key=lambda q: gain[q])[:MOST]
    found: dict[str, Why] = {**dict.fromkeys(gained, "gained"), **dict.fromkeys(lost, "lost")}
    left = sorted((question for question in winner if question not in found), key=lambda q: (winner[q], q))
    return {**found, **dict.fromkeys(left[:WRONG], "wrong")}


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A pipeline one gene away: ``alone`` is naive RAG with a gene of the winner, ``out`` the winner without it."""

    view: Literal["alone", "out"]
    place: int
    gene: Gene
    evaluation: Evaluation


def neighbours(winner: Evaluation, evaluations: Iterable[Evaluation]) -> list[Neighbour]:
    """Those of ``evaluations`` that show what one gene of the winner does, by place, each pipeline once."""
    plain, best = _written(baseline("naive")), _written(winner.candidate)
    differing = [place for place in range(len(FAMILIES)) if plain[place] != best[place]]
    rest = best[len(FAMILIES) :]
    wanted = {(*plain[:place], best[place], *plain[place + 1 :], *rest): ("alone", place) for place in differing}
    wanted |= {(*best[:place], plain[place], *best[place + 1 :]): ("out", place) for place in differing}
    if len(differing) == 1:  # then one is naive RAG and the other the winner
        return []
    found: dict[tuple[str, int], Neighbour] = {}
    for one in evaluations:
        match wanted.get(_written(one.candidate)):
            case ("alone" | "out") as view, place:
                found.setdefault((view, place), Neighbour(view, place, winner.candidate[place], one))
    return [found[key] for key in sorted(found, key=lambda key: (key[1], key[0]))]


def _written(candidate: Candidate) -> tuple[tuple[str, str], ...]:
    """The genes as they are written, whatever was fitted."""
    return tuple((gene.technique.family, str(gene)) for gene in candidate)
