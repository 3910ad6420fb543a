"""Techniques differ on these questions."""

from __future__ import annotations

from itertools import combinations

from ragsmith.evaluation.statistics import bootstrap_interval, sign_flip
from ragsmith.labelling.checking.belonging import Belonging
from ragsmith.labelling.checking.finding import GateFinding, GateState, Limit, Offender, not_judged
from ragsmith.labelling.checking.ranking import PIPELINES
from ragsmith.labelling.checking.registry import gate
from ragsmith.labelling.checking.view import FEWEST, View
from ragsmith.reporting.charts import ForestPlot, ForestRow, ReferenceLine

SHOWN = Limit(high=0.05)
FULL = 0.95


@gate(
    "Do techniques differ on these questions?",
    paper="Sakai (2006), Evaluating evaluation metrics based on the bootstrap",
)
def spread(view: View) -> GateFinding:
    """Fail where the best of five cheap pipelines is not clearly above the worst, or where one has nothing to gain.

    A set is there to tell pipelines apart: one on which search by words, by meaning, by both, under headings and with
    reranking are alike tells nothing, as a test item that all solve or none solves has no discrimination (Lord and
    Novick 1968; Sakai 2006 judges measures by how many pairs they tell apart). R is the mean of Recall, MAP, nDCG
    and MRR at 5. Clearly is: sign-flip test over groups of questions that share gold, p < 0.05 after correction for
    all pairs (Bonferroni, as best and worst were picked by looking). Above 0.95 there is nothing left to gain.

    On evidence that does not belong to its questions (see bm25) nothing can differ, and this is not judged.
    """
    if len(view.ranked) < FEWEST:
        return not_judged(f"{len(view.ranked)} questions have evidence, and {FEWEST} are needed")
    if Belonging.of(view).mixed_up:
        return not_judged("questions and evidence do not seem to belong together, so nothing can differ: see bm25")
    ranks = {name: view.ranks(name) for name in PIPELINES}
    best = max(ranks, key=lambda name: ranks[name].mean)
    worst = min(ranks, key=lambda name: ranks[name].mean)
    ids = {example.id for example in view.ranked}
    groups = [[e.id for e in group.examples if e.id in ids] for group in view.groups]
    sums = {
        name: [sum(ranks[name].quality[one] for one in group) for group in groups if group] for name in (best, worst)
    }
    pairs = len(list(combinations(PIPELINES, 2)))
    p = min(1.0, pairs * sign_flip(sums[best], sums[worst]))
    full = [name for name in ranks if ranks[name].mean > FULL]
    chart = ForestPlot(
        "R of five cheap pipelines, with 95 % intervals",
        tuple(
            ForestRow(
                name, ranks[name].mean, *bootstrap_interval(list(ranks[name].quality.values())), marked=name in full
            )
            for name in PIPELINES
        ),
        lines=(ReferenceLine(FULL, "nothing left to gain"),),
    )
    said = (
        f"R is {ranks[worst].mean:.2f} ({worst}) to {ranks[best].mean:.2f} ({best}), "
        f"p {'< 0.001' if p < 0.001 else f'= {p:.3f}'}"
    )
    if full:
        said += f"; {' and '.join(full)} can gain nothing more"
        advice = "ask harder questions, or add documents that resemble each other"
        easy = tuple(
            Offender(e.id, "every pipeline finds all of it first")
            for e in view.ranked
            if all(ranks[name].quality[e.id] == 1 for name in PIPELINES)
        )
        return GateFinding(GateState.FAILED, said, ranks[best].mean, Limit(high=FULL), advice, easy, (chart,))
    if SHOWN.holds(p):
        return GateFinding(GateState.PASSED, said, p, SHOWN, charts=(chart,))
    same = tuple(
        Offender(e.id, "all pipelines do the same")
        for e in view.ranked
        if len({round(ranks[name].quality[e.id], 9) for name in PIPELINES}) == 1
    )
    said += f": no difference is shown, and on {len(same)} of {len(view.ranked)} questions there is none"
    advice = "more questions, or such as are neither found by every technique nor by none"
    return GateFinding(GateState.FAILED, said, p, SHOWN, advice, same, (chart,))
