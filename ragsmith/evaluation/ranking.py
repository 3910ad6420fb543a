"""The order of candidates."""

from __future__ import annotations

from collections.abc import Sequence

from ragsmith.evaluation.evaluator import Evaluation
from ragsmith.evaluation.fitness import Fitness
from ragsmith.pipelines.genes import label


def ranked(evaluations: Sequence[Evaluation], fitness: Fitness) -> list[Evaluation]:
    """Complete evaluations, best first, one for each phenotype.

    Equal fitness goes to fewer model calls, then to fewer techniques, then by name: what does nothing is not part of
    the winner.
    """

    def place(evaluation: Evaluation) -> tuple[float, float, int, str]:
        score, calls = evaluation.mean("fitness", fitness), evaluation.mean("calls")
        assert score is not None
        assert calls is not None
        active = sum(gene.technique.name != "none" for gene in evaluation.candidate)
        return -round(score, 12), calls, active, label(evaluation.candidate)

    best: dict[str, Evaluation] = {}
    for evaluation in sorted((e for e in evaluations if e.complete), key=place):
        best.setdefault(evaluation.phenotype, evaluation)
    return list(best.values())


def best(evaluations: Sequence[Evaluation], fitness: Fitness) -> Evaluation | None:
    """The first that `ranked` would give; the costly comparison of phenotypes is left to those that tie."""
    scored = [(round(mean, 12), e) for e in evaluations if (mean := e.mean("fitness", fitness)) is not None]
    highest = max((mean for mean, _ in scored), default=None)
    return next(iter(ranked([e for mean, e in scored if mean == highest], fitness)), None)
