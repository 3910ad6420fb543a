"""Terms of the fitness of a pipeline: one for each option, and one for each pair of options of interacting families.

An option is a technique with parameters. Half of the variance of its effect belongs to the technique, so the effect of
``hybrid`` is informative about an unobserved ``hybrid(weight=0.3)``. Pairs ignore parameters. The name of a term has
the classes of the models that it uses, as the effect of an option differs between embedded models and chat models.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from math import sqrt

from ragsmith.caches import bounded_cache
from ragsmith.models.names import EXTRACTIVE, ModelNames
from ragsmith.models.registry import providers
from ragsmith.pipelines.genes import N_FAMILIES, Candidate, make_gene
from ragsmith.techniques.families import FAMILIES

Labels = tuple[str, ...]
"""Options of a pipeline as text, one for each family: ``("none", "hyde", "hybrid(fusion=rrf)", ...)``."""

PARTS = ("retrieval", "generation")
"""Parts of the fitness with learned effects: R and G."""

INTERACTING = 5
"""Number of families up to the filter, which determine the retrieved passages and interact."""

PAIRS = tuple(combinations(range(INTERACTING), 2))
"""Positions of families that interact."""

PLAIN: Labels = tuple(
    {"retrieval": "vector", "passage_filter": "top_k", "prompt_maker": "listing"}.get(family.name, "none")
    for family in FAMILIES
)
"""Naive RAG: the reference option of each family."""

USUAL_OPTIONS = {"retrieval": "hybrid", "reranking": "cross_encoder"}
"""Options of the usual pipeline. Options are also evaluated in it, as gains are smaller in a better pipeline."""

OTHER_FAMILIES = "other families"
WITH_RETRIEVAL, OTHER_PAIRS = "pairs with retrieval", "other pairs"

GROUPS: tuple[str, ...] = (
    *(family.name for family in FAMILIES[:INTERACTING]),
    OTHER_FAMILIES,
    WITH_RETRIEVAL,
    OTHER_PAIRS,
)
"""Groups of terms whose effects share one distribution: each of the first families, all others, and pairs."""

TOOL_ROLES = {"language_model": "controller", "embedder": "embedder", "cross_encoder": "cross_encoder"}
"""Role of the model that a technique uses, by the kind of tool."""


@dataclass(frozen=True, slots=True)
class Term:
    """Additive term of the fitness, with a ``weight``; ``group`` is a position in `GROUPS`."""

    name: str
    group: int
    weight: float


@dataclass(frozen=True)
class ModelClasses:
    """Class of the model of each role; effects apply to options that use models of the same class."""

    generator: str = EXTRACTIVE
    controller: str = EXTRACTIVE
    judge: str = EXTRACTIVE
    embedder: str = "static"
    cross_encoder: str = "late_interaction"

    @classmethod
    def from_names(cls, names: ModelNames) -> ModelClasses:
        """Return the classes of the models of a run."""

        def chat(role: str) -> str:
            return EXTRACTIVE if names.for_role(role).name == EXTRACTIVE else "chat"

        def other(role: str, embedded: str, heavy: str) -> str:
            declared = providers(role).get(names.for_role(role).kind)
            if declared is None or declared.served:
                return "served"
            return heavy if declared.heavy else embedded

        return cls(
            chat("language_model"),
            chat("controller"),
            chat("judge"),
            other("embedder", "static", "transformer"),
            other("cross_encoder", "late_interaction", "cross_encoder"),
        )


def usual_pipeline() -> Candidate:
    """Return the usual pipeline: hybrid search with a cross-encoder."""
    names = (USUAL_OPTIONS.get(family.name, plain) for family, plain in zip(FAMILIES, PLAIN, strict=True))
    return tuple(make_gene(family.name, name) for family, name in zip(FAMILIES, names, strict=True))


def option_labels(candidate: Candidate) -> Labels:
    """Return the options of a pipeline as text; settings have no learned effects."""
    return tuple(str(gene) for gene in candidate[:N_FAMILIES])


def technique_name(label: str) -> str:
    """Return the name of the technique of an option."""
    return label.partition("(")[0]


@bounded_cache(1 << 16, key="the options of a pipeline")
def pipeline_terms(labels: Labels, part: str, models: ModelClasses) -> tuple[Term, ...]:
    """Return the terms of a part of the fitness of a pipeline, those of options before those of pairs."""
    single = [term for place, label in enumerate(labels) for term in option_terms(place, label, part, models)]
    return (*single, *(pair_term(i, labels[i], j, labels[j], part, models) for i, j in PAIRS))


@bounded_cache(1 << 12, key="a place and its option")
def option_terms(place: int, label: str, part: str, models: ModelClasses) -> tuple[Term, Term]:
    """Return the terms of an option of the family at ``place``: one of its technique, and its own."""
    family, models_used = FAMILIES[place].name, _model_suffix({place: label}, part, models)
    group, weight = min(place, INTERACTING), sqrt(0.5)
    technique = Term(f"{family}.{technique_name(label)}{models_used}", group, weight)
    return technique, Term(f"{family}.{label} as it is{models_used}", group, weight)


@bounded_cache(1 << 14, key="two places and their options")
def pair_term(i: int, first: str, j: int, second: str, part: str, models: ModelClasses) -> Term:
    """Return the term of two options of the families at ``i`` and ``j``."""
    families = FAMILIES[i].name, FAMILIES[j].name
    named = " × ".join(f"{f}.{technique_name(label)}" for f, label in zip(families, (first, second), strict=True))
    group = GROUPS.index(WITH_RETRIEVAL if "retrieval" in families else OTHER_PAIRS)
    return Term(named + _model_suffix({i: first, j: second}, part, models), group, 1.0)


def _model_suffix(options: Mapping[int, str], part: str, models: ModelClasses) -> str:
    """Return a suffix of names of terms: the classes of the models that ``options`` use, by place.

    G always depends on the generator and the judge.
    """
    roles = {TOOL_ROLES[kind] for place, label in options.items() for kind in _tools(place, label)}
    if part == "generation":
        roles |= {"generator", "judge"}
    return "".join(f" @{role}={getattr(models, role)}" for role in sorted(roles))


def _tools(place: int, label: str) -> list[str]:
    known = FAMILIES[place].techniques.get(technique_name(label))
    return [kind for kind in known.tools.values() if kind in TOOL_ROLES] if known else []
