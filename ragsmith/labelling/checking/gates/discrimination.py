"""Gates of what the data set can show: pipelines differ on it, its test is unseen, and large enough."""

from __future__ import annotations

from itertools import combinations
from statistics import median
from typing import Annotated

from ragsmith.comparison.difference import detectable, needed, variance
from ragsmith.comparison.questions import FEWEST_GROUPS, Clusters
from ragsmith.datasets.groups import find_neighbours
from ragsmith.datasets.splits import GIVEN, MIN_QUESTIONS, UNSPLITTABLE, Split, crossfit, leaks, split_apart
from ragsmith.errors import WrongOption
from ragsmith.evaluation.statistics import bootstrap_interval, sign_flip
from ragsmith.labelling.checking.finding import GateFinding, GateState, Limit, Offender, judged, not_judged
from ragsmith.labelling.checking.registry import gate
from ragsmith.labelling.checking.view import MIN_COUNT, PIPELINES, Belonging, DatasetView
from ragsmith.plugins import Range, Share
from ragsmith.reporting.charts import Curve, ForestPlot, ForestRow, ReferenceLine
from ragsmith.reporting.wording import in_groups

SATURATED = 0.95


@gate("Does BM25 find some of the evidence, and not all?")
def bm25(view: DatasetView, *, low: Share = 0.5, high: Share = 0.8) -> GateFinding:
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
    if len(view.ranked) < MIN_COUNT:
        return not_judged(f"{len(view.ranked)} questions have evidence, and {MIN_COUNT} are needed")
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


SHOWN = Limit(high=0.05)
FULL = 0.95


@gate(
    "Do techniques differ on these questions?",
    paper="Sakai (2006), Evaluating evaluation metrics based on the bootstrap",
)
def spread(view: DatasetView) -> GateFinding:
    """Fail where the best of five cheap pipelines is not clearly above the worst, or where one has nothing to gain.

    A set is there to tell pipelines apart: one on which search by words, by meaning, by both, under headings and with
    reranking are alike tells nothing, as a test item that all solve or none solves has no discrimination (Lord and
    Novick 1968; Sakai 2006 judges measures by how many pairs they tell apart). R is the mean of Recall, MAP, nDCG
    and MRR at 5. Clearly is: sign-flip test over groups of questions that share gold, p < 0.05 after correction for
    all pairs (Bonferroni, as best and worst were picked by looking). Above 0.95 there is nothing left to gain.

    On evidence that does not belong to its questions (see bm25) nothing can differ, and this is not judged.
    """
    if len(view.ranked) < MIN_COUNT:
        return not_judged(f"{len(view.ranked)} questions have evidence, and {MIN_COUNT} are needed")
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


NONE_LEAKED = Limit(high=0.0)


@gate(
    "Is the test unseen by the search?",
    paper="Kapoor and Narayanan (2023), Leakage and the reproducibility crisis in machine-learning-based science",
)
def leakage(view: DatasetView) -> GateFinding:
    """Fail where a test question shares a chunk with a search question, or has gold within 900 characters of its gold.

    A search is tuned on where gold lies: a test that asks for the next sentence is no test. Kapoor and Narayanan (2023)
    list dependence between the two sides among the leaks behind irreproducible results in seventeen fields, and Lewis
    et al. (2021) show what test questions that overlap with training ones do to question answering. None is allowed,
    because none is needed: ragsmith draws splits without any, by document or by section, and leaves out the few
    between.
    """
    divided = view.split
    if not divided.test:
        return not_judged(f"the questions are not split: {divided.rule}")
    if not any(example.evidence for example in divided.test):
        return not_judged("no test question has evidence, so nothing is known of what it shares with the search")
    gap = view.setup.gap
    found = leaks(view.dataset, divided, cuts=((view.chunk_size, 0),), gap=gap)
    rule = "the set's own split" if divided.rule == GIVEN else "drawn"
    neither = f", {len(divided.unused)} in neither part" if divided.unused else ""
    said = f"{found} ({len(divided.search)} search, {found.test} test{neither}; {rule})"
    figure = found.near / found.test
    advice = "take `split` out of questions.jsonl, and ragsmith draws one that does not leak"
    if not NONE_LEAKED.holds(figure) and split_apart(view.dataset) is None:
        advice = f"ask of more documents, or further apart: {UNSPLITTABLE}"
    return judged(said, figure, NONE_LEAKED, advice, _near(divided, gap))


def _near(divided: Split, gap: int) -> tuple[Offender, ...]:
    """The test questions with gold near a search question's, and that question."""
    together = (*divided.search, *divided.test)
    first = len(divided.search)
    pairs = ((example, found) for example, found in zip(together, find_neighbours(together, gap), strict=True))
    seen = [(example, min(beside)) for example, found in pairs if (beside := [j for j in found if j < first])]
    tested = {example.id for example in divided.test}
    return tuple(
        Offender(example.id, f"its gold lies within {gap} characters of that of {together[beside].id}")
        for example, beside in seen
        if example.id in tested
    )


FOLDS = 5
"""The folds of a search with ``--verdict crossfit``, unless another number is given."""


@gate("Are there questions enough?", paper="Sakai (2016), Statistical significance, power, and sample sizes")
def questions(view: DatasetView, *, difference: Annotated[float, Range(0.001, 1)] = 0.03) -> GateFinding:
    """Fail below 20 questions, of which no test can be split off; warn where the test cannot show what it should.

    A test whose questions hang together in fewer than 8 groups shows nothing, however many they are: the groups are
    counted as the verdict of a search counts them, and the figure is then theirs.

    A test shows a true difference d of R four times in five, at a two-sided level of 0.05, from
    n = (2.80 sd / d)^2 questions on (Cohen 1988; Sakai 2016 for search). sd^2 is the variance of the difference
    between two pipelines, question by question, with questions that share gold counted as alike (Liang and Zeger 1986);
    the median over all pairs of the five cheap pipelines stands for two that are compared in earnest. d is 0.03 unless
    you say otherwise: of the order of what a good pipeline gains over BM25.

    Many good sets have fewer questions: it is a warning, and says what the set can show.
    """
    total = len(view.original.examples)
    if total < MIN_QUESTIONS:
        said = f"there are {total} questions, and no test is split off from fewer than {MIN_QUESTIONS}"
        advice = f"write {MIN_QUESTIONS - total} more at least; `ragsmith dataset draft --llm MODEL` proposes some"
        return GateFinding(GateState.FAILED, said, float(total), Limit(low=float(MIN_QUESTIONS)), advice)
    if len(view.ranked) < MIN_COUNT:
        return not_judged(
            f"of {total} questions {len(view.ranked)} have evidence, so nothing is known of how pipelines differ"
        )
    located = {example.id for example in view.located}
    test = [example for example in view.split.test if example.id in located]
    here, part = (len(test), "test questions") if test else (len(located), "questions, without a test")
    part += " with evidence" if len(located) < total else ""
    groups = len(Clusters.of(view.dataset, test or view.located).groups)
    counted = f"{here} {part}, in {in_groups(groups)}"
    if groups < FEWEST_GROUPS:
        said = f"{counted}: with fewer than {FEWEST_GROUPS} groups nothing can be shown"
        return GateFinding(GateState.WARNING, said, float(groups), Limit(low=float(FEWEST_GROUPS)), _more_groups(view))
    of_one = _variance(view)
    wanted = needed(of_one, difference)
    limit = Limit(low=float(wanted))
    can = detectable(of_one, here)
    said = f"{counted}; to show a difference of {difference:g} in R takes {wanted:,}, and {here} show one of {can:.3f}"
    last = max(2.0 * here, min(float(wanted), 20.0 * here))
    points = [last * (0.04 + 0.96 * step / 40) for step in range(41)]
    chart = Curve(
        "The smallest difference in R that is shown four times in five, by the number of test questions",
        tuple((n, detectable(of_one, max(1, round(n)))) for n in points if n >= 1),
        "test questions",
        at=(ReferenceLine(float(here), "here"),),
        levels=(ReferenceLine(can, "shown here"), ReferenceLine(difference, "wanted")),
    )
    if limit.holds(here):
        return GateFinding(GateState.PASSED, said, float(here), limit, charts=(chart,))
    advice = (
        "expect no verdict on smaller differences, or add questions: `ragsmith dataset draft --llm MODEL` proposes some"
    )
    return GateFinding(GateState.WARNING, said, float(here), limit, advice, charts=(chart,))


def _more_groups(view: DatasetView) -> str:
    """What to do where the test has too few groups: test all questions, if those have enough, or ask about more."""
    advice = (
        "questions whose gold lies together count as one group, so ask about other documents or sections: "
        "`ragsmith dataset draft --llm MODEL` proposes questions"
    )
    tested = [example for fold in crossfit(view.dataset, FOLDS) for example in fold.test]
    if (groups := len(Clusters.of(view.dataset, tested).groups)) < FEWEST_GROUPS:
        return advice
    crossfitted = f"`ragsmith search --verdict crossfit` tests {len(tested)} questions, in {in_groups(groups)}"
    return f"{crossfitted}, without new ones; {advice}"


def _variance(view: DatasetView) -> float:
    """Median over all pairs of the cheap pipelines of what one question adds to the variance of their difference."""
    groups = [[example.id for example in group.examples] for group in view.groups]
    found = []
    for one, other in combinations(PIPELINES, 2):
        a, b = view.ranks(one).quality, view.ranks(other).quality
        found.append(variance({id_: a[id_] - b[id_] for id_ in a}, groups))
    return median(found)
