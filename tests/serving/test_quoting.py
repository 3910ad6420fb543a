"""What is marked stands in both texts, and what stands in both in a row is marked."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from ragsmith.serving.answering import MIN_QUOTE_WORDS, find_quotes

WORDS = st.lists(st.sampled_from(["the", "ferry", "leaves", "Ferry,", "seven.", "The"]), max_size=30)


def plain(text: str) -> str:
    return " ".join(["", *re.findall(r"[^\W_]+", text.casefold()), ""])


@given(answer=WORDS, passage=WORDS)
def test_exactly_the_words_of_common_runs_are_marked(answer: list[str], passage: list[str]) -> None:
    said, read = " ".join(answer), " ".join(passage)
    marked = set()
    for quote in find_quotes(said, read):
        marked.update(range(quote.start, quote.end))
    words = list(re.finditer(r"[^\W_]+", read))
    n = min(MIN_QUOTE_WORDS, len(answer))
    expected = set()
    for i in range(len(words) - n + 1 if n else 0):
        run = words[i : i + n]
        if plain(" ".join(w.group() for w in run)) in plain(said):
            expected.update(range(i, i + n))
    assert {i for i, w in enumerate(words) if set(range(*w.span())) <= marked} == expected
    assert not any(set(range(*w.span())) & marked for i, w in enumerate(words) if i not in expected)


def test_places_are_of_the_passage_in_characters() -> None:
    passage = "🦭 It BEGINS then. It takes\nthree years, unless it does not."
    [quote] = find_quotes("It takes three years!", passage)
    assert passage[quote.start : quote.end] == "It takes\nthree years"
    assert find_quotes("", passage) == find_quotes("...", passage) == ()
