"""Gates of discrimination: pipelines differ in scores, and the test is unseen by the search and large enough."""

from bisect import bisect_left
from itertools import combinations
from math import ceil, inf
from typing import Annotated

from ragsmith.comparison.difference import POWER, Power
from ragsmith.comparison.ledger import run_with_ledger
from ragsmith.comparison.questions import ALPHA, MIN_GROUPS, Clusters, digest_questions
from ragsmith.comparison.verdicts import MAX_QUESTION_FACTOR
from ragsmith.datasets.groups import find_neighbours
from ragsmith.datasets.splits import (
    GIVEN,
    MIN_QUESTIONS,
    UNSPLITTABLE,
    Split,
    count_leaks,
    crossfit,
    split_with_exclusions,
)
from ragsmith.errors import WrongOption
from ragsmith.evaluation.statistics import bootstrap_interval, sign_flip_test
from ragsmith.labelling.checking.finding import GateFinding, GateState, Limit, Offender, judged, not_judged
from ragsmith.labelling.checking.registry import gate
from ragsmith.labelling.checking.view import MAX_RANKED_QUESTIONS, MIN_COUNT, PIPELINES, DatasetView, EvidenceMatching
from ragsmith.plugins import Count, Range, Share
from ragsmith.reporting.charts import Curve, ForestPlot, ForestRow, ReferenceLine
from ragsmith.reporting.wording import count_groups

MAX_RECALL = 0.95
"""Recall@5 of BM25 above which too little can be gained."""


@gate("Does BM25 find some of the evidence, and not all?")
def bm25(view: DatasetView, *, low: Share = 0.5, high: Share = 0.8) -> GateFinding:
    """Warn if Recall@5 of BM25 is outside 0.50 to 0.80; fail if questions and evidence do not belong together.

    If BM25 finds nearly all evidence, no other pipeline can be shown to be better: above 0.95, at most 0.05 can be
    gained, and a difference of 0.03 would be most of it. If it finds little, users word questions otherwise than the
    text, each question has much evidence, or the gold is wrong. In four published sets (RAGSmith's law and finance,
    HotpotQA, TAT-QA) it is 0.71 to 0.76; the default range has a margin on both sides, and can be changed.

    The gate fails if the recall of the evidence of a question is less than three times the recall of the evidence of
    other questions in the same ranking: then evidence and questions do not match (rows were shifted, ids mixed up),
    whatever the size of the corpus, or the questions are in another language than the documents.

    If evidence has more than 5 units (chunks, or groups of chunks for coarse gold), recall is divided by its maximum.
    """
    if low > high:
        raise WrongOption("set", f"has bm25.low at {low}, above bm25.high, {high}: swap them")
    if len(view.ranked) < MIN_COUNT:
        return not_judged(f"{len(view.ranked)} questions have evidence, and {MIN_COUNT} are needed")
    found = EvidenceMatching.from_view(view)
    recall, figure, mixed = found.recall, found.own, found.others
    wanted = Limit(low, high)
    summary = f"Recall@5 of BM25 is {figure:.3f}; of evidence that belongs to other questions it finds {mixed:.3f}"
    failed = found.mixed_up
    chart = ForestPlot(
        "Recall@5 of BM25, and where it should lie",
        (
            ForestRow("evidence of the question", figure, marked=failed or not wanted.holds(figure)),
            ForestRow("evidence of other questions", mixed),
        ),
        lines=(ReferenceLine(MAX_RECALL, "nothing left to find"),),
        band=(low, high),
    )
    if failed:
        offenders = tuple(
            Offender(e.id, f"none of its evidence is found: {e.question}") for e in view.ranked if not recall[e.id]
        )
        summary += ": questions and evidence do not seem to belong together"
        advice = "look at a few rows: are ids, offsets or languages mixed up?"
        lowest = round(found.lowest, 3)
        return GateFinding(GateState.FAILED, summary, figure, Limit(lowest), advice, offenders, (chart,))
    advice = (
        "read some of the questions that it misses: if the evidence is where the answer is, and users do word them so, "
        "nothing is wrong, and other techniques have room"
        if figure < low
        else "use BM25 if users do ask so: little can be shown to improve on it here"
    )
    missed = (
        ()
        if figure > high
        else tuple(Offender(e.id, f"not found: {e.question}") for e in view.ranked if not recall[e.id])
    )
    return judged(summary, figure, wanted, advice, missed, (chart,), otherwise=GateState.WARNING)


MAX_P_VALUE = Limit(high=0.05)
MAX_R = 0.95
"""Mean R above which too little can be gained."""


@gate(
    "Do techniques differ on these questions?",
    paper="Sakai (2006), Evaluating evaluation metrics based on the bootstrap",
)
def spread(view: DatasetView) -> GateFinding:
    """Warn if no pair of five inexpensive pipelines differs significantly, or if one pipeline is saturated.

    A data set has to distinguish pipelines: if lexical, dense and hybrid search, search with headings, and reranking
    all score the same, it has no discrimination, as a test item that all or none solve (Lord and Novick 1968; Sakai
    2006 judges measures by the number of pairs they distinguish). R is the mean of Recall, MAP, nDCG and MRR at 5.
    Significant means p < 0.05 in a sign-flip test over groups of questions, those of the verdict of a search, after a
    Bonferroni correction for all pairs, as the best and the worst pipeline are selected on the same data. A pipeline
    with R above 0.95 is saturated.

    If evidence does not match its questions (see bm25), no pipelines can differ, and the gate is not judged.
    """
    if len(view.ranked) < MIN_COUNT:
        return not_judged(f"{len(view.ranked)} questions have evidence, and {MIN_COUNT} are needed")
    if EvidenceMatching.from_view(view).mixed_up:
        return not_judged("questions and evidence do not seem to belong together, so no pipelines can differ: see bm25")
    ranks = {name: view.ranks(name) for name in PIPELINES}
    best = max(ranks, key=lambda name: ranks[name].mean)
    worst = min(ranks, key=lambda name: ranks[name].mean)
    ids = {example.id for example in view.ranked}
    clusters = Clusters.from_examples(view.dataset, view.located)
    groups = [[one for one in group if one in ids] for group in clusters.groups]
    sums = {
        name: [sum(ranks[name].quality[one] for one in group) for group in groups if group] for name in (best, worst)
    }
    pairs = len(list(combinations(PIPELINES, 2)))
    p = min(1.0, pairs * sign_flip_test(sums[best], sums[worst]))
    full = [name for name in ranks if ranks[name].mean > MAX_R]
    chart = ForestPlot(
        "R of five cheap pipelines, with 95 % intervals",
        tuple(
            ForestRow(
                name, ranks[name].mean, *bootstrap_interval(list(ranks[name].quality.values())), marked=name in full
            )
            for name in PIPELINES
        ),
        lines=(ReferenceLine(MAX_R, "nothing left to gain"),),
    )
    summary = (
        f"R is {ranks[worst].mean:.2f} ({worst}) to {ranks[best].mean:.2f} ({best}), "
        f"p {'< 0.001' if p < 0.001 else f'= {p:.3f}'}"
    )
    if full:
        summary += f"; {' and '.join(full)} can gain nothing more"
        advice = "take the simplest of them if users do ask so; a search finds more on harder questions"
        easy = tuple(
            Offender(e.id, "every pipeline finds all of it first")
            for e in view.ranked
            if all(ranks[name].quality[e.id] == 1 for name in PIPELINES)
        )
        return GateFinding(GateState.WARNING, summary, ranks[best].mean, Limit(high=MAX_R), advice, easy, (chart,))
    if MAX_P_VALUE.holds(p):
        return GateFinding(GateState.PASSED, summary, p, MAX_P_VALUE, charts=(chart,))
    same = tuple(
        Offender(e.id, "all pipelines do the same")
        for e in view.ranked
        if len({round(ranks[name].quality[e.id], 9) for name in PIPELINES}) == 1
    )
    summary += f": no difference is shown, and on {len(same)} of {len(view.ranked)} questions there is none"
    advice = "expect a search to show no difference, or add questions: about other documents or sections, if possible"
    return GateFinding(GateState.WARNING, summary, p, MAX_P_VALUE, advice, same, (chart,))


MAX_LEAKS = Limit(high=0.0)


@gate(
    "Is the test unseen by the search?",
    paper="Kapoor and Narayanan (2023), Leakage and the reproducibility crisis in machine-learning-based science",
)
def leakage(view: DatasetView) -> GateFinding:
    """Fail if a test question shares a chunk with a search question, or has gold within 900 characters of its gold.

    A search is fitted to the positions of gold, so a test question about the next sentence is not independent of it.
    Kapoor and Narayanan (2023) list dependence between training and test sets among the leaks behind irreproducible
    results in seventeen fields, and Lewis et al. (2021) show the effect of overlapping test questions in question
    answering. No leak is permitted, because none is necessary: ragsmith splits by document or by section, and leaves
    out the few questions in between.
    """
    divided = view.split
    if not divided.test:
        return not_judged(f"the questions are not split: {divided.rule}")
    if not any(example.evidence for example in divided.test):
        return not_judged("no test question has evidence, so leaks from the search cannot be detected")
    gap = view.setup.gap
    found = count_leaks(view.dataset, divided, cuts=((view.chunk_size, 0),), gap=gap)
    rule = "the set's own split" if divided.rule == GIVEN else "drawn"
    neither = f", {len(divided.unused)} in neither part" if divided.unused else ""
    summary = f"{found} ({len(divided.search)} search, {found.test} test{neither}; {rule})"
    figure = found.near / found.test
    advice = "take `split` out of questions.jsonl, and ragsmith draws one that does not leak"
    if not MAX_LEAKS.holds(figure) and split_with_exclusions(view.dataset) is None:
        advice = f"ask of more documents, or further apart: {UNSPLITTABLE}"
    return judged(summary, figure, MAX_LEAKS, advice, _find_leaks(divided, gap))


def _find_leaks(divided: Split, gap: int) -> tuple[Offender, ...]:
    """Return the test questions with gold near that of a search question, each with that question."""
    together = (*divided.search, *divided.test)
    first = len(divided.search)
    tested = zip(divided.test, find_neighbours(together, gap)[first:], strict=True)
    return tuple(
        Offender(example.id, f"its gold lies within {gap} characters of that of {together[min(beside)].id}")
        for example, near in tested
        if (beside := [place for place in near if place < first])
    )


N_FOLDS = 5
"""Default number of folds of a search with ``--verdict crossfit``."""


@gate("Are there questions enough?", paper="Sakai (2016), Statistical significance, power, and sample sizes")
def questions(
    view: DatasetView, *, difference: Annotated[float, Range(0.001, 1)] = 0.03, rivals: Count = 5
) -> GateFinding:
    """Fail below 20 questions, from which no test can be split off; warn if the power of the test is too low.

    A test whose questions form fewer than 8 groups cannot show any difference, however many questions it has: the
    groups are those of the verdict of a search, and the figure is then their number.

    The power is that of the test of the verdict, sign flips by group, against as many rivals as a search has, at a
    two-sided level of 0.05 divided by their number. No formula is used (Sakai 2016 has those for independent
    questions): with few groups nearly all have to agree, so worlds are simulated with the groups of the test, from the
    differences in R of two of the five inexpensive pipelines. Of all pairs, the one with the median smallest
    difference that is shown with a power of 80 % counts. The wanted difference is 0.03 by default, the order of
    magnitude of the gain of a good pipeline over BM25; the groups that it takes are simulated in the same way.

    Many good sets have fewer questions: the gate only warns, and reports the difference that the set can show. Of more
    than 500 test questions a sample of whole groups is ranked.
    """
    total = len(view.original.examples)
    if total < MIN_QUESTIONS:
        summary = f"there are {total} questions, and no test is split off from fewer than {MIN_QUESTIONS}"
        advice = f"write {MIN_QUESTIONS - total} more at least; `ragsmith dataset draft --llm MODEL` proposes some"
        return GateFinding(GateState.FAILED, summary, float(total), Limit(low=float(MIN_QUESTIONS)), advice)
    if len(view.ranked) < MIN_COUNT:
        return not_judged(f"of {total} questions {len(view.ranked)} have evidence, so no variance can be estimated")
    located = {example.id for example in view.located}
    test = [example for example in view.split.test if example.id in located]
    here, part = (len(test), "test questions") if test else (len(located), "questions, without a test")
    part += " with evidence" if len(located) < total else ""
    clusters = Clusters.from_examples(view.dataset, test or view.located)
    groups = len(clusters.groups)
    counted = f"{here} {part}, in {count_groups(groups)}"
    if groups < MIN_GROUPS:
        summary = f"{counted}: with fewer than {MIN_GROUPS} groups nothing can be shown"
        return GateFinding(GateState.WARNING, summary, float(groups), Limit(low=float(MIN_GROUPS)), _more_groups(view))
    pairs = _PairedRanks(view, clusters, ALPHA / rivals)
    can, most = pairs.detectable, MAX_QUESTION_FACTOR * groups
    needed = MIN_GROUPS + bisect_left(
        range(MIN_GROUPS, most), True, key=lambda count: pairs.power(count).at(difference) >= POWER
    )
    wanted = ceil(needed * here / groups)
    limit = Limit(low=float(wanted))
    takes = f"takes {wanted:,} in {needed:,} groups" if needed < most else f"takes more than {wanted:,}"
    shown = "none" if can is None else f"one of {can:.3f}"
    summary = f"{counted}; a difference of {difference:g} in R from {rivals} rivals {takes}, and {here} show {shown}"
    last = max(2 * groups, min(needed, most))
    counts = sorted({round(MIN_GROUPS + (last - MIN_GROUPS) * step / 12) for step in range(13)} | {groups})
    points = ((count * here / groups, pairs.power(count).smallest()) for count in counts)
    chart = Curve(
        "The smallest difference in R that is shown four times in five, by the number of test questions",
        tuple((n, least) for n, least in points if least is not None),
        "test questions",
        at=(ReferenceLine(float(here), "here"),),
        levels=(*((ReferenceLine(can, "shown here"),) if can else ()), ReferenceLine(difference, "wanted")),
    )
    advice = (
        "expect no verdict on smaller differences, or add questions about other documents or sections: "
        "`ragsmith dataset draft --llm MODEL` proposes some"
    )
    return judged(summary, float(here), limit, advice, charts=(chart,), otherwise=GateState.WARNING)


class _PairedRanks:
    """The differences in R of a pair of pipelines on the questions of ``clusters``, or of a sample of whole groups.

    Of all pairs it is the one with the median smallest difference, ``detectable``, that is shown at ``level``.
    """

    def __init__(self, view: DatasetView, clusters: Clusters, level: float) -> None:
        every = min(ceil(clusters.questions / MAX_RANKED_QUESTIONS), len(clusters.groups) // MIN_GROUPS)
        asked = [one for group in clusters.groups[::every] for one in group]
        examples = [view.setup.examples[one] for one in asked]
        quality = {name: view.ranks(name, examples).quality for name in PIPELINES}
        self._numbers, self._count, self._level = clusters.group_numbers(asked), len(clusters.groups), level
        found: list[tuple[float, list[float]]] = []
        for one, other in combinations(PIPELINES, 2):
            self._each = [quality[one][id_] - quality[other][id_] for id_ in asked]
            least = self.power(self._count).smallest()
            found.append((inf if least is None else least, self._each))
        least, self._each = sorted(found)[len(found) // 2]
        self.detectable = None if least == inf else least

    def power(self, count: int) -> Power:
        """Return the power of a test with ``count`` groups like these."""
        return Power(self._each, self._numbers, self._level, count=count)


def _more_groups(view: DatasetView) -> str:
    """Return the advice for a test with too few groups: more questions, or cross-fitting if all questions suffice."""
    advice = (
        "questions whose gold lies together count as one group, so ask about other documents or sections: "
        "`ragsmith dataset draft --llm MODEL` proposes questions"
    )
    tested = [example for fold in crossfit(view.dataset, N_FOLDS) for example in fold.test]
    if (groups := len(Clusters.from_examples(view.dataset, tested).groups)) < MIN_GROUPS:
        return advice
    looked_at, _ = run_with_ledger(
        lambda page: page and page.looks(digest_questions(view.dataset, tested).values()), read_only=True
    )
    more, how = (
        (" --test", "at a lower level, as some were looked at before") if looked_at else ("", "without new ones")
    )
    crossfitted = f"`ragsmith search --verdict crossfit{more}` tests {len(tested)} questions, in {count_groups(groups)}"
    return f"{crossfitted}, {how}; {advice}"
