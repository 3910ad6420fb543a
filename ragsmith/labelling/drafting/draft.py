"""A drafted question, the quotations that it rests on, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass

from ragsmith.digest import digest
from ragsmith.text.words import normalise_answer
from ragsmith.types import Span


@dataclass(frozen=True, slots=True)
class DraftQuote:
    """Words of document ``doc``, copied exactly; ``start`` is where they stand, if the method knows it."""

    doc: str
    text: str
    start: int | None = None

    @property
    def span(self) -> Span:
        """Where they stand.

        Raises:
            ValueError: it has not been located, see `ragsmith.labelling.drafting.quotes.located`.
        """
        if self.start is None:
            raise ValueError(f"the quotation {self.text!r} has not been located in {self.doc!r}")
        return Span(self.doc, self.start, self.start + len(self.text))


@dataclass(frozen=True, slots=True)
class Draft:
    """A question with its answer, as ``model`` wrote it about ``passage`` with the prompt of a method.

    ``quotes`` are its evidence: none where the documents do not answer it. ``prompt`` is the digest of the prompt.
    """

    question: str
    answer: str
    quotes: tuple[DraftQuote, ...]
    type: str
    method: str
    passage: Span
    answerable: bool = True
    model: str = ""
    prompt: str = ""

    @property
    def id(self) -> str:
        """The identifier of its row, by content: the same draft has the same one on every machine."""
        return f"draft-{digest('draft', self.question, self.answer, self._quoted)[:12]}"

    @property
    def keys(self) -> tuple[str, str]:
        """What it is known by once it was refused: its question, and what it asks about however it is worded."""
        return by_question(self.question), by_content(self.method, self.question, self.answer, self._quoted)

    @property
    def names(self) -> frozenset[str]:
        """Whatever its row may be known by: its keys, its identifier, and its quotations where there are no answers."""
        return frozenset((*self.keys, self.id, by_content(self.method, self.question, "", self._quoted)))

    @property
    def _quoted(self) -> tuple[str, ...]:
        return tuple(quote.text for quote in self.quotes)


def by_question(question: str) -> str:
    """A key for the words of a question, whatever their case and punctuation."""
    return f"asks {normalise_answer(question)}"


def by_content(method: str, question: str, answer: str, quoted: tuple[str, ...]) -> str:
    """A key for what a draft asks about: for its answer and quotations or, where it has none, for its question."""
    return f"about {digest('content', method, answer, quoted)}" if quoted else by_question(question)


@dataclass(frozen=True, slots=True)
class RejectedDraft:
    """A draft that is not used: the filter that refused it, and why, in a sentence."""

    draft: Draft
    filter: str
    reason: str
