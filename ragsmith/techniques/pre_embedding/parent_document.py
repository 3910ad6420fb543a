"""Parent document: search small pieces, return the chunk that has them (retrieval granularity: Chen et al. 2023)."""

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

    With ``unit="sentences"``, a piece has ``window`` sentences, and the next one starts half a window later; with
    ``"characters"``, it has up to ``size`` characters of whole words and shares a fifth of them with the previous
    piece. Helps when a chunk makes several statements and a question needs one of them. Costs several vectors per
    chunk. The RAGSmith code splits every 100 characters, even within words, and returns fewer chunks than requested, as
    it counts pieces; here a chunk counts once, by its best piece.
    """
    split = _split_sentences if unit == "sentences" else _split_characters
    length = window if unit == "sentences" else size
    return tuple(
        IndexEntry(tuple(dict.fromkeys(split(chunk.text, length))) or (chunk.text,), chunk) for chunk in chunks
    )


def _split_sentences(text: str, window: int) -> Iterator[str]:
    spans = sentences(text)
    step = max(1, window // 2)
    for first in range(0, max(1, len(spans) - window + step), step):
        piece = spans[first : first + window]
        if piece:
            yield text[piece[0][0] : piece[-1][1]]


def _split_characters(text: str, size: int) -> Iterator[str]:
    start = 0
    while start < len(text):
        end = _find_word_end(text, start, min(start + size, len(text)))
        yield text[start:end].strip()
        if end == len(text):
            return
        space = text.find(" ", max(start + 1, end - size // 5), end)  # the next piece also starts with a whole word
        start = space + 1 if space >= 0 else end


def _find_word_end(text: str, start: int, end: int) -> int:
    """Return the last word end up to ``end``; ``end`` itself inside a word that is longer than the piece."""
    if end == len(text) or text[end].isspace():
        return end
    space = text.rfind(" ", start, end)
    return space if space > start else end
