"""What is claimed of the winner where some of those compared failed on test questions."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ragsmith.evaluation.evaluator import Evaluation
from ragsmith.evaluation.fitness import Fitness
from ragsmith.evaluation.ranking import Terms
from ragsmith.evaluation.statistics import Verdict
from ragsmith.pipelines.genes import make_gene
from ragsmith.reporting.values import Comparison
from ragsmith.reporting.verdicts import compare

QUESTIONS = tuple(f"t{place:02}" for place in range(20))
FAILURE = {"stage": "generation.answer", "kind": "refused content", "error": "RefusedContent: no"}
WINNER = [0.55 + 0.005 * place for place in range(18)] + [0.0, 0.0]
NAIVE = [0.5] * 18 + [1.0, 1.0]
"""Worse than the winner on 18 questions, and far better on the other two, so that it is ahead on all twenty."""


def finalist(key: str, scores: Sequence[float], failed: Collection[int] = ()) -> Evaluation:
    names = ("recall", "map", "ndcg", "mrr", "judge", "similarity")
    records = {
        question: {"measures": dict.fromkeys(names, score), "retrieved": [], "answer": key, "usage": {"calls": 1}}
        for place, (question, score) in enumerate(zip(QUESTIONS, scores, strict=True))
        if place not in failed
    }
    failures = {QUESTIONS[place]: FAILURE for place in failed}
    return Evaluation(key, (make_gene("retrieval", "vector"),), QUESTIONS, records, failures)


def compared(**tested: Evaluation) -> dict[str, Comparison]:
    terms = Terms.of(list(tested.values()), Fitness())
    return {found.name: found for found in compare(tested, terms, 1)}


def test_what_another_finalist_failed_on_does_not_make_the_winner_better() -> None:
    winner, naive = finalist("winner", WINNER), finalist("naive", NAIVE)
    assert compared(winner=winner, naive=naive)["naive"].verdict is not Verdict.BETTER
    random = finalist("random", [0.1] * 20, failed=(18, 19))
    found = compared(winner=winner, naive=naive, random=random)
    assert found["naive"].difference is not None
    assert (found["naive"].difference.n, found["naive"].adjusted_p) == (18, 1.0)
    assert found["naive"].verdict is Verdict.NO_DIFFERENCE
    assert found["random"].verdict is Verdict.BETTER  # it is ahead wherever both finished


def test_what_the_winner_failed_on_counts_as_the_lowest_score_there_is() -> None:
    winner = finalist("winner", WINNER, failed=(18, 19))
    assert compared(winner=winner, naive=finalist("naive", NAIVE))["naive"].verdict is Verdict.NO_DIFFERENCE
