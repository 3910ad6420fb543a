"""Describe the difference between two pipelines, for the rows of an ablation."""

from __future__ import annotations

from ragsmith.pipelines.genes import Candidate, Gene
from ragsmith.techniques.families import FAMILIES

NOTHING = "none"
"""The technique of a family that changes nothing."""

SAME = "changes nothing"


def difference(candidate: Candidate, reference: Candidate) -> str:
    """Say what makes ``candidate`` of ``reference``, by family in their order: ``removes reranking cross_encoder``.

    A gene is added, removed or replaced; ``changes nest: aggregate mean_all → mean_present`` where only parameters
    differ.
    """
    pairs = zip(candidate, reference, strict=True)
    return "; ".join(_change(gene, before) for gene, before in pairs if gene != before) or SAME


def _change(gene: Gene, before: Gene) -> str:
    family = gene.technique.family
    if gene.technique == before.technique:
        return f"changes {_name(gene)}: {_values(gene, before)}"
    if before.technique.name == NOTHING:
        return f"adds {family} {gene}"
    if gene.technique.name == NOTHING:
        return f"removes {family} {before}"
    return f"replaces {family} {before} by {gene}"


def _values(gene: Gene, before: Gene) -> str:
    changed = [
        f"{key} {before.parameters[key]} → {value}"
        for key, value in gene.parameters.items()
        if value != before.parameters[key]
    ]
    return ", ".join(changed) or "the numbers that were fitted"


def _name(gene: Gene) -> str:
    """The technique, with its family where two have one of that name."""
    name = gene.technique.name
    alone = sum(name in family.techniques for family in FAMILIES) == 1
    return name if alone else f"{gene.technique.family} {name}"
