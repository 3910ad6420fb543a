"""Questions are not worded with the words of their evidence."""

from __future__ import annotations

from ragsmith.labelling.checking.finding import GateFinding, GateState, Limit, Offender, not_judged
from ragsmith.labelling.checking.registry import gate
from ragsmith.labelling.checking.view import FEWEST, View
from ragsmith.reporting.charts import Columns, ForestPlot, ForestRow, histogram

LIMIT = Limit(high=0.85)


@gate("Are questions worded otherwise than their evidence?", paper="arXiv 2104.08663")
def overlap(view: View) -> GateFinding:
    """Fail where, on average, more than 85 % of the words of a question stand in its evidence.

    Whoever writes a question with the passage before their eyes uses its words, and search by words wins: Thakur et al.
    (2021, BEIR) warn of it, Sugawara et al. (2018) find that many questions of reading comprehension are answered by
    matching words, and questions of people who had not seen the text (Kwiatkowski et al. 2019) share fewer with it.
    Counted are distinct words that mean something, by their stem. In four published sets (RAGSmith's law and finance,
    HotpotQA, TAT-QA) the mean is 0.59 to 0.73, and for questions cut out of sentences it is 1; the limit lies in the
    middle of the gap.

    Beside it stands the mean for the best chunk by BM25 that is no evidence: words that a whole corpus is about are
    in both.
    """
    shares, others = {}, []
    for example in view.ranked:
        asked = set(view.terms(example.question))
        if not asked:
            continue
        gold = {term for span in example.evidence for term in view.terms(view.text(span))}
        shares[example.id] = len(asked & gold) / len(asked)
        relevant = view.relevant(example)
        beside = [view.chunks[int(c)] for c in view.best_by_words[example.id] if view.chunks[int(c)].id not in relevant]
        others += [len(asked & set(view.terms(beside[0].text))) / len(asked)] if beside else []
    if len(shares) < FEWEST:
        return not_judged(f"{len(shares)} questions have words and evidence, and {FEWEST} are needed")
    figure = sum(shares.values()) / len(shares)
    other = sum(others) / len(others) if others else 0.0
    said = f"{figure:.0%} of the words of a question stand in its evidence, {other:.0%} in the best other chunk"
    passed = LIMIT.holds(figure)
    charts = (
        Columns(
            "Questions by the share of their words that stand in their evidence",
            tuple(f"{10 * tenth}" for tenth in range(10)),
            tuple(float(count) for count in histogram(list(shares.values()), 10)),
            across="percent of the question's words, from",
        ),
        ForestPlot(
            "Share of a question's words, on average",
            (ForestRow("in its evidence", figure, marked=not passed), ForestRow("in the best other chunk", other)),
            band=(0.0, 0.85),
        ),
    )
    if passed:
        return GateFinding(GateState.PASSED, said, figure, LIMIT, charts=charts)
    asked_by = {example.id: example.question for example in view.ranked}
    worst = sorted((one for one in shares if shares[one] > figure - 1e-9), key=lambda one: (-shares[one], one))
    offenders = tuple(Offender(one, f"{shares[one]:.0%} of its words: {asked_by[one]}") for one in worst)
    advice = "word questions as somebody would who has not read the documents"
    return GateFinding(GateState.FAILED, said, figure, LIMIT, advice, offenders, charts)
