"""Ablations of a pipeline: variants with one component removed or replaced, whose scores show what it contributes.

A component is removed by replacing it with that of naive RAG. Components that depend on it are removed with it: without
``nest`` there is no ``nr_survival``.
"""

from dataclasses import dataclass, replace
from typing import Literal

from ragsmith.evaluation.baselines import baseline
from ragsmith.pipelines.genes import N_FAMILIES, Candidate, Gene
from ragsmith.pipelines.space import Space

ChangeType = Literal["out", "swap", "signal"]


@dataclass(frozen=True, slots=True)
class PipelineChange:
    """A variant of a pipeline that differs in the gene at ``place``, and at all ``places`` that depend on it.

    ``allowed`` is whether the search space has it.
    """

    kind: ChangeType
    place: int
    places: tuple[int, ...]
    candidate: Candidate
    allowed: bool


def identify_unfitted(candidate: Candidate) -> tuple[str, ...]:
    """Return the identity of a pipeline, ignoring what its techniques learned."""
    return tuple(replace(gene, fit=None).identity if gene.fit else gene.identity for gene in candidate)


def make_naive_candidate(winner: Candidate, space: Space) -> Candidate:
    """Return naive RAG within ``space``: the first option of its technique where the space lacks the default one."""
    families = [
        default
        if default in options
        else next((gene for gene in options if gene.technique == default.technique), default)
        for default, options in zip(baseline("naive"), space.options, strict=False)
    ]
    settings = [options[0] for options in space.options[N_FAMILIES : len(winner)]]
    return (*families, *settings, *winner[len(space.options) :])


def find_active_genes(winner: Candidate, naive: Candidate) -> tuple[int, ...]:
    """Return the places of the genes in which a pipeline differs from ``naive``."""
    return tuple(place for place, gene in enumerate(winner) if str(gene) != str(naive[place]))


def list_removals(winner: Candidate, space: Space, *, refit: bool = True) -> list[PipelineChange]:
    """Return ``winner`` without each of its components in turn; with ``refit``, learned genes are fitted again."""
    naive = make_naive_candidate(winner, space)
    return [
        _make_change("out", winner, place, naive[place], space, refit=refit)
        for place in find_active_genes(winner, naive)
    ]


def list_swaps(winner: Candidate, space: Space, *, refit: bool = True) -> list[PipelineChange]:
    """Return ``winner`` with each other allowed option of ``space`` in turn, except the options of naive RAG."""
    naive = make_naive_candidate(winner, space)
    swaps = (
        _make_change("swap", winner, place, option, space, refit=refit)
        for place, options in enumerate(space.options[: len(winner)])
        for option in options
        if str(option) not in (str(winner[place]), str(naive[place]))
    )
    return [change for change in swaps if change.allowed]


def list_signal_removals(winner: Candidate, space: Space, *, refit: bool = True) -> list[PipelineChange]:
    """Return ``winner`` without each signal of its learned rankings in turn, with the other weights fitted again.

    Without ``refit``, rankings that have to be fitted are skipped.
    """
    reduced = (
        (place, replace(gene, parameters={**gene.parameters, "without": signal}, fit=None))
        for place, gene in enumerate(winner)
        if gene.parameters.get("without") == "" and (refit or not gene.learns)
        for signal in gene.technique.signals
    )
    return [_make_change("signal", winner, place, gene, space, refit=refit) for place, gene in reduced]


def keep_only(places: tuple[int, ...], winner: Candidate, naive: Candidate) -> Candidate:
    """Return ``naive`` with the genes of ``winner`` at ``places``, to be fitted again."""
    return tuple(replace(winner[i], fit=None) if i in places else gene for i, gene in enumerate(naive))


def group_dependent_genes(winner: Candidate, space: Space) -> list[tuple[int, ...]]:
    """Group the genes of ``winner`` that differ from naive RAG by dependency: each group can be added to it alone."""
    naive = make_naive_candidate(winner, space)
    places = find_active_genes(winner, naive)
    found: list[set[int]] = []
    for place in places:  # genes that require the same gene form one group
        families = {winner[place].technique.family, *winner[place].technique.after}
        group = {at for at in places if winner[at].technique.family in families}
        disjoint = [other for other in found if not other & group]
        found = [*disjoint, group.union(*(other for other in found if other & group))]
    return sorted(tuple(sorted(group)) for group in found)


def _make_change(
    kind: ChangeType, winner: Candidate, place: int, gene: Gene, space: Space, *, refit: bool
) -> PipelineChange:
    naive = make_naive_candidate(winner, space)
    base = tuple(replace(gene, fit=None) for gene in winner) if refit else winner
    candidate = (*base[:place], gene, *base[place + 1 :])
    places = [place]
    while orphaned := [at for at in range(len(winner)) if at not in places and not _has_prerequisites(candidate, at)]:
        places += orphaned
        candidate = tuple(naive[at] if at in orphaned else other for at, other in enumerate(candidate))
    return PipelineChange(kind, place, tuple(sorted(places)), candidate, space.allows(candidate))


def _has_prerequisites(candidate: Candidate, place: int) -> bool:
    """Whether the techniques that a gene requires are present."""
    names = {gene.technique.family: gene.technique.name for gene in candidate}
    return all(names[family] in needed for family, needed in candidate[place].technique.after.items())
