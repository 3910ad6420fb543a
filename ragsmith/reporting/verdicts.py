"""The one claim of a report: the winner against each finalist, on questions that the search never saw.

Paired differences with a bootstrap interval, sign-flip p-values, adjusted by Holm over all comparisons made here.
"""

from __future__ import annotations

from collections.abc import Mapping

from ragsmith.evaluation.evaluator import Evaluation
from ragsmith.evaluation.fitness import Fitness
from ragsmith.evaluation.statistics import Paired, holm, paired, verdict
from ragsmith.pipelines.genes import label
from ragsmith.reporting.values import TITLES, Comparison


def compare(tested: Mapping[str, Evaluation], fitness: Fitness, budget: int) -> tuple[Comparison, ...]:
    """Compare ``winner`` in ``tested`` with the others; ``budget`` is how many random pipelines were drawn.

    All of them stay in Holm's family, so that a comparison that failed does not make the others easier (its p is 1).
    """
    winner = tested.get("winner")
    if winner is None:
        return ()
    others = {name: evaluation for name, evaluation in tested.items() if name != "winner"}
    differences = {name: _difference(winner, other, fitness) for name, other in others.items()}
    adjusted = holm([1.0 if found is None else found.p for found in differences.values()])
    return tuple(
        Comparison(
            name,
            against(name, budget),
            label(others[name].candidate),
            found,
            None if found is None else p,
            None if found is None else verdict(found, p, family=len(others)),
        )
        for (name, found), p in zip(differences.items(), adjusted, strict=True)
    )


def against(name: str, budget: int) -> str:
    """What a finalist is called in a sentence."""
    return f"the best of {budget:,} random pipelines" if name == "random" else TITLES.get(name, name)


def _difference(winner: Evaluation, other: Evaluation, fitness: Fitness) -> Paired | None:
    """The paired comparison; None unless both answered every question, for leaving questions out would choose them."""
    if not (winner.complete and other.complete and winner.questions):
        return None
    return paired(winner.values("fitness", fitness), other.values("fitness", fitness))
