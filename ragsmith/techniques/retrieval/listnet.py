"""ListNet: rank the candidates of BM25 and vectors by a learned linear score over fifteen signals (Cao et al. 2007)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragsmith.caches import bounded_cache
from ragsmith.index.index import Index
from ragsmith.index.scopes import Neighbours, get_neighbours
from ragsmith.index.top import best_positions
from ragsmith.models.protocols import Embedder
from ragsmith.plugins import Count
from ragsmith.techniques.families import retrieval
from ragsmith.techniques.listwise import PAPER, Array, make_observation, score_rows, solve, standardize
from ragsmith.techniques.registry import Fitting, Signals
from ragsmith.text.bm25 import Occurrences
from ragsmith.text.words import terms
from ragsmith.types import Chunk, Fitted, Gold, Hits, LazyHits, Queries, Rankings, Scale

Positions = NDArray[np.int64]

OPENING_MARKS = "\"'“”„‘‚«»‹›([{¿¡"
"""Characters that may precede a name."""

SIGNALS = {
    "bm25": "BM25, scaled from 0 to 1 over the candidates that BM25 lists; 0 for others",
    "bm25_rank": "1 / (5 + its rank by BM25); 0 where BM25 does not list it",
    "cosine": "cosine with the question, scaled from 0 to 1 over the candidates that vectors list; 0 for others",
    "cosine_rank": "1 / (5 + its rank by cosine); 0 where vectors do not list it",
    "document_bm25": "best BM25 score in its document, as a share of the best score of all chunks",
    "document_length": "logarithm of the chunks in its document",
    "previous_bm25": "BM25 score of the chunk before it, as a share of the best score of all chunks",
    "next_bm25": "BM25 score of the chunk after it, as a share of the best score of all chunks",
    "length": "logarithm of its characters",
    "shared_words": "share of the question's distinct words that are in it",
    "word_pairs": "share of the question's pairs of adjacent words that are adjacent in it",
    "names": "by inverse document frequency, share of the question's words that are names or have digits and are in it",
    "numbers": "how many of the question's words with digits are in it",
    "title": "by inverse document frequency, share of the question's words that are in its title",
    "headings": "by inverse document frequency, share of the question's words that are in its headings",
}
"""The signals of a chunk; each is standardised among the candidates of a question."""


def observe(index: Index, queries: Queries, *, embedder: Embedder, gold: Gold, pool: int) -> dict[str, Any]:
    """Return the signals of every candidate, and whether it is relevant; the group is the document of the first one."""
    [candidates] = _find_candidates(index, queries, embedder, pool)
    chunks = [index.chunks[position] for position in candidates.positions.tolist()]
    relevant = [chunk.id in gold.relevant for chunk in chunks]
    group = next((chunk.doc for chunk, is_relevant in zip(chunks, relevant, strict=True) if is_relevant), "")
    return make_observation(queries[0], candidates.signals, relevant, group)


def signals(index: Index, queries: Queries, *, embedder: Embedder, pool: int) -> Signals:
    """Return, for the first query, the signals of every candidate by chunk id."""
    candidates = _find_candidates(index, queries[:1], embedder, pool)[0]
    ids = [index.chunks[position].id for position in candidates.positions.tolist()]
    return {
        key: dict(zip(SIGNALS, row, strict=True)) for key, row in zip(ids, candidates.signals.tolist(), strict=True)
    }


@retrieval(
    paper=PAPER,
    choices={"weights": ("general", "fitted"), "without": ("", *SIGNALS)},
    fitting=Fitting(observe, solve, when={"weights": ("fitted",)}, names=SIGNALS, signals=signals),
)
def listnet(
    index: Index,
    queries: Queries,
    *,
    embedder: Embedder,
    fitted: Fitted,
    weights: str = "general",
    without: str = "",
    pool: Count = 40,
    k: Count = 20,
) -> Rankings:
    """Rank the best ``pool`` chunks by BM25 and the best ``pool`` by cosine by a learned linear score.

    Helps when the document of a chunk, its neighbours and its headings describe its subject better than its own words;
    most with ``contextual_chunk_headers``, as the keys are searched. Costs one embedding per query and no call.
    ``weights="general"`` were learned on other data sets, without questions of this one; ``"fitted"`` adds the search
    questions, repeated as often as is best in cross-validation, which may be zero times. ``without`` omits a signal.

    Differences from the paper: its scoring function is a neural network, which its experiments also reduce to a linear
    one, and it is learned for one collection; here every signal is standardised within its question, so that weights
    transfer.
    """
    candidates = _find_candidates(index, queries, embedder, pool)
    return tuple(
        _rank(index, each, score_rows(each.signals, SIGNALS, fitted.numbers["weights"], without), k)
        for each in candidates
    )


@dataclass(frozen=True, eq=False)
class _Candidates:
    """Ascending positions of entries, and their signals: shape ``(positions, signals)``."""

    positions: Positions
    signals: Array


def _find_candidates(index: Index, queries: Queries, embedder: Embedder, pool: int) -> list[_Candidates]:
    """Return the candidates of each query, which do not depend on the weights."""
    adjacent = get_neighbours(index)
    # called every time, as its cost is counted for each pipeline; the rankings are cached
    by_vector = dict(zip(queries, index.by_vector(queries, pool, embedder), strict=True))

    def compute(missing: Queries) -> Iterator[_Candidates]:
        return (_find_query_candidates(index, adjacent, query, by_vector[query], pool) for query in missing)

    return index.compute_cached(f"signals {embedder.id} {pool}", queries, compute)


def _find_query_candidates(index: Index, adjacent: Neighbours, query: str, by_vector: Hits, pool: int) -> _Candidates:
    scores = index.word_scores(query)
    lexical = best_positions(scores, pool, positive=True)
    similar = _get_positions(index, by_vector)
    positions = np.union1d(lexical, similar).astype(np.int64)
    if not len(positions):
        return _Candidates(positions, np.zeros((0, len(SIGNALS))))
    cosines = np.array(by_vector.scores if isinstance(by_vector, LazyHits) else [hit.score for hit in by_vector])
    best = float(scores.max()) or 1.0
    documents, which = np.unique(adjacent.document[positions], return_inverse=True)
    members, sizes = adjacent.of_documents(documents)
    tops = np.maximum.reduceat(scores[members], np.cumsum(sizes) - sizes)
    occurrences, owner = index.occurrences(query, positions)
    _, first, section = np.unique(adjacent.section[positions], return_index=True, return_inverse=True)
    section_chunks = [index.chunks[position] for position in positions[first].tolist()]
    columns = [
        *_scale_list(positions, lexical, scores[lexical]),
        *_scale_list(positions, similar, cosines),
        tops[which] / best,
        np.log(sizes)[which],
        _get_scores(scores, adjacent.previous[positions]) / best,
        _get_scores(scores, adjacent.next[positions]) / best,
        np.log1p(adjacent.characters[positions]),
        *_match_words(occurrences, owner, _find_names(query, occurrences, section_chunks)),
        *(column[section] for column in _match_headings(occurrences, section_chunks)),
    ]
    return _Candidates(positions, standardize(columns))


def _get_positions(index: Index, hits: Hits) -> Positions:
    if isinstance(hits, LazyHits):
        return np.array(hits.positions, dtype=np.int64)
    return np.array([index.positions[hit.chunk.id] for hit in hits], dtype=np.int64)


def _scale_list(positions: Positions, listed: Positions, scores: Array) -> tuple[Array, Array]:
    """Return the scaled scores and the reciprocal ranks of all candidates in one ranking, best first; 0 for others."""
    scaled, ranks = np.zeros(len(positions)), np.zeros(len(positions))
    if len(listed):
        low, high = float(scores[-1]), float(scores[0])
        places = np.searchsorted(positions, listed)
        scaled[places] = (scores - low) / (high - low) if high > low else 1.0
        ranks[places] = 1 / (5 + np.arange(1, len(listed) + 1))
    return scaled, ranks


def _get_scores(scores: Array, positions: NDArray[np.int32]) -> Array:
    """Return the scores at ``positions``, 0 for -1."""
    return np.where(positions >= 0, scores[positions], 0.0)


def _match_words(occurrences: Occurrences, owner: Positions, is_name: NDArray[np.bool_]) -> list[Array]:
    """Return the signals from ``shared_words`` to ``numbers``, the maximum over the keys of a chunk."""
    count, keys = len(occurrences.terms), len(owner)
    contains = np.zeros((keys, count), dtype=np.bool_)
    contains[occurrences.text, occurrences.term] = True
    pairs = np.array([first * count + second for first, second in occurrences.pairs], dtype=np.int64)
    adjacent = (occurrences.text[1:] == occurrences.text[:-1]) & (occurrences.place[1:] == occurrences.place[:-1] + 1)
    bigrams = (occurrences.term[:-1] * count + occurrences.term[1:])[adjacent]
    distinct = np.unique((occurrences.text[:-1][adjacent] * count * count + bigrams)[np.isin(bigrams, pairs)])
    numeric = np.array([any(map(str.isdigit, term)) for term in occurrences.terms], dtype=np.float64)
    key_signals = [
        contains.sum(axis=1) / max(1, count),
        np.bincount(distinct // max(1, count * count), minlength=keys) / max(1, len(pairs)),
        contains @ (_compute_idf_shares(occurrences) * is_name),
        contains @ numeric,
    ]
    starts = np.flatnonzero(np.diff(owner, prepend=-1))
    return [np.maximum.reduceat(column, starts) for column in key_signals]


def _compute_idf_shares(occurrences: Occurrences) -> Array:
    """Return the share of each term in the sum of all inverse document frequencies."""
    return np.asarray(occurrences.idf / (occurrences.idf.sum() or 1.0))


def _find_names(query: str, occurrences: Occurrences, chunks: list[Chunk]) -> NDArray[np.bool_]:
    """Return which terms of a query are written as names, or have digits.

    A name begins with a capital, unless it is the first word, or is all capitals.
    """
    name_terms: set[str] = set()
    languages = sorted({chunk.language for chunk in chunks})
    for number, word in enumerate(one.lstrip(OPENING_MARKS) for one in query.split()):
        if any(map(str.isdigit, word)) or (number and word[:1].isupper()) or (len(word) > 1 and word.isupper()):
            name_terms.update(*(terms(word, language) for language in languages))
    return np.array([term in name_terms for term in occurrences.terms], dtype=np.bool_)


def _match_headings(occurrences: Occurrences, chunks: list[Chunk]) -> list[Array]:
    """Return the idf-weighted share of the terms in the title of each chunk, and in its headings."""
    weights = list(zip(occurrences.terms, _compute_idf_shares(occurrences).tolist(), strict=True))

    def share(words: frozenset[str]) -> float:
        return float(sum([weight for term, weight in weights if term in words]))

    titles = [share(_get_distinct_terms(chunk.title, chunk.language)) for chunk in chunks]
    headings = [share(_get_distinct_terms(" ".join(chunk.headings), chunk.language)) for chunk in chunks]
    return [np.array(titles), np.array(headings)]


@bounded_cache(1 << 12, key="a text and its language")
def _get_distinct_terms(text: str, language: str) -> frozenset[str]:
    """Return the distinct terms of a title, or of headings."""
    return frozenset(terms(text, language))


def _rank(index: Index, candidates: _Candidates, scores: Array, k: int) -> Hits:
    order = best_positions(scores, k)
    return index.ranking(candidates.positions[order], scores[order], Scale.LEARNED)
