"""NEST: rank chunks by their ranks among documents, sections and chunks (nested evidence survival, Verma et al.)."""

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ragsmith.index.index import Index, embed_queries
from ragsmith.index.scopes import Scope, compute_cosines, get_scopes, score_words
from ragsmith.index.screening import UNSCORED
from ragsmith.index.top import best_positions
from ragsmith.models.protocols import Embedder
from ragsmith.plugins import Count, Share
from ragsmith.techniques.families import retrieval
from ragsmith.types import Hit, Hits, Queries, Rankings, Scale, Survival

PROJECTIONS = ("context_rank", "inherit")
"""How a chunk is ranked at a scope."""
AGGREGATES = ("mean_all", "mean_present", "rrf60", "depth_weighted")
"""How the ranks of a chunk are combined."""
NORMALISATIONS = ("minmax", "rank", "zscore", "none")
"""How scores are normalised within a list."""
SCOPE_NAMES = {1: ("chunk",), 2: ("document", "chunk"), 3: ("document", "section", "chunk")}
"""The names of scopes by the number of distinct ones, coarsest first."""


@retrieval(
    paper="Verma et al., Nested Evidence Survival for Retrieval",
    choices={
        "projection": PROJECTIONS,
        "aggregate": AGGREGATES,
        "nested": (False, True),
        "context": (0.25, 0.5, 0.75),
        "weight": (0.2, 0.4, 0.6),
        "norm": NORMALISATIONS,
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
    """Return the ``k`` chunks that rank best over the scopes document, section and chunk.

    Each scope ranks the chunks of the whole corpus and returns as many as its budget; the ranks of a chunk are its
    survival profile, which is part of its hit. Scores are hybrid: BM25 has the share ``weight``, cosine the rest, each
    scaled by ``norm`` over its best 3 x the largest budget. A document or section is the text of its chunks and the
    mean of their vectors. ``mean_all`` is the mean of 1/rank over all scopes, 0 where the chunk is not returned;
    ``rrf60`` sums 1/(60 + rank); ``depth_weighted`` is the mean of 1/rank weighted 1, 2, 3 from the coarsest scope.
    Helps when the document of a chunk describes its subject better than the chunk itself. Costs one embedding per
    query.

    Differences from the paper: it averages over the scopes that returned the chunk (``mean_present``, as published), so
    that missing ranks cost nothing, and rank 1 at one scope scores 1.0 and cannot be beaten; its own example ranks a
    passage first that only the coarsest scope returned. It does not define the rank of a chunk among documents: with
    ``context_rank``, the score of a chunk there is ``context`` x that of its document and the rest its own; with
    ``inherit``, it has the rank of its document, as all its siblings have. ``nested`` restricts a scope to the chunks
    that the coarser one returned, as in the paper's definition but not in its algorithm. Identical scopes count once,
    and a summary is a separate document.

    Ties are broken by the number of scopes (more first), the best rank, the rank at the deepest scope that returned the
    chunk, and its id. So that this order is also that of scores and ids, each chunk of a tie scores 1e-15 less than the
    one before; scores are rounded to 9 decimals before, so that no tie reaches the next score.
    """
    if not index.keys:
        return tuple(() for _ in queries)
    budgets = {"document": document_budget, "section": section_budget, "chunk": chunk_budget}
    all_scopes = get_scopes(index)
    depths = [budgets[scope.name] for scope in all_scopes]
    list_size = 3 * max(depths)
    vectors = embed_queries(embedder, queries) if queries else np.zeros((0, index.vectors(embedder).shape[1]))
    cosine_scores = [
        compute_cosines(index, scope, vectors.astype(np.float64), embedder, list_size) for scope in all_scopes
    ]
    rankings: list[Hits] = []
    for row, query in enumerate(queries):
        scores = [
            _fuse_scores(score_words(index, scope, query), rows[row], weight, norm, list_size)
            for scope, rows in zip(all_scopes, cosine_scores, strict=True)
        ]
        ranks = _rank_at_scopes(
            all_scopes, scores, [budgets[scope.name] for scope in all_scopes], projection, context, nested
        )
        rankings.append(_rank_by_survival(index, ranks, aggregate, k))
    return tuple(rankings)


def aggregate_survival(profile: Survival, scopes: int, aggregate: str) -> float:
    """Return the score of a survival profile over 1 to 3 ``scopes``."""
    if aggregate == "mean_present":  # MRR(c) = 1/|L(c)| * sum over l in L(c) of 1/r_l(c)
        return math.fsum(1 / rank for _, rank in profile) / max(1, len(profile))
    if aggregate == "mean_all":  # 1/|L| * sum over l in L(c) of 1/r_l(c)
        return math.fsum(1 / rank for _, rank in profile) / scopes
    if aggregate == "rrf60":  # sum over l in L(c) of 1/(60 + r_l(c))
        return math.fsum(1 / (60 + rank) for _, rank in profile)
    if aggregate == "depth_weighted":  # sum over l in L(c) of w_l / r_l(c), where w_l = d_l / sum of d, d = 1, 2, 3
        depth = {scope: d for d, scope in enumerate(SCOPE_NAMES[scopes], 1)}
        return math.fsum(depth[scope] / rank for scope, rank in profile) / sum(depth.values())
    raise ValueError(f"there is no aggregate {aggregate!r}: use one of {', '.join(AGGREGATES)}")


@dataclass(frozen=True, eq=False)
class _UnitScores:
    """The score of every unit, and whether it is in one of the two lists; the others score 0."""

    values: NDArray[np.float64]
    listed: NDArray[np.bool_]


def _fuse_scores(
    words: NDArray[np.float64], cosine: NDArray[np.float64], weight: float, norm: str, list_size: int
) -> _UnitScores:
    """Return the score of every unit from the first ``listed`` of both sides, as `fusion.convex_combination` does."""
    values, union = np.zeros(len(words)), np.zeros(len(words), dtype=np.bool_)
    for share, side, positive in ((weight, words, True), (1 - weight, cosine, False)):
        first = best_positions(side, list_size, positive=positive)
        best = first[side[first] > UNSCORED]
        values[best] += share * _normalize(side[best], norm)  # s = lambda * BM25n + (1 - lambda) * cos
        union[best] = True
    return _UnitScores(np.round(values, 9), union)


def _normalize(scores: NDArray[np.float64], norm: str) -> NDArray[np.float64]:
    """Normalise the scores of a list, best first, as `fusion.normalize` does."""
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
    deviations = scores - mean
    return deviations / math.sqrt(math.fsum((deviations * deviations).tolist()) / size)


def _rank_at_scopes(
    all_scopes: tuple[Scope, ...],
    scores: list[_UnitScores],
    budgets: list[int],
    projection: str,
    context: float,
    nested: bool,
) -> NDArray[np.int64]:
    """Return the rank of every entry at every scope, coarsest first, or 0: shape ``(scopes, entries)``."""
    chunk_scores = scores[-1]
    allowed = np.ones(len(chunk_scores.values), dtype=np.bool_)
    ranks_by_scope = np.zeros((len(all_scopes), len(chunk_scores.values)), dtype=np.int64)
    for ranks, scope, score, budget in zip(ranks_by_scope, all_scopes, scores, budgets, strict=True):
        if projection == "inherit":
            positions, inherited = _rank_inherited(scope, score, allowed, budget)
            ranks[positions] = inherited
        else:
            positions = _rank_in_context(scope, score, chunk_scores, allowed, budget, context)
            ranks[positions] = np.arange(1, len(positions) + 1)
        if nested:
            allowed = ranks > 0
    return ranks_by_scope


def _rank_in_context(
    scope: Scope, score: _UnitScores, chunk_scores: _UnitScores, allowed: NDArray[np.bool_], budget: int, context: float
) -> NDArray[np.int64]:
    """Return the best entries by ``mu * s(ancestor(c)) + (1 - mu) * s(c)``; by ``s(c)`` at the scope of chunks."""
    mu = 0.0 if scope.words is None else context
    candidates = np.flatnonzero(
        (chunk_scores.listed | score.listed[scope.units] if mu else chunk_scores.listed) & allowed
    )
    values = mu * score.values[scope.units[candidates]] + (1 - mu) * chunk_scores.values[candidates]
    return candidates[best_positions(np.round(values, 9), budget)]


def _rank_inherited(
    scope: Scope, score: _UnitScores, allowed: NDArray[np.bool_], budget: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the entries of the best units, and the ranks of these units."""
    is_allowed = np.zeros(len(score.values), dtype=np.bool_)
    is_allowed[scope.units[allowed]] = True
    units = np.flatnonzero(score.listed & is_allowed)
    units = units[best_positions(score.values[units], budget)]
    ranks = np.zeros(len(score.values), dtype=np.int64)
    ranks[units] = np.arange(1, len(units) + 1)
    positions = np.flatnonzero((ranks[scope.units] > 0) & allowed)
    return positions, ranks[scope.units[positions]]


def _rank_by_survival(index: Index, ranks: NDArray[np.int64], aggregate: str, k: int) -> Hits:
    """Return hits by survival, with ties resolved in the last digits of the score."""
    positions = np.flatnonzero(ranks.any(axis=0))
    if not len(positions):
        return ()
    # there are many siblings with inherited ranks, but few distinct profiles
    distinct, profile_of = np.unique(ranks[:, positions], axis=1, return_inverse=True)
    profiles = [
        tuple((scope, rank) for scope, rank in zip(SCOPE_NAMES[len(ranks)], column, strict=True) if rank)
        for column in distinct.T.tolist()
    ]
    keys = [_sort_key(profile, len(ranks), aggregate) for profile in profiles]
    steps = {key: step for step, key in enumerate(sorted(set(keys)))}
    order = np.argsort(np.array([steps[key] for key in keys])[profile_of.reshape(-1)], kind="stable")[:k]
    hits: list[Hit] = []
    tied: Counter[float] = Counter()
    for position, profile in zip(positions[order].tolist(), profile_of.reshape(-1)[order].tolist(), strict=True):
        score = -keys[profile][0]
        hits.append(Hit(index.entries[position].chunk, score - tied[score] * 1e-15, Scale.SURVIVAL, profiles[profile]))
        tied[score] += 1
    return tuple(hits)


def _sort_key(profile: Survival, scopes: int, aggregate: str) -> tuple[float, int, int, int]:
    """Return the sort key, ascending: score, number of scopes, best rank, and rank at the deepest scope."""
    score = round(aggregate_survival(profile, scopes, aggregate), 9)
    return -score, -len(profile), min(rank for _, rank in profile), profile[-1][1]
