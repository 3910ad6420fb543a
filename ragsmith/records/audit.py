"""What an audit found: each option of a space by itself, and each two options of a family compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ragsmith.evaluation.statistics import Paired


@dataclass(frozen=True, slots=True)
class PairFinding:
    """Two options of a family, and the shares of the ``compared`` questions on which they differ.

    ``output`` is the share on which the output of their own stage differs, ``result`` the share on which the chunks
    that pass the filter differ, or the answer does. Both are None where no question was answered with either.
    """

    family: str
    one: str
    other: str
    compared: int
    output: float | None
    result: float | None

    @property
    def alike(self) -> bool:
        """Whether nothing that is found or answered tells the two apart."""
        return self.result == 0

    @property
    def named(self) -> tuple[str, str, str]:
        """What names the pair, on whatever data set."""
        return self.family, self.one, self.other


@dataclass(frozen=True, slots=True)
class OptionFinding:
    """What an option does by itself.

    ``activity`` is the share of the compared questions for which its stage's output changes. The counts are what it
    adds per question. ``fitness`` and ``retrieval`` are the paired differences; ``p`` is that of the fitness, adjusted
    by Holm for all options of the audit. They are about the questions that both pipelines finished, and None where
    one of them failed on more than it may; ``failed`` counts the others.
    """

    family: str
    option: str
    difference: str
    compared: int
    failed: int
    activity: float | None
    calls: float | None
    texts_embedded: float | None
    pairs_scored: float | None
    fitness: Paired | None
    retrieval: Paired | None
    p: float | None
    analysis_only: bool = False
    same_as: str | None = None
    """An earlier option with the same results on every question."""

    @property
    def inert(self) -> bool:
        """Whether it changed nothing that it could have changed."""
        return self.activity == 0


@dataclass(frozen=True)
class Audit:
    """What every option of a space does by itself, on ``questions`` search questions; ``models`` are ids by role.

    ``pairs`` has every two options of a family.
    """

    dataset: str
    space: str
    questions: int
    models: Mapping[str, str]
    findings: tuple[OptionFinding, ...]
    pairs: tuple[PairFinding, ...] = ()
