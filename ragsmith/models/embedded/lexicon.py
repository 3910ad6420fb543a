"""Statistics of a corpus's words: frequencies, inverse document frequencies and spellings of index terms."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from ragsmith.text.languages import ENGLISH
from ragsmith.text.words import spellings, terms, terms_among

_FEWEST_LETTERS = 3


class Lexicon:
    """Frequencies of index terms over ``texts``, counted on first use.

    ``languages`` are those of the texts if they are not all English; ``terms`` analyses a text in any of them.
    """

    def __init__(self, texts: Sequence[str], languages: Sequence[str] = ()) -> None:
        self._texts = tuple(texts)
        self._languages = tuple(languages) or (ENGLISH,) * len(self._texts)
        self.terms = terms_among(self._languages)

    def __len__(self) -> int:
        """Return the number of texts."""
        return len(self._texts)

    def idf(self, term: str) -> float:
        """Return ``ln(1 + (N - n + 0.5) / (n + 0.5))``, positive; the maximum for a term that no text contains."""
        idf = self._idf.get(term)
        return _idf(len(self._texts), 0) if idf is None else idf

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """Occurrences of each term in the corpus."""
        return Counter(term for own in self._terms() for term in own)

    @cached_property
    def total(self) -> int:
        """Occurrences of all terms."""
        return sum(self.counts.values())

    @cached_property
    def surfaces(self) -> Mapping[str, str]:
        """Each term's most frequent spelling; ties go to lower case, then to alphabetical order."""
        found: dict[str, Counter[str]] = {}
        for text, language in zip(self._texts, self._languages, strict=True):
            for form, term in zip(spellings(text, language), terms(text, language), strict=True):
                found.setdefault(term, Counter())[form] += 1
        return {
            term: min(forms, key=lambda form: (-forms[form], not form.islower(), form)) for term, forms in found.items()
        }

    @cached_property
    def _idf(self) -> dict[str, float]:
        frequency = Counter(term for own in self._terms() for term in set(own))
        return {term: _idf(len(self._texts), count) for term, count in frequency.items()}

    def terms_at(self, position: int) -> tuple[str, ...]:
        """Return the terms of one of the texts."""
        text, language = self._texts[position], self._languages[position]
        return terms(text) if language == ENGLISH else terms(text, language)

    def _terms(self) -> Iterator[tuple[str, ...]]:
        return map(self.terms_at, range(len(self._texts)))


def is_wordlike(surface: str) -> bool:
    """Whether ``surface`` looks like a word: letters only, and at least three."""
    return surface.isalpha() and len(surface) >= _FEWEST_LETTERS


def _idf(texts: int, frequency: int) -> float:
    return math.log1p((texts - frequency + 0.5) / (frequency + 0.5))
