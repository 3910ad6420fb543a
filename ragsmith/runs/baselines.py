"""What people run before they search, and single options switched on in it."""

from __future__ import annotations

from dataclasses import dataclass

from ragsmith.pipelines.genes import Candidate, Gene, make_gene
from ragsmith.pipelines.space import Space
from ragsmith.techniques.families import FAMILIES

BASELINES: dict[str, dict[str, str]] = {
    "naive": {"retrieval": "vector", "passage_filter": "top_k", "prompt_maker": "listing"},
    "bm25": {"retrieval": "bm25", "passage_filter": "top_k", "prompt_maker": "listing"},
}
"""One retriever, and nothing else."""


@dataclass(frozen=True, slots=True)
class Probe:
    """An option switched on alone, and the pipeline without it that it is compared with."""

    gene: Gene
    candidate: Candidate
    reference: Candidate


def baseline(name: str) -> Candidate:
    """A baseline pipeline."""
    return tuple(make_gene(family.name, BASELINES[name].get(family.name, "none")) for family in FAMILIES)


def probes_of(space: Space) -> list[Probe]:
    """Every option of ``space`` alone in naive RAG; one that needs another before it, in naive RAG with that one.

    Options that naive RAG has, and those that the space's constraints forbid there, are left out.
    """
    plain = baseline("naive")
    found = []
    for place, options in enumerate(space.options):
        for gene in options:
            reference = _with_needed(plain, gene, space)
            candidate = (*reference[:place], gene, *reference[place + 1 :])
            if candidate != reference and space.allows(candidate):
                found.append(Probe(gene, candidate, reference))
    return found


def _with_needed(plain: Candidate, gene: Gene, space: Space) -> Candidate:
    """``plain`` with the first options of the space that ``gene`` can come after."""
    able = list(plain)
    for place, family in enumerate(FAMILIES):
        needed = gene.technique.after.get(family.name, ())
        if needed and plain[place].technique.name not in needed:
            able[place] = next((g for g in space.options[place] if g.technique.name in needed), plain[place])
    return tuple(able)
