"""What people run before they search, and single options switched on in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import fsum

from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.pipelines.genes import CHUNK_SETTINGS, ROLES, Candidate, Gene, make_gene
from ragsmith.pipelines.space import Space
from ragsmith.techniques.families import FAMILIES

BASELINES: dict[str, dict[str, str]] = {
    "naive": {"retrieval": "vector", "passage_filter": "top_k", "prompt_maker": "listing"},
    "bm25": {"retrieval": "bm25", "passage_filter": "top_k", "prompt_maker": "listing"},
}
"""One retriever, and nothing else."""


SHOWS_IN: Mapping[str, str] = {
    **dict.fromkeys(("pre_embedding", "retrieval", *CHUNK_SETTINGS, *ROLES), "query_expansion"),
    "cross_encoder": "reranking",
    "language_model": "generation",
}
"""Genes without an output of their own for a question, and the stage in whose output it shows what they change."""


@dataclass(frozen=True, slots=True)
class Probe:
    """An option switched on alone, and the pipeline without it that it is compared with."""

    gene: Gene
    candidate: Candidate
    reference: Candidate


@dataclass(frozen=True, slots=True)
class OptionActivity:
    """What a pipeline with an option does otherwise than the one without it, on the questions that both answered.

    ``share`` is that of the ``compared`` questions for which the stage's output differs; ``added`` what the option adds
    per question to each count of the usage. Without a question to compare there is neither.
    """

    compared: int
    share: float | None
    added: Mapping[str, float]

    @classmethod
    def between(cls, family: str, alone: Evaluation, without: Evaluation) -> OptionActivity:
        """Compare ``alone``, which has an option of ``family``, with the pipeline ``without`` it."""
        both = [q for q in alone.questions if q in alone.records and q in without.records]
        if not both:
            return cls(0, None, {})
        stage = SHOWS_IN.get(family, family)
        if stage not in alone.records[both[0]]["stages"]:  # a ranking: what is answered does not show
            stage = "passage_filter"
        pairs = [(alone.records[q], without.records[q]) for q in both]
        differing = sum(one["stages"][stage] != other["stages"][stage] for one, other in pairs)
        added = {
            count: fsum(one["usage"][count] - other["usage"][count] for one, other in pairs) / len(both)
            for count in pairs[0][0]["usage"]
        }
        return cls(len(both), differing / len(both), added)


def baseline(name: str) -> Candidate:
    """A baseline pipeline."""
    return tuple(make_gene(family.name, BASELINES[name].get(family.name, "none")) for family in FAMILIES)


def probes_of(space: Space) -> list[Probe]:
    """Every option of ``space`` alone in naive RAG; one that needs another before it, in naive RAG with that one.

    Options that naive RAG has, and those that the space's constraints forbid there, are left out.
    """
    plain = space.settled(baseline("naive"))
    found = []
    for place, options in enumerate(space.options):
        for gene in options:
            reference = with_needed(plain, gene, space)
            candidate = (*reference[:place], gene, *reference[place + 1 :])
            if candidate != reference and space.allows(candidate):
                found.append(Probe(gene, candidate, reference))
    return found


def with_needed(plain: Candidate, gene: Gene, space: Space) -> Candidate:
    """``plain`` with the first options of the space that ``gene`` can come after."""
    able = list(plain)
    for place, family in enumerate(FAMILIES):
        needed = gene.technique.after.get(family.name, ())
        if needed and plain[place].technique.name not in needed:
            able[place] = next((g for g in space.options[place] if g.technique.name in needed), plain[place])
    return tuple(able)
