"""Quotations are matched exactly, normalised and with edits; two matches are ambiguous."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsmith.datasets.anchoring.anchor import EvidenceFinder
from ragsmith.datasets.anchoring.matches import EvidenceMatch, MatchType, NoMatch, NoMatchReason
from ragsmith.datasets.anchoring.quotations import QuotationFinder
from ragsmith.types import Document

HARBOUR = """\
# The harbour

The harbour-master’s office opens at six, and closes — in winter — at four.  Boats longer than
twelve metres pay 35.50 crowns a night.

Boats are moored at the east quay. Dogs stay on board.
"""
MUSEUM = """\
# The museum

The museum shows nets, lamps and the bell of the ship Aurora, which sank in the spring of 1911 off the southern cape.

Dogs stay on board.
"""
DOCUMENTS = (Document("harbour", "The harbour", HARBOUR), Document("museum", "The museum", MUSEUM))


@pytest.fixture(scope="module")
def quotations():
    return QuotationFinder(DOCUMENTS)


def text_of(place):
    text = {document.id: document.text for document in DOCUMENTS}[place.span.doc]
    return text[place.span.start : place.span.end]


@pytest.mark.parametrize(
    ("wanted", "how", "stands"),
    [
        ("Boats are moored at the east quay.", MatchType.EXACT, "Boats are moored at the east quay."),
        (
            "the harbour master's office opens at six and closes - in winter - at FOUR",
            MatchType.NORMALISED,
            "The harbour-master’s office opens at six, and closes — in winter — at four",
        ),
        ("pay 35.50 crowns", MatchType.EXACT, "pay 35.50 crowns"),
        (
            "twelve metres pay 35.50 crowns each night",
            MatchType.FUZZY,
            "twelve metres pay 35.50 crowns a night",
        ),
        (
            "nets, lamps and a bell of the old ship Aurora, which sank in spring 1911",
            MatchType.FUZZY,
            "nets, lamps and the bell of the ship Aurora, which sank in the spring of 1911",
        ),
    ],
)
def test_a_quotation_is_found_as_surely_as_can_be(quotations, wanted, how, stands):
    found = quotations.find(wanted)
    assert isinstance(found, EvidenceMatch)
    assert (found.match_type, text_of(found)) == (how, stands)
    assert found.score == 1 if how is not MatchType.FUZZY else 0.7 <= found.score < 1


def test_what_stands_twice_is_ambiguous_unless_its_document_is_known(quotations):
    twice = quotations.find("Dogs stay on board.")
    assert isinstance(twice, NoMatch)
    assert (twice.status, twice.reason) == (NoMatchReason.AMBIGUOUS, "the quotation occurs 2 times")
    assert [place.span.doc for place in twice.candidates] == ["harbour", "museum"]
    once = quotations.find("Dogs stay on board.", {"museum"})
    assert isinstance(once, EvidenceMatch)
    assert once.span.doc == "museum"


def test_two_places_that_are_nearly_as_like_are_ambiguous():
    text = "The crane lifts nine tons of coal a day.\n\nThe crane lifts five tons of coal a day.\n"
    found = QuotationFinder([Document("quay", "Quay", text)]).find("The crane lifts six tons of coal a day.")
    assert isinstance(found, NoMatch)
    assert found.status is NoMatchReason.AMBIGUOUS
    assert len(found.candidates) == 2


@pytest.mark.parametrize("wanted", ["", " … ", "Cats sleep", "The council meets on the first Monday of every month."])
def test_what_stands_nowhere_is_not_found(quotations, wanted):
    found = quotations.find(wanted)
    assert isinstance(found, NoMatch)
    assert found.status is NoMatchReason.NOT_FOUND


VOCABULARY = [f"{a}{b}" for a in ("bo", "ka", "li", "mu", "ne", "ro", "ta", "vi") for b in ("lam", "dor", "nis", "pek")]


@given(seed=st.integers(0, 10_000), edits=st.integers(0, 3))
def test_a_sentence_with_few_words_changed_is_found_where_it_stood(seed, edits):
    draw = random.Random(seed)
    sentences = [" ".join(draw.sample(VOCABULARY, 14)).capitalize() + "." for _ in range(30)]
    text = "\n\n".join(sentences)
    wanted = draw.choice(sentences)
    words = wanted.removesuffix(".").split()
    for at in draw.sample(range(1, 13), edits):
        words[at] = "zzz"
    found = QuotationFinder([Document("d", "D", text)]).find(" ".join(words))
    assert isinstance(found, EvidenceMatch)
    assert text[found.span.start : found.span.end].rstrip(".") == wanted.rstrip(".")
    assert found.score == pytest.approx(1 - edits / 14, abs=1e-3)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("hr/policy", "hr/policy"),
        ("hr/policy.md", "hr/policy"),
        ("wiki/hr/policy.md", "hr/policy"),
        (r"C:\wiki\HR\Policy.md", "hr/policy"),
        ("./prices.csv", "prices.csv"),
        ("prices", "prices.csv"),
        ("policy.md", None),  # there are two
        ("sales/policy.md", None),
    ],
)
def test_a_list_may_name_documents_by_their_paths(name: str, expected: str | None) -> None:
    ids = ("hr/policy", "it/policy", "prices.csv")
    assert EvidenceFinder([Document(id_, id_, f"Text of {id_}.\n") for id_ in ids]).document_id(name) == expected
