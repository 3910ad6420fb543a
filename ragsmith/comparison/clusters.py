"""Clusters: questions whose scores go up and down together, because their gold lies in the same place."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ragsmith.datasets.groups import units
from ragsmith.types import Dataset, Example

FEWEST_GROUPS = 8
"""With fewer groups nothing is called better: 2**(1 - 7) = 0.016 is the least p, and there are three comparisons or so.

Tests by group hold their level from here on (benchmarks/bench_verdicts.py).
"""

UNITS: Mapping[str, str] = {
    "document": "questions whose gold lies in the same document",
    "neighbourhood": "questions whose gold lies in the same section, or near each other",
    "section": "questions whose gold lies in the same section",
    "question": "nothing that is known: each question counts as a group",
}
"""What links the questions of a group, from wide to narrow."""


@dataclass(frozen=True, slots=True)
class Clusters:
    """The ids of questions, group by group; ``unit`` is one of `UNITS`, and ``documents`` hold the gold of them all."""

    groups: tuple[tuple[str, ...], ...] = ()
    unit: str = "question"
    documents: int = 0

    @classmethod
    def of(cls, dataset: Dataset, examples: Sequence[Example]) -> Clusters:
        """The widest groups of ``examples`` of which there are `FEWEST_GROUPS`; else the narrowest.

        Questions that share a gold document stand together, and so on from one to the next. Where that leaves too few
        groups, those that share a section, or have gold near each other, do; and last, those that share a section.
        What is shown by section holds for these documents, and need not hold for others.
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
        """Each question by itself, where nobody knows what links them."""
        return cls(tuple((question,) for question in sorted(questions)))

    @property
    def questions(self) -> int:
        """How many questions there are."""
        return sum(map(len, self.groups))

    @property
    def linked_by(self) -> str:
        """What links the questions of a group, in words."""
        return UNITS[self.unit]

    def numbers(self, questions: Sequence[str]) -> list[int]:
        """The number of the group of each of ``questions``, from 0 on; one that is in no group is one by itself."""
        place = {question: number for number, group in enumerate(self.groups) for question in group}
        known: dict[int | str, int] = {}
        return [known.setdefault(place.get(question, question), len(known)) for question in questions]

    def __str__(self) -> str:
        several = "" if self.questions == 1 else "s"
        origin = f" from {_count(self.documents, 'document')}" if self.documents else ""
        return f"{self.questions:,} question{several}{origin} ({_count(len(self.groups), 'group')})"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
