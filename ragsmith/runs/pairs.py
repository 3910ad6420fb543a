"""Pairs of options of one family: on how many questions the two differ, each switched on alone in the same pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from ragsmith.evaluation.baselines import SHOWS_IN, baseline, with_needed
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.pipelines.genes import Candidate
from ragsmith.pipelines.space import Space


@dataclass(frozen=True, slots=True)
class Pair:
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
class Trial:
    """Two pipelines that differ in one option of ``family`` alone, and the names of the two options."""

    family: str
    names: tuple[str, str]
    pipelines: tuple[Candidate, Candidate]


def trials_of(space: Space) -> list[Trial]:
    """Every two options of each family in naive RAG; where one of them comes after another option, both behind that.

    Options that the constraints of the space forbid there are left out.
    """
    plain = space.settled(baseline("naive"))
    found = []
    for place, options in enumerate(space.options):
        for genes in combinations(dict.fromkeys(options), 2):
            around = plain
            for gene in genes:
                around = with_needed(around, gene, space)
            one, other = ((*around[:place], gene, *around[place + 1 :]) for gene in genes)
            if space.allows(one) and space.allows(other):
                found.append(Trial(genes[0].technique.family, (str(genes[0]), str(genes[1])), (one, other)))
    return found


def pairs_of(trials: Sequence[Trial], found: Mapping[Candidate, Evaluation]) -> tuple[Pair, ...]:
    """What came of ``trials``; ``found`` has the evaluation of each of their pipelines."""
    return tuple(_pair(trial, *(found[pipeline] for pipeline in trial.pipelines)) for trial in trials)


def _pair(trial: Trial, one: Evaluation, other: Evaluation) -> Pair:
    both = [(one.records[q], other.records[q]) for q in one.questions if q in one.records and q in other.records]
    if not both:
        return Pair(trial.family, *trial.names, 0, None, None)
    stage = SHOWS_IN.get(trial.family, trial.family)
    outputs = sum(a["stages"][stage] != b["stages"][stage] for a, b in both)
    results = sum((a["retrieved"], a["answer"]) != (b["retrieved"], b["answer"]) for a, b in both)
    return Pair(trial.family, *trial.names, len(both), outputs / len(both), results / len(both))
