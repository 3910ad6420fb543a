"""Previous and next: extend each hit by its neighbours in the document (Kartal et al. 2025)."""

from dataclasses import dataclass

from ragsmith.index.index import Corpus
from ragsmith.plugins import Count
from ragsmith.techniques.families import passage_augment
from ragsmith.types import Hits, Passage, Passages, Question


@dataclass(frozen=True, slots=True)
class ChunkWindow:
    """The chunks ``first`` to ``last`` (inclusive) of a document, and the rank of the best hit among them."""

    rank: int
    doc: str
    first: int
    last: int


def merge_windows(windows: list[ChunkWindow]) -> list[ChunkWindow]:
    """Merge overlapping and adjacent windows of a document, with the better rank; return them best rank first."""
    merged: list[ChunkWindow] = []
    for window in sorted(windows, key=lambda w: (w.doc, w.first)):
        before = merged[-1] if merged else None
        if before and before.doc == window.doc and window.first <= before.last + 1:
            rank, last = min(before.rank, window.rank), max(before.last, window.last)
            merged[-1] = ChunkWindow(rank, window.doc, before.first, last)
        else:
            merged.append(window)
    return sorted(merged, key=lambda w: w.rank)


@passage_augment(paper="https://arxiv.org/abs/2511.01386", choices={"n": (1, 2)})
def prev_next(corpus: Corpus, question: Question, hits: Hits, *, n: Count = 1) -> Passages:
    """Extend each hit by the ``n`` chunks before and after it, and merge overlapping and adjacent windows.

    Helps when chunks are short and answers cross their boundaries. Costs no calls, but up to 2n + 1 times the context.
    A passage has the rank and the score of its best hit; the original system orders by document. Summaries have no
    neighbours and are not extended.
    """
    windows = []
    passages = {}
    for rank, hit in enumerate(hits):
        if hit.chunk.level:
            passages[rank] = Passage(hit.chunk.text, hit.chunk.spans, hit.score)
            continue
        around = corpus.get_neighbours(hit.chunk, n, n)
        windows.append(ChunkWindow(rank, hit.chunk.doc, around[0].index, around[-1].index))
    for window in merge_windows(windows):
        span = corpus.get_span(window.doc, window.first, window.last)
        passages[window.rank] = Passage(corpus.text(span), (span,), hits[window.rank].score)
    return tuple(passages[rank] for rank in sorted(passages))
