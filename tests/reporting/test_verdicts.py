"""What is claimed of the winner where some of those compared failed on test questions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import pytest

from ragsmith.comparison.verdicts import Comparison
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.fitness import Fitness
from ragsmith.evaluation.ranking import Terms
from ragsmith.evaluation.statistics import Verdict
from ragsmith.pipelines.genes import make_gene
from ragsmith.reporting.facts import compare_finalists, find_cheapest
from ragsmith.reporting.wording import describe_comparison, describe_verdicts, describe_within_margin

QUESTIONS = tuple(f"t{place:02}" for place in range(20))
FAILURE = {"stage": "generation.answer", "kind": "refused content", "error": "RefusedContent: no"}
WINNER = [0.55 + 0.005 * place for place in range(18)] + [0.0, 0.0]
NAIVE = [0.5] * 18 + [1.0, 1.0]
"""Worse than the winner on 18 questions, and far better on the other two, so that it is ahead on all twenty."""


def finalist(key: str, scores: Sequence[float], failed: Collection[int] = (), calls: int = 1) -> Evaluation:
    names = ("recall", "map", "ndcg", "mrr", "judge", "similarity")
    records = {
        question: {"measures": dict.fromkeys(names, score), "retrieved": [], "answer": key, "usage": {"calls": calls}}
        for place, (question, score) in enumerate(zip(QUESTIONS, scores, strict=True))
        if place not in failed
    }
    failures = {QUESTIONS[place]: FAILURE for place in failed}
    return Evaluation(key, (make_gene("retrieval", "vector"),), QUESTIONS, records, failures)


def compared(**tested: Evaluation) -> dict[str, Comparison]:
    terms = Terms.from_evaluations(list(tested.values()), Fitness())
    return {found.name: found for found in compare_finalists(tested, terms, 1)}


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


def test_drafted_questions_compare_what_is_found_and_never_what_is_answered() -> None:
    def answering(key: str, found: float, answered: float) -> Evaluation:
        one = finalist(key, [found + 0.001 * place for place in range(20)])
        for record in one.records.values():
            record["measures"] |= {"judge": answered, "similarity": answered}
        one.records["t19"]["measures"] |= dict.fromkeys(("recall", "map", "ndcg", "mrr"))  # it has no evidence
        return one

    winner = answering("winner", 0.5, 0.9)
    tested = {"winner": winner, "naive": answering("naive", 0.5, 0.1), "bm25": answering("bm25", 0.4, 0.9)}
    terms = Terms.from_evaluations(list(tested.values()), Fitness())
    written = {found.name: found for found in compare_finalists(tested, terms, 1)}
    assert (written["naive"].verdict, written["naive"].of) == (Verdict.BETTER, "fitness")
    naive, bm25 = compare_finalists(tested, terms, 1, drafted=True)
    assert naive.difference is not None
    assert (naive.difference.n, naive.difference.nonzero) == (19, 0)
    assert naive.verdict is not Verdict.BETTER
    assert (bm25.verdict, bm25.of) == (Verdict.BETTER, "retrieval")
    assert describe_comparison(bm25).startswith("Better than BM25: +0.100 retrieval [")


@pytest.mark.parametrize(
    ("losses", "words"),
    [
        ([0.01, 0.03] * 10, "the winner is shown to be better (0.020 behind the winner"),
        ([-0.01, -0.03] * 10, "it is shown to be better than the winner (0.020 ahead of the winner"),
        ([0.001, -0.001] * 10, "the winner is not shown to be better (the same score on 20"),
        ([0.1, -0.1] * 10, "no difference between the two is shown (the same score on 20"),
    ],
)
def test_what_is_said_of_the_cheapest_is_the_verdict_of_its_comparison(losses: list[float], words: str) -> None:
    winner, cheap = finalist("winner", [0.5 + loss for loss in losses], calls=4), finalist("cheap", [0.5] * 20)
    tested = {"winner": winner, "naive": cheap, "cheapest": cheap}  # it goes by the name of naive RAG
    terms = Terms.from_evaluations(list(tested.values()), Fitness())
    comparisons = compare_finalists({"winner": winner, "naive": cheap}, terms, 1)
    found = find_cheapest(tested, terms, comparisons)
    assert found is not None
    assert (found.calls, found.winner_calls, found.n) == (1.0, 4.0, 20)
    assert found.verdict is comparisons[0].verdict
    assert f"makes 1.0 calls a question, the winner 4.0: {words}" in describe_within_margin(found)
    nearly = replace(found, calls=3.98, winner_calls=4.02)
    assert "makes 3.98 calls a question, the winner 4.02" in describe_within_margin(nearly)  # not 4.0 and 4.0
    assert find_cheapest({"winner": winner}, terms, comparisons) is None
    assert find_cheapest(tested, terms, ()) is None


def test_a_headline_begins_with_what_matters_and_ends_with_the_cheapest() -> None:
    losing, winning = [0.5] * 20, [0.6 + 0.001 * place for place in range(20)]
    winner = finalist("winner", winning)
    alike = finalist("naive", [score + 0.3 * (-1) ** place for place, score in enumerate(winning)])
    found = compared(winner=winner, cheapest=finalist("cheapest", losing), naive=alike, bm25=finalist("bm25", losing))
    said = describe_verdicts(list(found.values()))
    assert said == "No difference from naive RAG shown. Better than BM25 and the cheapest within the margin."
