"""People's marks of answers: their file, the answers to mark, and what marks and judge together say.

A mark is about the words of an answer to a question with its reference, whichever pipeline wrote it. So it holds for
every run with this answer, and an answer that two pipelines share is marked once. The file has a line of JSON for each
mark, of which the last about an answer counts. Every line begins with a line break, so that one that is cut off, as its
process was killed, spoils no other; it was never confirmed, and is skipped.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ragsmith.comparison.difference import cluster_interval, effective_groups
from ragsmith.comparison.prediction_powered import PoweredMean, estimate_powered_mean
from ragsmith.comparison.questions import MIN_GROUPS, Clusters
from ragsmith.errors import UsageError
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.ranking import common_questions
from ragsmith.measures.judge_calibration import Proportion
from ragsmith.text.files import MIB
from ragsmith.text.jsonl import read_json_lines

MARKS_FILE = "marks.jsonl"
"""Name of the file of marks beside a report."""

MARKS: Mapping[str, float] = {"right": 1.0, "partly": 0.5, "wrong": 0.0, "cannot tell": np.nan}
"""The marks of answers with their values; the last is a missing value."""

MARK_CUTS = (0.375, 0.625)
"""Judge's scores from which an answer counts as partly right, and as right.

On the scale of the judge, 1 and 2 are wrong, 3 is partly right, and 4 and 5 are right.
"""

FEW_MARKS = 30
"""Number of marks below which intervals are not calibrated: coverage was simulated from this number on."""

MARKED_ROLES = ("winner", "naive")
"""The roles whose answers are marked: the winner and naive RAG."""


class MarkableAnswer(NamedTuple):
    """An answer to a question with a reference answer, as texts; these identify a mark."""

    question: str
    reference: str
    answer: str


JudgedAnswers = Mapping[str, Mapping[str, tuple[MarkableAnswer, float]]]
"""The answers to the same questions with the judge's scores, by role and id of the question."""


@dataclass(frozen=True, slots=True)
class MarkedAnswers:
    """What people's marks of answers say.

    The judge's scores are compared with marks by ``table``, where ``table[i][j]`` counts the answers that people mark i
    and the judge j: wrong, partly right, right. ``kappa`` is Cohen's with linear weights (Cohen 1968): 1 minus the mean
    distance of both marks divided by that of independent marks with the same frequencies; None if that is 0.
    ``kappa_interval`` has its 95 % interval, by the delta method (Fleiss, Cohen and Everitt 1969) on groups of
    questions. ``overrated`` are the answers that the judge marks right, of those that people mark wrong, and
    ``underrated`` those that it marks wrong, of those that people mark right. ``untold`` is the number of answers
    marked as *cannot tell*.

    ``means`` are mean scores by role, and of the ``difference``: by the ``judge`` (weight 1), by people's ``marks``
    alone (weight 0), and by ``both``. Those with marks in fewer than `MIN_GROUPS` groups are left out.
    """

    table: tuple[tuple[int, ...], ...]
    kappa: float | None
    kappa_interval: tuple[float, float] | None
    overrated: Proportion
    underrated: Proportion
    untold: int
    means: Mapping[str, Mapping[str, PoweredMean]]


def read_marks(path: Path) -> dict[MarkableAnswer, str]:
    """Return the last mark of each answer in a file; none if there is no file.

    Raises:
        UsageError: the file cannot be read.
    """
    lines = read_json_lines(path, 64 * MIB)
    if 0 in lines.mistakes:
        raise UsageError(lines.mistakes[0])
    rows = [row for row in lines.records.values() if row.get("mark") in MARKS]
    return {MarkableAnswer(*(str(row.get(key)) for key in MarkableAnswer._fields)): str(row["mark"]) for row in rows}


def judged_answers(
    tested: Mapping[str, Evaluation], clusters: Clusters, asked: Mapping[str, str], references: Mapping[str, str]
) -> JudgedAnswers:
    """Return the answers of `MARKED_ROLES` to the questions with gold that the judge scored for all of them.

    ``asked`` and ``references`` have the texts of questions and of reference answers by id.
    """
    records = {role: tested[role].records for role in MARKED_ROLES if role in tested}
    both = clusters.tested(common_questions([tested[role] for role in records]))
    kept = [q for q in both if all(one[q]["measures"].get("judge") is not None for one in records.values())]
    return {
        role: {
            q: (MarkableAnswer(asked[q], references.get(q, ""), one[q]["answer"]), one[q]["measures"]["judge"])
            for q in kept
        }
        for role, one in records.items()
    }


def draw_answers(
    answers: JudgedAnswers, clusters: Clusters, count: int, seed: int, *, block: int = 12
) -> list[tuple[str, MarkableAnswer]]:
    """Draw about ``count`` answers to mark, with the ids of their questions, in random order.

    All answers to a question are drawn together. Questions are drawn at equal intervals along a random order of the
    groups, from a random start (systematic sampling; Madow and Madow 1944): each has the same probability, and every
    part of the sample is spread over the groups. Intervals are the golden ratio of the whole, which leaves similar gaps
    for any number of questions. Answers are shuffled within each ``block``, so that sessions that end early have both
    answers to most questions.
    """
    rng = np.random.default_rng(seed)
    asked = rng.permutation(sorted(next(iter(answers.values()), ()))).tolist()
    numbers, ranks = clusters.group_numbers(asked), rng.permutation(len(asked))
    ordered = [asked[at] for at in sorted(range(len(asked)), key=lambda at: (ranks[numbers[at]], at))]
    steps = (rng.random() + np.arange(3 * len(asked)) * (5**0.5 - 1) / 2) % 1 * len(asked)
    drawn = dict.fromkeys(
        (q, one[q][0]) for at in steps.astype(int).tolist() for q in (ordered[at],) for one in answers.values()
    )
    listed = list(drawn)[:count]
    return [listed[at + of] for at in range(0, len(listed), block) for of in rng.permutation(len(listed[at:][:block]))]


def evaluate_marks(
    answers: JudgedAnswers, clusters: Clusters, marks: Mapping[MarkableAnswer, str]
) -> MarkedAnswers | None:
    """Compare the judge with people, and estimate means by both; None if no answer is marked.

    The same answer of both pipelines to a question counts once in the comparison with the judge.
    """
    groups = clusters.group_numbers([*next(iter(answers.values()), ())])
    scored = {
        one: (score, group)
        for each in answers.values()
        for (one, score), group in zip(each.values(), groups, strict=True)
    }
    known = {answer: value for answer in scored if not np.isnan(value := MARKS.get(marks.get(answer, ""), np.nan))}
    if not known:
        return None
    pairs = {
        role: np.array([(known.get(answer, np.nan), score) for answer, score in one.values()])
        for role, one in answers.items()
    }
    if len(pairs) > 1:
        pairs["difference"] = pairs["winner"] - pairs["naive"]
    means = {}
    for name, (marked, judged) in ((name, pair.T) for name, pair in pairs.items()):
        if len(np.unique(np.array(groups)[~np.isnan(marked)])) >= MIN_GROUPS:
            lowest, judge = -1.0 if name == "difference" else 0.0, {"marks": 0 * judged, "both": judged}
            both = {kind: estimate_powered_mean(marked, judge[kind], groups, lowest=lowest) for kind in judge}
            own = PoweredMean(float(judged.mean()), *cluster_interval(judged, groups), len(judged), 1.0)
            means[name] = {"judge": own, **both}
    scores, places = zip(*(scored[answer] for answer in known), strict=True)
    compared = compare_judge(scores, [*known.values()], places)
    return MarkedAnswers(*compared, sum(answer in marks for answer in scored) - len(known), means)


def compare_judge(
    scores: Sequence[float], marks: Sequence[float], groups: Sequence[int]
) -> tuple[tuple[tuple[int, ...], ...], float | None, tuple[float, float] | None, Proportion, Proportion]:
    """Return the first fields of `MarkedAnswers` from the judge's scores and the values of people's marks.

    ``groups[i]`` is the group of the question of answer i. If the judge agrees with all marks, the interval begins at
    the kappa for the largest share of the farthest marks that so many groups miss with probability 0.025.
    """
    places = np.rint(2 * np.asarray(marks)).astype(int), np.searchsorted(MARK_CUTS, scores, side="right")
    table = np.histogram2d(*places, bins=range(4))[0].astype(int)
    distance = np.abs(np.subtract.outer(range(3), range(3)))
    by_mark, by_judge = distance @ table.sum(axis=0) / len(scores), table.sum(axis=1) @ distance / len(scores)
    expected, apart = float(by_mark @ table.sum(axis=1)) / len(scores), distance[places]
    kappa = interval = None
    if expected:
        ratio = float(apart.mean()) / expected
        change = by_mark[places[0]] + by_judge[places[1]] - 2 * expected
        kappa, (low, high) = 1 - ratio, cluster_interval(1 - (apart - ratio * change) / expected, groups)
        if not ratio:
            effective = effective_groups(np.unique(groups, return_counts=True)[1])
            low = 1 - distance.max() * (1 - 0.025 ** (1 / effective)) / expected
        interval = max(-1.0, low), min(1.0, high)
    over, under = (Proportion(int(table[i, j]), int(table[i].sum())) for i, j in ((0, 2), (2, 0)))
    return tuple(map(tuple, table.tolist())), kappa, interval, over, under
