"""A judge held against answers known to be right or wrong: the paraphrases and wrong answers of annotations."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ragsmith.datasets.annotations import FILE, WRONG_KINDS, read_annotations
from ragsmith.datasets.bundled import bundled_path
from ragsmith.datasets.dataset import load_dataset
from ragsmith.errors import WrongOption
from ragsmith.measures.judge import collect_scores
from ragsmith.models.protocols import LanguageModel
from ragsmith.text.blocks import quote_lines
from ragsmith.types import Dataset

MIDDLE = 0.5
"""An answer that is marked above the middle of the scale, 4 or 5 of 5, is taken for right."""

RIGHT = "right"
"""The name of a paraphrase among the kinds of wrong answers."""

NORMAL_95 = 1.959963984540054


@dataclass(frozen=True, slots=True)
class CalibrationCase:
    """An answer to be marked: ``kind`` is `RIGHT`, or how it is wrong."""

    id: str
    kind: str
    question: str
    reference: str
    answer: str


@dataclass(frozen=True, slots=True)
class Share:
    """``hits`` of ``n``, and the 95 % interval of their share (Wilson 1927); without any n there is neither."""

    hits: int
    n: int

    @property
    def value(self) -> float | None:
        """The share."""
        return self.hits / self.n if self.n else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Both ends, from 0 to 1."""
        if not self.n:
            return None
        z2 = NORMAL_95**2
        middle = (self.hits + z2 / 2) / (self.n + z2)
        half = NORMAL_95 / (self.n + z2) * math.sqrt(self.hits * (self.n - self.hits) / self.n + z2 / 4)
        return max(0.0, middle - half), min(1.0, middle + half)

    def plain(self) -> dict[str, object]:
        """Return the fields as JSON types."""
        return {"hits": self.hits, "n": self.n, "share": self.value, "interval": self.interval}


@dataclass(frozen=True, slots=True)
class CalibrationResult:
    """How a judge did on the answers of a data set.

    ``accuracy`` says, by `RIGHT` and by how answers are wrong, how many were taken for what they are; ``ordered`` by
    the latter, of how many questions the right answer was marked above the wrong one. ``unread`` verdicts could not be
    had, and count nowhere.
    """

    dataset: str
    accuracy: Mapping[str, Share]
    ordered: Mapping[str, Share]
    unread: int = 0

    def plain(self) -> dict[str, object]:
        """Return the fields as JSON types."""
        shares = {"accuracy": self.accuracy, "ordered": self.ordered}
        return {
            "dataset": self.dataset,
            **{name: {kind: one.plain() for kind, one in its.items()} for name, its in shares.items()},
            "unread": self.unread,
        }


@dataclass(frozen=True, slots=True)
class Calibration:
    """A data set whose questions are annotated, and the answers to mark: two for each question that is answerable."""

    dataset: Dataset
    cases: tuple[CalibrationCase, ...]

    @classmethod
    def read(cls, name_or_path: str | Path) -> "Calibration":
        """Read a data set with its annotations, by its folder or its bundled name.

        Raises:
            UsageError: the data set or its annotations cannot be read, or there are none.
        """
        data = load_dataset(name_or_path)
        notes = read_annotations(folder := bundled_path("datasets", name_or_path))
        cases = tuple(
            CalibrationCase(example.id, kind, example.question, example.answer, answer)
            for example in data.examples
            if example.answerable and example.answer and (note := notes.get(example.id))
            for kind, answer in ((RIGHT, note.paraphrase), (note.wrong_kind, note.wrong))
        )
        if not cases:
            raise WrongOption(
                "calibration", f"{data.name} has no answers to calibrate with: {folder / FILE} is missing"
            )
        return cls(data, cases)

    def of(self, model: LanguageModel) -> CalibrationResult:
        """Have ``model`` mark the answers.

        Raises:
            ModelUnavailable: its server refuses it, or is down. Other failures count as verdicts that could not be had.
        """
        asked = [
            (0, {"question": one.question, "reference": one.reference, "answer": quote_lines(one.answer)})
            for one in self.cases
        ]
        return summed(self.dataset.name, self.cases, collect_scores(model, asked))


def summed(dataset: str, cases: Sequence[CalibrationCase], marks: Sequence[float | None]) -> CalibrationResult:
    """Summarise ``marks`` from 0 to 1; None is a verdict that could not be had."""
    marked = [(case, mark) for case, mark in zip(cases, marks, strict=True) if mark is not None]
    right = {case.id: mark for case, mark in marked if case.kind == RIGHT}
    accuracy = {RIGHT: Share(sum(mark > MIDDLE for mark in right.values()), len(right))}
    ordered = {}
    for kind in WRONG_KINDS:
        wrong = {case.id: mark for case, mark in marked if case.kind == kind}
        accuracy[kind] = Share(sum(mark <= MIDDLE for mark in wrong.values()), len(wrong))
        both = wrong.keys() & right.keys()
        ordered[kind] = Share(sum(right[one] > wrong[one] for one in both), len(both))
    return CalibrationResult(dataset, accuracy, ordered, len(marks) - len(marked))


def pooled(each: Sequence[CalibrationResult]) -> CalibrationResult:
    """Pool several data sets."""

    def together(shares: Sequence[Mapping[str, Share]]) -> dict[str, Share]:
        return {
            kind: Share(sum(one[kind].hits for one in shares), sum(one[kind].n for one in shares)) for kind in shares[0]
        }

    accuracy, ordered = together([one.accuracy for one in each]), together([one.ordered for one in each])
    return CalibrationResult("all of them", accuracy, ordered, sum(one.unread for one in each))
