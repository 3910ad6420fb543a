"""What questions are drafted from: documents, their passages, and what is known of their words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TypeVar, cast

from ragsmith.datasets.chunking.chunking import chunk_documents
from ragsmith.labelling.drafting.tables import Table, tables_of
from ragsmith.models.embedded.lexicon import Lexicon
from ragsmith.text.bm25 import BM25
from ragsmith.text.words import STOP_WORDS, terms
from ragsmith.types import Chunk, Document, Span

T = TypeVar("T")

MOST_LINKED = 8
"""Passages that a name may stand in and still link two of them: what stands everywhere links nothing."""

_NAME = re.compile(r"(?<![.!?:] )(?<!^)\b[A-Z][\w-]+(?: (?:of |the |and )?[A-Z][\w-]+)*|\b[A-Z]+-?\d+\w*\b")


def names_in(text: str) -> tuple[str, ...]:
    """The names and labels in a text (``Court of Appeal``, ``E14``), each once, but not what opens a sentence."""
    found = dict.fromkeys(match.group() for match in _NAME.finditer(text))
    return tuple(name for name in found if len(name) > 2 and name.lower() not in STOP_WORDS)


class Material:
    """Documents, cut into passages as a search cuts them by default; indexes of words are built on first use."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self.documents = {document.id: document for document in documents}
        self.passages = chunk_documents(documents)
        self.terms = self.lexicon.terms

    def text(self, span: Span) -> str:
        """The text of a span."""
        return self.documents[span.doc].text[span.start : span.end]

    def passage_at(self, span: Span) -> Chunk | None:
        """The passage that a span begins in; None where it is a heading, which is in no passage."""
        its = self._of_document[span.doc]
        return next((passage for passage in its if passage.start <= span.start < passage.end), None)

    def inside(self, phrase: str) -> str:
        """A phrase that opened a sentence as it stands inside one: small, unless it is a name."""
        first, blank, rest = phrase.partition(" ")
        found = terms(first)
        name = bool(found) and not self.lexicon.surfaces.get(found[0], first.lower()).islower()
        return phrase if name or (not first[1:].islower() and len(first) > 1) else f"{first.lower()}{blank}{rest}"

    def is_about_title(self, doc: str) -> bool:
        """Whether a document is an article on what its title names: it begins with ``TITLE is ...``."""
        document = self.documents[doc]
        begins = document.text.removeprefix(f"# {document.title}").lstrip()
        name = re.sub(r"\s*\(.*\)$", "", document.title)
        return bool(name) and bool(re.match(rf"(?:The )?{re.escape(name)}\b[^.]{{0,60}}? (?:is|was|are|were) ", begins))

    def opens_section(self, passage: Chunk) -> bool:
        """Whether a passage is the first of its section."""
        before = self._of_document[passage.doc][passage.index - 1] if passage.index else None
        return before is None or before.section != passage.section

    def tables(self, doc: str) -> Sequence[Table]:
        """The tables of a document."""
        return self.remembered(f"tables {doc}", lambda: tables_of(self.documents[doc]))

    @cached_property
    def all_tables(self) -> Sequence[Table]:
        """The tables of all documents."""
        return [table for doc in self.documents for table in self.tables(doc)]

    def remembered(self, name: str, build: Callable[[], T]) -> T:
        """What ``build`` makes of these documents, made once; ``name`` has to say everything else it is made from."""
        if name not in self._remembered:
            self._remembered[name] = build()
        return cast(T, self._remembered[name])

    @cached_property
    def _remembered(self) -> dict[str, object]:
        return {}

    @cached_property
    def entities(self) -> Mapping[str, tuple[Chunk, ...]]:
        """Names and labels that stand in passages of two or more documents, but in few passages, and these."""
        found: dict[str, dict[str, Chunk]] = {}
        for passage in self.passages:
            for name in names_in(passage.text):
                found.setdefault(name, {})[passage.id] = passage
        return {
            name: tuple(its.values())
            for name, its in sorted(found.items())
            if len(its) <= MOST_LINKED and len({passage.doc for passage in its.values()}) > 1
        }

    def occurrences(self, text: str) -> int:
        """In how many places of the documents a text stands."""
        return sum(document.text.count(text) for document in self.documents.values())

    def best(self, question: str, n: int) -> list[Chunk]:
        """The ``n`` passages that the words of a question lead to (BM25), best first."""
        positions, _ = self.words.best(question, n)
        return [self.passages[position] for position in positions.tolist()]

    def rank(self, question: str, span: Span, n: int) -> int | None:
        """The place, from 1, of a passage with half of the span among the best ``n``, by words; None beyond."""
        for place, passage in enumerate(self.best(question, n), start=1):
            shared = min(passage.end, span.end) - max(passage.start, span.start)
            if passage.doc == span.doc and 2 * shared >= min(span.end - span.start, passage.end - passage.start):
                return place
        return None

    @cached_property
    def words(self) -> BM25:
        """BM25 over the passages, in their order."""
        return BM25([passage.text for passage in self.passages], languages=self._languages)

    @cached_property
    def lexicon(self) -> Lexicon:
        """Counts of the words of the passages."""
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
