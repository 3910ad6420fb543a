"""Quotations of a model: what stands in the passage becomes a span, and nothing else does."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ragsmith.labelling.drafting.draft import locate_in_passage, make_quote
from ragsmith.types import Chunk

BEFORE = "Another passage. "


def passage(text: str) -> Chunk:
    return Chunk("d#1", "d", 1, len(BEFORE), len(BEFORE) + len(text), text)


@given(text=st.text(min_size=1), said=st.text(min_size=1), data=st.data())
def test_a_place_is_where_the_words_stand(text: str, said: str, data: st.DataObject) -> None:
    if data.draw(st.booleans()):
        start = data.draw(st.integers(0, len(text) - 1))
        said = text[start : data.draw(st.integers(start + 1, len(text)))]
    place = locate_in_passage(passage(text), said)
    if text.count(said) == 1 and text.find(said) == text.rfind(said):
        assert place == (len(BEFORE) + text.find(said), len(BEFORE) + text.find(said) + len(said))
    elif place is not None:
        start, end = place
        assert (BEFORE + text)[start:end].split() == said.replace("\n>", "\n").split()


def test_a_quotation_across_lines_is_the_words_of_the_document() -> None:
    its = passage("The gate opens\nat six, and the keeper\n  rings a bell.")
    for said in ("opens at six", "opens\n> at six", "the keeper rings", "opens\nat six"):
        quote = make_quote(its, said)
        assert quote.start is not None
        assert (BEFORE + its.text).startswith(quote.text, quote.start)
        assert quote.text.split() == said.replace(">", " ").split()


def test_other_words_and_words_that_stand_twice_have_no_place() -> None:
    its = passage("It is rung. It is rung. The bell.")
    for said in ("It is rung.", "It was rung.", "the bell.", " ", "."):
        assert make_quote(its, said).start is None
