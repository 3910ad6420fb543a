"""Looks: how often the questions of a test have been used for a verdict, and what that costs.

Whoever tests again and again finds something by luck. So each look at the same questions is tested at half the level of
the one before: 0.05, 0.025, 0.0125 and so on. However many there are, they come to 0.1 together at most, so that is how
often any of them claims a difference that is not there (Bonferroni over looks, with geometric weights; alpha spending
after Lan and DeMets 1983 and, for tests without a known number, Foster and Stine 2008).

A question is known by what it asks, its answer and the words of its evidence, not by the name of a data set. Where some
of the questions were used before, the one that was used most often counts for all: so for every question the levels of
the looks that it took part in come to 0.1 at most.
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
    """A p held against `ALPHA`, whatever the number of the ``look``, from 1 on."""
    return min(1.0, p * 2.0 ** min(look - 1, 1_000))


def digests(dataset: Dataset, examples: Sequence[Example]) -> dict[str, str]:
    """What identifies the content of each question, by its id: words, answer and evidence."""
    texts = {document.id: document.text for document in dataset.documents}

    def of(example: Example) -> str:
        evidence = sorted({texts[span.doc][span.start : span.end] for span in example.evidence})
        return digest("question", wording(example), example.answer, evidence)

    return {example.id: of(example) for example in examples}


@dataclass(frozen=True, slots=True)
class HoldoutUse:
    """One look at test questions: its ``number``, from 1 on, and how many of the questions were ``fresh``.

    ``remembered`` says whether looks from other caches were counted, too.
    """

    number: int
    questions: int
    fresh: int
    remembered: bool = True

    @property
    def earlier(self) -> int:
        """How many looks there were before."""
        return self.number - 1

    @property
    def level(self) -> float:
        """The level that it is tested at."""
        return ALPHA / 2.0 ** min(self.earlier, 1_000)
