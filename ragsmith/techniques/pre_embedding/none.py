"""No pre-embedding: a chunk is indexed by its own text."""

from ragsmith.techniques.families import pre_embedding
from ragsmith.types import Chunks, Entries, IndexEntry


@pre_embedding(paper="https://arxiv.org/abs/2511.01386")
def none(chunks: Chunks) -> Entries:
    """Index every chunk by its text.

    Costs nothing; the baseline of the family.
    """
    return tuple(IndexEntry((chunk.text,), chunk) for chunk in chunks)
