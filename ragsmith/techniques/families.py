"""The nine genes, in pipeline order: what each family may read and what it must return."""

from collections.abc import Callable
from typing import Any, Concatenate

from ragsmith.errors import SpaceError
from ragsmith.index.index import Corpus, Index
from ragsmith.techniques.registry import Family
from ragsmith.text.suggest import did_you_mean
from ragsmith.types import Answer, Chunks, Entries, Hits, Passages, Prompt, Queries, Question, Rankings, Search

pre_embedding: Family[Callable[Concatenate[Chunks, ...], Entries]] = Family(
    "pre_embedding", ("chunks",), "entries", "what is indexed for a chunk", "collection"
)
query_expansion: Family[Callable[Concatenate[Question, Search, ...], Hits]] = Family(
    "query_expansion", ("question", "search"), "hits", "what is searched with"
)
retrieval: Family[Callable[Concatenate[Index, Queries, ...], Rankings]] = Family(
    "retrieval", ("index", "queries"), "rankings", "how candidates are found", "search"
)
reranking: Family[Callable[Concatenate[Question, Hits, ...], Hits]] = Family(
    "reranking", ("question", "hits"), "hits", "how candidates are put in order"
)
passage_filter: Family[Callable[Concatenate[Question, Hits, ...], Hits]] = Family(
    "passage_filter", ("question", "hits"), "hits", "which candidates are kept"
)
passage_augment: Family[Callable[Concatenate[Corpus, Question, Hits, ...], Passages]] = Family(
    "passage_augment", ("corpus", "question", "hits"), "passages", "what is read around a hit"
)
passage_compress: Family[Callable[Concatenate[Question, Passages, ...], Passages]] = Family(
    "passage_compress", ("question", "passages"), "passages", "how passages are condensed"
)
prompt_maker: Family[Callable[Concatenate[Question, Passages, ...], Prompt]] = Family(
    "prompt_maker", ("question", "passages"), "prompt", "how passages are shown to the generator"
)
post_generation: Family[Callable[Concatenate[Question, Prompt, Answer, ...], Answer]] = Family(
    "post_generation", ("question", "prompt", "answer"), "answer", "what happens to the draft answer"
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

FILTER = FAMILIES.index(passage_filter)
"""The place of the last family that rankings depend on."""


def family_named(name: str, where: str) -> Family[Any]:
    """Return the family of that name.

    Raises:
        SpaceError: there is none; the message names those there are.
    """
    for family in FAMILIES:
        if family.name == name:
            return family
    known = [family.name for family in FAMILIES]
    begin = f"{where}: " if where else ""
    raise SpaceError(f"{begin}unknown family {name!r}: {did_you_mean(name, known)}")
