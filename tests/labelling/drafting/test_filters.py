"""Each filter on a draft that it refuses, and on one that it lets pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from made import documents, draft, material

from ragsmith.labelling.drafting.asking import ModelDrafting
from ragsmith.labelling.drafting.draft import Draft, RejectedDraft, collect_keys, locate_quotes, make_row
from ragsmith.labelling.drafting.drafting import DraftSelection, filter_draft
from ragsmith.labelling.drafting.filters import FILTERS
from ragsmith.labelling.drafting.material import DraftingCorpus
from ragsmith.labelling.reviewing.decisions import Quote
from ragsmith.types import Document

CRANE = draft("How many tonnes does the harbour's crane lift?", "The crane lifts eleven tonnes.")


def asking(question: str) -> Draft:
    """The draft of the crane with another question."""
    return replace(CRANE, question=question)


def refused_by(name: str, one: object, among: DraftingCorpus | None = None, kept: tuple[str, ...] = ()) -> str | None:
    filter_ = next(filter_ for filter_ in FILTERS if filter_.__name__ == name)
    return filter_(one, among or material(), kept)  # type: ignore[arg-type]


def test_a_good_draft_passes_all() -> None:
    assert not isinstance(filter_draft(CRANE, material(), ()), RejectedDraft)


def test_quote_unique() -> None:
    twice = DraftingCorpus([*documents(), Document("copy", "Copy", "A copy. The crane lifts eleven tonnes.")])
    assert "2 times" in str(refused_by("quote_unique", CRANE, twice))
    assert refused_by("quote_unique", CRANE) is None


RULE = "The crane of the harbour lifts eleven tonnes on a calm day."


def test_a_quotation_of_a_repeated_statement_has_all_places() -> None:
    repeated = DraftingCorpus(
        [
            Document("guide", "Guide", f"Read this first. {RULE}"),
            Document("slides", "Slides", f"Eleven tonnes!\n\n- {RULE.rstrip('.')}\n"),
        ]
    )
    asked = replace(CRANE, quotes=(Quote("guide", RULE.rstrip(".")),), passage=repeated.passages[0].span)
    located = locate_quotes(asked, repeated)
    assert isinstance(located, Draft)
    (entry,) = make_row(located, ())["evidence"]  # type: ignore[misc]
    assert [(place["doc"], place["text"]) for place in entry["any"]] == [
        ("guide", RULE.rstrip(".")),
        ("slides", RULE.rstrip(".")),
    ]
    assert not isinstance(filter_draft(located, repeated, ()), RejectedDraft)
    assert set(located.keys) <= collect_keys([make_row(located, ())])
    named = locate_quotes(replace(asked, question="How many tonnes does the guide say the crane lifts?"), repeated)
    assert isinstance(named, Draft)
    assert refused_by("quote_unique", named, repeated) is not None


@pytest.mark.parametrize(
    "question",
    [
        "What lifts?",
        "How many tonnes does the (old crane lift?",
        "What does the crane == lift in the harbour?",
    ],
)
def test_well_formed(question: str) -> None:
    assert refused_by("well_formed", asking(question)) is not None
    assert refused_by("well_formed", CRANE) is None


@pytest.mark.parametrize(
    "question", ["What does this section say of cranes?", "What does it lift in the harbour?", "What is shown above?"]
)
def test_self_contained(question: str) -> None:
    assert refused_by("self_contained", asking(question)) is not None
    assert refused_by("self_contained", CRANE) is None
    assert refused_by("self_contained", asking("Within what time must the skipper report his arrival?")) is None


def test_answered_by_itself() -> None:
    assert refused_by("answered_by_itself", asking("Does the crane lift eleven tonnes?")) is not None
    assert refused_by("answered_by_itself", replace(CRANE, answer="It.")) is not None
    assert refused_by("answered_by_itself", CRANE) is None


def test_specific() -> None:
    assert refused_by("specific", asking("What does the crane do?")) is not None
    assert refused_by("specific", CRANE) is None


def test_one_answer() -> None:
    rival = Document("rival", "Rival", "The crane of the harbour at Lund lifts ninety tonnes and not more than that.")
    asked = asking("What does the harbour crane lift?")
    assert "ninety" in str(refused_by("one_answer", asked, DraftingCorpus([*documents(), rival])))
    assert refused_by("one_answer", asked) is None


def test_answered_elsewhere() -> None:
    again = Document("again", "Again", "Visitors ask how many tonnes the harbour crane can lift: eleven tonnes.")
    asked = asking("How many tonnes does the harbour crane lift?")
    assert refused_by("answered_elsewhere", asked, DraftingCorpus([*documents(), again])) is not None
    assert refused_by("answered_elsewhere", asked) is None


def test_unanswerable_is_absent() -> None:
    miss = replace(CRANE, quotes=(), answerable=False, question="What does the crane lift?")
    assert refused_by("unanswerable_is_absent", miss) is not None
    assert refused_by("unanswerable_is_absent", replace(miss, question="What does the juggler lift?")) is None


def test_near_duplicate() -> None:
    kept = ("How many tonnes does the crane of the harbour lift?",)
    assert refused_by("near_duplicate", CRANE, kept=kept) is not None
    assert refused_by("near_duplicate", CRANE, kept=("Who built the crane of the harbour?",)) is None


class Checks(ModelDrafting):
    """A model that checks, and has one verdict for each draft it is shown."""

    def __init__(self, *verdicts: str) -> None:
        self.verdicts = list(verdicts)

    def check(self, drafts: Sequence[Draft], material: DraftingCorpus) -> list[Draft | RejectedDraft | None]:
        said = [self.verdicts.pop(0) for _ in drafts]
        found = {
            "good": lambda one: one,
            "bad": lambda one: RejectedDraft(one, "closed_book", "known"),
            "lost": lambda _: None,
        }
        return [found[verdict](one) for verdict, one in zip(said, drafts, strict=True)]


@pytest.mark.parametrize("verdict", ["bad", "lost"])
def test_a_question_that_a_model_refused_does_not_stand_in_the_way_of_a_better_one(verdict: str) -> None:
    better = draft("How many tonnes does the crane of the harbour lift?", "crane lifts eleven tonnes")
    third = draft("How many tonnes does the crane at the harbour lift?", "lifts eleven tonnes")
    sifting = DraftSelection(material(), Checks(verdict, "good"), set(), [], goal=2)
    sifting.sift([CRANE, better, third])
    assert [one.question for one in sifting.passed] == [better.question]
    assert sifting.refusals[-1].filter == "near_duplicate"
    assert sifting.asked == [better.question]
