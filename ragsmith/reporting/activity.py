"""What single options do: switched on alone, and among the pipelines that the search proposed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import fsum

from ragsmith.comparison.clusters import FEWEST_GROUPS
from ragsmith.evaluation.baselines import Activity
from ragsmith.pipelines.further import SETTINGS
from ragsmith.pipelines.genes import label
from ragsmith.records.record import ProbeRecord
from ragsmith.reporting.material import Material
from ragsmith.reporting.rows import gain
from ragsmith.reporting.values import Effect, Option, OptionAlone
from ragsmith.store.store import ProposalRow
from ragsmith.techniques.families import FAMILIES


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


def _tried(material: Material, stored: ProbeRecord) -> OptionAlone | None:
    """An option against the pipeline without it, naive RAG unless the store names another; None if one is lost."""
    alone, reference = material.on_search(stored.key), material.on_search(stored.reference)
    if alone is None or reference is None:
        return None
    activity = Activity.between(stored.family, alone, reference)
    change = retrieval = None
    if activity.compared and all(
        one.key in material.dropped or material.terms.admit(one) for one in (alone, reference)
    ):
        linked = material.record.split.search_groups
        few = linked is not None and len(linked.groups) < FEWEST_GROUPS
        found = (gain(metric, alone, reference, material.fitness) for metric in ("fitness", "retrieval"))
        change, retrieval = (replace(one, low=None, high=None) if one and few else one for one in found)
    against = "" if stored.reference == material.record.baselines.get("naive") else label(reference.candidate)
    calls = activity.added.get("calls")
    return OptionAlone(activity.compared, activity.share, calls, change, retrieval, against, stored.difference)


def effect(proposals: Sequence[ProposalRow], place: int, position: int) -> Effect:
    """Mean fitness of proposals whose gene at ``place`` is option ``position``, and of the others."""
    scored = [(p.genome[place], fitness) for p in proposals if (fitness := p.fitness) is not None]
    chosen = [fitness for gene, fitness in scored if gene == position]
    others = [fitness for gene, fitness in scored if gene != position]
    return Effect(_mean(chosen), len(chosen), _mean(others), len(others))


def _mean(values: Sequence[float]) -> float | None:
    return fsum(values) / len(values) if values else None


def _in_order(listed: Mapping[str, tuple[str, ...]]) -> list[tuple[str, tuple[str, ...]]]:
    """The store returns mappings sorted by key; a genome is in the order of the families, and of settings."""
    names = (*(family.name for family in FAMILIES), *SETTINGS)
    return [(name, listed[name]) for name in names if name in listed]
