"""For tests of learned rankings: general weights that are known beforehand, and lists of questions to learn from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragsmith.evaluation.general_weights import DatasetContribution, GeneralWeights, LossExpansion
from ragsmith.techniques.listwise import RIDGE
from ragsmith.techniques.reranking import listnet as reranking
from ragsmith.techniques.retrieval import listnet as retrieval

Array = NDArray[np.float64]
SIGNALS = {"retrieval.listnet": tuple(retrieval.SIGNALS), "reranking.listnet": tuple(reranking.SIGNALS)}


def weighing(*, questions: int = 100, **chosen: Mapping[str, float]) -> GeneralWeights:
    """General weights of both techniques, 0 but for those ``chosen`` of ``retrieval`` and ``reranking``.

    One data set teaches them, whose documents overlap with none, and the curvature is the identity.
    """
    weights = {
        name: np.array([chosen.get(name.partition(".")[0], {}).get(signal, 0.0) for signal in its])
        for name, its in SIGNALS.items()
    }
    slopes = {name: LossExpansion(-RIDGE * its, (1 - RIDGE) * np.eye(len(its))) for name, its in weights.items()}
    return GeneralWeights(
        SIGNALS, weights, (DatasetContribution("made up", (), dict.fromkeys(SIGNALS, questions), slopes),)
    )


def random_questions(
    seed: int, weights: Sequence[float], count: int = 20, *, candidates: int = 8, groups: int = 5
) -> list[dict[str, Any]]:
    """Observations in which the candidate that the true ``weights`` put first, with some noise, is relevant.

    Now and then the second one is, too.
    """
    draw = np.random.default_rng(seed)
    found = []
    for number in range(count):
        signals = draw.normal(size=(int(draw.integers(3, candidates + 1)), len(weights)))
        best = np.argsort(-(signals @ np.array(weights) + draw.normal(size=len(signals))))
        relevant = {int(best[0]), *([int(best[1])] if draw.random() < 0.3 else [])}
        labels = [row in relevant for row in range(len(signals))]
        named = {"question": f"question {number}", "group": f"d{number % groups}"}
        found.append({**named, "signals": signals.tolist(), "relevant": labels})
    return found


def loss_of(weights: Array, observation: Mapping[str, Any]) -> tuple[float, Array]:
    """The cross-entropy of one question and its gradient, term by term as the definition has it."""
    scores = [float(sum(w * x for w, x in zip(weights, row, strict=True))) for row in observation["signals"]]
    highest = max(scores)
    total = sum(np.exp(score - highest) for score in scores)
    share = 1 / sum(observation["relevant"])
    loss, gradient = 0.0, np.zeros(len(weights))
    for row, score, relevant in zip(observation["signals"], scores, observation["relevant"], strict=True):
        probability = np.exp(score - highest) / total
        target = share if relevant else 0.0
        loss -= target * np.log(probability)
        gradient += (probability - target) * np.array(row)
    return loss, gradient
