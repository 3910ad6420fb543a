"""The advice after a test."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ragsmith.comparison.advice import ComparisonFacts, recommend
from ragsmith.comparison.difference import Difference
from ragsmith.comparison.questions import Clusters, HoldoutUse
from ragsmith.comparison.verdicts import Comparison
from ragsmith.evaluation.statistics import Verdict

QUESTIONS = Clusters(tuple((f"a{i}", f"b{i}") for i in range(10)), "section", 3)
SEEN = Difference(20, 0.03, -0.02, 0.08, 0.2, 18, 10, 10, 0.025)
TITLES = {
    "bm25": "BM25",
    "naive": "naive RAG",
    "single": "the best single option",
    "recommended": "the recommended pipeline",
}


def compared(name: str, verdict: Verdict, difference: Difference = SEEN, more: int | None = None) -> Comparison:
    groups = None if more is None else more // 2
    return Comparison(name, TITLES[name], "", difference, 0.4, verdict, more_questions=more, more_groups=groups)


FACTS = ComparisonFacts(
    [compared("naive", Verdict.BETTER), compared("bm25", Verdict.NO_DIFFERENCE)], QUESTIONS, HoldoutUse(1, 20, 20)
)


def said(facts: ComparisonFacts) -> tuple[str, str]:
    found = recommend(facts)
    assert found is not None
    assert found.sentence.endswith(".")
    return found.kind, found.sentence


def test_without_a_test_questions_are_to_be_written() -> None:
    kind, sentence = said(ComparisonFacts((), Clusters(), questions=12))
    assert (kind, sentence) == ("write", "Write 8 more questions: with 20, some are held out.")


def test_too_few_groups_ask_for_other_documents_or_sections() -> None:
    few = replace(SEEN, groups=6, telling=6)
    kind, sentence = said(replace(FACTS, comparisons=[compared("bm25", Verdict.TOO_FEW, few)]))
    assert (kind, "2 more groups" in sentence, "documents or sections" in sentence) == ("groups", True, True)


def test_questions_that_were_looked_at_too_often_ask_for_fresh_ones() -> None:
    kind, sentence = said(replace(FACTS, look=HoldoutUse(7, 20, 0)))
    assert (kind, "6 times" in sentence) == ("fresh", True)


@pytest.mark.parametrize(
    "facts",
    [
        ComparisonFacts((), Clusters(), questions=12),
        replace(FACTS, comparisons=[compared("bm25", Verdict.TOO_FEW, replace(SEEN, groups=6, telling=6))]),
        replace(FACTS, look=HoldoutUse(7, 20, 0)),
    ],
    ids=["no test", "few groups", "spent questions"],
)
def test_where_nothing_can_be_shown_what_did_best_on_other_data_sets_is_taken(facts: ComparisonFacts) -> None:
    found = recommend(facts)
    assert found is not None
    assert found.take == "recommended"
    learned = "the best by effects learned on other data sets"
    assert found.reason.endswith(f"the winner is better, and this one is {learned}")
    for known, also in (("winner", f", and is {learned}"), ("", "")):
        other = recommend(replace(facts, recommended=known))
        assert other is not None
        assert other.take == "winner"
        assert other.reason.startswith(f"it was chosen on the search questions{also}, but ")


@pytest.mark.parametrize(("low", "take"), [(0.01, "winner"), (-0.01, "recommended")])
def test_a_lead_over_the_recommended_pipeline_with_an_interval_above_0_keeps_the_winner(low: float, take: str) -> None:
    few = replace(SEEN, groups=6, telling=6, low=low, mean_difference=0.05)
    found = recommend(replace(FACTS, comparisons=[compared("recommended", Verdict.TOO_FEW, few)]))
    assert found is not None
    assert (found.take, "0.050, is above 0" in found.reason) == (take, take == "winner")


@pytest.mark.parametrize(
    ("verdicts", "kind", "words"),
    [
        ((Verdict.BETTER, Verdict.WORSE), "take", "Take BM25: the winner is shown to be worse."),
        ((Verdict.BETTER, Verdict.BETTER), "take", "Take the winner: it is better than everything"),
        (
            (Verdict.BETTER, Verdict.NO_DIFFERENCE),
            "keep",
            "Use BM25: the winner is not shown to be better (its lead is 0.080 at most",
        ),
        ((Verdict.NOT_WORSE, Verdict.BETTER), "keep", "Use naive RAG"),
    ],
)
def test_what_was_shown_decides(verdicts: tuple[Verdict, Verdict], kind: str, words: str) -> None:
    pairs = zip(("naive", "bm25"), verdicts, strict=True)
    found = said(replace(FACTS, comparisons=[compared(name, verdict) for name, verdict in pairs]))
    assert found[0] == kind
    assert found[1].startswith(words)


def test_a_few_more_questions_are_asked_for_and_of_the_type_that_adds_most_to_the_error() -> None:
    open_ = [compared("bm25", Verdict.NO_DIFFERENCE, more=30)]
    types = {"factual": [0.1, 0.1, 0.1], "table": [-0.4, 0.5, 0.1], "": [0.9]}
    kind, sentence = said(replace(FACTS, comparisons=open_, by_type=types))
    assert kind == "questions"
    assert sentence.startswith(
        "Write 30 more questions, most of type table, in 15 more groups of documents or sections"
    )
    found = recommend(replace(FACTS, comparisons=open_))
    assert found is not None
    assert (found.take, "ahead of" in found.reason) == ("winner", True)
    many = [compared("bm25", Verdict.NO_DIFFERENCE, more=90)]
    assert said(replace(FACTS, comparisons=many))[0] == "keep"
    behind = [compared("bm25", Verdict.NO_DIFFERENCE, replace(SEEN, mean_difference=-0.03), more=30)]
    assert said(replace(FACTS, comparisons=behind))[0] == "keep"


def test_a_single_option_that_is_not_shown_to_be_worse_is_taken_with_the_calls_that_it_saves() -> None:
    both = [compared("bm25", Verdict.BETTER), compared("single", Verdict.NOT_WORSE)]
    kind, sentence = said(replace(FACTS, comparisons=both, calls={"winner": 5.0, "single": 2.0}))
    assert (kind, sentence) == (
        "simplify",
        "Simplify: take the best single option: the winner is not shown to be better (its lead is 0.080 at most, "
        "95 %), and asks 3.0 more model calls a question.",
    )


@pytest.mark.parametrize(
    ("mean", "calls", "advised"),
    [
        (-0.04, 1.0, "Simplify: take the recommended pipeline"),
        (0.029, 1.0, "Simplify: take the recommended pipeline"),
        (0.031, 1.0, "Use BM25"),  # the winner is further ahead of it than of BM25
        (-0.04, 2.4, "Use BM25"),  # it asks more
    ],
)
def test_of_what_the_winner_is_not_shown_to_beat_the_recommended_pipeline_is_taken_where_it_is_ahead_at_no_more_calls(
    mean: float, calls: float, advised: str
) -> None:
    rivals = [
        compared("bm25", Verdict.NO_DIFFERENCE),
        compared("recommended", Verdict.NO_DIFFERENCE, replace(SEEN, mean_difference=mean)),
    ]
    found = said(replace(FACTS, comparisons=rivals, calls={"winner": 4.4, "bm25": 1.0, "recommended": calls}))
    assert found[1].startswith(advised)


@pytest.mark.parametrize(
    ("calls", "parts", "kind"),
    [
        ((5.0, 2.0), (4, 6), "simplify"),  # asks less
        ((2.0, 2.0), (4, 3), "simplify"),  # has fewer parts
        ((2.0, 2.0), (4, 4), "take"),
        ((2.0, 2.0), (4, 5), "take"),
        ((2.0, 3.5), (4, 3), "take"),  # fewer parts that ask more
    ],
)
def test_only_what_asks_less_or_has_fewer_parts_is_called_simpler(
    calls: tuple[float, float], parts: tuple[int, int], kind: str
) -> None:
    names = ("winner", "recommended")
    facts = replace(
        FACTS,
        comparisons=[compared("recommended", Verdict.NO_DIFFERENCE)],
        calls=dict(zip(names, calls, strict=True)),
        parts=dict(zip(names, parts, strict=True)),
    )
    found, sentence = said(facts)
    assert (found, "implify" in sentence) == (kind, kind == "simplify")
    assert "ake the recommended pipeline: the winner is not shown to be better (its lead is 0.080 at most" in sentence
    assert ("1.5 fewer model calls" in sentence) == (calls[1] > calls[0])


def test_where_most_is_missing_because_nothing_is_found_another_embedder_is_to_be_tried() -> None:
    kind, sentence = said(replace(FACTS, unfound=0.7, embedded=True))
    assert (kind, "a better embedder than the embedded one" in sentence) == ("embedder", True)
    assert said(replace(FACTS, unfound=0.3))[0] == "keep"


def test_a_rival_that_scores_the_same_is_said_to() -> None:
    same = Difference(20, 0.0, 0.0, 0.0, 1.0, 0, 10, 0, 0.0)
    found = said(replace(FACTS, comparisons=[compared("bm25", Verdict.NOT_WORSE, same)]))
    assert found == ("keep", "Use BM25: the winner scores the same on each question.")


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (Verdict.NO_DIFFERENCE, "Use the recommended pipeline: a machine drafted test questions, and it is not shown"),
        (Verdict.WORSE, "Use the recommended pipeline: "),
        (Verdict.BETTER, "Use BM25: "),
    ],
)
def test_drafted_questions_leave_the_recommended_pipeline_unless_it_is_shown_to_be_behind(
    verdict: Verdict, words: str
) -> None:
    facts = replace(FACTS, drafted=True)
    both = [compared("bm25", Verdict.NO_DIFFERENCE), compared("recommended", verdict)]
    _, sentence = said(replace(facts, comparisons=both))
    assert sentence.startswith(words)


def test_the_recommended_pipeline_may_be_the_winner_or_a_baseline() -> None:
    itself = said(replace(FACTS, drafted=True, recommended="winner"))
    assert itself == ("take", "Use the winner: it is the recommended pipeline, and a machine drafted test questions.")
    assert said(replace(FACTS, drafted=True, recommended="bm25"))[1].startswith("Use the recommended pipeline, BM25: ")
    assert said(replace(FACTS, drafted=True, recommended="naive"))[1].startswith("Use BM25: ")  # it is behind


def test_nothing_compared_asks_for_nothing() -> None:
    assert recommend(replace(FACTS, comparisons=[])) is None
