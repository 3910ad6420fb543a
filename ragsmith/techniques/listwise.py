"""Linear scoring functions learned by softmax cross-entropy over the candidates of a question.

This is ListNet (Cao et al. 2007) with a linear scoring function and top-one probabilities; the target is uniform over
the relevant candidates of a question. Signals are standardised within each question, so that weights transfer to other
embedders and corpora.

The loss on other data sets is approximated by a quadratic (Laplace's method): `WeightPrior` has the weights of minimum
loss, and the curvature of the loss at these weights. Adding the questions of a data set to it approximates a joint fit
without the texts of the other data sets.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

PAPER = "https://doi.org/10.1145/1273496.1273513"

RIDGE = 0.1
"""Ridge penalty on general weights, relative to the mean loss; held-out rankings were identical from .003 to .1."""

QUESTION_WEIGHTS = (0, 1, 3, 10, 30)
"""Candidate weights of a question of the data set relative to a general one; 0 returns the general weights."""

FOLDS = 4
"""Number of cross-validation folds, over groups of questions, for the choice among `QUESTION_WEIGHTS`."""

MIN_QUESTIONS = 8
"""Minimum number of informative questions; with fewer, the general weights are returned."""

_MAX_STEPS = 30
_TOLERANCE = 1e-12

Observation = Mapping[str, Any]
"""A ``question``, the ``signals`` of its candidates by row, their ``relevant`` flags, and its ``group``."""


@dataclass(frozen=True, eq=False)
class WeightPrior:
    """Prior over the weights of ``signals``, learned on other data sets.

    ``weights`` has shape ``(signals,)``. ``curvature``, ``(signals, signals)``, is the Hessian there of the mean loss
    over ``questions`` questions with its ridge penalty.
    """

    signals: tuple[str, ...]
    weights: Array
    curvature: Array
    questions: int

    @classmethod
    def zero(cls, signals: tuple[str, ...]) -> "WeightPrior":
        """Return the prior without other data sets: zero weights, and the ridge penalty of one question."""
        return cls(signals, np.zeros(len(signals)), RIDGE * np.eye(len(signals)), 1)

    def plain(self) -> list[Any]:
        """Return the fields as JSON types."""
        return [list(self.signals), self.weights.tolist(), self.curvature.tolist(), self.questions]

    def without(self, signal: str) -> "WeightPrior":
        """Fix the weight of ``signal`` at 0 and refit the others; "" returns the object itself.

        Raises:
            ValueError: the signal does not exist.
        """
        if not signal:
            return self
        if signal not in self.signals:
            raise ValueError(f"there is no signal {signal!r}: use one of {', '.join(self.signals)}")
        others = np.array([name != signal for name in self.signals])
        inner = self.curvature[np.ix_(others, others)]
        shift = np.linalg.solve(inner, self.curvature[np.ix_(others, ~others)] @ self.weights[~others])
        names = tuple(name for name in self.signals if name != signal)
        return WeightPrior(names, self.weights[others] + shift, inner, self.questions)


@dataclass(frozen=True, eq=False)
class RankingQuestions:
    """Training questions: the candidates of all questions by row, ``sizes[i]`` rows for question ``i``."""

    signals: Array
    target: Array
    sizes: NDArray[np.int64]

    @classmethod
    def from_observations(cls, observations: Sequence[Observation]) -> "RankingQuestions":
        """Create training data from the informative observations (`is_informative`)."""
        informative = [observation for observation in observations if is_informative(observation)]
        if not informative:
            return cls(np.zeros((0, 0)), np.zeros(0), np.zeros(0, dtype=np.int64))
        targets = [np.asarray(each["relevant"], dtype=float) / sum(each["relevant"]) for each in informative]
        rows = np.concatenate([np.asarray(each["signals"], dtype=float) for each in informative])
        return cls(rows, np.concatenate(targets), np.array([len(target) for target in targets]))

    @classmethod
    def concatenate(cls, parts: Sequence["RankingQuestions"]) -> "RankingQuestions":
        """Concatenate the questions of ``parts``."""
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
        """Return the cross-entropy of each question, of shape ``(questions,)``."""
        return self._softmax(weights)[0]

    def _softmax(self, weights: Array) -> tuple[Array, Array]:
        """Return the loss of each question and the top-one probability of each candidate."""
        scores, starts = self.signals @ weights, self._starts
        scores = scores - np.repeat(np.maximum.reduceat(scores, starts), self.sizes)
        exponentials = np.exp(scores)
        totals = np.add.reduceat(exponentials, starts)
        losses: Array = np.log(totals) - np.add.reduceat(self.target * scores, starts)
        return losses, exponentials / np.repeat(totals, self.sizes)

    def derivatives(self, weights: Array, counts: Array) -> tuple[Array, Array]:
        """Return the gradient and Hessian of the sum of losses, weighted by ``counts``."""
        probabilities = self._softmax(weights)[1]
        row_counts = np.repeat(counts, self.sizes)
        gradient = self.signals.T @ (row_counts * (probabilities - self.target))
        means = np.add.reduceat(probabilities[:, None] * self.signals, self._starts, axis=0)
        second = (self.signals * (row_counts * probabilities)[:, None]).T @ self.signals
        return gradient, second - (means * counts[:, None]).T @ means

    def mean_derivatives(self, weights: Array) -> tuple[Array, Array]:
        """Return the gradient and Hessian of the mean loss."""
        return self.derivatives(weights, np.full(len(self), 1 / len(self)))


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
    centred = rows - rows.mean(axis=0)
    spread = np.sqrt((centred * centred).mean(axis=0))
    varies = spread > 1e-9 * np.abs(rows).max(axis=0, initial=0.0)
    scaled: Array = np.divide(centred, spread, out=np.zeros_like(centred), where=varies)
    return scaled.round(6)


def score_rows(signals: Array, names: Collection[str], weights: Mapping[str, float], without: str = "") -> Array:
    """Return the weighted sum of each row of ``signals``, without the signal ``without``, to 9 decimals.

    Raises:
        ValueError: the names of ``weights`` and of the signals differ.
    """
    used = [name for name in names if name != without]
    if weights.keys() != set(used):
        raise ValueError(
            f"the weights are for the signals {', '.join(weights)}, and the technique orders by {', '.join(used)}: "
            "search again, or remove 'fitted' from the file to use the shipped weights"
        )
    scores: Array = signals @ np.array([weights.get(name, 0.0) for name in names])
    return scores.round(9)


def make_observation(question: str, signals: Array, relevant: Sequence[bool], group: str) -> dict[str, Any]:
    """Return an `Observation` as JSON types."""
    return {"question": question, "signals": signals.tolist(), "relevant": list(relevant), "group": group}


def minimize_loss(lists: RankingQuestions, counts: Array, centre: Array, curvature: Array) -> Array:
    """Minimise the loss by Newton's method; return the weights, of shape ``(signals,)``.

    The convex loss is the sum over questions, weighted by ``counts``, plus the quadratic
    ``(w - centre)' curvature (w - centre) / 2``. Steps that would increase the loss are halved.
    """

    def loss(weights: Array) -> float:
        offset = weights - centre
        return float(counts @ lists.losses(weights) + offset @ curvature @ offset / 2)

    weights, before = centre, loss(centre)
    for _ in range(_MAX_STEPS):
        gradient, hessian = lists.derivatives(weights, counts)
        step = np.linalg.solve(hessian + curvature, gradient + curvature @ (weights - centre))
        after = loss(weights - step)
        while after > before and np.abs(step).max() > _TOLERANCE:
            step = step / 2
            after = loss(weights - step)
        if after > before:
            break
        weights = weights - step
        if before - after <= _TOLERANCE * max(1.0, before):
            break
        before = after
    return weights


def adapt_weights(lists: RankingQuestions, general: WeightPrior, times: int) -> Array:
    """Fit weights to the general questions and to those of ``lists``, each with weight ``times``."""
    if not times or not len(lists):
        return general.weights
    counts = np.full(len(lists), float(times))
    return minimize_loss(lists, counts, general.weights, general.questions * general.curvature)


def choose_question_weight(observations: Sequence[Observation], general: WeightPrior) -> int:
    """Choose the weight of a question among `QUESTION_WEIGHTS` by grouped cross-validation.

    The weight is positive if the mean loss decreases by more than its standard error over groups. If the retrieval was
    fitted too, its ranks depend on the test fold. This may bias the choice but no score, as a search never scores a
    question with weights fitted on it.
    """
    informative = [observation for observation in observations if is_informative(observation)]
    groups = sorted({observation["group"] for observation in informative})
    if len(informative) < MIN_QUESTIONS or len(groups) < 2:
        return 0
    fold_of = {group: number % min(FOLDS, len(groups)) for number, group in enumerate(groups)}
    folds = sorted(set(fold_of.values()))
    pairs = []
    for fold in folds:
        train = [observation for observation in informative if fold_of[observation["group"]] != fold]
        test = [observation for observation in informative if fold_of[observation["group"]] == fold]
        pairs.append((RankingQuestions.from_observations(train), RankingQuestions.from_observations(test)))
    baseline = np.concatenate([test.losses(general.weights) for _, test in pairs])
    numbers = {group: number for number, group in enumerate(groups)}
    group_numbers = [numbers[each["group"]] for fold in folds for each in informative if fold_of[each["group"]] == fold]
    best, best_bound = 0, 0.0
    for times in QUESTION_WEIGHTS[1:]:
        losses = [test.losses(adapt_weights(train, general, times)) for train, test in pairs]
        gains = baseline - np.concatenate(losses)
        deviations = np.bincount(group_numbers, weights=gains - gains.mean()) / len(gains)
        bound = float(gains.mean() - np.sqrt((deviations**2).sum() * len(groups) / (len(groups) - 1)))
        if bound > best_bound:
            best, best_bound = times, bound
    return best


def solve(observations: Sequence[Observation], *, general: WeightPrior, without: str) -> dict[str, Any]:
    """Return the fitted weights by signal, to 6 decimals, and the weight of a question as ``times``."""
    prior = general.without(without)
    columns = [name != without for name in general.signals]
    informative = filter(is_informative, observations)
    reduced = [{**each, "signals": np.asarray(each["signals"], dtype=float)[:, columns]} for each in informative]
    times = choose_question_weight(reduced, prior)
    weights = adapt_weights(RankingQuestions.from_observations(reduced), prior, times)
    return {"times": times, "weights": dict(zip(prior.signals, np.round(weights, 6).tolist(), strict=True))}
