"""What single options do: switched on alone, and among the pipelines that the search proposed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import fsum

from ragsmith.evaluation.evaluator import Evaluation
from ragsmith.evaluation.fitness import Fitness
from ragsmith.pipelines.genes import label
from ragsmith.reporting.material import Material
from ragsmith.reporting.rows import score
from ragsmith.reporting.values import Effect, Option, Probe, Score
from ragsmith.runs.record import OptionAlone
from ragsmith.store.store import ProposalRow
from ragsmith.techniques.families import FAMILIES

SHOWS_IN: Mapping[str, str] = {"pre_embedding": "query_expansion", "retrieval": "query_expansion"}
"""Families without an output of their own for a question: what they change shows in the hits of the expansion."""


def options(material: Material) -> tuple[Option, ...]:
    """Every option of the space, family by family."""
    probes = {(probe.family, probe.option): probe for probe in material.record.probes}
    found = []
    for place, (family, names) in enumerate(_in_order(material.record.space.options)):
        for position, name in enumerate(names):
            stored = probes.get((family, name))
            tried = _tried(material, stored) if stored else None
            found.append(Option(family, name, tried, effect(material.proposals, place, position)))
    return tuple(found)


def _tried(material: Material, stored: OptionAlone) -> Probe | None:
    """An option against the pipeline without it, naive RAG unless the store names another; None if one is lost."""
    alone, reference = material.on_search(stored.key), material.on_search(stored.reference)
    if alone is None or reference is None:
        return None
    found = probe(stored.family, alone, reference, material.fitness)
    against = "" if stored.reference == material.record.baselines.get("naive") else label(reference.candidate)
    return replace(found, against=against, difference=stored.difference)


def probe(family: str, alone: Evaluation, reference: Evaluation, fitness: Fitness) -> Probe:
    """Compare a pipeline that has an option with one that lacks it, on the questions that both answered."""
    stage = SHOWS_IN.get(family, family)
    both = [q for q in reference.questions if q in reference.records and q in alone.records]
    if not both:
        return Probe(0, None, None, None, None)
    differs = sum(alone.records[q]["stages"][stage] != reference.records[q]["stages"][stage] for q in both)
    calls = fsum(alone.records[q]["usage"]["calls"] - reference.records[q]["usage"]["calls"] for q in both)
    change = retrieval = None
    if alone.complete and reference.complete:
        change, retrieval = (_gain(metric, alone, reference, fitness) for metric in ("fitness", "retrieval"))
    return Probe(len(both), differs / len(both), calls / len(both), change, retrieval)


def _gain(metric: str, alone: Evaluation, reference: Evaluation, fitness: Fitness) -> Score:
    """The mean of the differences question by question, and its interval."""
    pairs = zip(alone.values(metric, fitness), reference.values(metric, fitness), strict=True)
    return score([a - b for a, b in pairs])


def effect(proposals: Sequence[ProposalRow], place: int, position: int) -> Effect:
    """Mean fitness of proposals whose gene at ``place`` is option ``position``, and of the others."""
    scored = [(p.genome[place], fitness) for p in proposals if (fitness := p.fitness) is not None]
    chosen = [fitness for gene, fitness in scored if gene == position]
    others = [fitness for gene, fitness in scored if gene != position]
    return Effect(_mean(chosen), len(chosen), _mean(others), len(others))


def _mean(values: Sequence[float]) -> float | None:
    return fsum(values) / len(values) if values else None


def _in_order(listed: Mapping[str, tuple[str, ...]]) -> list[tuple[str, tuple[str, ...]]]:
    """The store returns mappings sorted by key; a genome is in the order of the families."""
    return [(family.name, listed[family.name]) for family in FAMILIES]
