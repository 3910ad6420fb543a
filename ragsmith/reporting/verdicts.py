"""The one claim of a report: the winner against each finalist, on questions that the search never saw.

Paired differences with a bootstrap interval, sign-flip p-values, adjusted by Holm over all comparisons made here.

Where a machine drafted any of these questions, R alone is compared: such questions rank what is found as people's do,
and not what is answered (arXiv 2508.11758).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.fitness import RETRIEVAL, RETRIEVAL_ALONE, Fitness
from ragsmith.evaluation.ranking import Terms, common
from ragsmith.evaluation.statistics import Paired, holm, paired, sign_flip, verdict
from ragsmith.pipelines.genes import label
from ragsmith.reporting.values import TITLES, Cheapest, Comparison
from ragsmith.runs.front import loss_at_most

RETRIEVAL_ONLY = Fitness(RETRIEVAL_ALONE, objective=RETRIEVAL)


def compare(
    tested: Mapping[str, Evaluation], terms: Terms, budget: int, *, drafted: bool = False
) -> tuple[Comparison, ...]:
    """Compare ``winner`` in ``tested`` with the others on the questions that all of them finished.

    By their fitness; by R alone where some of the questions were ``drafted``, on those that have evidence. One that is
    incomplete by ``terms`` is not compared. ``budget`` is how many random pipelines were drawn. All of them stay in
    Holm's family, so that a comparison that failed does not make the others easier (its p is 1).
    """
    if drafted:
        tested, terms = _on_evidence(tested, terms)
    winner = tested.get("winner")
    if winner is None:
        return ()
    others = {name: evaluation for name, evaluation in tested.items() if name != "winner"}
    able = [evaluation for evaluation in tested.values() if terms.admit(evaluation)]
    questions = common(able)
    differences = {
        name: _difference(winner, other, questions, terms) if winner in able and other in able and questions else None
        for name, other in others.items()
    }
    adjusted = holm([1.0 if found is None else found.p for found in differences.values()])
    return tuple(
        Comparison(
            name,
            against(name, budget),
            label(others[name].candidate),
            found,
            None if found is None else p,
            None if found is None else verdict(found, p, family=len(others)),
            RETRIEVAL if drafted else "fitness",
        )
        for (name, found), p in zip(differences.items(), adjusted, strict=True)
    )


def _on_evidence(tested: Mapping[str, Evaluation], terms: Terms) -> tuple[dict[str, Evaluation], Terms]:
    """The same on the questions that have evidence, and terms by which R alone counts."""
    labelled = {
        question
        for one in tested.values()
        for question, value in zip(one.records, one.on(tuple(one.records)).column(RETRIEVAL), strict=True)
        if value is not None
    }
    found = {name: one.on(tuple(q for q in one.questions if q in labelled)) for name, one in tested.items()}
    return found, Terms.of(list(found.values()), RETRIEVAL_ONLY, terms.may_miss)


def cheapest(tested: Mapping[str, Evaluation], terms: Terms, margin: float) -> Cheapest | None:
    """How far the cheapest pipeline within ``margin`` is behind the winner; None where it cannot be told, or is it."""
    winner, other = tested.get("winner"), tested.get("cheapest")
    if winner is None or other is None or (most := loss_at_most(winner, other, terms)) is None:
        return None
    both = common([winner, other])
    (best, winner_calls), (worth, calls) = (
        [math.fsum(one.on(both).values(name, terms.fitness)) / len(both) for name in ("fitness", "calls")]
        for one in (winner, other)
    )
    return Cheapest(label(other.candidate), calls, winner_calls, len(both), best - worth, most, margin)


def against(name: str, budget: int) -> str:
    """What a finalist is called in a sentence."""
    if name in ("recommended", "single", "cheapest"):
        return f"the {TITLES[name]}"
    return f"the best of {budget:,} random pipelines" if name == "random" else TITLES.get(name, name)


def _difference(winner: Evaluation, other: Evaluation, questions: tuple[str, ...], terms: Terms) -> Paired:
    """The paired comparison on ``questions``.

    Whoever is ahead must be so, too, on everything that the other finished, its own failures being the lowest score
    there is: neither they nor what a third one failed on may make the difference. The larger p of the two tests counts;
    if the lead is lost, p is 1.
    """
    ours, theirs = winner.by_question(terms.fitness), other.by_question(terms.fitness)
    found = paired([ours[q] for q in questions], [theirs[q] for q in questions])
    ahead, behind = (ours, theirs) if found.mean_difference > 0 else (theirs, ours)
    if len(behind) == len(questions):
        return found
    held = [ahead.get(question, terms.lowest) for question in behind], list(behind.values())
    still = math.fsum(held[0]) > math.fsum(held[1])
    return replace(found, p=max(found.p, sign_flip(*held)) if still else 1.0)
