"""Evidence does not lie in the longest chunks."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from math import sqrt
from statistics import NormalDist

from ragsmith.labelling.checking.effects import MEDIUM_AUC
from ragsmith.labelling.checking.finding import GateFinding, GateState, Limit, Offender, not_judged
from ragsmith.labelling.checking.registry import gate
from ragsmith.labelling.checking.view import FEWEST, View
from ragsmith.reporting.charts import Columns, histogram
from ragsmith.types import Chunk

FEWEST_CHUNKS = 3
"""Chunks of a document from which on one of them can be the longest."""

LEVEL = 0.01


@gate("Does evidence lie in short chunks as well as in long ones?", paper="arXiv 1803.02324")
def length(view: View) -> GateFinding:
    """Fail where gold chunks are longer than the others of their document by a medium effect.

    The figure is the AUC of "the longer chunk is gold" within a document: how often a gold chunk is longer than another
    one, ties counted half. Text that is put down anywhere lies in a long chunk more often than in a short one, so that
    chance gives more than 0.50: the mean with chunks drawn in proportion to their length. What is found may exceed that
    by 0.14, which is d = 0.5 of Cohen (1988), and has to be beyond chance (one-sided, p < 0.01, normal approximation).
    Gururangan et al. (2018) find length among what gives the labels of annotated sets away.
    """
    gold: dict[str, str] = {}
    for example in view.located:
        for relevant in view.relevant(example):
            gold.setdefault(relevant, example.id)
    places: list[float] = []
    found: list[tuple[float, Chunk]] = []
    mean = spread = 0.0
    for chunks in view.chunks_of.values():
        if len(chunks) < FEWEST_CHUNKS:
            continue
        lengths = [len(chunk.text) for chunk in chunks]
        ordered = sorted(lengths)
        above = [_rank(one, ordered) for one in lengths]
        weights = [one / sum(lengths) for one in lengths]
        expected = sum(w * r for w, r in zip(weights, above, strict=True))
        variance = sum(w * (r - expected) ** 2 for w, r in zip(weights, above, strict=True))
        for chunk, rank in zip(chunks, above, strict=True):
            if chunk.id in gold:
                places.append(rank)
                found.append((rank, chunk))
                mean += expected
                spread += variance
    if len(places) < FEWEST:
        return not_judged(
            f"{len(places)} gold chunks lie in documents of {FEWEST_CHUNKS} chunks or more, and {FEWEST} are needed"
        )
    figure, chance = sum(places) / len(places), mean / len(places)
    limit = Limit(high=round(chance + MEDIUM_AUC, 3))
    p = 1 - NormalDist().cdf((figure - chance) * len(places) / sqrt(spread)) if spread else 1.0
    said = f"a gold chunk is longer than another of its document in {figure:.0%} of pairs; chance gives {chance:.0%}"
    chart = Columns(
        "Gold chunks by the share of their document's chunks that are shorter",
        tuple(f"{10 * tenth}" for tenth in range(10)),
        tuple(float(count) for count in histogram(places, 10)),
        across="percent of the other chunks that are shorter",
    )
    if limit.holds(figure) or p >= LEVEL:
        return GateFinding(GateState.PASSED, said, figure, limit, charts=(chart,))
    longest = sorted(found, key=lambda pair: (-pair[0], pair[1].id))
    offenders = tuple(
        Offender(gold[chunk.id], f"{chunk.id}, {len(chunk.text)} characters, is longer than {rank:.0%}")
        for rank, chunk in longest
        if rank > chance
    )
    advice = "ask for what stands in short paragraphs, lists and tables, too"
    return GateFinding(GateState.FAILED, said, figure, limit, advice, offenders, (chart,))


def _rank(one: int, ordered: list[int]) -> float:
    """The share of the other lengths that are below ``one``, equals counted half."""
    below, equal = bisect_left(ordered, one), bisect_right(ordered, one) - bisect_left(ordered, one) - 1
    return (below + equal / 2) / (len(ordered) - 1)
