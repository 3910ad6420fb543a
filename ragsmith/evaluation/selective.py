"""Selective answering with a guaranteed risk (Geifman and El-Yaniv 2017; Learn then Test, Angelopoulos et al. 2021).

The risk is the share of wrong answers among the answers that are given. A pipeline answers a question if a score is at
least a threshold, and the threshold is calibrated on labelled questions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

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


def risk_upper_bound(wrong: int, answered: int, confidence: float) -> float:
    """Return the upper confidence bound of the risk (Clopper and Pearson 1934); 1 without an answer.

    It is the largest risk with a probability above ``1 - confidence`` of at most ``wrong`` of ``answered`` answers.
    """
    low, high = 0.0, 1.0
    for _ in range(60):  # beyond the precision of a float
        middle = (low + high) / 2
        low, high = (middle, high) if binomial_cdf(wrong, answered, middle) > 1 - confidence else (low, middle)
    return high


def calibrate_threshold(
    scored: Sequence[tuple[float, bool]], risk: float, confidence: float, *, start: float = START
) -> float | None:
    """Return the lowest threshold that is shown to keep ``risk``; None if none is, and -inf if all answers keep it.

    ``scored`` has the score of each answer, and whether it is wrong. Thresholds are tried from the highest down, and
    the last before the first failure is returned. One fails unless the binomial upper bound of its risk, at
    ``confidence``, is at most ``risk``. As the order is fixed in advance, no correction for the number of thresholds is
    needed (fixed sequence testing). The first has a share ``start`` of the answers, or the fewest that can show the
    risk.

    The guarantee is for independent questions like those of ``scored``: in a share of at least ``confidence`` of
    samples, the risk on all such questions is at most ``risk``.
    """
    ordered = sorted(scored, reverse=True)
    first = min(len(ordered), max(fewest_answers(risk, confidence), start * len(ordered)))
    lowest, wrong = None, 0
    for place, (score, is_wrong) in enumerate(ordered, 1):
        wrong += is_wrong
        is_last = place == len(ordered)
        if place < first or (not is_last and ordered[place][0] == score):
            continue
        if binomial_cdf(wrong, place, risk) > 1 - confidence:
            break
        lowest = -math.inf if is_last else (score + ordered[place][0]) / 2
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
