"""Words and sentences of a corpus: statistics of terms, relevance of sentences, expansion terms and related words."""

import math
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from ragsmith.caches import bounded_cache, register_cache
from ragsmith.digest import not_fingerprinted
from ragsmith.mapped import move_to_file
from ragsmith.models.protocols import Embedder
from ragsmith.models.unit_vectors import GRID_STEPS, round_to_grid
from ragsmith.text.languages import ENGLISH
from ragsmith.text.shared_bm25 import SharedBM25, get_shared_bm25
from ragsmith.text.words import get_surface_forms, terms, tokeniser_for

_MIN_LETTERS = 3


class Lexicon:
    """Frequencies of index terms over ``texts``, from their BM25 index, which is built on first use and shared.

    ``languages`` are those of the texts if they are not all English; ``terms`` analyses a text in any of them.
    """

    def __init__(self, texts: Sequence[str], languages: Sequence[str] = ()) -> None:
        self._texts = tuple(texts)
        self._languages = tuple(languages) or (ENGLISH,) * len(self._texts)
        self.terms = tokeniser_for(self._languages)

    def __len__(self) -> int:
        """Return the number of texts."""
        return len(self._texts)

    @cached_property
    def bm25(self) -> SharedBM25:
        """The index of the texts."""
        return get_shared_bm25(self._texts, self._languages)

    def idf(self, term: str) -> float:
        """Return ``ln(1 + (N - n + 0.5) / (n + 0.5))``, positive; the maximum for a term that no text contains."""
        idf = self._idf.get(term)
        return _idf(len(self), 0) if idf is None else idf

    def count(self, term: str) -> int:
        """Return how often ``term`` occurs in the corpus."""
        number = self.bm25.numbers.get(term)
        return 0 if number is None else int(self._counts[number])

    @property
    def total(self) -> int:
        """Occurrences of all terms."""
        return len(self.bm25.tokens)

    @cached_property
    def surfaces(self) -> Mapping[str, str]:
        """Each term's most frequent spelling; ties go to lower case, then to alphabetical order."""
        spelled = chain.from_iterable(map(get_surface_forms, self._texts, self._languages))
        counts = Counter(zip(self.bm25.tokens.data, spelled, strict=True))
        chosen = [""] * len(self.bm25.numbers)
        for (number, form), count in counts.items():
            best = chosen[number]
            if not best or (-count, not form.islower(), form) < (-counts[number, best], not best.islower(), best):
                chosen[number] = form
        return dict(zip(self.bm25.numbers, chosen, strict=True))

    @cached_property
    def _idf(self) -> dict[str, float]:
        frequencies = self.bm25.frequencies.tolist()
        return {term: _idf(len(self), frequencies[number]) for term, number in self.bm25.numbers.items()}

    @cached_property
    def _counts(self) -> NDArray[np.int64]:
        return np.bincount(self.bm25.tokens, minlength=len(self.bm25.numbers))

    def terms_at(self, position: int) -> tuple[str, ...]:
        """Return the terms of one of the texts."""
        text, language = self._texts[position], self._languages[position]
        return terms(text) if language == ENGLISH else terms(text, language)


def _idf(texts: int, frequency: int) -> float:
    return math.log1p((texts - frequency + 0.5) / (frequency + 0.5))


def is_wordlike(surface: str) -> bool:
    """Whether ``surface`` looks like a word: letters only, and at least three."""
    return surface.isalpha() and len(surface) >= _MIN_LETTERS


_CACHED_TEXTS = 1 << 14  # about 3 KB each
_CACHED_GROUPS = 1 << 8  # 80 KB for 40 texts in 256 dimensions
_CACHED_QUERIES = 1 << 10  # some hundred numbers each

Floats = NDArray[np.float64]
Texts = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Features:
    """The terms and the vector of a text."""

    terms: frozenset[str]
    vector: Floats


class SentenceRanking:
    """Compares texts by shared terms, weighted by ``lexicon``, and by vectors of ``embedder``."""

    def __init__(self, lexicon: Lexicon, embedder: Embedder) -> None:
        self._lexicon = lexicon
        self._embedder = embedder
        self._known: dict[str, _Features] = {}
        self._lock = threading.Lock()
        self._weights = bounded_cache(_CACHED_TEXTS, key="a query")(self._weigh_terms)
        self._vectors = bounded_cache(_CACHED_GROUPS, key="the texts of a group")(self._read_vectors)
        self._relevances = bounded_cache(_CACHED_QUERIES, key="a query")(_no_scores)
        register_cache(self.forget, key="a text", entries=_CACHED_TEXTS)

    @not_fingerprinted
    def forget(self) -> None:
        """Empty the cache of texts."""
        with self._lock:
            self._known.clear()

    def relevance(self, query: str, texts: Sequence[str]) -> Floats:
        """Return for each text, in [0, 1], half the share of the query's idf that it covers plus half its cosine.

        A negative cosine counts as 0. Exact and soft matching complement each other (Mitra, Diaz and Craswell 2017).
        """
        known = self._relevances(query)  # the candidates of a question share most sentences
        new = [text for text in dict.fromkeys(texts) if text not in known]
        if new:
            known.update(zip(new, self._relevance(query, new), strict=True))
        return np.array([known[text] for text in texts], dtype=np.float64)

    def similarity(self, a: str, b: str) -> float:
        """Return the cosine of two texts, 0 where it is negative."""
        cosine = self._read(a).vector.dot(self._read(b).vector)
        return min(1.0, max(0.0, round(float(cosine), 6)))

    def select(self, query: str, texts: Sequence[str], n: int, diversity: float = 0.3) -> tuple[int, ...]:
        """Return the positions of up to ``n`` texts in order of selection; ties are broken by position.

        Maximal marginal relevance (Carbonell and Goldstein 1998) with lambda = 1 - ``diversity``.
        """
        if not 0 <= diversity <= 1:
            raise ValueError(f"diversity is {diversity}: give a number from 0 (relevance alone) to 1")
        if not texts or n < 1:
            return ()
        vectors = self._vectors(tuple(texts))
        gains = (1 - diversity) * self.relevance(query, texts)
        nearest, scores = np.zeros(len(texts)), np.empty(len(texts))
        chosen: list[int] = []
        for _ in range(min(n, len(texts))):
            if chosen:
                np.maximum(nearest, vectors @ vectors[chosen[-1]], out=nearest)  # starts at 0, which clips the cosines
            # argmax over the rest of  lambda Sim1(d, q) - (1 - lambda) max over the chosen of Sim2(d, c)
            np.subtract(gains, np.multiply(nearest, diversity, out=scores), out=scores)
            pick = int(scores.round(6, out=scores).argmax())
            chosen.append(pick)
            gains[pick] = -np.inf
        return tuple(chosen)

    def _relevance(self, query: str, texts: Sequence[str]) -> list[float]:
        weights, query_vector = self._weights(query), self._read(query).vector
        scores = []
        for text in self._read_all(texts):
            covered = sum([weight for term, weight in weights if term in text.terms])
            cosine = float(text.vector.dot(query_vector))
            scores.append(min(1.0, max(0.0, round((covered + min(1.0, max(0.0, cosine))) / 2, 6))))
        return scores

    def _weigh_terms(self, query: str) -> tuple[tuple[str, float], ...]:
        """Return the distinct terms of ``query`` and their shares of the total idf."""
        weights = {term: self._lexicon.idf(term) for term in self._lexicon.terms(query)}
        total = sum(weights.values())
        return tuple((term, weight / total) for term, weight in weights.items())

    def _read_vectors(self, texts: Texts) -> Floats:
        return np.array([features.vector for features in self._read_all(texts)])

    def _read(self, text: str) -> _Features:
        return self._read_all((text,))[0]

    def _read_all(self, texts: Sequence[str]) -> list[_Features]:
        """Return the features of ``texts``; new texts are embedded together."""
        known = self._known
        with suppress(KeyError):
            return [known[text] for text in texts]
        features_by_text = {text: known.get(text) for text in texts}
        new = [text for text, features in features_by_text.items() if features is None]
        vectors = self._embedder.embed(new).astype(np.float64)
        added = {
            text: _Features(frozenset(self._lexicon.terms(text)), vector)
            for text, vector in zip(new, vectors, strict=True)
        }
        with self._lock:
            known.update(added)
            while len(known) > _CACHED_TEXTS:
                del known[next(iter(known))]
        return [features_by_text[text] or added[text] for text in texts]


def _no_scores(query: str) -> dict[str, float]:
    return {}


_CACHE_ENTRIES = 1 << 12

Ranking = tuple[tuple[int, float], ...]
"""Positions of texts and their scores, best first."""


class RelevanceFeedback:
    """Searches the texts of ``lexicon`` with BM25 and selects expansion terms from the results."""

    def __init__(self, lexicon: Lexicon) -> None:
        self._lexicon = lexicon
        self._models = bounded_cache(_CACHE_ENTRIES, key="a chunk")(self._unigram_model)
        self.best = bounded_cache(_CACHE_ENTRIES, key="a query")(self._best)
        self.expansion_terms = bounded_cache(_CACHE_ENTRIES, key="a query")(self._expansion_terms)

    def _best(self, query: str, n: int) -> Ranking:
        """Return the ``n`` best texts that share a term with ``query``; ties are broken by position."""
        positions, scores = self._lexicon.bm25.best(query, n)
        return tuple(zip(positions.tolist(), scores.tolist(), strict=True))

    def _expansion_terms(self, query: str, n: int, documents: int = 3) -> tuple[str, ...]:
        """Return the words that distinguish the ``documents`` best texts from the corpus, best first.

        The relevance model of Lavrenko and Croft 2001, with texts weighted by their share of the score (as
        Abdul-Jaleel et al. 2004 weight by query likelihood), without the query's terms. Words are ranked by their part
        of the divergence from the corpus (Carpineto et al. 2001), since in a small corpus the likeliest words are its
        most common ones.
        """
        own = set(self._lexicon.terms(query))
        gains = {
            term: round(p * math.log(p * self._lexicon.total / self._lexicon.count(term)), 9)  # p ln(p / p_C)
            for term, p in self._relevance_model(self.best(query, documents)).items()
            if term not in own and is_wordlike(self._lexicon.surfaces[term])
        }
        chosen = sorted((term for term, gain in gains.items() if gain > 0), key=lambda term: -gains[term])
        return tuple(self._lexicon.surfaces[term] for term in chosen[: max(n, 0)])

    def _relevance_model(self, ranking: Ranking) -> Mapping[str, float]:
        """Return P(w|R), the sum of P(w|d) P(d|q) over the retrieved texts d."""
        whole = sum(score for _, score in ranking)
        model: dict[str, float] = {}
        for position, score in ranking:
            for term, p in self._models(position):
                model[term] = model.get(term, 0.0) + p * score / whole
        return model

    def _unigram_model(self, position: int) -> tuple[tuple[str, float], ...]:
        """Return P(w|d), estimated by maximum likelihood."""
        counts = Counter(self._lexicon.terms_at(position))
        return tuple((term, count / counts.total()) for term, count in counts.items())


MIN_RELATED_COSINE = 0.35
"""Minimum cosine of related words; with static vectors, unrelated words of a corpus have about 0 to 0.3."""

MIN_RELATED_COSINE_UNKNOWN_WORD = 0.6
"""Minimum cosine for a word outside the corpus, whose vector may be composed of meaningless subwords."""

_BLOCK_WORDS = 1 << 12
"""Number of words whose vectors are converted to single precision at a time."""


class Thesaurus:
    """Related words: the words of ``lexicon``, one for each term, compared by vectors of ``embedder``."""

    def __init__(self, lexicon: Lexicon, embedder: Embedder) -> None:
        self._lexicon = lexicon
        self._embedder = embedder
        self._neighbours = bounded_cache(_CACHE_ENTRIES, key="a word")(self._nearest)

    def related(self, word: str, n: int) -> tuple[str, ...]:
        """Return up to ``n`` words related to ``word``, nearest first, none of the same stem; () for a stop word."""
        return self._neighbours(word)[: max(n, 0)]

    def _nearest(self, word: str) -> tuple[str, ...]:
        own = set(self._lexicon.terms(word))
        _, spellings, vectors = self._entries
        if not own or not spellings:
            return ()
        floor = MIN_RELATED_COSINE if all(map(self._lexicon.count, own)) else MIN_RELATED_COSINE_UNKNOWN_WORD
        vector = round_to_grid(self._embedder.embed([self._as_spelled(word)]))[0] / GRID_STEPS
        # einsum rather than @, because the threads of a BLAS cost milliseconds if other processes use the cores
        parts = (vectors[start : start + _BLOCK_WORDS] for start in range(0, len(vectors), _BLOCK_WORDS))
        cosines = np.concatenate([np.einsum("ij,j->i", part.astype(np.float32), vector) for part in parts])
        near = np.flatnonzero(cosines >= floor)
        order = near[np.argsort(-cosines[near], kind="stable")]
        stems = self._entries[0]
        return tuple(spellings[i] for i in order.tolist() if stems[i] not in own)

    def _as_spelled(self, word: str) -> str:
        """Return ``word`` in the spelling of the corpus, because lower-cased names have poor vectors."""
        return self._spelling.get(word.lower(), word)

    @cached_property
    def _spelling(self) -> dict[str, str]:
        return {form if form.islower() else form.lower(): form for form in self._entries[1]}

    @cached_property
    def _entries(self) -> tuple[tuple[str, ...], tuple[str, ...], NDArray[np.int16]]:
        """Terms in alphabetical order, their spellings, and the vectors of the spellings, in steps of the grid."""
        pairs = sorted((term, form) for term, form in self._lexicon.surfaces.items() if is_wordlike(form))
        spellings = tuple(form for _, form in pairs)
        parts = [spellings[start : start + _BLOCK_WORDS] for start in range(0, max(1, len(spellings)), _BLOCK_WORDS)]
        vectors = [(round_to_grid(self._embedder.embed(part)) * GRID_STEPS).astype(np.int16) for part in parts]
        return tuple(term for term, _ in pairs), spellings, move_to_file(np.concatenate(vectors))
