"""BM25 finds some of the evidence, and not all of it."""

from __future__ import annotations

from ragsmith.errors import WrongOption
from ragsmith.labelling.checking.belonging import Belonging
from ragsmith.labelling.checking.finding import GateFinding, GateState, Limit, Offender, not_judged
from ragsmith.labelling.checking.registry import gate
from ragsmith.labelling.checking.view import FEWEST, View
from ragsmith.plugins import Share
from ragsmith.reporting.charts import ForestPlot, ForestRow, ReferenceLine

SATURATED = 0.95


@gate("Does BM25 find some of the evidence, and not all?")
def bm25(view: View, *, low: Share = 0.5, high: Share = 0.8) -> GateFinding:
    """Warn where Recall@5 of BM25 lies outside 0.50 to 0.80; fail where it says that the set is broken or done.

    A set of which BM25 finds nearly everything cannot show that anything else is better, and one of which it finds
    little measures something other than search, or has wrong gold. In four published sets (RAGSmith's law and finance,
    HotpotQA, TAT-QA) it is 0.71 to 0.76; the range has room on both sides of that, and is yours to change.

    It fails above 0.95: what is left to gain is 0.05, so that a difference of 0.03 would take most of it. And it fails
    where BM25 finds a question's own evidence not three times as often as it finds the evidence of another question of
    the set: then evidence and questions do not belong together (rows were shifted, ids mixed up), whatever the size of
    the corpus, or the questions are in another language than the documents.

    Where evidence has more than 5 units (chunks, or what coarse gold counts as one), recall is divided by what can be
    reached.
    """
    if low > high:
        raise WrongOption("set", f"has bm25.low at {low}, above bm25.high, {high}: swap them")
    if len(view.ranked) < FEWEST:
        return not_judged(f"{len(view.ranked)} questions have evidence, and {FEWEST} are needed")
    found = Belonging.of(view)
    recall, figure, mixed = found.recall, found.own, found.others
    wanted = Limit(low, high)
    said = f"Recall@5 of BM25 is {figure:.3f}; of evidence that belongs to other questions it finds {mixed:.3f}"
    failed = figure > SATURATED or found.mixed_up
    chart = ForestPlot(
        "Recall@5 of BM25, and where it should lie",
        (
            ForestRow("evidence of the question", figure, marked=failed or not wanted.holds(figure)),
            ForestRow("evidence of other questions", mixed),
        ),
        lines=(ReferenceLine(SATURATED, "nothing left to find"),),
        band=(low, high),
    )
    if figure > SATURATED:
        advice = "ask for what is not said in the words of the question, or add documents that resemble each other"
        return GateFinding(GateState.FAILED, said, figure, Limit(wanted.low, SATURATED), advice, charts=(chart,))
    if failed:
        offenders = tuple(
            Offender(e.id, f"none of its evidence is found: {e.question}") for e in view.ranked if not recall[e.id]
        )
        said += ": questions and evidence do not seem to belong together"
        advice = "look at a few rows: are ids, offsets or languages mixed up?"
        lowest = round(found.lowest, 3)
        return GateFinding(GateState.FAILED, said, figure, Limit(lowest, SATURATED), advice, offenders, (chart,))
    if wanted.holds(figure):
        return GateFinding(GateState.PASSED, said, figure, wanted, charts=(chart,))
    advice = (
        "check some of the questions that it misses: is the evidence marked where the answer is?"
        if figure < low
        else "ask harder questions, or take care: few techniques can show here what they are worth"
    )
    missed = (
        ()
        if figure > high
        else tuple(Offender(e.id, f"not found: {e.question}") for e in view.ranked if not recall[e.id])
    )
    return GateFinding(GateState.WARNING, said, figure, wanted, advice, missed, (chart,))
