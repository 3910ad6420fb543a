"""Ranking, normalisation and fusion of lists of hits, and search with several queries.

Scores on different scales cannot be compared (``ScaleError``): normalise the lists, or fuse them by rank. Hits are
sorted by ``(-score, chunk id)``, so that ties do not depend on the source of a hit.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, get_args

from ragsmith.errors import ScaleError
from ragsmith.types import Hit, Hits, LazyHits, Question, Rankings, Scale, Search, Survival

Norm = Literal["minmax", "dbsf", "zscore", "rank", "none"]

FUSIONS = ("convex", "rrf", "borda", "dbsf")
"""The methods of `fuse`."""


def rank(hits: Iterable[Hit]) -> Hits:
    """Sort ``hits`` best first; raise ``ScaleError`` if their scales differ."""
    if isinstance(hits, LazyHits):
        return hits
    hits = tuple(hits)
    _check_same_scale(hits)
    return tuple(sorted(hits, key=lambda hit: (-hit.score, hit.chunk.id)))


def best_per_chunk(hits: Iterable[Hit]) -> Hits:
    """Return the best hit of each chunk, best first; raise ``ScaleError`` if their scales differ."""
    if isinstance(hits, LazyHits):
        return hits
    best: dict[str, Hit] = {}
    for hit in rank(hits):
        best.setdefault(hit.chunk.id, hit)
    return tuple(best.values())


def normalize(hits: Sequence[Hit], how: Norm) -> tuple[float, ...]:
    """Return the normalised score of each hit, in input order.

    ``minmax``, ``dbsf`` and ``rank`` are in [0, 1]; ``zscore`` has mean 0 and standard deviation 1; ``none`` returns
    the scores. Equal scores become 1 (0 under ``zscore``), except that zeros remain 0, as a list without a match is
    no evidence. ``rank`` maps rank ``r``, counted from 1, to ``(n - r + 1) / n``.
    """
    if how == "minmax" and isinstance(hits, LazyHits):
        return hits.scaled(_min_max)
    _check_same_scale(hits)
    if how not in get_args(Norm):
        raise ValueError(f"there is no normalisation {how!r}: use one of {', '.join(get_args(Norm))}")
    if how == "rank":
        return _rank_scores(hits)
    scores = tuple(hit.score for hit in hits)
    if how == "minmax":
        return _min_max(scores)
    if how == "none" or not scores:
        return scores
    if min(scores) == max(scores):
        return (0.0 if how == "zscore" or scores[0] == 0 else 1.0,) * len(scores)
    return _standardize(scores, how)


def reciprocal_rank_fusion(rankings: Iterable[Iterable[Hit]], *, constant: float = 60) -> Hits:
    """Fuse by ranks from 1: the sum over the lists of ``1 / (constant + rank)`` (Cormack, Clarke and Büttcher 2009).

    Each list is sorted by its own scores and deduplicated by chunk; scales may differ between lists.
    """
    if constant < 0:
        raise ValueError(f"reciprocal_rank_fusion: constant is {constant}; give 0 or more")
    lists = [best_per_chunk(ranking) for ranking in rankings]
    return _fuse_votes(
        lists, [[1 / (constant + rank) for rank in range(1, len(hits) + 1)] for hits in lists], Scale.RRF
    )


def convex_combination(
    rankings: Iterable[Iterable[Hit]], weights: Sequence[float] | None = None, norm: Norm = "minmax"
) -> Hits:
    """Fuse by scores: the weighted mean of the normalised scores, 0 for a missing chunk (Bruch et al. 2023).

    ``weights``, one for each list, are divided by their sum; by default they are equal. With ``norm="none"`` the lists
    must share one scale, or ``ScaleError`` is raised.
    """
    lists = [best_per_chunk(ranking) for ranking in rankings]
    if norm == "none":
        _check_same_scale([hit for hits in lists for hit in hits])
    fractions = _normalize_weights([1.0] * len(lists) if weights is None else weights, len(lists))
    votes = [[weight * score for score in normalize(hits, norm)] for weight, hits in zip(fractions, lists, strict=True)]
    return _fuse_votes(lists, votes, Scale.CONVEX)


def borda(rankings: Iterable[Iterable[Hit]]) -> Hits:
    """Fuse by Borda count (Aslam and Montague 2001): with n distinct chunks, rank r scores n + 1 - r points.

    The remaining points of a list are divided equally among the chunks missing from it, so that all lists have the same
    total.
    Each list is sorted by its own scores and deduplicated by chunk; scales may differ between lists.
    """
    lists = [best_per_chunk(ranking) for ranking in rankings]
    found = {hit.chunk.id: hit for hits in lists for hit in hits}
    n = len(found)
    votes = [[float(n - place) for place in range(len(hits))] for hits in lists]
    for hits in tuple(lists):
        missing = found.keys() - {hit.chunk.id for hit in hits}
        lists.append(tuple(found[key] for key in sorted(missing)))
        votes.append([(n - len(hits) + 1) / 2] * len(missing))  # the mean of 1 to n - len(hits)
    return _fuse_votes(lists, votes, Scale.BORDA)


def combmax(rankings: Iterable[Iterable[Hit]]) -> Hits:
    """Fuse by the maximum score of each chunk (Fox and Shaw 1994), normalised by ``dbsf``.

    With min-max normalisation, the first hits of all lists would tie.
    """
    lists = [best_per_chunk(ranking) for ranking in rankings]
    return _fuse_votes(lists, [normalize(hits, "dbsf") for hits in lists], Scale.MAXIMUM, max)


def fuse(rankings: Iterable[Iterable[Hit]], how: str, weights: Sequence[float] | None = None) -> Hits:
    """Fuse by a method of `FUSIONS`.

    ``convex`` and ``dbsf`` add scores, normalised by range or by distribution (Mazzeschi 2023) and weighted by
    ``weights``; ``rrf`` and ``borda`` use ranks and ignore ``weights``.
    """
    if how == "rrf":
        return reciprocal_rank_fusion(rankings)
    if how == "borda":
        return borda(rankings)
    if how not in FUSIONS:
        raise ValueError(f"there is no fusion {how!r}: use one of {', '.join(FUSIONS)}")
    return convex_combination(rankings, weights, "dbsf" if how == "dbsf" else "minmax")


def search_and_fuse(search: Search, queries: Iterable[str], combine: Callable[[Rankings], Hits]) -> Hits:
    """Search with each distinct query and ``combine`` the rankings; a single ranking is returned unchanged."""
    rankings = search(tuple(dict.fromkeys(queries)))
    return rankings[0] if len(rankings) == 1 else combine(rankings)


def weighted_search(
    search: Search, question: Question, others: Iterable[str], weight: float, fusion: str = "convex"
) -> Hits:
    """Search with the question, weighted by ``weight``, and with ``others``, which share the remaining weight equally.

    ``fusion`` is a method of `FUSIONS`.
    """

    def combine(rankings: Rankings) -> Hits:
        n = len(rankings) - 1
        return fuse(rankings, fusion, [weight] + [(1 - weight) / n] * n)

    return search_and_fuse(search, (question.text, *others), combine)


def _fuse_votes(
    lists: Sequence[Hits],
    votes: Sequence[Sequence[float]],
    scale: Scale,
    combine: Callable[[Sequence[float]], float] = math.fsum,  # exact, so that the order of votes does not matter
) -> Hits:
    """Combine the votes for each chunk; ``votes`` are aligned with ``lists``."""
    columns = [hits for hits in lists if isinstance(hits, LazyHits)]
    if (
        combine is math.fsum
        and columns
        and len(columns) == len(lists)
        and all(hits.chunks is columns[0].chunks for hits in columns)
    ):
        return _fuse_columns(columns, votes, scale)
    found: dict[str, Hit] = {}
    gathered: defaultdict[str, list[float]] = defaultdict(list)
    for hits, list_votes in zip(lists, votes, strict=True):
        for hit, vote in zip(hits, list_votes, strict=True):
            before = found.setdefault(hit.chunk.id, hit)
            if before.survival != hit.survival:
                found[hit.chunk.id] = Hit(hit.chunk, 0.0, scale, _merge_survival(before, hit))
            gathered[hit.chunk.id].append(vote)
    order = sorted((-combine(chunk_votes), key) for key, chunk_votes in gathered.items())
    return tuple(found[key].rescored(-score, scale) for score, key in order)


def _fuse_columns(lists: Sequence[LazyHits], votes: Sequence[Sequence[float]], scale: Scale) -> LazyHits:
    """Fuse rankings of the same chunks, whose positions are in the order of their ids; otherwise like `_fuse_votes`."""
    sums: dict[int, float] = {}
    if len(lists) < 3:  # the sum of two floats is commutative and rounded once, like that of fsum
        for hits, list_votes in zip(lists, votes, strict=True):
            for position, vote in zip(hits.positions, list_votes, strict=True):
                sums[position] = sums[position] + vote if position in sums else vote
    else:
        gathered: defaultdict[int, list[float]] = defaultdict(list)
        for hits, list_votes in zip(lists, votes, strict=True):
            for position, vote in zip(hits.positions, list_votes, strict=True):
                gathered[position].append(vote)
        sums = {at: math.fsum(votes_at) if len(votes_at) > 2 else sum(votes_at) for at, votes_at in gathered.items()}
    order = sorted([(-total, position) for position, total in sums.items()])
    positions, scores = tuple([position for _, position in order]), tuple([-total for total, _ in order])
    return LazyHits(lists[0].chunks, positions, scores, scale)


def _merge_survival(first: Hit, second: Hit) -> Survival:
    """Return the best rank in each scope, in order of first occurrence."""
    best: dict[str, int] = dict(first.survival)
    for scope, rank in second.survival:
        best[scope] = min(rank, best.get(scope, rank))
    return tuple(best.items())


def _check_same_scale(hits: Iterable[Hit]) -> None:
    scales = {hit.scale for hit in hits}
    if len(scales) > 1:
        names = " and ".join(sorted(scales))
        raise ScaleError(f"scores on the scales {names} cannot be compared: normalise the lists, or fuse them by rank")


def _rank_scores(hits: Sequence[Hit]) -> tuple[float, ...]:
    n = len(hits)
    positions = sorted(range(n), key=lambda i: (-hits[i].score, hits[i].chunk.id))
    value = {i: (n - position) / n for position, i in enumerate(positions)}
    return tuple(value[i] for i in range(n))


def _min_max(scores: tuple[float, ...]) -> tuple[float, ...]:
    low, high = min(scores, default=0.0), max(scores, default=0.0)
    if low == high:
        return (1.0 if high else 0.0,) * len(scores)
    span = high - low
    return tuple([(score - low) / span for score in scores])


def _standardize(scores: Sequence[float], how: Norm) -> tuple[float, ...]:
    """Normalise scores that are not all equal, by their mean and standard deviation."""
    mean = math.fsum(scores) / len(scores)
    sd = math.sqrt(math.fsum((s - mean) ** 2 for s in scores) / len(scores))  # of the population
    if sd == 0:  # the squared differences underflow
        return (0.0 if how == "zscore" else 1.0,) * len(scores)
    if how == "zscore":
        return tuple((s - mean) / sd for s in scores)
    # distribution-based score fusion (Mazzeschi 2023): mean - 3 sd becomes 0, mean + 3 sd becomes 1
    return tuple(min(1.0, max(0.0, (s - (mean - 3 * sd)) / (6 * sd))) for s in scores)


def _normalize_weights(weights: Sequence[float], n: int) -> list[float]:
    if len(weights) != n:
        raise ValueError(f"convex_combination: {len(weights)} weights for {n} lists; give one for each list")
    total = math.fsum(weights)
    if n and (min(weights) < 0 or not 0 < total < math.inf):
        raise ValueError(f"convex_combination: the weights are {list(weights)}; give numbers of 0 or more, not all 0")
    return [weight / total for weight in weights]
