"""The values that flow through a pipeline: frozen, slotted, compared by content.

Offsets are code points in the text of a document as it was loaded; every interval is half open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from operator import eq, ge, gt, le, lt
from typing import Any, overload

from ragsmith.digest import not_fingerprinted
from ragsmith.display import short_repr


class Scale(StrEnum):
    """The scale of a score. Scores of different scales are never sorted or cut together."""

    BM25 = "bm25"
    COSINE = "cosine"
    RRF = "rrf"
    BORDA = "borda"
    MAXIMUM = "maximum"
    CONVEX = "convex"
    GRAPH = "graph"
    CROSS_ENCODER = "cross_encoder"
    LISTWISE = "listwise"
    SURVIVAL = "survival"
    LEARNED = "learned"


class Modality(StrEnum):
    """The kind of text of a document or chunk."""

    PROSE = "prose"
    CODE = "code"
    TABLE = "table"


@dataclass(frozen=True, slots=True)
class Span:
    """The characters ``[start, end)`` of document ``doc``."""

    doc: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class RepeatedSpan(Span):
    """Gold that stands in several places: its own and the ``alternatives``, any of which counts as all of it."""

    alternatives: tuple[Span, ...] = ()


def places_of(span: Span) -> tuple[Span, ...]:
    """Return the places of a gold span: itself, and its alternatives if it is repeated."""
    if isinstance(span, RepeatedSpan):
        return (Span(span.doc, span.start, span.end), *span.alternatives)
    return (span,)


_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {"in": eq, "<": lt, "<=": le, ">": gt, ">=": ge}

FieldValue = str | float | date | tuple[str, ...]
"""The value of a field of a document: a text, a number, a date, or a list of texts."""


@dataclass(frozen=True, slots=True)
class TitledSpan:
    """The characters ``[start, end)`` of the document ``doc``, called ``title``."""

    doc: str
    title: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Document:
    """A text from which questions are answered, as it was loaded.

    ``id`` is the file's stem for Markdown and plain text, and the whole file name for other types. ``pages`` has the
    offset of each page of a printed document, and is empty for others. ``language`` is a code of ISO 639-1. ``fields``
    are what a `Filter` selects documents by; a field has one type in all documents.
    """

    id: str
    title: str
    text: str
    modality: Modality = Modality.PROSE
    pages: tuple[int, ...] = field(default=(), compare=False, repr=False)
    language: str = "en"
    fields: Mapping[str, FieldValue] = field(default_factory=dict, compare=False, repr=False)

    @not_fingerprinted
    def __repr__(self) -> str:
        return short_repr(self)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A contiguous slice of a document, ``document.text[start:end] == text``; or a summary of such slices.

    ``section`` numbers the sections of a document from 0. A summary has ``level`` 1 or more and ``sources``, the spans
    of the chunks it summarises; it has no span of its own (``start == end == 0``), and ``doc`` is "" if its sources are
    in several documents.
    """

    id: str
    doc: str
    index: int
    start: int
    end: int
    text: str
    title: str = ""
    headings: tuple[str, ...] = ()
    section: int = 0
    modality: Modality = Modality.PROSE
    level: int = 0
    sources: tuple[Span, ...] = ()
    language: str = "en"

    def __hash__(self) -> int:  # the identifier is unique in a corpus; equality still compares everything
        return hash(self.id)

    @property
    def path(self) -> str:
        """The title and the headings above the chunk, without repetitions, as ``title > heading``."""
        return " > ".join(dict.fromkeys(part for part in (self.title, *self.headings) if part))

    @property
    def span(self) -> Span:
        """The span of the chunk in its document; empty for a summary."""
        return Span(self.doc, self.start, self.end)

    @property
    def spans(self) -> tuple[Span, ...]:
        """The spans of its text: its own, or the sources of a summary."""
        return self.sources if self.level else (self.span,)


Chunks = tuple[Chunk, ...]


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """An entry of the index: the texts that are searched (``keys``), and the ``chunk`` that is returned."""

    keys: tuple[str, ...]
    chunk: Chunk


Entries = tuple[IndexEntry, ...]


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on the ``field`` of a document: it is one of ``values`` (``in``), or before or after a single one.

    ``operator`` is ``in``, ``<``, ``<=``, ``>`` or ``>=``. A list fulfils the condition if one of its texts does.
    """

    field: str
    operator: str
    values: tuple[str, ...] | tuple[float, ...] | tuple[date, ...]

    def admits(self, value: FieldValue | None) -> bool:
        """Return whether ``value``, of the type of ``values``, fulfils the condition; None, for no value, does not."""
        each = value if isinstance(value, tuple) else () if value is None else (value,)
        return any(_COMPARISONS[self.operator](one, wanted) for one in each for wanted in self.values)


@dataclass(frozen=True, slots=True)
class Filter:
    """A conjunction of distinct conditions on the fields of a document, in ascending order.

    ``ragsmith.text.filters`` parses and formats filters, and explains their language.
    """

    conditions: tuple[Condition, ...]

    def __and__(self, other: Filter | None) -> Filter:
        """Return the filter that admits what both admit; None admits everything."""
        both = {*self.conditions, *(other.conditions if other else ())}
        return Filter(tuple(sorted(both, key=lambda each: (each.field, each.operator, each.values))))

    def admits(self, fields: Mapping[str, FieldValue]) -> bool:
        """Return whether a document with these ``fields`` fulfils all conditions; one without a field does not."""
        return all(condition.admits(fields.get(condition.field)) for condition in self.conditions)


@dataclass(frozen=True, slots=True)
class Question:
    """The text of a question, the only part of an example that techniques get: no id, answer or gold.

    With a ``filter``, it is answered from the documents that the filter admits, as if there were no others.
    """

    text: str
    filter: Filter | None = None


Survival = tuple[tuple[str, int], ...]
"""Scope (document, section, chunk) and the rank, from 1, of a chunk in it; scopes without the chunk are left out."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A retrieved chunk, its score and the scale of the score; ``survival`` is set by NEST only."""

    chunk: Chunk
    score: float
    scale: Scale
    survival: Survival = ()

    def rescored(self, score: float, scale: Scale) -> Hit:
        """Return a copy of the hit with another score on another scale."""
        return Hit(self.chunk, score, scale, self.survival)


Hits = Sequence[Hit]
"""Hits, best first if ranked: a tuple of them, or `LazyHits`."""


class LazyHits(Sequence[Hit]):
    """A ranking as columns: ``positions`` among ``chunks``, best first, and ``scores`` on one scale.

    Hits are created lazily, to save memory. A ranking is equal to the tuple of its hits. ``chunks`` are sorted by id,
    and are shared by many rankings; positions are unique, sorted by descending score, ties by ascending position.
    """

    __slots__ = ("_hits", "_ids", "_scaled", "chunks", "positions", "scale", "scores")

    def __init__(self, chunks: Chunks, positions: tuple[int, ...], scores: tuple[float, ...], scale: Scale) -> None:
        self.chunks = chunks
        self.positions = positions
        self.scores = scores
        self.scale = scale
        self._hits: tuple[Hit, ...] | None = None
        self._ids: tuple[str, ...] | None = None
        self._scaled: tuple[float, ...] | None = None

    @property
    def hits(self) -> tuple[Hit, ...]:
        """The hits as a tuple."""
        if self._hits is None:
            chunks, scale = self.chunks, self.scale
            pairs = zip(self.positions, self.scores, strict=True)
            self._hits = tuple([Hit(chunks[position], score, scale) for position, score in pairs])
        return self._hits

    @property
    def found(self) -> tuple[Chunk, ...]:
        """The chunks, best first."""
        chunks = self.chunks
        return tuple([chunks[position] for position in self.positions])

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the chunks, best first."""
        if self._ids is None:
            chunks = self.chunks
            self._ids = tuple([chunks[position].id for position in self.positions])
        return self._ids

    def scaled(self, scale: Callable[[tuple[float, ...]], tuple[float, ...]]) -> tuple[float, ...]:
        """Return the scores transformed by ``scale``; cached, so that every call must pass the same function."""
        if self._scaled is None:
            self._scaled = scale(self.scores)
        return self._scaled

    def __len__(self) -> int:
        return len(self.positions)

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    @overload
    def __getitem__(self, at: int) -> Hit: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Hit]: ...

    def __getitem__(self, at: int | slice) -> Hit | Sequence[Hit]:
        if not isinstance(at, slice):
            return self.hits[at]
        start, stop, step = at.indices(len(self.positions))
        if step != 1:
            return self.hits[at]
        if start == 0 and stop == len(self.positions):
            return self
        return LazyHits(self.chunks, self.positions[start:stop], self.scores[start:stop], self.scale)

    def __add__(self, other: Sequence[Hit]) -> tuple[Hit, ...]:
        return (*self.hits, *other)

    def __radd__(self, other: Sequence[Hit]) -> tuple[Hit, ...]:
        return (*other, *self.hits)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, LazyHits):
            if self.chunks is not other.chunks:
                return self.hits == other.hits
            mine, others = (self.positions, self.scores, self.scale), (other.positions, other.scores, other.scale)
            return mine == others or not (self.positions or other.positions)
        return self.hits == other if isinstance(other, tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.hits)

    def __repr__(self) -> str:
        return repr(self.hits)

    def __reduce__(self) -> tuple[type[tuple[Hit, ...]], tuple[list[Hit]]]:
        return tuple, (list(self.hits),)  # without the chunks that are not hits


def get_ids(hits: Hits) -> tuple[str, ...]:
    """Return the ids of the chunks of ``hits``, in their order."""
    return hits.ids if isinstance(hits, LazyHits) else tuple([hit.chunk.id for hit in hits])


def get_chunks(hits: Hits) -> tuple[Chunk, ...]:
    """Return the chunks of ``hits``, in their order."""
    return hits.found if isinstance(hits, LazyHits) else tuple([hit.chunk for hit in hits])


Queries = Sequence[str]
Rankings = tuple[Hits, ...]
"""One ranked list of hits for each query, in the order of the queries."""

Search = Callable[[Queries], Rankings]
"""The retrieval technique of a pipeline, bound to its index: maps queries to rankings."""


@dataclass(frozen=True, slots=True)
class Gold:
    """The ids of the chunks that are relevant to a question: for fitting and for analysis, never for a pipeline."""

    relevant: frozenset[str]


@dataclass(frozen=True)
class Fitted:
    """The parameters that a technique's fit step learned on calibration questions: plain JSON values by name."""

    numbers: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Passage:
    """A text for the generator, and the spans it was taken from."""

    text: str
    sources: tuple[Span, ...]
    score: float


Passages = tuple[Passage, ...]


@dataclass(frozen=True, slots=True)
class Prompt:
    """The prompt of the generator: its passages in order, which are the blocks of ``text``."""

    text: str
    passages: Passages


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer. ``cited`` has the 0-based positions of passages of the prompt."""

    text: str
    cited: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a question: ``by`` is ``drafted`` for one that a model wrote; unknown fields are blank.

    ``method`` and ``model`` name how it was drafted, ``prompt`` is the digest of the prompt, ``passage`` the source.
    ``reviewer`` is the person who reviewed it; ``reviewed`` is then ``accepted`` or ``mended``.
    """

    by: str
    method: str = ""
    model: str = ""
    prompt: str = ""
    passage: Span | None = None
    reviewed: str = ""
    reviewer: str = ""


DRAFTED = "drafted"
UNSPECIFIED = "unspecified"
"""The type of a question without one."""


@dataclass(frozen=True, slots=True)
class Example:
    """A question of a data set with its reference answer (may be blank) and its gold evidence, if any.

    If it is not ``answerable``, the documents do not answer it, and it has no evidence. Without ``origin`` it was
    written by a person. With a ``filter``, only the documents that it admits may answer it.
    """

    id: str
    question: str
    answer: str
    type: str
    evidence: tuple[Span, ...]
    split: str | None = None
    answerable: bool = True
    origin: Origin | None = None
    filter: Filter | None = None

    @property
    def as_question(self) -> Question:
        """The part of the example that a pipeline gets."""
        return Question(self.question, self.filter)

    @property
    def drafted(self) -> bool:
        """Whether a model wrote the question, even if a person reviewed it."""
        return self.origin is not None and self.origin.by == DRAFTED


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
    duplicates: tuple[Document, ...] = field(default=(), compare=False)
    """The documents that were dropped as identical to another, for callers that need every identifier."""
    source: str = field(default="", compare=False)
    """The folder of the data set, or the name of a bundled one; "" for one created in Python."""

    @not_fingerprinted
    def __repr__(self) -> str:
        return short_repr(self)
