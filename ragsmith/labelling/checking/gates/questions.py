"""How many questions there are, and how many a difference needs."""

from __future__ import annotations

from itertools import combinations
from statistics import median
from typing import Annotated

from ragsmith.comparison.difference import detectable, needed, variance
from ragsmith.comparison.questions import FEWEST_GROUPS, Clusters
from ragsmith.datasets.splits import MIN_QUESTIONS, crossfit
from ragsmith.labelling.checking.finding import GateFinding, GateState, Limit, not_judged
from ragsmith.labelling.checking.ranking import PIPELINES
from ragsmith.labelling.checking.registry import gate
from ragsmith.labelling.checking.view import FEWEST, View
from ragsmith.plugins import Range
from ragsmith.reporting.charts import Curve, ReferenceLine
from ragsmith.reporting.wording import in_groups

FOLDS = 5
"""The folds of a search with ``--verdict crossfit``, unless another number is given."""


@gate("Are there questions enough?", paper="Sakai (2016), Statistical significance, power, and sample sizes")
def questions(view: View, *, difference: Annotated[float, Range(0.001, 1)] = 0.03) -> GateFinding:
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
    total = len(view.given.examples)
    if total < MIN_QUESTIONS:
        said = f"there are {total} questions, and no test is split off from fewer than {MIN_QUESTIONS}"
        advice = f"write {MIN_QUESTIONS - total} more at least; `ragsmith dataset draft --llm MODEL` proposes some"
        return GateFinding(GateState.FAILED, said, float(total), Limit(low=float(MIN_QUESTIONS)), advice)
    if len(view.ranked) < FEWEST:
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


def _more_groups(view: View) -> str:
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


def _variance(view: View) -> float:
    """Median over all pairs of the cheap pipelines of what one question adds to the variance of their difference."""
    groups = [[example.id for example in group.examples] for group in view.groups]
    found = []
    for one, other in combinations(PIPELINES, 2):
        a, b = view.ranks(one).quality, view.ranks(other).quality
        found.append(variance({id_: a[id_] - b[id_] for id_ in a}, groups))
    return median(found)
