"""Corpus for drafting: documents, their passages in a balanced order, and indexes of their words."""

import math
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise, zip_longest

from ragsmith.datasets.anchoring.copies import CopyFinder
from ragsmith.datasets.chunking.chunking import chunk_documents
from ragsmith.datasets.statements import StatementIndex
from ragsmith.grouping import group_values
from ragsmith.labelling.reviewing.decisions import Quote
from ragsmith.models.embedded.lexicon import Lexicon
from ragsmith.text.bm25 import BM25
from ragsmith.text.markdown import BlockType, parse_blocks
from ragsmith.text.words import STOP_WORDS
from ragsmith.types import Chunk, Document, Span

MAX_LINKED = 8
"""Maximum number of passages with a name that links passages; more frequent names are not distinctive."""

_NAME = re.compile(r"(?<![.!?:] )(?<!^)\b[A-Z][\w-]+(?: (?:of |the |and )?[A-Z][\w-]+)*|\b[A-Z]+-?\d+\w*\b")


def find_names(text: str) -> tuple[str, ...]:
    """Return the distinct names and labels in a text (``Court of Appeal``, ``E14``), except at sentence starts."""
    found = dict.fromkeys(match.group() for match in _NAME.finditer(text))
    return tuple(name for name in found if len(name) > 2 and name.lower() not in STOP_WORDS)


class DraftingCorpus:
    """Documents, chunked with the default options of a search; indexes are built on first use."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self.documents = {document.id: document for document in documents}
        self.passages = chunk_documents(documents)
        self.terms = self.lexicon.terms
        self._tables: dict[str, list[tuple[int, int]]] = {}

    def passage_at(self, span: Span) -> Chunk | None:
        """Return the passage in which a span begins; None for a heading, which is in no passage."""
        passages = self._of_document[span.doc]
        return next((passage for passage in passages if passage.start <= span.start < passage.end), None)

    def has_table(self, passage: Chunk) -> bool:
        """Whether a passage overlaps a Markdown table."""
        if passage.doc not in self._tables:
            found = parse_blocks(self.documents[passage.doc].text)
            self._tables[passage.doc] = [(one.start, one.end) for one in found if one.kind is BlockType.TABLE]
        return any(start < passage.end and passage.start < end for start, end in self._tables[passage.doc])

    @cached_property
    def entities(self) -> Mapping[str, tuple[Chunk, ...]]:
        """Names and labels that occur in several documents but few passages, with these passages."""
        found: dict[str, dict[str, Chunk]] = {}
        for passage in self.passages:
            for name in find_names(passage.text):
                found.setdefault(name, {})[passage.id] = passage
        return {
            name: tuple(its.values())
            for name, its in sorted(found.items())
            if len(its) <= MAX_LINKED and len({passage.doc for passage in its.values()}) > 1
        }

    @cached_property
    def copies(self) -> CopyFinder:
        """The finder of copies of quotations."""
        documents = [*self.documents.values()]
        return CopyFinder(documents, StatementIndex(documents))

    def quote(self, span: Span) -> Quote:
        """Return the quotation of the text of ``span``."""
        return Quote(span.doc, self.documents[span.doc].text[span.start : span.end], span.start)

    def occurrences(self, text: str) -> int:
        """Return the number of occurrences of a text in the documents."""
        return sum(document.text.count(text) for document in self.documents.values())

    def best(self, question: str, n: int) -> list[Chunk]:
        """Return the ``n`` best passages for a question by BM25, best first."""
        positions, _ = self.words.best(question, n)
        return [self.passages[position] for position in positions.tolist()]

    def rank(self, question: str, span: Span, n: int) -> int | None:
        """Return the BM25 rank, from 1 to ``n``, of the first passage that overlaps the span by half, or None."""
        for place, passage in enumerate(self.best(question, n), start=1):
            shared = min(passage.end, span.end) - max(passage.start, span.start)
            if passage.doc == span.doc and 2 * shared >= min(span.end - span.start, passage.end - passage.start):
                return place
        return None

    @cached_property
    def words(self) -> BM25:
        """BM25 index of the passages, in their order."""
        return self.lexicon.bm25

    @cached_property
    def lexicon(self) -> Lexicon:
        """Word counts of the passages."""
        return Lexicon([passage.text for passage in self.passages], self._languages)

    @property
    def _languages(self) -> list[str]:
        return [passage.language for passage in self.passages]

    @cached_property
    def _of_document(self) -> dict[str, list[Chunk]]:
        found: dict[str, list[Chunk]] = {id_: [] for id_ in self.documents}
        for passage in self.passages:
            found[passage.doc].append(passage)
        return found


N_PARTS = 3
"""Number of parts of a document, by position, whose passages alternate."""

MIN_CHARACTERS = 80
"""Minimum length of a passage in characters; shorter ones rarely have a sentence."""


def interleave(passages: Sequence[Chunk], seed: int) -> Iterator[Chunk]:
    """Yield every passage once, alternating between documents, and between the beginning, middle and end of each.

    Any number of passages from the front is therefore balanced. ``seed`` determines the order of documents, of parts,
    and within parts.
    """
    draw = random.Random(seed)
    of_document = group_values((passage.doc, passage) for passage in passages if len(passage.text) >= MIN_CHARACTERS)
    documents = sorted(of_document)
    draw.shuffle(documents)
    queues = []
    for doc in documents:
        its = of_document[doc]
        cuts = [math.ceil(part * len(its) / N_PARTS) for part in range(N_PARTS + 1)]
        parts = [its[start:end] for start, end in pairwise(cuts)]
        for part in parts:
            draw.shuffle(part)
        draw.shuffle(parts)
        queues.append(_alternate(parts))
    yield from _alternate(queues)


def _alternate(queues: Iterable[Iterable[Chunk]]) -> Iterator[Chunk]:
    """Yield the first of each queue, then the second of each, and so on."""
    for turn in zip_longest(*queues):
        yield from (passage for passage in turn if passage is not None)
