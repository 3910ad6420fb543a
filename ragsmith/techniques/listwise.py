"""Linear scores that are learned from lists: softmax cross-entropy over the candidates of a question.

That is ListNet (Cao et al. 2007) with a linear scoring function and the top-one probability, where the relevant
candidates of a question share the target equally. Each signal is standardised within its question, so that a constant
cancels, and weights learned with one embedder, or on one corpus, carry over to others.

What other data sets teach is kept as a quadratic: `General` has the weights that fit them best and the curvature of
their loss there (Laplace's approximation). Adding a data set's own questions to it is fitting on all of them together,
without their texts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

PAPER = "https://doi.org/10.1145/1273496.1273513"

RIDGE = 0.1
"""Ridge penalty on general weights, against the mean loss; from .003 to .1 held-out rankings were the same within
noise."""

TIMES = (0, 1, 3, 10, 30)
"""How often a question of one's own counts where a general one counts once; 0 takes the general weights as they are."""

FOLDS = 4
"""Folds of groups of questions that choose among `TIMES`."""

FEWEST = 8
"""Questions with something to learn from; with fewer the general weights stay."""

_STEPS = 30
_CONVERGED = 1e-12

Observation = Mapping[str, Any]
"""One ``question``: ``signals`` of its candidates, a row each, which of them are ``relevant``, and the ``group`` of its
gold."""


@dataclass(frozen=True, eq=False)
class General:
    """What other data sets teach about ``signals``.

    ``weights`` has shape ``(signals,)``. ``curvature``, ``(signals, signals)``, is the Hessian of their mean loss with
    its ridge penalty there, and ``questions`` counts those it is the mean of.
    """

    signals: tuple[str, ...]
    weights: Array
    curvature: Array
    questions: int

    @classmethod
    def nothing(cls, signals: tuple[str, ...]) -> General:
        """What is known where no data set taught: weights of 0, held there by the ridge penalty of one question."""
        return cls(signals, np.zeros(len(signals)), RIDGE * np.eye(len(signals)), 1)

    def plain(self) -> list[Any]:
        """All there is to it, as plain data."""
        return [list(self.signals), self.weights.tolist(), self.curvature.tolist(), self.questions]

    def without(self, signal: str) -> General:
        """The same with the weight of ``signal`` held at 0, and the others fitted to that; "" leaves all as they are.

        Raises:
            ValueError: there is no such signal.
        """
        if not signal:
            return self
        if signal not in self.signals:
            raise ValueError(f"there is no signal {signal!r}: use one of {', '.join(self.signals)}")
        kept = np.array([name != signal for name in self.signals])
        inner = self.curvature[np.ix_(kept, kept)]
        shift = np.linalg.solve(inner, self.curvature[np.ix_(kept, ~kept)] @ self.weights[~kept])
        names = tuple(name for name in self.signals if name != signal)
        return General(names, self.weights[kept] + shift, inner, self.questions)


@dataclass(frozen=True, eq=False)
class Lists:
    """Questions to learn from: their candidates one below the other, ``sizes[i]`` of question ``i``."""

    signals: Array
    target: Array
    sizes: NDArray[np.int64]

    @classmethod
    def of(cls, observations: Sequence[Observation]) -> Lists:
        """The questions among ``observations`` that can teach: some candidates are relevant, and others are not."""
        used = [one for one in observations if teaches(one)]
        if not used:
            return cls(np.zeros((0, 0)), np.zeros(0), np.zeros(0, dtype=np.int64))
        shares = [np.asarray(one["relevant"], dtype=float) / sum(one["relevant"]) for one in used]
        rows = np.concatenate([np.asarray(one["signals"], dtype=float) for one in used])
        return cls(rows, np.concatenate(shares), np.array([len(share) for share in shares]))

    @classmethod
    def joined(cls, parts: Sequence[Lists]) -> Lists:
        """The questions of all ``parts``."""
        return cls(
            np.concatenate([part.signals for part in parts]),
            np.concatenate([part.target for part in parts]),
            np.concatenate([part.sizes for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def _starts(self) -> NDArray[np.int64]:
        starts: NDArray[np.int64] = np.cumsum(self.sizes) - self.sizes
        return starts

    def losses(self, weights: Array) -> Array:
        """Cross-entropy of each question: shape ``(questions,)``."""
        return self._softmax(weights)[0]

    def _softmax(self, weights: Array) -> tuple[Array, Array]:
        scores, starts = self.signals @ weights, self._starts
        scores = scores - np.repeat(np.maximum.reduceat(scores, starts), self.sizes)
        raised = np.exp(scores)
        totals = np.add.reduceat(raised, starts)
        losses: Array = np.log(totals) - np.add.reduceat(self.target * scores, starts)
        return losses, raised / np.repeat(totals, self.sizes)

    def slope(self, weights: Array, counts: Array) -> tuple[Array, Array]:
        """Gradient and Hessian of the losses, summed with ``counts`` for each question."""
        probabilities = self._softmax(weights)[1]
        each = np.repeat(counts, self.sizes)
        gradient = self.signals.T @ (each * (probabilities - self.target))
        means = np.add.reduceat(probabilities[:, None] * self.signals, self._starts, axis=0)
        second = (self.signals * (each * probabilities)[:, None]).T @ self.signals
        return gradient, second - (means * counts[:, None]).T @ means

    def mean_slope(self, weights: Array) -> tuple[Array, Array]:
        """Gradient and Hessian of the mean loss."""
        return self.slope(weights, np.full(len(self), 1 / len(self)))


def teaches(observation: Observation) -> bool:
    """Whether a question has relevant candidates and others."""
    return 0 < sum(observation["relevant"]) < len(observation["relevant"])


def standardised(columns: Sequence[Array]) -> Array:
    """The columns side by side, each with mean 0 and standard deviation 1 (0 where it is constant), to 6 decimals.

    Raises:
        ValueError: a value is not finite.
    """
    rows = np.column_stack(columns)
    if not np.isfinite(rows).all():
        raise ValueError("a signal is not a finite number, so that candidates cannot be ordered by it")
    away = rows - rows.mean(axis=0)
    spread = np.sqrt((away * away).mean(axis=0))
    varies = spread > 1e-9 * np.abs(rows).max(axis=0, initial=0.0)
    scaled: Array = np.divide(away, spread, out=np.zeros_like(away), where=varies)
    return scaled.round(6)


def scores_of(signals: Array, names: Collection[str], weights: Mapping[str, float], without: str = "") -> Array:
    """The score of each row of ``signals``, to 9 decimals; the signal ``without`` counts nothing.

    Raises:
        ValueError: ``weights`` are of other signals.
    """
    wanted = [name for name in names if name != without]
    if weights.keys() != set(wanted):
        raise ValueError(
            f"its weights are of the signals {', '.join(weights)}, and it orders by {', '.join(wanted)}: search again, "
            "or take 'fitted' out of the file to have the weights that ship"
        )
    scores: Array = signals @ np.array([weights.get(name, 0.0) for name in names])
    return scores.round(9)


def observed(question: str, signals: Array, relevant: Sequence[bool], group: str) -> dict[str, Any]:
    """An `Observation`, as plain data."""
    return {"question": question, "signals": signals.tolist(), "relevant": list(relevant), "group": group}


def minimised(lists: Lists, counts: Array, centre: Array, curvature: Array) -> Array:
    """The weights of least loss, by Newton's method: shape ``(signals,)``.

    The loss is the sum over the questions of ``lists``, each ``counts`` times, and of the quadratic
    ``(w - centre)' curvature (w - centre) / 2``. It is convex, so there is one minimum; a step that would raise it is
    halved.
    """

    def loss(weights: Array) -> float:
        away = weights - centre
        return float(counts @ lists.losses(weights) + away @ curvature @ away / 2)

    weights, before = centre, loss(centre)
    for _ in range(_STEPS):
        gradient, hessian = lists.slope(weights, counts)
        step = np.linalg.solve(hessian + curvature, gradient + curvature @ (weights - centre))
        after = loss(weights - step)
        while after > before and np.abs(step).max() > _CONVERGED:
            step = step / 2
            after = loss(weights - step)
        if after > before:
            break
        weights = weights - step
        if before - after <= _CONVERGED * max(1.0, before):
            break
        before = after
    return weights


def adapted(lists: Lists, general: General, times: int) -> Array:
    """The weights for ``general`` questions and those of ``lists`` together, where each of these counts ``times``."""
    if not times or not len(lists):
        return general.weights
    counts = np.full(len(lists), float(times))
    return minimised(lists, counts, general.weights, general.questions * general.curvature)


def how_often(observations: Sequence[Observation], general: General) -> int:
    """How often each question should count (`TIMES`): by the loss on folds that were held out, group by group.

    It is more than 0 where the mean loss falls by more than its standard error, which is that of independent groups.
    Behind a retrieval that was fitted itself the ranks of the stage before come from weights that saw the fold: what
    that flatters is the choice alone, as a search scores no question with weights that saw it.
    """
    used = [one for one in observations if teaches(one)]
    groups = sorted({one["group"] for one in used})
    if len(used) < FEWEST or len(groups) < 2:
        return 0
    fold_of = {group: number % min(FOLDS, len(groups)) for number, group in enumerate(groups)}
    folds = sorted(set(fold_of.values()))
    split = [[one for one in used if (fold_of[one["group"]] == fold) == held] for fold in folds for held in (0, 1)]
    pairs = [(Lists.of(rest), Lists.of(held)) for rest, held in zip(split[::2], split[1::2], strict=True)]
    plain = np.concatenate([held.losses(general.weights) for _, held in pairs])
    numbers = {group: number for number, group in enumerate(groups)}
    of_group = [numbers[one["group"]] for fold in folds for one in used if fold_of[one["group"]] == fold]
    best, most = 0, 0.0
    for times in TIMES[1:]:
        found = [held.losses(adapted(rest, general, times)) for rest, held in pairs]
        gains = plain - np.concatenate(found)
        moved = np.bincount(of_group, weights=gains - gains.mean()) / len(gains)
        surely = float(gains.mean() - np.sqrt((moved**2).sum() * len(groups) / (len(groups) - 1)))
        if surely > most:
            best, most = times, surely
    return best


def solve(observations: Sequence[Observation], *, general: General, without: str) -> dict[str, Any]:
    """The weights by signal, to 6 decimals, and how many ``times`` each question counted; without any, general ones."""
    known = general.without(without)
    kept = [name != without for name in general.signals]
    own = [{**one, "signals": np.asarray(one["signals"], dtype=float)[:, kept]} for one in observations if teaches(one)]
    times = how_often(own, known)
    weights = adapted(Lists.of(own), known, times)
    return {"times": times, "weights": dict(zip(known.signals, np.round(weights, 6).tolist(), strict=True))}
