"""A pipeline with one part taken out, or another option in its place: what is evaluated to know what the part is worth.

Naive RAG is where every part goes when it is taken out. A part that another one comes after takes that one with it:
without ``nest`` there is no ``nr_survival``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from ragsmith.evaluation.baselines import baseline
from ragsmith.pipelines.genes import GENES, Candidate, Gene
from ragsmith.pipelines.space import Space

Kind = Literal["out", "swap", "signal"]


@dataclass(frozen=True, slots=True)
class Change:
    """A pipeline that is another but for what it has at ``place``, and at all of ``places`` that go with it."""

    kind: Kind
    place: int
    places: tuple[int, ...]
    candidate: Candidate
    allowed: bool


def identity(candidate: Candidate) -> tuple[str, ...]:
    """By what a pipeline is recognised, whatever its techniques learned."""
    return tuple(replace(gene, fit=None).identity if gene.fit else gene.identity for gene in candidate)


def plain_of(winner: Candidate, space: Space) -> Candidate:
    """Naive RAG in the terms of ``space``: where it has the technique with other parameters only, its first option."""
    found = []
    for place, gene in enumerate(winner):
        if place >= GENES:
            found.append(space.options[place][0] if place < len(space.options) else gene)
            continue
        default = baseline("naive")[place]
        options = space.options[place]
        first = next((one for one in options if one.technique == default.technique), default)
        found.append(default if default in options else first)
    return tuple(found)


def active(winner: Candidate, plain: Candidate) -> tuple[int, ...]:
    """The places at which a pipeline has something else than ``plain``."""
    return tuple(place for place, gene in enumerate(winner) if str(gene) != str(plain[place]))


def outs(winner: Candidate, space: Space, *, refit: bool = True) -> list[Change]:
    """``winner`` without each of its parts in turn; what learns behind them does so anew if ``refit`` says so."""
    plain = plain_of(winner, space)
    return [_change("out", winner, place, plain[place], space, refit=refit) for place in active(winner, plain)]


def swaps(winner: Candidate, space: Space, *, refit: bool = True) -> list[Change]:
    """``winner`` with each other option of ``space`` in turn, but for naive RAG's and what nothing allows."""
    plain = plain_of(winner, space)
    found = []
    for place, options in enumerate(space.options[: len(winner)]):
        known = {str(winner[place]), str(plain[place])}
        others = [option for option in options if str(option) not in known]
        found += [_change("swap", winner, place, option, space, refit=refit) for option in others]
    return [change for change in found if change.allowed]


def signals(winner: Candidate, space: Space, *, refit: bool = True) -> list[Change]:
    """``winner`` without each signal of its learned rankings in turn, the other weights learned anew.

    One that was fitted is left as it is unless ``refit`` says that it may be fitted again.
    """
    found = []
    for place, gene in enumerate(winner):
        if gene.parameters.get("without") != "" or (gene.learns and not refit):
            continue
        for signal in gene.technique.signals:
            fewer = replace(gene, parameters={**gene.parameters, "without": signal}, fit=None)
            found.append(_change("signal", winner, place, fewer, space, refit=refit))
    return found


def alone(places: tuple[int, ...], winner: Candidate, plain: Candidate) -> Candidate:
    """``plain`` with what ``winner`` has at some places; what learns does so anew."""
    return tuple(replace(winner[i], fit=None) if i in places else gene for i, gene in enumerate(plain))


def units(winner: Candidate, space: Space) -> list[tuple[int, ...]]:
    """The parts of ``winner`` that can be in naive RAG alone, each with all parts that it cannot be without."""
    plain = plain_of(winner, space)
    places = active(winner, plain)
    together = {place: {place, *_needed(winner, place, places)} for place in places}
    found: list[set[int]] = []
    for place in places:  # parts that need the same one are one unit
        joined = together[place]
        apart = [unit for unit in found if not unit & joined]
        found = [*apart, joined.union(*(unit for unit in found if unit & joined))]
    return sorted(tuple(sorted(unit)) for unit in found)


def _needed(winner: Candidate, place: int, places: tuple[int, ...]) -> Iterator[int]:
    """The other parts that the one at ``place`` comes after."""
    wanted = winner[place].technique.after
    return (other for other in places if other != place and winner[other].technique.family in wanted)


def _change(kind: Kind, winner: Candidate, place: int, gene: Gene, space: Space, *, refit: bool) -> Change:
    plain = plain_of(winner, space)
    others = tuple(replace(one, fit=None) for one in winner) if refit else winner
    candidate = (*others[:place], gene, *others[place + 1 :])
    places = [place]
    while stranded := [at for at in range(len(winner)) if at not in places and not _stands(candidate, at)]:
        places += stranded
        candidate = tuple(plain[at] if at in stranded else one for at, one in enumerate(candidate))
    return Change(kind, place, tuple(sorted(places)), candidate, space.allows(candidate))


def _stands(candidate: Candidate, place: int) -> bool:
    """Whether what a gene comes after is there."""
    names = {gene.technique.family: gene.technique.name for gene in candidate}
    return all(names[family] in needed for family, needed in candidate[place].technique.after.items())
