"""Linear scoring functions learned by softmax cross-entropy over the candidates of a question.

This is ListNet (Cao et al. 2007) with a linear scoring function and the top-one probability; the relevant candidates of
a question share the target equally. Signals are standardised within each question, so that weights carry over to other
embedders and corpora.

What other data sets teach is represented by a quadratic: `General` has the weights of least loss and the curvature of
the loss there (Laplace's approximation). Adding a data set's own questions to it approximates fitting all of them
together, without the other texts.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

PAPER = "https://doi.org/10.1145/1273496.1273513"

RIDGE = 0.1
"""Ridge penalty on general weights, relative to the mean loss; held-out rankings were the same from .003 to .1."""

TIMES = (0, 1, 3, 10, 30)
"""Weights of a data set's own question relative to a general one; 0 keeps the general weights."""

FOLDS = 4
"""Cross-validation folds of groups of questions for the choice among `TIMES`."""

FEWEST = 8
"""With fewer informative questions the general weights are kept."""

_STEPS = 30
_CONVERGED = 1e-12

Observation = Mapping[str, Any]
"""A ``question`` with the ``signals`` of its candidates by row, which of them are ``relevant``, and its ``group``."""


@dataclass(frozen=True, eq=False)
class General:
    """Weights of ``signals`` learned on other data sets.

    ``weights`` has shape ``(signals,)``. ``curvature``, ``(signals, signals)``, is the Hessian there of the mean loss
    over ``questions`` questions with its ridge penalty.
    """

    signals: tuple[str, ...]
    weights: Array
    curvature: Array
    questions: int

    @classmethod
    def nothing(cls, signals: tuple[str, ...]) -> "General":
        """Return weights of 0 with the ridge penalty of one question, without other data sets."""
        return cls(signals, np.zeros(len(signals)), RIDGE * np.eye(len(signals)), 1)

    def plain(self) -> list[Any]:
        """Return the fields as JSON types."""
        return [list(self.signals), self.weights.tolist(), self.curvature.tolist(), self.questions]

    def without(self, signal: str) -> "General":
        """Fix the weight of ``signal`` at 0 and refit the others; "" returns the object itself.

        Raises:
            ValueError: there is no such signal.
        """
        if not signal:
            return self
        if signal not in self.signals:
            raise ValueError(f"there is no signal {signal!r}: use one of {', '.join(self.signals)}")
        others = np.array([name != signal for name in self.signals])
        inner = self.curvature[np.ix_(others, others)]
        shift = np.linalg.solve(inner, self.curvature[np.ix_(others, ~others)] @ self.weights[~others])
        names = tuple(name for name in self.signals if name != signal)
        return General(names, self.weights[others] + shift, inner, self.questions)


@dataclass(frozen=True, eq=False)
class Lists:
    """Training questions: the candidates of all questions by row, ``sizes[i]`` of question ``i``."""

    signals: Array
    target: Array
    sizes: NDArray[np.int64]

    @classmethod
    def from_observations(cls, observations: Sequence[Observation]) -> "Lists":
        """Collect the informative questions (`is_informative`)."""
        used = [one for one in observations if is_informative(one)]
        if not used:
            return cls(np.zeros((0, 0)), np.zeros(0), np.zeros(0, dtype=np.int64))
        shares = [np.asarray(one["relevant"], dtype=float) / sum(one["relevant"]) for one in used]
        rows = np.concatenate([np.asarray(one["signals"], dtype=float) for one in used])
        return cls(rows, np.concatenate(shares), np.array([len(share) for share in shares]))

    @classmethod
    def concatenate(cls, parts: Sequence["Lists"]) -> "Lists":
        """Collect the questions of all ``parts``."""
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
        """Return the cross-entropy of each question: shape ``(questions,)``."""
        return self._softmax(weights)[0]

    def _softmax(self, weights: Array) -> tuple[Array, Array]:
        scores, starts = self.signals @ weights, self._starts
        scores = scores - np.repeat(np.maximum.reduceat(scores, starts), self.sizes)
        raised = np.exp(scores)
        totals = np.add.reduceat(raised, starts)
        losses: Array = np.log(totals) - np.add.reduceat(self.target * scores, starts)
        return losses, raised / np.repeat(totals, self.sizes)

    def slope(self, weights: Array, counts: Array) -> tuple[Array, Array]:
        """Return the gradient and Hessian of the sum of losses, weighted by ``counts``."""
        probabilities = self._softmax(weights)[1]
        each = np.repeat(counts, self.sizes)
        gradient = self.signals.T @ (each * (probabilities - self.target))
        means = np.add.reduceat(probabilities[:, None] * self.signals, self._starts, axis=0)
        second = (self.signals * (each * probabilities)[:, None]).T @ self.signals
        return gradient, second - (means * counts[:, None]).T @ means

    def mean_slope(self, weights: Array) -> tuple[Array, Array]:
        """Return the gradient and Hessian of the mean loss."""
        return self.slope(weights, np.full(len(self), 1 / len(self)))


def is_informative(observation: Observation) -> bool:
    """Whether a question has both relevant and other candidates."""
    return 0 < sum(observation["relevant"]) < len(observation["relevant"])


def standardize(columns: Sequence[Array]) -> Array:
    """Stack columns, each scaled to mean 0 and standard deviation 1 (0 if it is constant), to 6 decimals.

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


def score_rows(signals: Array, names: Collection[str], weights: Mapping[str, float], without: str = "") -> Array:
    """Return the score of each row of ``signals`` except the signal ``without``, to 9 decimals.

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


def make_observation(question: str, signals: Array, relevant: Sequence[bool], group: str) -> dict[str, Any]:
    """Return an `Observation` as JSON types."""
    return {"question": question, "signals": signals.tolist(), "relevant": list(relevant), "group": group}


def minimize(lists: Lists, counts: Array, centre: Array, curvature: Array) -> Array:
    """Return the weights of least loss by Newton's method: shape ``(signals,)``.

    The loss, which is convex, is the sum over the questions weighted by ``counts`` plus the quadratic
    ``(w - centre)' curvature (w - centre) / 2``. A step that would increase it is halved.
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


def adapt(lists: Lists, general: General, times: int) -> Array:
    """Fit weights to the ``general`` questions and those of ``lists``, with weight ``times`` each."""
    if not times or not len(lists):
        return general.weights
    counts = np.full(len(lists), float(times))
    return minimize(lists, counts, general.weights, general.questions * general.curvature)


def choose_times(observations: Sequence[Observation], general: General) -> int:
    """Choose the weight of each question among `TIMES` by grouped cross-validation.

    It is above 0 if the mean loss decreases by more than its standard error over groups. If the retrieval was fitted
    too, its ranks come from weights that saw the fold. This may bias the choice but no score: a search scores no
    question with weights that saw it.
    """
    used = [one for one in observations if is_informative(one)]
    groups = sorted({one["group"] for one in used})
    if len(used) < FEWEST or len(groups) < 2:
        return 0
    fold_of = {group: number % min(FOLDS, len(groups)) for number, group in enumerate(groups)}
    folds = sorted(set(fold_of.values()))
    pairs = []
    for fold in folds:
        rest = [one for one in used if fold_of[one["group"]] != fold]
        test = [one for one in used if fold_of[one["group"]] == fold]
        pairs.append((Lists.from_observations(rest), Lists.from_observations(test)))
    baseline = np.concatenate([tested.losses(general.weights) for _, tested in pairs])
    numbers = {group: number for number, group in enumerate(groups)}
    of_group = [numbers[one["group"]] for fold in folds for one in used if fold_of[one["group"]] == fold]
    best, most = 0, 0.0
    for times in TIMES[1:]:
        found = [tested.losses(adapt(trained, general, times)) for trained, tested in pairs]
        gains = baseline - np.concatenate(found)
        moved = np.bincount(of_group, weights=gains - gains.mean()) / len(gains)
        surely = float(gains.mean() - np.sqrt((moved**2).sum() * len(groups) / (len(groups) - 1)))
        if surely > most:
            best, most = times, surely
    return best


def solve(observations: Sequence[Observation], *, general: General, without: str) -> dict[str, Any]:
    """Fit the weights by signal, to 6 decimals, and the ``times`` that each question counts."""
    known = general.without(without)
    columns = [name != without for name in general.signals]
    informative = filter(is_informative, observations)
    own = [{**one, "signals": np.asarray(one["signals"], dtype=float)[:, columns]} for one in informative]
    times = choose_times(own, known)
    weights = adapt(Lists.from_observations(own), known, times)
    return {"times": times, "weights": dict(zip(known.signals, np.round(weights, 6).tolist(), strict=True))}
