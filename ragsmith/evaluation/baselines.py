"""Baseline pipelines, and single options added to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import fsum

from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.pipelines.genes import CHUNK_SETTINGS, ROLES, SYSTEM, Candidate, Gene, make_gene
from ragsmith.pipelines.space import Space
from ragsmith.techniques.families import FAMILIES

BASELINES: dict[str, dict[str, str]] = {
    "naive": {"retrieval": "vector", "passage_filter": "top_k", "prompt_maker": "listing"},
    "bm25": {"retrieval": "bm25", "passage_filter": "top_k", "prompt_maker": "listing"},
}
"""Techniques of each baseline by family: one retriever, and nothing optional."""


OBSERVED_STAGES: Mapping[str, str] = {
    **dict.fromkeys(("pre_embedding", "retrieval", *CHUNK_SETTINGS, *ROLES), "query_expansion"),
    "cross_encoder": "reranking",
    "language_model": "generation",
}
"""The stage whose output shows the effect of a gene that has no output of its own for a question."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A pipeline with a single option, and the reference pipeline without it."""

    gene: Gene
    candidate: Candidate
    reference: Candidate


@dataclass(frozen=True, slots=True)
class OptionActivity:
    """Differences in output and usage between a pipeline with an option and one without it.

    ``share`` is the share of the ``compared`` questions, those that both answered, for which the output of the stage
    differs. ``added`` is the mean increase per question of each count of the usage. Without a common question,
    ``share`` is None and ``added`` is empty.
    """

    compared: int
    share: float | None
    added: Mapping[str, float]

    @classmethod
    def from_evaluations(cls, family: str, alone: Evaluation, without: Evaluation) -> OptionActivity:
        """Compare ``alone``, which has an option of ``family``, with the pipeline ``without`` it."""
        both = [q for q in alone.questions if q in alone.records and q in without.records]
        if not both:
            return cls(0, None, {})
        stage = OBSERVED_STAGES.get(family, "generation" if family.startswith(SYSTEM) else family)
        if stage not in alone.records[both[0]]["stages"]:  # a ranking has no stages after the filter
            stage = "passage_filter"
        pairs = [(alone.records[q], without.records[q]) for q in both]
        differing = sum(first["stages"].get(stage) != second["stages"].get(stage) for first, second in pairs)
        added = {
            count: fsum(first["usage"][count] - second["usage"][count] for first, second in pairs) / len(both)
            for count in pairs[0][0]["usage"]
        }
        return cls(len(both), differing / len(both), added)


def baseline(name: str) -> Candidate:
    """Return a baseline pipeline."""
    return tuple(make_gene(family.name, BASELINES[name].get(family.name, "none")) for family in FAMILIES)


def list_probes(space: Space) -> list[Probe]:
    """Return a probe for every option of ``space``, added to naive RAG with the options that it requires.

    Options of naive RAG itself, and those that the constraints of the space forbid there, are left out. Of another
    system, the options are probed in the system with its default parameters.
    """
    first = tuple(genes[0] for genes in space.options)
    plain = first if space.system else space.with_default_settings(baseline("naive"))
    found = []
    for place, options in enumerate(space.options):
        for gene in options:
            reference = add_required(plain, gene, space)
            candidate = (*reference[:place], gene, *reference[place + 1 :])
            if candidate != reference and space.allows(candidate):
                found.append(Probe(gene, candidate, reference))
    return found


def add_required(plain: Candidate, gene: Gene, space: Space) -> Candidate:
    """Return ``plain`` with the first options of the space that satisfy the requirements of ``gene``."""
    able = list(plain)
    for place, family in enumerate(FAMILIES):
        needed = gene.technique.after.get(family.name, ())
        if needed and plain[place].technique.name not in needed:
            able[place] = next((g for g in space.options[place] if g.technique.name in needed), plain[place])
    return tuple(able)
