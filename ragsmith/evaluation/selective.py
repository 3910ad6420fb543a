"""Selective answering with a guaranteed risk (Geifman and El-Yaniv 2017; Learn then Test, Angelopoulos et al. 2021).

The risk is the share of wrong answers among the answers that are given. A pipeline answers a question if a score is at
least a threshold, and the threshold is calibrated on labelled questions. Those of a document are often wrong together,
and new questions are about other documents, so the bound of the risk counts an effective number of questions.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.fitness import REFUSAL
from ragsmith.text.declining import declines

START = 0.25
"""Share of the answers at the first threshold tried, if these can show the risk.

With fewer answers, one wrong among them often ends the calibration; with more, high thresholds are not tried. Chosen
on made-up pipelines (``python benchmarks/bench_verdicts.py declining``).
"""


def binomial_cdf(count: int, n: int, probability: float) -> float:
    """Return the probability of at most ``count`` of ``n`` independent events of this ``probability``.

    It is the sum over i <= count of C(n, i) p**i (1 - p)**(n - i), by log-gamma, as C(n, i) of a large n is
    beyond the range of a float.
    """
    if count < 0:
        return 0.0
    if count >= n or probability <= 0:
        return 1.0
    if probability >= 1:
        return 0.0
    logs = math.log(probability), math.log1p(-probability)
    whole = math.lgamma(n + 1)
    terms = (
        math.exp(whole - math.lgamma(i + 1) - math.lgamma(n - i + 1) + i * logs[0] + (n - i) * logs[1])
        for i in range(count + 1)
    )
    return min(1.0, math.fsum(terms))


def intraclass_correlation(values: Sequence[float], groups: Sequence[int]) -> float:
    """Return the correlation of two values of a group, by analysis of variance (Fisher 1925); 0 if it is negative.

    With one group, or only groups of one, it is 0, as it is not known.
    """
    each, (_, places) = np.asarray(values, dtype=np.float64), np.unique(groups, return_inverse=True)
    sizes, n = np.bincount(places), len(each)
    if not 1 < len(sizes) < n:
        return 0.0
    explained = float((sizes * (np.bincount(places, each) / sizes - each.mean()) ** 2).sum())
    between = explained / (len(sizes) - 1)
    within = (float(each.var()) * n - explained) / (n - len(sizes))
    size = (n - float((sizes**2).sum()) / n) / (len(sizes) - 1)
    total = between + (size - 1) * within
    return max(0.0, (between - within) / total) if total > 0 else 0.0


def calibrate_threshold(
    scored: Sequence[tuple[float, bool]],
    risk: float,
    confidence: float,
    *,
    groups: Sequence[int] | None = None,
    start: float = START,
) -> float | None:
    """Return the lowest threshold that is shown to keep ``risk``; None if none is, and -inf if all answers keep it.

    ``scored`` has the score of each answer, and whether it is wrong; ``groups`` has the group of each, by default its
    own. Thresholds are tried from the highest down, and the last before the first failure is returned. One fails unless
    the binomial upper bound of its risk, at ``confidence``, is at most ``risk``. As the order is fixed in advance, no
    correction for the number of thresholds is needed (fixed sequence testing). The first has a share ``start`` of the
    answers, or the fewest that can show the risk.

    The bound counts n / (1 + (m - 1) * r) of n answers, and as large a share of the wrong ones: r is the intraclass
    correlation of wrong answers, and m the mean size of the group of an answer above the threshold (Kish 1965).

    The guarantee is for questions in other groups like those of ``scored``: in a share of at least ``confidence`` of
    samples, the risk on all such questions is at most ``risk``. It is exact for independent questions, and for
    correlated ones it holds in simulations.
    """
    groups = range(len(scored)) if groups is None else groups
    correlation = intraclass_correlation([is_wrong for _, is_wrong in scored], groups)
    ordered = sorted(zip(scored, groups, strict=True), key=lambda one: -one[0][0])
    fewest = fewest_answers(risk, confidence)
    first = min(len(ordered), max(fewest, start * len(ordered)))
    lowest, wrong, pairs, sizes = None, 0, 0, Counter[int]()
    for place, ((score, is_wrong), group) in enumerate(ordered, 1):
        wrong += is_wrong
        pairs += 2 * sizes[group]  # ordered pairs of answers in a group; over n answers it is m - 1
        sizes[group] += 1
        is_last = place == len(ordered)
        if place < first or (not is_last and ordered[place][0][0] == score):
            continue
        effective = math.floor(place / (1 + correlation * pairs / place) + 1e-9)
        if effective < fewest:
            continue  # no number of wrong answers would show the risk
        if binomial_cdf(math.ceil(wrong * effective / place - 1e-9), effective, risk) > 1 - confidence:
            break
        lowest = -math.inf if is_last else (score + ordered[place][0][0]) / 2
    return lowest


def fewest_answers(risk: float, confidence: float) -> int:
    """Return the least number of answers that show ``risk`` if none of them is wrong."""
    return math.ceil(math.log(1 - confidence) / math.log1p(-risk) - 1e-9)


@dataclass(frozen=True, slots=True)
class AnswerCounts:
    """The number of questions, of those that were answered, and of wrong answers."""

    questions: int
    answered: int
    wrong: int

    @property
    def risk(self) -> float | None:
        """The share of wrong answers; None without an answer."""
        return self.wrong / self.answered if self.answered else None

    def describe(self, part: str = "") -> str:
        """Describe the counts, of questions of a ``part`` such as "test"."""
        risk = "" if self.risk is None else f", {self.wrong} of these answers wrong ({100 * self.risk:.0f} %)"
        return f"{self.answered} of {self.questions} {part} questions answered{risk}".replace("  ", " ")


def find_wrong(evaluation: Evaluation, least_good: float) -> dict[str, bool | None]:
    """Return for each finished question whether its answer is wrong; None if it was declined.

    An answer is wrong if the question has none in the documents, or if the judge's score is below ``least_good``
    (`ragsmith.diagnosis.causes.good_score_threshold`). Answers that no judge scored are left out.
    """
    found: dict[str, bool | None] = {}
    for question in filter(evaluation.records.__contains__, evaluation.questions):
        record = evaluation.records[question]
        measures = record["measures"]
        mark = measures.get("judge") if measures.get(REFUSAL) is None else -math.inf
        if declines(record["answer"]):
            found[question] = None
        elif mark is not None:
            found[question] = mark < least_good
    return found


def count_answers(evaluation: Evaluation, least_good: float) -> AnswerCounts:
    """Count the questions that were answered, and the wrong answers, by `find_wrong`."""
    found = find_wrong(evaluation, least_good).values()
    return AnswerCounts(len(found), sum(one is not None for one in found), sum(one is True for one in found))
