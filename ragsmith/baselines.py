"""What people run before they search."""

from __future__ import annotations

from ragsmith.families import FAMILIES
from ragsmith.pipeline import Candidate
from ragsmith.space import make_gene

BASELINES: dict[str, dict[str, str]] = {
    "naive": {"retrieval": "vector", "passage_filter": "top_k", "prompt_maker": "listing"},
    "bm25": {"retrieval": "bm25", "passage_filter": "top_k", "prompt_maker": "listing"},
}
"""One retriever, and nothing else."""


def baseline(name: str) -> Candidate:
    """A baseline pipeline."""
    return tuple(make_gene(family.name, BASELINES[name].get(family.name, "none")) for family in FAMILIES)
