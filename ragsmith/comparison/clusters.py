"""Clusters: groups of questions with correlated scores, because their gold is in the same place."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ragsmith.datasets.groups import units
from ragsmith.types import Dataset, Example

FEWEST_GROUPS = 8
"""The least number of groups for a verdict: with 7, the least p is 2**(1 - 7) = 0.016, too much for three comparisons.

Tests by group keep their level from here on (benchmarks/bench_verdicts.py).
"""

UNITS: Mapping[str, str] = {
    "document": "questions whose gold lies in the same document",
    "neighbourhood": "questions whose gold lies in the same section, or near each other",
    "section": "questions whose gold lies in the same section",
    "question": "nothing that is known: each question counts as a group",
}
"""Units of groups, from wide to narrow, with a description."""


@dataclass(frozen=True, slots=True)
class Clusters:
    """The ids of questions by group; ``unit`` is one of `UNITS`, ``documents`` the number of documents with gold."""

    groups: tuple[tuple[str, ...], ...] = ()
    unit: str = "question"
    documents: int = 0

    @classmethod
    def of(cls, dataset: Dataset, examples: Sequence[Example]) -> Clusters:
        """The widest groups of ``examples`` of which there are at least `FEWEST_GROUPS`, else the narrowest.

        Questions are linked, transitively, by a common gold document; if that leaves too few groups, by a common
        section or adjacent gold; and if these are too few, by a common section. Results by section hold for these
        documents, and need not hold for others.
        """
        documents = len({span.doc for example in examples for span in example.evidence})
        found = cls()
        for unit, groups in zip(UNITS, units(dataset, examples), strict=False):
            members = sorted(tuple(sorted(example.id for example in group.examples)) for group in groups)
            found = cls(tuple(members), unit, documents)
            if len(members) >= FEWEST_GROUPS:
                break
        return found

    @classmethod
    def alone(cls, questions: Collection[str]) -> Clusters:
        """Each question as a group, if links are unknown."""
        return cls(tuple((question,) for question in sorted(questions)))

    @property
    def questions(self) -> int:
        """The number of questions."""
        return sum(map(len, self.groups))

    @property
    def linked_by(self) -> str:
        """The description of ``unit``."""
        return UNITS[self.unit]

    def numbers(self, questions: Sequence[str]) -> list[int]:
        """The number of the group of each of ``questions``, from 0; a question without one is a group of its own."""
        place = {question: number for number, group in enumerate(self.groups) for question in group}
        known: dict[int | str, int] = {}
        return [known.setdefault(place.get(question, question), len(known)) for question in questions]

    def __str__(self) -> str:
        several = "" if self.questions == 1 else "s"
        origin = f" from {_count(self.documents, 'document')}" if self.documents else ""
        return f"{self.questions:,} question{several}{origin} ({_count(len(self.groups), 'group')})"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
