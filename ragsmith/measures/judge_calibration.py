"""Calibration of a judge on right and wrong answers: the paraphrases and wrong answers of annotations."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ragsmith.datasets.annotations import FILE, WRONG_KINDS, read_answers
from ragsmith.datasets.bundled import bundled_path
from ragsmith.datasets.dataset import load_dataset
from ragsmith.errors import WrongOption
from ragsmith.measures.judge import collect_scores
from ragsmith.models.protocols import LanguageModel
from ragsmith.types import Dataset

RIGHT_THRESHOLD = 0.5
"""Score above which an answer counts as right: 4 or 5 of 5."""

RIGHT = "right"
"""The kind of paraphrases, next to the kinds of wrong answers."""

Z_95 = 1.959963984540054
"""97.5th percentile of the standard normal distribution."""


@dataclass(frozen=True, slots=True)
class CalibrationCase:
    """An answer to score: ``kind`` is `RIGHT` or the kind of a wrong answer."""

    id: str
    kind: str
    question: str
    reference: str
    answer: str


def wilson_interval(share: float, n: float, quantile: float = Z_95) -> tuple[float, float]:
    """Return the score interval of a ``share`` of ``n`` (Wilson 1927), by default of 95 %; ``n`` may be a fraction."""
    spread = quantile**2 / n
    reach = quantile * math.sqrt(share * (1 - share) / n + spread / (4 * n))
    low, high = ((share + spread / 2 + side) / (1 + spread) for side in (-reach, reach))
    return max(0.0, low), min(1.0, high)


@dataclass(frozen=True, slots=True)
class Proportion:
    """A proportion ``hits / n`` with its 95 % Wilson interval (Wilson 1927); both are None if ``n`` is 0."""

    hits: int
    n: int

    @property
    def value(self) -> float | None:
        """The proportion, or None."""
        return self.hits / self.n if self.n else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The ends of the interval, or None."""
        return wilson_interval(self.hits / self.n, self.n) if self.n else None

    def to_dict(self) -> dict[str, object]:
        """Return the fields as JSON types."""
        return {"hits": self.hits, "n": self.n, "share": self.value, "interval": self.interval}


@dataclass(frozen=True, slots=True)
class CalibrationResult:
    """The accuracy of a judge on the answers of a data set.

    ``accuracy`` is the proportion of correctly classified answers by kind; ``ordered`` is, by kind of wrong answer, the
    proportion of questions whose right answer scored above the wrong one. ``unread`` is the number of failed verdicts,
    which are excluded.
    """

    dataset: str
    accuracy: Mapping[str, Proportion]
    ordered: Mapping[str, Proportion]
    unread: int = 0

    def to_dict(self) -> dict[str, object]:
        """Return the fields as JSON types."""
        proportions = {"accuracy": self.accuracy, "ordered": self.ordered}
        return {
            "dataset": self.dataset,
            **{name: {kind: each.to_dict() for kind, each in by_kind.items()} for name, by_kind in proportions.items()},
            "unread": self.unread,
        }


@dataclass(frozen=True, slots=True)
class Calibration:
    """An annotated data set, and the answers to score: two for each annotated answerable question."""

    dataset: Dataset
    cases: tuple[CalibrationCase, ...]

    @classmethod
    def read(cls, name_or_path: str | Path) -> "Calibration":
        """Read a data set with its annotations; ``name_or_path`` is a folder or the name of a bundled data set.

        Raises:
            UsageError: the data set or its annotations cannot be read or are missing.
        """
        data = load_dataset(name_or_path)
        notes = read_answers(folder := bundled_path("datasets", name_or_path))
        cases = tuple(
            CalibrationCase(example.id, kind, example.question, example.answer, answer)
            for example in data.examples
            if example.answerable and example.answer and (note := notes.get(example.id))
            for kind, answer in ((RIGHT, note["paraphrase"]), (note["wrong_kind"], note["wrong"]))
        )
        if not cases:
            raise WrongOption(
                "calibration", f"{data.name} has no answers to calibrate with: {folder / FILE} is missing"
            )
        return cls(data, cases)

    def evaluate(self, model: LanguageModel) -> CalibrationResult:
        """Score the answers by ``model``.

        Raises:
            ModelUnavailable: the server rejects the model or is down. Other failures count as failed verdicts.
        """
        requests = [
            (0, {"question": case.question, "reference": case.reference, "answer": case.answer}) for case in self.cases
        ]
        return summarize_scores(self.dataset.name, self.cases, collect_scores(model, requests))


def summarize_scores(
    dataset: str, cases: Sequence[CalibrationCase], scores: Sequence[float | None]
) -> CalibrationResult:
    """Summarise ``scores`` from 0 to 1; None is a failed verdict."""
    scored = [(case, score) for case, score in zip(cases, scores, strict=True) if score is not None]
    right = {case.id: score for case, score in scored if case.kind == RIGHT}
    accuracy = {RIGHT: Proportion(sum(score > RIGHT_THRESHOLD for score in right.values()), len(right))}
    ordered = {}
    for kind in WRONG_KINDS:
        wrong = {case.id: score for case, score in scored if case.kind == kind}
        accuracy[kind] = Proportion(sum(score <= RIGHT_THRESHOLD for score in wrong.values()), len(wrong))
        both = wrong.keys() & right.keys()
        ordered[kind] = Proportion(sum(right[id_] > wrong[id_] for id_ in both), len(both))
    return CalibrationResult(dataset, accuracy, ordered, len(scores) - len(scored))


def pool_results(results: Sequence[CalibrationResult]) -> CalibrationResult:
    """Pool the results on several data sets."""

    def pool(proportions: Sequence[Mapping[str, Proportion]]) -> dict[str, Proportion]:
        return {
            kind: Proportion(sum(each[kind].hits for each in proportions), sum(each[kind].n for each in proportions))
            for kind in proportions[0]
        }

    accuracy, ordered = pool([result.accuracy for result in results]), pool([result.ordered for result in results])
    return CalibrationResult("all data sets", accuracy, ordered, sum(result.unread for result in results))
