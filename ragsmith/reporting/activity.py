"""What single options do: switched on alone in naive RAG, and among the pipelines that the search proposed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum

from ragsmith.evaluate import Evaluation
from ragsmith.families import FAMILIES
from ragsmith.reporting.measures import score
from ragsmith.reporting.stored import Material
from ragsmith.reporting.values import Effect, Option, Probe
from ragsmith.scoring import Weights
from ragsmith.store import ProposalRow

SHOWS_IN: Mapping[str, str] = {"pre_embedding": "query_expansion", "retrieval": "query_expansion"}
"""Families without an output of their own for a question: what they change shows in the hits of the expansion."""


def options(material: Material) -> tuple[Option, ...]:
    """Every option of the space, family by family."""
    value = material.run.value
    naive_key = value.get("baselines", {}).get("naive")
    naive = material.on_search(naive_key) if naive_key else None
    keys = {(probe["family"], probe["option"]): probe["key"] for probe in value.get("probes", ())}
    found = []
    for place, (family, names) in enumerate(_in_order(value["space"]["options"])):
        for position, name in enumerate(names):
            alone = material.on_search(keys[family, name]) if (family, name) in keys else None
            tried = probe(family, alone, naive, material.weights) if alone and naive else None
            found.append(Option(family, name, tried, effect(material.proposals, place, position)))
    return tuple(found)


def probe(family: str, alone: Evaluation, naive: Evaluation, weights: Weights) -> Probe:
    """Compare an option alone with naive RAG, on the questions that both answered."""
    stage = SHOWS_IN.get(family, family)
    both = [question for question in naive.questions if question in naive.records and question in alone.records]
    if not both:
        return Probe(0, None, None, None)
    differs = sum(alone.records[q]["stages"][stage] != naive.records[q]["stages"][stage] for q in both)
    calls = fsum(alone.records[q]["usage"]["calls"] - naive.records[q]["usage"]["calls"] for q in both)
    change = None
    if alone.complete and naive.complete:
        pairs = zip(alone.values("fitness", weights), naive.values("fitness", weights), strict=True)
        change = score([a - b for a, b in pairs])
    return Probe(len(both), differs / len(both), calls / len(both), change)


def effect(proposals: Sequence[ProposalRow], place: int, position: int) -> Effect:
    """Mean fitness of proposals whose gene at ``place`` is option ``position``, and of the others."""
    scored = [(p.genome[place], p.value["fitness"]) for p in proposals if p.value["fitness"] is not None]
    chosen = [fitness for gene, fitness in scored if gene == position]
    others = [fitness for gene, fitness in scored if gene != position]
    return Effect(_mean(chosen), len(chosen), _mean(others), len(others))


def _mean(values: Sequence[float]) -> float | None:
    return fsum(values) / len(values) if values else None


def _in_order(listed: Mapping[str, list[str]]) -> list[tuple[str, list[str]]]:
    """The store returns mappings sorted by key; a genome is in the order of the families."""
    return [(family.name, listed[family.name]) for family in FAMILIES]
