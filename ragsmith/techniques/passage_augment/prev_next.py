"""Previous and next: read each hit together with its neighbours in the document (Kartal et al. 2025)."""

from dataclasses import dataclass

from ragsmith.index.index import Corpus
from ragsmith.plugins import Count
from ragsmith.techniques.families import passage_augment
from ragsmith.types import Hits, Passage, Passages, Question


@dataclass(frozen=True, slots=True)
class ChunkWindow:
    """The chunks ``first`` to ``last`` (both included) of a document, and the rank of the best hit among them."""

    rank: int
    doc: str
    first: int
    last: int


def merge(windows: list[ChunkWindow]) -> list[ChunkWindow]:
    """Join windows of one document that overlap or touch; the joined one has the better rank. Best rank first."""
    joined: list[ChunkWindow] = []
    for window in sorted(windows, key=lambda w: (w.doc, w.first)):
        before = joined[-1] if joined else None
        if before and before.doc == window.doc and window.first <= before.last + 1:
            rank, last = min(before.rank, window.rank), max(before.last, window.last)
            joined[-1] = ChunkWindow(rank, window.doc, before.first, last)
        else:
            joined.append(window)
    return sorted(joined, key=lambda w: w.rank)


@passage_augment(paper="https://arxiv.org/abs/2511.01386", choices={"n": (1, 2)})
def prev_next(corpus: Corpus, question: Question, hits: Hits, *, n: Count = 1) -> Passages:
    """Read each hit with the ``n`` chunks before and after it, overlapping or touching windows as one passage.

    Helps when chunks are short and an answer runs over their borders. Costs no calls, but up to 2n + 1 times the
    context. A passage stands at the rank of its best hit and has its score; the original system ordered by document. A
    summary has no neighbours and is read as it is.
    """
    windows = []
    passages = {}
    for rank, hit in enumerate(hits):
        if hit.chunk.level:
            passages[rank] = Passage(hit.chunk.text, hit.chunk.spans, hit.score)
            continue
        around = corpus.around(hit.chunk, n, n)
        windows.append(ChunkWindow(rank, hit.chunk.doc, around[0].index, around[-1].index))
    for window in merge(windows):
        span = corpus.stretch(window.doc, window.first, window.last)
        passages[window.rank] = Passage(corpus.text(span), (span,), hits[window.rank].score)
    return tuple(passages[rank] for rank in sorted(passages))
