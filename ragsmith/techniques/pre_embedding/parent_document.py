"""Parent document: search small pieces, read the chunk they come from (retrieval granularity: Chen et al. 2023)."""

from collections.abc import Iterator

from ragsmith.plugins import Count
from ragsmith.techniques.families import pre_embedding
from ragsmith.text.words import sentences
from ragsmith.types import Chunks, Entries, IndexEntry


@pre_embedding(
    paper="https://arxiv.org/abs/2312.06648",
    choices={"unit": ("sentences", "characters"), "window": (1, 2, 3), "size": (100, 200, 300)},
)
def parent_document(chunks: Chunks, *, unit: str = "sentences", window: Count = 2, size: Count = 200) -> Entries:
    """Index every chunk by small overlapping pieces of its text.

    With ``unit="sentences"`` a piece is ``window`` sentences and the next one starts half a window later; with
    ``"characters"`` it is up to ``size`` characters of whole words, a fifth of them shared with the piece before.
    Helps when a chunk says several things and a question asks for one of them. Costs several vectors a chunk. The
    RAGSmith code cuts 100 characters anywhere and finds fewer chunks than asked for, as it counts pieces; here a chunk
    counts once, by its best piece.
    """
    cut = _of_sentences if unit == "sentences" else _of_characters
    length = window if unit == "sentences" else size
    return tuple(IndexEntry(tuple(dict.fromkeys(cut(chunk.text, length))) or (chunk.text,), chunk) for chunk in chunks)


def _of_sentences(text: str, window: int) -> Iterator[str]:
    spans = sentences(text)
    step = max(1, window // 2)
    for first in range(0, max(1, len(spans) - window + step), step):
        piece = spans[first : first + window]
        if piece:
            yield text[piece[0][0] : piece[-1][1]]


def _of_characters(text: str, size: int) -> Iterator[str]:
    start = 0
    while start < len(text):
        end = _word_end(text, start, min(start + size, len(text)))
        yield text[start:end].strip()
        if end == len(text):
            return
        back = text.find(" ", max(start + 1, end - size // 5), end)  # the next piece starts with a whole word too
        start = back + 1 if back >= 0 else end


def _word_end(text: str, start: int, end: int) -> int:
    """Return the last place up to ``end`` where a word ends; ``end`` itself inside a word longer than the piece."""
    if end == len(text) or text[end].isspace():
        return end
    space = text.rfind(" ", start, end)
    return space if space > start else end
