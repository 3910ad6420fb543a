"""Questions of a comparison: clusters with correlated scores, and how often they were used for a verdict ("looks").

Repeated tests find differences by chance. So each look at the same questions is tested at half the level of the
previous one: 0.05, 0.025, 0.0125 and so on. The levels add up to at most 0.1, which bounds the probability that any of
the looks claims a difference that does not exist (Bonferroni over looks, with geometric weights; alpha spending after
Lan and DeMets 1983 and, for an unknown number of tests, Foster and Stine 2008).

A question is identified by its wording, answer and evidence, not by its data set. The question with most looks counts
for all of a test: so the levels of the looks at any question add up to at most 0.1.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ragsmith.datasets.groups import iter_groupings, normalize_wording
from ragsmith.digest import digest
from ragsmith.types import Dataset, Example

MIN_GROUPS = 8
"""Minimum number of groups for a verdict: with 7, the least p is 2**(1 - 7) = 0.016, too much for three comparisons.

It promises no level: where few groups are far ahead, false claims stay frequent (docs/verdicts.md).
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
    """The ids of questions by group; ``unit`` is one of `UNITS`, ``documents`` the number of documents with gold.

    Questions ``without_gold`` have no place in the documents and are in no group: they are no evidence on how well
    questions are answered, and only declining is tested on them.
    """

    groups: tuple[tuple[str, ...], ...] = ()
    unit: str = "question"
    documents: int = 0
    without_gold: tuple[str, ...] = ()

    @classmethod
    def from_examples(cls, dataset: Dataset, examples: Sequence[Example]) -> Clusters:
        """Return the widest groups of ``examples`` of which there are at least `MIN_GROUPS`, else the narrowest.

        Questions are linked, transitively, by a common gold document; if that leaves too few groups, by a common
        section or adjacent gold; and if these are too few, by a common section. Results by section hold for these
        documents, and need not hold for others. If most questions with an answer have no gold, nothing is known of
        their places, and each of them is a group.
        """
        answerable = [example for example in examples if example.answerable]
        located = [example for example in answerable if example.evidence]
        if 2 * len(located) < len(answerable):
            apart = tuple(sorted(example.id for example in examples if not example.answerable))
            return replace(cls.singletons([example.id for example in answerable]), without_gold=apart)
        places = {example.id for example in located}
        apart = tuple(sorted(example.id for example in examples if example.id not in places))
        documents = len({span.doc for example in located for span in example.evidence})
        found = cls(without_gold=apart)
        for unit, groups in zip(UNITS, iter_groupings(dataset, located), strict=False):
            members = sorted(tuple(sorted(example.id for example in group.examples)) for group in groups)
            found = cls(tuple(members), unit, documents, apart)
            if len(members) >= MIN_GROUPS:
                break
        return found

    @classmethod
    def singletons(cls, questions: Collection[str]) -> Clusters:
        """Return clusters of one question each, for unknown links."""
        return cls(tuple((question,) for question in sorted(questions)))

    @property
    def questions(self) -> int:
        """The number of questions in groups."""
        return sum(map(len, self.groups))

    @property
    def linked_by(self) -> str:
        """The description of ``unit``."""
        return UNITS[self.unit]

    def tested(self, questions: Iterable[str]) -> tuple[str, ...]:
        """Return those of ``questions`` that are not without gold, in their order."""
        apart = set(self.without_gold)
        return tuple(question for question in questions if question not in apart)

    def count(self, questions: Iterable[str]) -> int:
        """Return the number of groups of ``questions``; those without gold have none."""
        return len(set(self.group_numbers(self.tested(questions))))

    def group_numbers(self, questions: Sequence[str]) -> list[int]:
        """Return the group number, from 0, of each of ``questions``; one without a group forms a new group."""
        place = {question: number for number, group in enumerate(self.groups) for question in group}
        known: dict[int | str, int] = {}
        return [known.setdefault(place.get(question, question), len(known)) for question in questions]

    def __str__(self) -> str:
        several = "" if self.questions == 1 else "s"
        origin = f" from {_format_count(self.documents, 'document')}" if self.documents else ""
        apart = f", and {len(self.without_gold):,} without gold" if self.without_gold else ""
        return f"{self.questions:,} question{several}{origin} ({_format_count(len(self.groups), 'group')}){apart}"


def format_times(number: int) -> str:
    """Return a count in words: ``once``, ``3 times``."""
    return "once" if number == 1 else f"{number:,} times"


def _format_count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


ALPHA = 0.05
"""The level of the first look."""


def adjust_for_looks(p: float, look: int) -> float:
    """Return the p of a ``look``, numbered from 1, adjusted so that it is compared with `ALPHA`."""
    return min(1.0, p * 2.0 ** min(look - 1, 1_000))


def digest_questions(dataset: Dataset, examples: Sequence[Example]) -> dict[str, str]:
    """Return the digest of each question's wording, answer and evidence, by its id."""
    texts = {document.id: document.text for document in dataset.documents}

    def content(example: Example) -> str:
        evidence = sorted({texts[span.doc][span.start : span.end] for span in example.evidence})
        return digest("question", normalize_wording(example), example.answer, evidence)

    return {example.id: content(example) for example in examples}


@dataclass(frozen=True, slots=True)
class HoldoutUse:
    """A look at test questions: its ``number`` from 1, and how many of the questions were ``fresh``.

    ``remembered`` is whether the ledger, with the looks of other caches, was available.
    """

    number: int
    questions: int
    fresh: int
    remembered: bool = True

    @property
    def earlier(self) -> int:
        """The number of earlier looks."""
        return self.number - 1

    @property
    def level(self) -> float:
        """The level of the test."""
        return ALPHA / 2.0 ** min(self.earlier, 1_000)
