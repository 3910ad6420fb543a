"""The nine families of techniques, in pipeline order, with the signatures of their functions."""

from collections.abc import Callable
from typing import Any, Concatenate

from ragsmith.errors import SpaceError
from ragsmith.index.index import Corpus, Index
from ragsmith.techniques.registry import Family
from ragsmith.text.suggest import did_you_mean
from ragsmith.types import Answer, Chunks, Entries, Hits, Passages, Prompt, Queries, Question, Rankings, Search

pre_embedding: Family[Callable[Concatenate[Chunks, ...], Entries]] = Family(
    "pre_embedding", ("chunks",), "entries", "texts indexed for a chunk", "collection"
)
query_expansion: Family[Callable[Concatenate[Question, Search, ...], Hits]] = Family(
    "query_expansion", ("question", "search"), "hits", "queries of the search"
)
retrieval: Family[Callable[Concatenate[Index, Queries, ...], Rankings]] = Family(
    "retrieval", ("index", "queries"), "rankings", "generation of candidates", "search"
)
reranking: Family[Callable[Concatenate[Question, Hits, ...], Hits]] = Family(
    "reranking", ("question", "hits"), "hits", "order of the candidates"
)
passage_filter: Family[Callable[Concatenate[Question, Hits, ...], Hits]] = Family(
    "passage_filter", ("question", "hits"), "hits", "selection of candidates"
)
passage_augment: Family[Callable[Concatenate[Corpus, Question, Hits, ...], Passages]] = Family(
    "passage_augment", ("corpus", "question", "hits"), "passages", "context around a hit"
)
passage_compress: Family[Callable[Concatenate[Question, Passages, ...], Passages]] = Family(
    "passage_compress", ("question", "passages"), "passages", "condensation of passages"
)
prompt_maker: Family[Callable[Concatenate[Question, Passages, ...], Prompt]] = Family(
    "prompt_maker", ("question", "passages"), "prompt", "presentation of passages to the generator"
)
post_generation: Family[Callable[Concatenate[Question, Prompt, Answer, ...], Answer]] = Family(
    "post_generation", ("question", "prompt", "answer"), "answer", "revision of the draft answer"
)

FAMILIES: tuple[Family[Any], ...] = (
    pre_embedding,
    query_expansion,
    retrieval,
    reranking,
    passage_filter,
    passage_augment,
    passage_compress,
    prompt_maker,
    post_generation,
)

FILTER_INDEX = FAMILIES.index(passage_filter)
"""Index of the last family that rankings depend on."""


def get_family(name: str, where: str) -> Family[Any]:
    """Return the family called ``name``; ``where`` prefixes the error message.

    Raises:
        SpaceError: there is no such family.
    """
    for family in FAMILIES:
        if family.name == name:
            return family
    known = [family.name for family in FAMILIES]
    prefix = f"{where}: " if where else ""
    raise SpaceError(f"{prefix}unknown family {name!r}: {did_you_mean(name, known)}")
