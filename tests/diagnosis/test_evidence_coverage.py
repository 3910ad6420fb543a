"""How much of a gold passage is held, against counting characters one by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ragsmith.diagnosis.diagnosed import CONTEXT_CHARACTERS, ELLIPSIS, PassageText, merge_ranges, shorten
from ragsmith.diagnosis.evidence_coverage import (
    character_coverage,
    coverage_of_passages,
    truncate_passages,
)
from ragsmith.index.index import Corpus
from ragsmith.types import Document, Passage, Span

SPANS = st.builds(
    lambda doc, start, length: Span(doc, start, start + length),
    st.sampled_from(["a", "b"]),
    st.integers(0, 40),
    st.integers(1, 30),
)


@given(SPANS, st.lists(SPANS, max_size=6))
def test_what_is_covered_is_the_share_of_characters_in_any_span(gold: Span, spans: list[Span]) -> None:
    held = {at for span in spans if span.doc == gold.doc for at in range(span.start, span.end)}
    wanted = range(gold.start, gold.end)
    assert character_coverage(gold, spans) == sum(at in held for at in wanted) / len(wanted)


def test_passages_are_held_by_their_place_if_they_stand_in_the_document() -> None:
    text = "One sentence. Another sentence. A third."
    corpus = Corpus([Document("doc", "Doc", text)], ())
    whole, cut = Span("doc", 0, 31), Passage(text[:14], (Span("doc", 0, 31),), 1.0)
    rewritten = Passage("In short: two.", (whole,), 1.0)
    held = coverage_of_passages((Passage(text[:31], (whole,), 1.0), cut, rewritten), corpus)
    assert held.spans == (whole, Span("doc", 0, 14))
    assert held.rewritten == (("In short: two.", (whole,)),)


def test_of_passages_of_which_the_end_was_cut_the_beginning_is_left() -> None:
    passages = tuple(Passage(text, (Span("doc", 0, 5),), 1.0) for text in ("first", "second", "third"))
    assert [passage.text for passage in truncate_passages(passages, ["first", "sec"])] == ["first", "sec"]


STRETCHES = st.lists(st.tuples(st.integers(0, 900), st.integers(1, 80)).map(lambda s: (s[0], s[0] + s[1])), max_size=4)


@given(STRETCHES)
def test_a_text_is_shortened_around_its_gold_and_keeps_all_of_it(stretches: list[tuple[int, int]]) -> None:
    text = "".join(chr(0x4E00 + at) for at in range(1000))  # every character once
    gold = merge_ranges(stretches)
    pieces = shorten(text, gold, gold)
    assert "".join(piece.text for piece in pieces if piece.gold) == "".join(text[a:b] for a, b in gold)
    shown = [at for at, character in enumerate(text) if any(character in piece.text for piece in pieces)]
    assert all(any(a - CONTEXT_CHARACTERS <= at < b + CONTEXT_CHARACTERS for a, b in gold) for at in shown) or not gold
    assert "".join(piece.text for piece in pieces).replace(ELLIPSIS, "") == "".join(text[at] for at in shown)


def test_a_text_without_gold_is_shortened_to_its_beginning() -> None:
    assert shorten("a" * 500, (), ()) == (PassageText("a" * 160), PassageText(ELLIPSIS))
    assert shorten("short", (), ()) == (PassageText("short"),)


@given(st.lists(st.integers(1, 25), min_size=1, max_size=60), st.data())
def test_no_word_is_cut_in_two(lengths: list[int], data: st.DataObject) -> None:
    words = [f"{'x' * length}{place}" for place, length in enumerate(lengths)]
    text = " ".join(words)
    ends = [len(" ".join(words[:count])) for count in range(1, len(words) + 1)]
    last = data.draw(st.integers(0, len(words) - 1))
    gold = data.draw(st.sampled_from([[], [(ends[last] - len(words[last]), ends[last])]]))
    shown = "".join(piece.text for piece in shorten(text, gold, gold)).replace(ELLIPSIS, " ")
    assert shown.split() == [word for word in words if word in shown.split()]
    assert not gold or words[last] in shown.split()
