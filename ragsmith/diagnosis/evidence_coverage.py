"""The share of a gold passage in the output of a stage: by characters, or by words of rewritten texts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ragsmith.datasets.relevance import ChunkMap, count_overlap
from ragsmith.index.index import Corpus, Index
from ragsmith.measures.rankings import count_covered
from ragsmith.text.content_words import word_coverage
from ragsmith.types import Chunk, Hits, Passage, Passages, Span, get_ids

MIN_COVERAGE = 0.5
"""The least share of a gold passage for relevance, as in `ragsmith.datasets.relevance`."""


@dataclass(frozen=True, slots=True)
class EvidenceCoverage:
    """The text available after a stage: verbatim spans of documents, and texts made from passages."""

    spans: tuple[Span, ...]
    rewritten: tuple[tuple[str, tuple[Span, ...]], ...] = ()


class ChunkSpans:
    """The spans of the chunks of an index, built once for all questions."""

    def __init__(self, index: Index) -> None:
        self._chunks: Mapping[str, Chunk] = {chunk.id: chunk for chunk in index.chunks}
        self._map = ChunkMap(chunk for chunk in index.chunks if not chunk.level)
        self._summaries = frozenset(chunk.id for chunk in index.chunks if chunk.level)
        self._of_document: dict[str, list[Chunk]] = {}
        for chunk in index.chunks:
            if not chunk.level:
                self._of_document.setdefault(chunk.doc, []).append(chunk)
        self._around: dict[Span, dict[str, Span]] = {}

    def overlapping_spans(self, gold: Span) -> Mapping[str, Span]:
        """Return the spans of the chunks that share characters with ``gold``, by chunk id."""
        if gold not in self._around:
            self._around[gold] = {chunk: self._chunks[chunk].span for chunk in self._map.overlaps(gold)}
        return self._around[gold]

    def is_whole(self, gold: Span) -> bool:
        """Whether ``gold`` is a whole document of several chunks, which has no position in it."""
        chunks = self._of_document.get(gold.doc, ())
        return len(chunks) > 1 and all(2 * count_overlap(gold, c.span) >= c.end - c.start for c in chunks)

    def coverage(self, gold: Span, hits: Hits) -> EvidenceCoverage:
        """Return the coverage of ``gold`` by ``hits``, including summaries."""
        near, ids = self.overlapping_spans(gold), get_ids(hits)
        spans = tuple(near[chunk] for chunk in ids if chunk in near)
        summaries = (self._chunks[chunk] for chunk in ids if chunk in self._summaries)
        return EvidenceCoverage(spans, tuple((chunk.text, chunk.sources) for chunk in summaries))

    def rank(self, gold: Span, hits: Hits) -> int | None:
        """Return the least number of first ``hits`` that hold half of ``gold``, or None if all of them do not."""
        near = self.overlapping_spans(gold)
        spans: list[Span] = []
        for place, chunk in enumerate(get_ids(hits), 1):
            if chunk in near:
                spans.append(near[chunk])
                if character_coverage(gold, spans) >= MIN_COVERAGE:
                    return place
        return None


def character_coverage(gold: Span, spans: Iterable[Span]) -> float:
    """Return the share of the characters of ``gold`` in any of ``spans``."""
    return count_covered(gold, spans) / max(1, gold.end - gold.start)


def gold_coverage(question: str, gold: Span, corpus: Corpus, held: EvidenceCoverage, *, whole: bool) -> float:
    """Return the share of ``gold`` that is ``held``: by characters, or by words of the best text rewritten from it.

    Gold that is the ``whole`` of a document is held by any part of it.
    """
    made = [text for text, sources in held.rewritten if any(count_overlap(source, gold) for source in sources)]
    if whole:
        return float(bool(made) or any(count_overlap(span, gold) for span in held.spans))
    found = character_coverage(gold, held.spans)
    if made and found < 1:
        evidence = corpus.text(gold)
        found = max(found, *(word_coverage(question, evidence, text) for text in made))
    return found


def coverage_of_passages(passages: Passages, corpus: Corpus) -> EvidenceCoverage:
    """Return the coverage of ``passages``: verbatim ones by their span, others by their text."""
    located = [(passage, verbatim_span(passage, corpus)) for passage in passages]
    rewritten = tuple((passage.text, passage.sources) for passage, span in located if span is None)
    return EvidenceCoverage(tuple(span for _, span in located if span is not None), rewritten)


def verbatim_span(passage: Passage, corpus: Corpus) -> Span | None:
    """Return the span of a passage that is a verbatim part of its document, else None."""
    if len(passage.sources) != 1:
        return None
    source = passage.sources[0]
    if source.doc not in corpus.documents or not corpus.text(source).startswith(passage.text):
        return None
    return Span(source.doc, source.start, source.start + len(passage.text))


def truncate_passages(passages: Passages, texts: Sequence[str]) -> Passages:
    """Truncate ``passages`` to the remaining ``texts``."""
    return tuple(
        passage if len(text) >= len(passage.text.strip()) else Passage(text, passage.sources, passage.score)
        for passage, text in zip(passages, texts, strict=False)
    )
