"""What pipelines are worth on questions of the same kind: their means, shrunk to what was expected of them.

The highest of many noisy means is too high, and often that of a pipeline that was lucky. Other knowledge
says by how much: how far pipelines are expected to differ, which of them do nearly the same, and how far the questions
that happen to be asked move two means together or apart. With means y over the questions that all have answered,

    y ~ Normal(level + expected, K + rest^2 I + noise),

where ``expected`` and K are the mean and covariance of a prior on what the pipelines do, and the level, of which
nothing is known, is that of the questions. The worth of pipeline i is its share in this without the noise; its
posterior mean is linear in y (Rasmussen and Williams 2006, *Gaussian Processes for Machine Learning*, sections 2.2 and
2.7). The noise is the covariance of means over questions. There are often more pipelines than questions, so it is
shrunk towards its diagonal as much as its own uncertainty says (Schäfer and Strimmer 2005, *A Shrinkage Approach to
Large-Scale Covariance Matrix Estimation and Implications for Functional Genomics*, table 2, target D).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

FEWEST = 4
"""Questions below which nothing can be said of how sure a covariance is: it is taken for chance."""

JITTER = 1e-9
"""Least variance of noise, relative to the largest: it keeps the covariance of equal rows invertible."""


def shrunk(scores: Array, expected: Array, covariance: Array, rest: float, lowest: float = 0.0) -> tuple[Array, Array]:
    """What each pipeline is worth, and the standard deviation of its difference from the mean of all.

    ``scores`` has a row for each pipeline and a column for each question, two of each at least; NaN is a failure,
    which counts as ``lowest`` in a mean, and says nothing of the noise. ``expected`` and ``covariance`` are those of
    the prior on what pipelines are worth, in the unit of the scores, up to a number that all share; ``rest`` is the
    standard deviation of what a pipeline has for itself besides.

    Worth is in the unit of the scores: the mean of all pipelines is what it was.
    """
    pipelines = len(scores)
    means = np.where(np.isnan(scores), lowest, scores).mean(axis=1)
    centre = np.eye(pipelines) - 1.0 / pipelines
    # differences from the mean of all have lost the level, and with it all that is not known of it
    known = centre @ (covariance + rest**2 * np.eye(pipelines)) @ centre
    noise = centre @ _noise(scores) @ centre
    surprise = centre @ (means - expected)
    total = known + noise + 1.0 / pipelines  # of full rank; the added direction is not in any difference
    total += JITTER * float(total.diagonal().max()) * np.eye(pipelines)
    solved = np.linalg.solve(total, np.column_stack([surprise, known]))
    worth = means.mean() + centre @ expected + known @ solved[:, 0]
    left = np.maximum(np.diag(known - known @ solved[:, 1:]), 0.0)
    return worth, np.sqrt(left)


def _noise(scores: Array) -> Array:
    """The covariance of the means of rows over columns, as far as it moves rows apart; failures are filled in.

    A failure is imputed from its row and its column, so that failing lowers no estimate.
    """
    rows, columns = scores.shape
    known = np.ma.masked_invalid(scores)
    level = float(known.mean())
    by_row, by_column = (known.mean(axis=axis).filled(level) for axis in (1, 0))
    usual = by_row[:, None] + by_column - level
    filled = np.where(np.isnan(scores), usual, scores)
    covariance, share = shrinkage(filled - filled.mean(axis=0))
    # rows that vary by themselves vary by 1 - 1 / rows of it around the mean of all
    alone = np.diag(np.diag(covariance)) * rows / (rows - 1)
    noise: Array = ((1.0 - share) * covariance + share * alone) / columns
    return noise


def shrinkage(rows: Array) -> tuple[Array, float]:
    """The covariance of rows, from paired columns, and the share by which it is to be shrunk towards its diagonal."""
    n = rows.shape[1]
    centred = rows - rows.mean(axis=1, keepdims=True)
    covariance = centred @ centred.T / (n - 1)
    # the variance of each entry, from that of the products it is a mean of
    spread = (centred**2 @ (centred**2).T) - (centred @ centred.T) ** 2 / n
    variances = spread * n / (n - 1) ** 3
    off = ~np.eye(len(rows), dtype=bool)
    squares = float((covariance[off] ** 2).sum())
    if n < FEWEST or squares == 0.0:
        return covariance, 1.0
    return covariance, min(1.0, max(0.0, float(variances[off].sum()) / squares))
