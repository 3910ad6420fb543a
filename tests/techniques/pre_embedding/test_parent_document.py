from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsmith.techniques.pre_embedding.parent_document import parent_document
from ragsmith.testing import example_chunks


def chunk_of(text):
    return replace(example_chunks()[0], text=text)


def keys(text, **parameters):
    (entry,) = parent_document((chunk_of(text),), **parameters)
    return entry.keys


def test_windows_of_two_sentences_share_one():
    assert keys("One is here. Two is here. Three is here.") == (
        "One is here. Two is here.",
        "Two is here. Three is here.",
    )


@pytest.mark.parametrize("sentences", range(1, 9))
@pytest.mark.parametrize("window", [1, 2, 3, 4])
def test_windows_cover_every_sentence_and_none_lies_in_another(sentences, window):
    text = " ".join(f"Sentence number {i} is here." for i in range(sentences))
    pieces = keys(text, window=window)
    assert all(any(f"number {i} " in piece for piece in pieces) for i in range(sentences))
    assert not any(a != b and a in b for a in pieces for b in pieces)


def test_equal_pieces_are_one_key():
    assert keys("Ja. Ja. Ja.", window=1) == ("Ja.",)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text("abcdef", min_size=1, max_size=12), min_size=1, max_size=60), st.integers(5, 40))
def test_pieces_of_characters_are_short_whole_words_in_order(words, size):
    text = " ".join(words)
    pieces = keys(text, unit="characters", size=size)
    assert all(len(piece) <= size for piece in pieces)
    assert {word for piece in pieces for word in piece.split()} >= {word for word in words if len(word) * 5 <= size * 4}
    assert all(piece in text for piece in pieces)
    assert text.startswith(pieces[0])


def test_neighbouring_pieces_of_characters_overlap():
    text = " ".join(f"w{i:03}" for i in range(100))
    pieces = keys(text, unit="characters", size=50)
    for a, b in pairwise(pieces):
        assert set(a.split()) & set(b.split())


def test_a_word_longer_than_a_piece_is_cut():
    assert "".join(keys("x" * 25 + "y", unit="characters", size=10)).endswith("y")


@pytest.mark.parametrize("text", [" ", "\n", ""])
def test_a_chunk_without_visible_text_still_has_a_key(text):
    assert len(keys(text)) == 1
