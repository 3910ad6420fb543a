"""Near duplicates agree with exact counts of shared shingles."""

from __future__ import annotations

import re
from itertools import combinations
from random import Random

from ragsmith.datasets.ingest.near_duplicates import NEAR, near_duplicates

WORDS = [f"word{n}" for n in range(400)]


def counted(texts: dict[str, str]) -> set[tuple[str, str]]:
    """The pairs by their definition, one after the other."""

    def runs(text: str) -> set[tuple[str, ...]]:
        words = re.findall(r"\w+", text.lower())
        return {tuple(words[at : at + 5]) for at in range(len(words) - 4)}

    sets = {name: runs(text) for name, text in texts.items()}
    return {(a, b) for a, b in combinations(sorted(sets), 2) if len(sets[a] & sets[b]) >= NEAR * len(sets[a] | sets[b])}


def test_pairs_are_those_of_the_definition() -> None:
    random = Random(3)
    texts: dict[str, str] = {}
    for number in range(40):
        words = random.choices(WORDS, k=300)
        texts[f"{number:02d}"] = " ".join(words)
        for changes in (1, 5, 12, 40):
            other = list(words)
            for at in random.sample(range(300), changes):
                other[at] = random.choice(WORDS)
            texts[f"{number:02d}-{changes}"] = " ".join(other)
    found = near_duplicates(texts)
    expected = counted(texts)
    assert len(expected) >= 80
    missed = expected - {(pair.first, pair.second) for pair in found}
    assert {(pair.first, pair.second) for pair in found} <= expected
    assert len(missed) <= 0.02 * len(expected)
    assert [pair.similarity for pair in found] == sorted((pair.similarity for pair in found), reverse=True)


def test_case_and_punctuation_do_not_count_and_short_texts_are_compared_whole() -> None:
    texts = {"a": "The gate, is SHUT.", "b": "the gate is shut", "c": "the gate is open", "d": "", "e": "!?"}
    assert [(pair.first, pair.second, pair.similarity) for pair in near_duplicates(texts)] == [("a", "b", 1.0)]
