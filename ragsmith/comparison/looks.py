"""Looks: how often test questions have been used for a verdict, and the correction for it.

Repeated tests find differences by chance. So each look at the same questions is tested at half the level of the one
before: 0.05, 0.025, 0.0125 and so on. The levels add up to at most 0.1, which bounds the probability that any of the
looks claims a difference that does not exist (Bonferroni over looks, with geometric weights; alpha spending after Lan
and DeMets 1983 and, for an unknown number of tests, Foster and Stine 2008).

A question is identified by its wording, answer and evidence, not by its data set. The question with most looks counts
for all of a test: so the levels of the looks at any question add up to at most 0.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragsmith.datasets.groups import wording
from ragsmith.digest import digest
from ragsmith.types import Dataset, Example

ALPHA = 0.05
"""The level of the first look."""


def adjusted(p: float, look: int) -> float:
    """The p of a ``look``, numbered from 1, adjusted so that it is compared with `ALPHA`."""
    return min(1.0, p * 2.0 ** min(look - 1, 1_000))


def digests(dataset: Dataset, examples: Sequence[Example]) -> dict[str, str]:
    """The digest of each question's wording, answer and evidence, by its id."""
    texts = {document.id: document.text for document in dataset.documents}

    def content(example: Example) -> str:
        evidence = sorted({texts[span.doc][span.start : span.end] for span in example.evidence})
        return digest("question", wording(example), example.answer, evidence)

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
        """The level of its test."""
        return ALPHA / 2.0 ** min(self.earlier, 1_000)
