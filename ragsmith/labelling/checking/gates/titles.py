"""Titles and headings alone do not find the evidence."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from ragsmith.datasets.relevance import Relevance
from ragsmith.labelling.checking.finding import GateFinding, GateState, Limit, Offender, not_judged
from ragsmith.labelling.checking.registry import gate
from ragsmith.labelling.checking.view import FEWEST, View
from ragsmith.reporting.charts import ForestPlot, ForestRow

K = 5
SHARE = 0.8


@gate("Does it take the text to find the evidence, more than titles and headings?", paper="arXiv 1808.04926")
def titles(view: View) -> GateFinding:
    """Fail where a ranker that sees titles and headings only reaches four fifths of what one of the texts reaches.

    Questions made from headings ask for headings: they rank pipelines by how these treat titles, and say nothing of the
    text. It is what partial-input baselines test (Gururangan et al. 2018, Kaushik and Lipton 2018), the part being the
    name of the place. Both rankers are BM25; chunks under one heading tie, and the mean over all orders of a tie
    counts. Above four fifths less than a fifth of what search by words can show is left for the text.
    """
    if len(view.ranked) < FEWEST:
        return not_judged(f"{len(view.ranked)} questions have evidence, and {FEWEST} are needed")
    names = [" ".join(dict.fromkeys((chunk.title, *chunk.headings))) for chunk in view.chunks]
    by_title = view.words_of(names)
    ids = [chunk.id for chunk in view.chunks]
    titled, texted = {}, {}
    for example in view.ranked:
        gold = view.relevance(example)
        titled[example.id] = recall_of_units(np.round(by_title.scores(example.question), 6), ids, gold, K)
        texted[example.id] = recall_of_units(np.round(view.words.scores(example.question), 6), ids, gold, K)
    title, text = sum(titled.values()) / len(titled), sum(texted.values()) / len(texted)
    if not text:
        return not_judged("BM25 over the texts finds nothing either, so there is nothing to compare with")
    figure, limit = title / text, Limit(high=SHARE)
    said = f"Recall@5 of titles and headings alone is {title:.2f}, of the texts {text:.2f}: {figure:.0%} of it"
    chart = ForestPlot(
        "Recall@5 by BM25 of what is read",
        (ForestRow("titles and headings", title, marked=not limit.holds(figure)), ForestRow("texts", text)),
    )
    if limit.holds(figure):
        return GateFinding(GateState.PASSED, said, figure, limit, charts=(chart,))
    given = sorted((e for e in view.ranked if titled[e.id] > 0.5), key=lambda e: (texted[e.id] - titled[e.id], e.id))
    offenders = tuple(Offender(e.id, f"titles find it: {e.question}") for e in given)
    advice = "ask for what the text says, in words that its title and headings do not have"
    return GateFinding(GateState.FAILED, said, figure, limit, advice, offenders, (chart,))


def recall_of_units(scores: NDArray[np.float64], ids: Sequence[str], gold: Relevance, k: int) -> float:
    """Recall@k over ties of what the chunks ``ids`` count as (see `Relevance.unit`), each by its best chunk.

    ``scores`` are those of the chunks. No unit is looked at that comes behind the ``k`` best and what ties with them.
    """
    best: dict[str, float] = {}
    last = 0.0
    for place in np.argsort(-scores, kind="stable"):
        score = float(scores[place])
        if score <= 0 or (len(best) >= k and score < last):
            break
        if (unit := gold.unit(ids[place])) not in best:
            best[unit] = last = score
    held = [best.pop(unit, 0.0) for unit in gold.units]
    return recall_over_ties(np.array([*held, *best.values()]), range(len(held)), k)


def recall_over_ties(scores: NDArray[np.float64], gold: Collection[int], k: int) -> float:
    """Mean Recall@k over all orders of equal scores; what scores 0 is not found."""
    held = scores[list(gold)]
    total = 0.0
    for score in held[held > 0]:
        above, level = int((scores > score).sum()), int((scores == score).sum())
        total += min(1.0, max(0.0, (k - above) / level))
    return total / len(gold)
