"""The values that flow through a pipeline: frozen, slotted, compared by content.

Offsets are code points in the text of a document as it was loaded; every interval is half open.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class Scale(StrEnum):
    """What a score means. Scores of different scales are never sorted or cut together."""

    BM25 = "bm25"
    COSINE = "cosine"
    RRF = "rrf"
    BORDA = "borda"
    CONVEX = "convex"
    GRAPH = "graph"
    CROSS_ENCODER = "cross_encoder"
    LISTWISE = "listwise"


@dataclass(frozen=True, slots=True)
class Span:
    """The characters ``[start, end)`` of document ``doc``."""

    doc: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Document:
    """A text to answer from; ``id`` is the file's stem."""

    id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Chunk:
    """A contiguous slice of a document: ``document.text[start:end] == text``."""

    id: str
    doc: str
    index: int
    start: int
    end: int
    text: str
    title: str = ""
    headings: tuple[str, ...] = ()

    def __hash__(self) -> int:  # the identifier is unique in a corpus; equality still compares everything
        return hash(self.id)

    @property
    def span(self) -> Span:
        """Where the chunk lies in its document."""
        return Span(self.doc, self.start, self.end)


Chunks = tuple[Chunk, ...]


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """What is searched (``keys``) and what is then read (``chunk``)."""

    keys: tuple[str, ...]
    chunk: Chunk


Entries = tuple[IndexEntry, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked. Techniques see nothing else of a data set's record: no id, answer or gold."""

    text: str


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk that was found, and how well, on which scale."""

    chunk: Chunk
    score: float
    scale: Scale


Hits = tuple[Hit, ...]

Queries = Sequence[str]
Rankings = tuple[Hits, ...]
"""One ranked list of hits for each query, in the order of the queries."""

Search = Callable[[Queries], Rankings]
"""The retrieval gene bound to the index: queries to rankings."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A text for the generator, and the spans it was taken from."""

    text: str
    sources: tuple[Span, ...]
    score: float


Passages = tuple[Passage, ...]


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the generator reads: the passages in the order shown, as the blocks of ``text``."""

    text: str
    passages: Passages


@dataclass(frozen=True, slots=True)
class Answer:
    """What is delivered. ``cited`` holds positions in the prompt's passages, 0-based."""

    text: str
    cited: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Example:
    """A question of a data set with its reference answer and its gold evidence."""

    id: str
    question: str
    answer: str
    type: str
    evidence: tuple[Span, ...]
    split: str | None = None


@dataclass(frozen=True, slots=True)
class Dataset:
    """Documents and labelled questions.

    ``digest`` identifies the content: documents and questions, not names, paths or order of files.
    """

    name: str
    title: str
    description: str
    licence: str
    language: str
    documents: tuple[Document, ...]
    examples: tuple[Example, ...]
    digest: str
    merged: tuple[tuple[str, str], ...] = field(default=())
    """Identical documents: (dropped id, kept id)."""
