"""The results of an audit: each option of a space alone, and each pair of options of a family."""

from collections.abc import Mapping
from dataclasses import dataclass

from ragsmith.evaluation.statistics import PairedTest


@dataclass(frozen=True, slots=True)
class PairFinding:
    """Two options of a family, and the shares of the ``compared`` questions on which they differ.

    ``output`` is the share with different outputs of their stage, ``result`` the share with different retrieved chunks
    or answers. Both are None if no question was answered with both.
    """

    family: str
    one: str
    other: str
    compared: int
    output: float | None
    result: float | None

    @property
    def alike(self) -> bool:
        """Whether all results are the same."""
        return self.result == 0

    @property
    def named(self) -> tuple[str, str, str]:
        """The identity of the pair on any data set."""
        return self.family, self.one, self.other


@dataclass(frozen=True, slots=True)
class OptionFinding:
    """The effect of an option alone.

    ``activity`` is the share of the compared questions for which the output of its stage changes; ``calls`` and the
    other counts are added per question. ``fitness`` and ``retrieval`` are paired differences on the questions that both
    pipelines finished, None if one of them failed on more than allowed; ``p`` is that of the fitness, adjusted by Holm
    for all options of the audit. ``failed`` counts the questions that one of the two failed on.
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
    fitness: PairedTest | None
    retrieval: PairedTest | None
    p: float | None
    analysis_only: bool = False
    same_as: str | None = None
    """An earlier option with the same results on every question."""

    @property
    def inert(self) -> bool:
        """Whether the option changed no output."""
        return self.activity == 0


@dataclass(frozen=True)
class Audit:
    """The effects of every option of a space on ``questions`` search questions; ``models`` are ids by role."""

    dataset: str
    space: str
    questions: int
    models: Mapping[str, str]
    findings: tuple[OptionFinding, ...]
    pairs: tuple[PairFinding, ...] = ()
