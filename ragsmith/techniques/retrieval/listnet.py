"""ListNet: order what BM25 and vectors find by a learned linear score over fifteen signals (Cao et al. 2007)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragsmith.caches import bounded_cache
from ragsmith.index.index import Index
from ragsmith.index.scopes import Neighbours, neighbours
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

OPENING = "\"'“”„‘‚«»‹›([{¿¡"
"""What may precede a name."""

SIGNALS = {
    "bm25": "BM25, scaled from 0 to 1 over the candidates that BM25 lists; 0 for others",
    "bm25_rank": "1 / (5 + its rank by BM25); 0 where BM25 does not list it",
    "cosine": "cosine with the question, scaled from 0 to 1 over the candidates that vectors list; 0 for others",
    "cosine_rank": "1 / (5 + its rank by cosine); 0 where vectors do not list it",
    "document_bm25": "best BM25 score in its document, as a share of the best score of all chunks",
    "document_length": "logarithm of the chunks in its document",
    "previous_bm25": "BM25 score of the chunk before it, as a share of the best score of all chunks",
    "next_bm25": "BM25 score of the chunk behind it, as a share of the best score of all chunks",
    "length": "logarithm of its characters",
    "shared_words": "share of the question's distinct words that are in it",
    "word_pairs": "share of the question's pairs of adjacent words that are adjacent in it",
    "names": "by inverse document frequency, share of the question's words that are names or have digits and are in it",
    "numbers": "how many of the question's words with digits are in it",
    "title": "by inverse document frequency, share of the question's words that are in its title",
    "headings": "by inverse document frequency, share of the question's words that are in its headings",
}
"""What a chunk is ordered by, each signal standardised among the candidates of a question."""


def observe(index: Index, queries: Queries, *, embedder: Embedder, gold: Gold, pool: int) -> dict[str, Any]:
    """Return the signals of every candidate, and whether it is relevant; the group is the document of the first."""
    [found] = _candidates(index, queries, embedder, pool)
    chunks = [index.chunks[position] for position in found.positions.tolist()]
    relevant = [chunk.id in gold.relevant for chunk in chunks]
    group = next((chunk.doc for chunk, right in zip(chunks, relevant, strict=True) if right), "")
    return make_observation(queries[0], found.signals, relevant, group)


def signals(index: Index, queries: Queries, *, embedder: Embedder, pool: int) -> Signals:
    """Return, for the first query, the signals of every candidate by chunk id."""
    found = _candidates(index, queries[:1], embedder, pool)[0]
    ids = [index.chunks[position].id for position in found.positions.tolist()]
    return {key: dict(zip(SIGNALS, row, strict=True)) for key, row in zip(ids, found.signals.tolist(), strict=True)}


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
    """Order the best ``pool`` chunks by BM25 and the best ``pool`` by cosine by a learned linear score.

    Helps when the document a chunk stands in, its neighbours and its headings say what it is about better than its own
    words; most with ``contextual_chunk_headers``, as the keys are what is searched. Costs one embedding a query and no
    call. ``weights="general"`` were learned on other data sets, and need no question of this one; ``"fitted"`` adds the
    search questions to them, as often as their own folds say, which may be not at all. ``without`` leaves a signal out.

    Against the paper: its scoring function is a neural network, which its experiments reduce to a linear one too, and
    it is learned for one collection; here every signal is standardised within its question, so that weights carry over.
    """
    found = _candidates(index, queries, embedder, pool)
    return tuple(
        _rank(index, one, score_rows(one.signals, SIGNALS, fitted.numbers["weights"], without), k) for one in found
    )


@dataclass(frozen=True, eq=False)
class _Candidates:
    """Rising positions of entries, and their signals: shape ``(positions, signals)``."""

    positions: Positions
    signals: Array


def _candidates(index: Index, queries: Queries, embedder: Embedder, pool: int) -> list[_Candidates]:
    """Return the candidates of each query, whatever weights order them."""
    around = neighbours(index)
    # asked each time, as what it costs is counted for each pipeline; what it finds is remembered
    by_vector = dict(zip(queries, index.by_vector(queries, pool, embedder), strict=True))

    def work_out(missing: Queries) -> Iterator[_Candidates]:
        return (_of_query(index, around, query, by_vector[query], pool) for query in missing)

    return index.worked_out(f"signals {embedder.id} {pool}", queries, work_out)


def _of_query(index: Index, around: Neighbours, query: str, by_vector: Hits, pool: int) -> _Candidates:
    scores = index.word_scores(query)
    worded = best_positions(scores, pool, positive=True)
    similar = _positions(index, by_vector)
    found = np.union1d(worded, similar).astype(np.int64)
    if not len(found):
        return _Candidates(found, np.zeros((0, len(SIGNALS))))
    cosines = np.array(by_vector.scores if isinstance(by_vector, LazyHits) else [hit.score for hit in by_vector])
    best = float(scores.max()) or 1.0
    documents, which = np.unique(around.document[found], return_inverse=True)
    members, sizes = around.of_documents(documents)
    tops = np.maximum.reduceat(scores[members], np.cumsum(sizes) - sizes)
    seen, owner = index.occurrences(query, found)
    _, first, of_section = np.unique(around.section[found], return_index=True, return_inverse=True)
    headed = [index.chunks[position] for position in found[first].tolist()]
    columns = [
        *_listed(found, worded, scores[worded]),
        *_listed(found, similar, cosines),
        tops[which] / best,
        np.log(sizes)[which],
        _at(scores, around.previous[found]) / best,
        _at(scores, around.next[found]) / best,
        np.log1p(around.characters[found]),
        *_words_shared(seen, owner, _names(query, seen, headed)),
        *(column[of_section] for column in _in_headings(seen, headed)),
    ]
    return _Candidates(found, standardize(columns))


def _positions(index: Index, hits: Hits) -> Positions:
    if isinstance(hits, LazyHits):
        return np.array(hits.positions, dtype=np.int64)
    return np.array([index.positions[hit.chunk.id] for hit in hits], dtype=np.int64)


def _listed(found: Positions, listed: Positions, scores: Array) -> tuple[Array, Array]:
    """Return scores and ranks of one side for all candidates, of which it lists some, best first."""
    scaled, ranks = np.zeros(len(found)), np.zeros(len(found))
    if len(listed):
        low, high = float(scores[-1]), float(scores[0])
        at = np.searchsorted(found, listed)
        scaled[at] = (scores - low) / (high - low) if high > low else 1.0
        ranks[at] = 1 / (5 + np.arange(1, len(listed) + 1))
    return scaled, ranks


def _at(scores: Array, positions: NDArray[np.int32]) -> Array:
    return np.where(positions >= 0, scores[positions], 0.0)


def _words_shared(seen: Occurrences, owner: Positions, named: NDArray[np.bool_]) -> list[Array]:
    """Return the signals from ``shared_words`` to ``numbers``; of several keys of a chunk, the best counts for each."""
    count, keys = len(seen.terms), len(owner)
    holds = np.zeros((keys, count), dtype=np.bool_)
    holds[seen.text, seen.term] = True
    pairs = np.array([first * count + second for first, second in seen.pairs], dtype=np.int64)
    adjacent = (seen.text[1:] == seen.text[:-1]) & (seen.place[1:] == seen.place[:-1] + 1)
    met = (seen.term[:-1] * count + seen.term[1:])[adjacent]
    distinct = np.unique((seen.text[:-1][adjacent] * count * count + met)[np.isin(met, pairs)])
    numeric = np.array([any(map(str.isdigit, term)) for term in seen.terms], dtype=np.float64)
    of_keys = [
        holds.sum(axis=1) / max(1, count),
        np.bincount(distinct // max(1, count * count), minlength=keys) / max(1, len(pairs)),
        holds @ (_shares(seen) * named),
        holds @ numeric,
    ]
    starts = np.flatnonzero(np.diff(owner, prepend=-1))
    return [np.maximum.reduceat(column, starts) for column in of_keys]


def _shares(seen: Occurrences) -> Array:
    """Return the share of each term in the sum of all inverse document frequencies."""
    return np.asarray(seen.idf / (seen.idf.sum() or 1.0))


def _names(query: str, seen: Occurrences, chunks: list[Chunk]) -> NDArray[np.bool_]:
    """Return which terms of a query are written as names, or have digits.

    A name begins with a capital, unless it is the first word, or is all capitals.
    """
    written: set[str] = set()
    languages = sorted({chunk.language for chunk in chunks})
    for number, word in enumerate(one.lstrip(OPENING) for one in query.split()):
        if any(map(str.isdigit, word)) or (number and word[:1].isupper()) or (len(word) > 1 and word.isupper()):
            written.update(*(terms(word, language) for language in languages))
    return np.array([term in written for term in seen.terms], dtype=np.bool_)


def _in_headings(seen: Occurrences, chunks: list[Chunk]) -> list[Array]:
    """Return the share by idf of the terms that are in the title of each chunk, and in its headings."""
    weights = list(zip(seen.terms, _shares(seen).tolist(), strict=True))

    def share(words: frozenset[str]) -> float:
        return float(sum([weight for term, weight in weights if term in words]))

    titles = [share(_distinct(chunk.title, chunk.language)) for chunk in chunks]
    headings = [share(_distinct(" ".join(chunk.headings), chunk.language)) for chunk in chunks]
    return [np.array(titles), np.array(headings)]


@bounded_cache(1 << 12, key="a text and its language")
def _distinct(text: str, language: str) -> frozenset[str]:
    """Return the distinct terms of a title, or of headings."""
    return frozenset(terms(text, language))


def _rank(index: Index, found: _Candidates, scores: Array, k: int) -> Hits:
    order = best_positions(scores, k)
    return index.ranking(found.positions[order], scores[order], Scale.LEARNED)
