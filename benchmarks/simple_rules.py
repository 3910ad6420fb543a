"""Simple versions of what chooses a pipeline, for `bench_holds.py`: a prior of other data sets, a search, an estimate.

They are small enough to be read at once, and what the package does is held against them. All work on numbers that
others scored: a pipeline is a row of features, and of its scores only those on the questions of a search are handed in.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Labels = tuple[str, ...]
"""The options of a pipeline, by family."""

SPREADS = tuple(product((0.01, 0.03, 0.06), (0.003, 0.01), (0.003, 0.01)))
"""Standard deviations of effects of options, of pairs and of the rest, of which the data choose where no prior does."""

LEVEL = 1.0
"""Of the level that all pipelines of a data set share: nothing is known of it."""

BATCH = 5

UNKNOWN = 0.03
"""Standard deviation of an effect between data sets, where only one tells of effects."""


@dataclass(frozen=True)
class Coding:
    """Numbers for options and for pairs of them, beside a pipeline whose options have none."""

    neutral: Labels
    terms: dict[tuple[tuple[int, str], ...], int]

    @classmethod
    def of(cls, neutral: Labels, pipelines: Sequence[Sequence[Labels]]) -> "Coding":
        """A coding of all options, and of all pairs, that pipelines of any data set have."""
        terms: dict[tuple[tuple[int, str], ...], int] = {}
        every = dict.fromkeys(labels for its in pipelines for labels in its)
        for size in (1, 2):
            for labels in every:
                for term in combinations(_set(labels, neutral), size):
                    terms.setdefault(term, len(terms))
        return cls(neutral, terms)

    def features(self, pipelines: Sequence[Labels]) -> NDArray[np.float32]:
        """A row of zeros and ones for each pipeline."""
        found = np.zeros((len(pipelines), len(self.terms)), dtype=np.float32)
        for row, labels in enumerate(pipelines):
            here = _set(labels, self.neutral)
            for size in (1, 2):
                found[row, [self.terms[term] for term in combinations(here, size)]] = 1
        return found

    @property
    def pairs(self) -> NDArray[np.bool_]:
        """Which terms are pairs."""
        return np.array([len(term) == 2 for term in self.terms])


def _set(labels: Labels, neutral: Labels) -> list[tuple[int, str]]:
    return [(place, label) for place, label in enumerate(labels) if label != neutral[place]]


@dataclass(frozen=True)
class Prior:
    """What is expected of each pipeline, but for a level that all share, before any of it is evaluated.

    ``loadings`` times itself is the covariance of what is open in it, besides ``rest``, a standard deviation that
    pipelines have of their own.
    """

    expected: Floats
    loadings: NDArray[np.float32]
    rest: float


def learned(
    coding: Coding, others: Sequence[tuple[NDArray[np.float32], Floats]], features: NDArray[np.float32]
) -> Prior:
    """Learn from other data sets, from the features and the mean scores of their pipelines, what to expect of some.

    A ridge regression for each; then, for options and for pairs, how far effects differ between data sets, and by how
    much their means are to be shrunk for it.
    """
    pairs = coding.pairs
    penalty = np.where(pairs, 1.0, 0.1)
    fitted, rests, has = [], [], []
    for its, scores in others:
        x, y = its - its.mean(axis=0), scores - scores.mean()
        effects = np.linalg.solve(x.T @ x + np.diag(penalty), x.T @ y)
        fitted.append(effects)
        rests.append(np.std(y - x @ effects))
        has.append(its.any(axis=0))
    table, known = np.array(fitted), np.array(has)
    count = np.maximum(known.sum(axis=0), 1)
    means = (table * known).sum(axis=0) / count
    apart = ((table - means) ** 2 * known).sum(axis=0) / np.maximum(count - 1, 1)
    variance = np.zeros(len(means))
    signal = np.zeros(len(means))
    for group in (pairs, ~pairs):
        often = group & (count > 1)
        variance[group] = apart[often].mean() if often.any() else UNKNOWN**2
        signal[group] = max(0.0, np.mean(means[often] ** 2 - variance[often] / count[often])) if often.any() else 0.0
    kept = signal / (signal + variance / count)
    kept[~known.any(axis=0)] = 0.0
    spreads = np.sqrt(variance + signal * (1 - kept))
    return Prior(features @ (means * kept), features * spreads.astype(np.float32), float(np.mean(rests)))


def flat(features: NDArray[np.float32], pairs: NDArray[np.bool_], spreads: tuple[float, float, float]) -> Prior:
    """A prior that knows nothing but how large effects are."""
    single, pair, rest = spreads
    return Prior(np.zeros(len(features)), features * np.where(pairs, pair, single).astype(np.float32), rest)


class Estimate:
    """What every pipeline is worth, after some have been evaluated: a Gaussian process on options, pairs and a rest.

    ``priors`` are tried, and that under which the scores are likeliest is taken. The noise of two means over the same
    questions goes together as their scores do, question by question.
    """

    def __init__(self, priors: Sequence[Prior]) -> None:
        self._priors = priors

    def of_all(self, seen: Sequence[int], scores: Floats) -> tuple[Floats, Floats]:
        """The expected worth of each pipeline and its standard deviation; ``scores`` are of ``seen``, by question."""
        means = scores.mean(axis=1)
        noise = np.atleast_2d(np.cov(scores - scores.mean(axis=0))) / scores.shape[1]
        noise = 0.8 * noise + np.diag(0.2 * np.diag(noise) + 1e-7)
        prior, root, surprise = max(
            (_weighed(prior, seen, means, noise) for prior in self._priors), key=lambda found: _likelihood(*found[1:])
        )
        across = (prior.loadings @ prior.loadings[seen].T).astype(np.float64) + LEVEL
        across[seen, np.arange(len(seen))] += prior.rest**2
        whole = (prior.loadings**2).sum(axis=1) + prior.rest**2 + LEVEL
        explained = np.linalg.solve(root, across.T)
        level = (means - prior.expected[seen]).mean()
        expected = level + prior.expected + explained.T @ surprise
        return expected, np.sqrt(np.maximum(0, whole - (explained**2).sum(axis=0)))


def _weighed(prior: Prior, seen: Sequence[int], means: Floats, noise: Floats) -> tuple[Prior, Floats, Floats]:
    """A prior, the root of the covariance that means have under it, and what they are off it in units of that."""
    here = prior.loadings[seen].astype(np.float64)
    root = np.linalg.cholesky(here @ here.T + LEVEL + prior.rest**2 * np.eye(len(here)) + noise)
    off = means - prior.expected[seen]
    return prior, root, np.linalg.solve(root, off - off.mean())


def _likelihood(root: Floats, surprise: Floats) -> float:
    return float(-0.5 * surprise @ surprise - np.log(np.diag(root)).sum())


def searched(estimate: Estimate, scores: Floats, told: Sequence[int], budget: int, first: Sequence[int]) -> list[int]:
    """The pipelines that a search evaluates, in order: ``told`` for nothing, ``first``, then the most promising.

    ``scores`` has those on the questions of the search alone. Promising is what may be best: expectation plus one
    deviation.
    """
    seen = list(dict.fromkeys([*told, *first]))[: len(set(told)) + budget]
    while len(seen) < min(len(set(told)) + budget, len(scores)):
        expected, deviation = estimate.of_all(seen, scores[seen])
        promise = expected + deviation
        promise[seen] = -np.inf
        wanted = min(BATCH, len(set(told)) + budget - len(seen), len(scores) - len(seen))
        seen += np.argsort(-promise, kind="stable")[:wanted].tolist()
    return seen


def simplified(
    leader: int, scores: Floats, calls: Floats, pipelines: Sequence[Labels], rows: dict[Labels, int], plain: Labels
) -> int:
    """Leave out of a pipeline what does not pay, one option after the other, by the rule of one standard error.

    Whatever stays within one standard error of ``leader`` may go, what saves most calls first; what saves none, only
    where the mean does not fall. Retrieval is kept, and so is what would leave a pipeline that nobody scored.
    """
    retrieval = 2
    current = leader
    while True:
        labels = pipelines[current]
        may_go = []
        for place, label in enumerate(labels):
            row = rows.get((*labels[:place], plain[place], *labels[place + 1 :]))
            if place == retrieval or label == plain[place] or row is None:
                continue
            behind = scores[leader] - scores[row]
            error = behind.std(ddof=1) / np.sqrt(len(behind))
            saved = calls[current] - calls[row]
            falls = scores[current].mean() > scores[row].mean()
            if behind.mean() <= error and (saved > 0 or not falls):
                may_go.append((saved, -behind.mean(), row))
        if not may_go:
            return current
        current = max(may_go)[2]
