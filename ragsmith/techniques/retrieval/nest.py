"""NEST: rank chunks by where they survive among documents, sections and chunks (nested evidence, Verma et al.)."""

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ragsmith.index.index import Index, embed_queries
from ragsmith.index.scopes import Scope, cosines, scopes, word_scores
from ragsmith.index.top import best_positions
from ragsmith.models.protocols import Embedder
from ragsmith.plugins import Count, Share
from ragsmith.techniques.families import retrieval
from ragsmith.types import Hit, Hits, Queries, Rankings, Scale, Survival

PROJECTIONS = ("context_rank", "inherit")
AGGREGATES = ("mean_all", "mean_present", "rrf60", "depth_weighted")
NORMS = ("minmax", "rank", "zscore", "none")
DEPTHS = {1: ("chunk",), 2: ("document", "chunk"), 3: ("document", "section", "chunk")}
"""The scopes by number of distinct ones, coarsest first."""


@retrieval(
    paper="Verma et al., Nested Evidence Survival for Retrieval",
    choices={
        "projection": PROJECTIONS,
        "aggregate": AGGREGATES,
        "nested": (False, True),
        "context": (0.25, 0.5, 0.75),
        "weight": (0.2, 0.4, 0.6),
        "norm": NORMS,
    },
)
def nest(
    index: Index,
    queries: Queries,
    *,
    embedder: Embedder,
    projection: str = "context_rank",
    aggregate: str = "mean_all",
    nested: bool = False,
    document_budget: Count = 100,
    section_budget: Count = 50,
    chunk_budget: Count = 20,
    context: Share = 0.5,
    weight: Share = 0.4,
    norm: str = "minmax",
    k: Count = 20,
) -> Rankings:
    """Find the ``k`` chunks that rank best over the scopes document, section and chunk.

    Each scope ranks the chunks of the whole corpus and returns as many as its budget; the ranks of a chunk are its
    survival profile, which its hit has. Scores are hybrid: BM25 has the share ``weight``, cosine the rest, each scaled
    by ``norm`` over the best 3 x the largest budget of its side. A document or section is the text of its chunks and
    the mean of their vectors. ``mean_all`` is the mean of 1/rank over all scopes, 0 where a chunk is lost; ``rrf60``
    sums 1/(60 + rank); ``depth_weighted`` is the mean of 1/rank weighted 1, 2, 3 from the coarsest scope. Helps when
    the document of a chunk shows its subject better than the chunk itself. Costs one embedding a query.

    Differences from the paper: it averages over the scopes where a chunk was found (``mean_present``, as published), so
    that losing it costs nothing, and rank 1 at one scope scores 1.0 and cannot be beaten; its own example ranks the
    passage first that only the coarsest scope returned. It does not define the rank of a chunk among documents: with
    ``context_rank`` the share ``context`` of its score there is its document's and the rest its own; with ``inherit``
    it has its document's rank, as all its siblings have. ``nested`` restricts a scope to what the coarser one returned,
    as in the definition but not in the algorithm. Identical scopes count once, and a summary is a document of its own.

    Equal survival is ordered by the number of scopes (more first), the best rank, the rank at the deepest scope where
    the chunk was found, and its id. So that this order is also that of scores and ids, each chunk of such a tie scores
    1e-15 less than the one before; scores are rounded to 9 decimals before, so that no tie reaches the next score.
    """
    if not index.keys:
        return tuple(() for _ in queries)
    budgets = {"document": document_budget, "section": section_budget, "chunk": chunk_budget}
    levels = scopes(index)
    listed = 3 * max(budgets[scope.name] for scope in levels)
    vectors = embed_queries(embedder, queries) if queries else np.zeros((0, index.vectors(embedder).shape[1]))
    similar = [cosines(index, scope, vectors.astype(np.float64), embedder, listed) for scope in levels]
    rankings: list[Hits] = []
    for number, query in enumerate(queries):
        scores = [
            _hybrid(word_scores(index, scope, query), rows[number], weight, norm, listed)
            for scope, rows in zip(levels, similar, strict=True)
        ]
        ranks = _ranks(levels, scores, [budgets[scope.name] for scope in levels], projection, context, nested)
        rankings.append(_rank(index, ranks, aggregate, k))
    return tuple(rankings)


def aggregate_survival(profile: Survival, scopes: int, how: str) -> float:
    """Return the score of a survival profile over 1 to 3 ``scopes``."""
    if how == "mean_present":  # MRR(c) = 1/|L(c)| * sum over l in L(c) of 1/r_l(c)
        return math.fsum(1 / rank for _, rank in profile) / max(1, len(profile))
    if how == "mean_all":  # 1/|L| * sum over l in L(c) of 1/r_l(c)
        return math.fsum(1 / rank for _, rank in profile) / scopes
    if how == "rrf60":  # sum over l in L(c) of 1/(60 + r_l(c))
        return math.fsum(1 / (60 + rank) for _, rank in profile)
    if how == "depth_weighted":  # sum over l in L(c) of w_l / r_l(c), where w_l = d_l / sum of all d, and d is 1, 2, 3
        depth = {scope: d for d, scope in enumerate(DEPTHS[scopes], 1)}
        return math.fsum(depth[scope] / rank for scope, rank in profile) / sum(depth.values())
    raise ValueError(f"there is no aggregate {how!r}: use one of {', '.join(AGGREGATES)}")


@dataclass(frozen=True, eq=False)
class _Scores:
    """The score of every unit, and which units are in the list of either side; the others score 0."""

    values: NDArray[np.float64]
    listed: NDArray[np.bool_]


def _hybrid(words: NDArray[np.float64], cosine: NDArray[np.float64], weight: float, norm: str, listed: int) -> _Scores:
    """The score of every unit from the first ``listed`` of both sides: as `fusion.convex_combination` of two lists."""
    values, union = np.zeros(len(words)), np.zeros(len(words), dtype=np.bool_)
    for share, side, positive in ((weight, words, True), (1 - weight, cosine, False)):
        best = best_positions(side, listed, positive=positive)
        values[best] += share * _normalize(side[best], norm)  # s = lambda * BM25n + (1 - lambda) * cos
        union[best] = True
    return _Scores(np.round(values, 9), union)


def _normalize(scores: NDArray[np.float64], norm: str) -> NDArray[np.float64]:
    """Like `fusion.normalize`, for the scores of a list, best first."""
    size = len(scores)
    if norm == "none" or not size:
        return scores
    if norm == "rank":
        return (size - np.arange(size)) / size
    low, high = float(scores[-1]), float(scores[0])
    if low == high:
        return np.full(size, 0.0 if norm == "zscore" or not high else 1.0)
    if norm == "minmax":
        return (scores - low) / (high - low)
    mean = math.fsum(scores.tolist()) / size
    away = scores - mean
    return away / math.sqrt(math.fsum((away * away).tolist()) / size)


def _ranks(
    levels: tuple[Scope, ...],
    scores: list[_Scores],
    budgets: list[int],
    projection: str,
    context: float,
    nested: bool,
) -> NDArray[np.int64]:
    """Return the rank of every entry at every scope, coarsest first, or 0: shape ``(scopes, entries)``."""
    own = scores[-1]
    allowed = np.ones(len(own.values), dtype=np.bool_)
    found = np.zeros((len(levels), len(own.values)), dtype=np.int64)
    for ranks, scope, score, budget in zip(found, levels, scores, budgets, strict=True):
        if projection == "inherit":
            positions, inherited = _inherit(scope, score, allowed, budget)
            ranks[positions] = inherited
        else:
            positions = _in_context(scope, score, own, allowed, budget, context)
            ranks[positions] = np.arange(1, len(positions) + 1)
        if nested:
            allowed = ranks > 0
    return found


def _in_context(
    scope: Scope, score: _Scores, own: _Scores, allowed: NDArray[np.bool_], budget: int, context: float
) -> NDArray[np.int64]:
    """Return the best entries by ``mu * s(ancestor(c)) + (1 - mu) * s(c)``; by ``s(c)`` at the scope of chunks."""
    mu = 0.0 if scope.words is None else context
    among = np.flatnonzero((own.listed | score.listed[scope.units] if mu else own.listed) & allowed)
    values = mu * score.values[scope.units[among]] + (1 - mu) * own.values[among]
    return among[best_positions(np.round(values, 9), budget)]


def _inherit(
    scope: Scope, score: _Scores, allowed: NDArray[np.bool_], budget: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the entries of the best units, and the ranks of these units."""
    open_ = np.zeros(len(score.values), dtype=np.bool_)
    open_[scope.units[allowed]] = True
    units = np.flatnonzero(score.listed & open_)
    units = units[best_positions(score.values[units], budget)]
    ranks = np.zeros(len(score.values), dtype=np.int64)
    ranks[units] = np.arange(1, len(units) + 1)
    positions = np.flatnonzero((ranks[scope.units] > 0) & allowed)
    return positions, ranks[scope.units[positions]]


def _rank(index: Index, ranks: NDArray[np.int64], aggregate: str, k: int) -> Hits:
    """Return hits by survival, with ties resolved in the last digits of the score."""
    positions = np.flatnonzero(ranks.any(axis=0))
    if not len(positions):
        return ()
    # siblings with an inherited profile are many, profiles few
    distinct, which = np.unique(ranks[:, positions], axis=1, return_inverse=True)
    profiles = [
        tuple((scope, rank) for scope, rank in zip(DEPTHS[len(ranks)], column, strict=True) if rank)
        for column in distinct.T.tolist()
    ]
    keys = [_order(profile, len(ranks), aggregate) for profile in profiles]
    steps = {key: step for step, key in enumerate(sorted(set(keys)))}
    order = np.argsort(np.array([steps[key] for key in keys])[which.reshape(-1)], kind="stable")[:k]
    hits: list[Hit] = []
    equal: Counter[float] = Counter()
    for position, profile in zip(positions[order].tolist(), which.reshape(-1)[order].tolist(), strict=True):
        score = -keys[profile][0]
        hits.append(Hit(index.entries[position].chunk, score - equal[score] * 1e-15, Scale.SURVIVAL, profiles[profile]))
        equal[score] += 1
    return tuple(hits)


def _order(profile: Survival, scopes: int, aggregate: str) -> tuple[float, int, int, int]:
    """Least first: by score, number of scopes, best rank, and rank at the deepest scope."""
    score = round(aggregate_survival(profile, scopes, aggregate), 9)
    return -score, -len(profile), min(rank for _, rank in profile), profile[-1][1]
