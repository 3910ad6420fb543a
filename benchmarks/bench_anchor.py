"""How many questions find their evidence again when only question and answer are known, and what repair finds.

`python benchmarks/bench_anchor.py [DATA]` prints for each data set, with its evidence removed, the share of questions
that are anchored right and wrong, ambiguous (and how often the gold is among the candidates), and not found.
An anchor is right if it overlaps the gold: at least half of it lies in a gold span, or half of a gold span in it. Then
the documents are edited at 20 places and the evidence is repaired. DATA is the folder of the published data sets.

With `--learn` it prints the numbers of `ragsmith/datasets/anchoring/answers.py`, learned on the questions that are not
judged: the search questions of the bundled data sets, every other question of HotpotQA and every other page of TAT-QA.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np

from ragsmith.datasets.anchoring.anchor import Anchor
from ragsmith.datasets.anchoring.answers import FEATURES, Answers, chances
from ragsmith.datasets.anchoring.asked import Asked
from ragsmith.datasets.anchoring.places import Missing
from ragsmith.datasets.dataset import load_dataset
from ragsmith.datasets.importers import import_dataset
from ragsmith.types import Dataset, Example, Span

BUNDLED = ("law", "workshop")
PUBLISHED = ("ragsmith_law_10", "ragsmith_finance_10", "hotpotqa_100", "tatqa_dev")
ARGUMENTS = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
DATA = Path(ARGUMENTS[0] if ARGUMENTS else "../shared/data")


def data_set(name: str) -> Dataset:
    """A data set by name."""
    return load_dataset(name) if name in BUNDLED else import_dataset(DATA / name).dataset


def divided(name: str, data: Dataset) -> tuple[list[Example], list[Example]]:
    """The questions to learn on, and those to judge on."""
    if name in BUNDLED:
        learn = [example.split == "search" for example in data.examples]
    elif name == "hotpotqa_100":
        learn = [number % 2 == 0 for number in range(len(data.examples))]
    elif name == "tatqa_dev":
        pages = {document.id: number for number, document in enumerate(data.documents)}
        learn = [pages[example.evidence[0].doc] % 2 == 0 for example in data.examples]
    else:
        learn = [False for _ in data.examples]
    marked = list(zip(data.examples, learn, strict=True))
    return [example for example, known in marked if known], [example for example, known in marked if not known]


def right(span: Span, gold: tuple[Span, ...]) -> bool:
    """Whether a span overlaps the gold by half of either."""
    overlaps = ((min(span.end, g.end) - max(span.start, g.start), g) for g in gold if g.doc == span.doc)
    return any(2 * overlap >= min(span.end - span.start, g.end - g.start) for overlap, g in overlaps)


def judge(name: str) -> None:
    """Print what becomes of the questions of a data set that were not learned on."""
    data = data_set(name)
    _, examples = divided(name, data)
    started = time.perf_counter()
    anchor = Anchor(data.documents)
    asked = [Asked(n, example.id, example.question, example.answer) for n, example in enumerate(examples, 1)]
    found = anchor.anchor(asked)
    seconds = time.perf_counter() - started
    gold = {example.id: example.evidence for example in examples}
    counts: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    for each in found.anchored:
        correct = all(right(place.span, gold[each.asked.id]) for place in each.places)
        counts["right" if correct else "wrong"] += 1
        wrong[each.places[0].how] += not correct
    for left in found.unanchored:
        counts[left.why.status] += 1
        if left.why.status is Missing.AMBIGUOUS:
            counts["among"] += any(right(place.span, gold[left.asked.id]) for place in left.why.candidates)
    share = {key: f"{100 * counts[key] / len(examples):5.1f} %" for key in (*Missing, "right", "wrong")}
    among = f"{100 * counts['among'] / counts[Missing.AMBIGUOUS]:.0f} %" if counts[Missing.AMBIGUOUS] else "-"
    print(
        f"{name:20} {len(examples):5} questions: right {share['right']}, wrong {share['wrong']}, ambiguous"
        f" {share[Missing.AMBIGUOUS]} (gold among the candidates: {among}), not found {share[Missing.NOT_FOUND]},"
        f" repeated {share[Missing.REPEATED]}; {found.hows}, wrong of them {dict(+wrong)}; {seconds:.1f} s"
    )


def learn() -> None:
    """Print the numbers that answers are found with."""
    known = []
    for name in (*BUNDLED, *PUBLISHED):
        data = data_set(name)
        examples, _ = divided(name, data)
        answers = Answers(data.documents) if examples else None
        for example in examples if answers else ():
            ranked = answers.ranked(example.question, example.answer)
            spans = [answers.span(at) for at in ranked.positions.tolist()]
            known.append((answers, ranked, np.array([right(s, example.evidence) for s in spans]), 1 / len(examples)))
    weights = ranking([(ranked.features, correct, weight) for _, ranked, correct, weight in known])
    print("RANKING =", weights[:-1].round(2).tolist(), " NOWHERE =", weights[-1].round(2))
    signs, outcomes, counted = [], [], []
    for answers, ranked, correct, weight in known:
        shares, _ = chances(ranked.features, weights[:-1].round(2), float(weights[-1].round(2)))
        signs.append(answers.signs(ranked, shares))
        outcomes.append(float(correct[int(np.argmax(shares))]))
        counted.append(weight)
    print("TRUST =", logistic(np.array(signs), np.array(outcomes), np.array(counted)).round(2).tolist())


def ranking(known: list[tuple[np.ndarray, np.ndarray, float]], steps: int = 800, ridge: float = 2e-3) -> np.ndarray:
    """Weights of the features, and of nowhere, under which the gold is likeliest (Adam, Kingma and Ba 2015)."""
    weights = np.zeros(len(FEATURES) + 1)
    mean, square = np.zeros_like(weights), np.zeros_like(weights)
    for step in range(1, steps + 1):
        slope = ridge * weights
        for features, correct, weight in known:
            shares, nowhere = chances(features, weights[:-1], weights[-1])
            everything = np.append(shares, nowhere)
            gold = everything * np.append(correct, not correct.any())
            change = weight * (everything - gold / (gold.sum() + 1e-12))
            slope[:-1] += features.T @ change[:-1]
            slope[-1] += change[-1]
        mean, square = 0.9 * mean + 0.1 * slope, 0.999 * square + 0.001 * slope**2
        weights = weights - 0.1 * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
    return weights


def logistic(signs: np.ndarray, outcomes: np.ndarray, counted: np.ndarray, ridge: float = 0.02) -> np.ndarray:
    """A logistic regression by Newton's method."""
    weights = np.zeros(signs.shape[1])
    for _ in range(50):
        chance = 1 / (1 + np.exp(-signs @ weights))
        curve = (signs * (counted * chance * (1 - chance))[:, None]).T @ signs + ridge * np.eye(len(weights))
        weights -= np.linalg.solve(curve, signs.T @ (counted * (chance - outcomes)) + ridge * weights)
    return weights


if __name__ == "__main__":
    if "--learn" in sys.argv:
        learn()
    else:
        for each in (*PUBLISHED, *BUNDLED):
            judge(each)
