"""Drafted questions, the quotations that they rest on, and their rows in ``questions.jsonl`` and ``rejected.jsonl``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ragsmith.datasets.evidence import occurrences
from ragsmith.datasets.locking import locked
from ragsmith.datasets.questions import MAX_BYTES
from ragsmith.digest import digest
from ragsmith.errors import DatasetError
from ragsmith.labelling.drafting.material import DraftingCorpus
from ragsmith.text.jsonl import json_lines, read_json_lines
from ragsmith.text.words import normalise_answer
from ragsmith.text.writing import write_file
from ragsmith.types import Chunk, Span


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
            ValueError: it has not been located, see `ragsmith.labelling.drafting.draft.located`.
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


_SHOWN_BREAK = re.compile(r"\n[^\S\n]*> ?")
"""A line break as prompts show it."""


def located(draft: Draft, material: DraftingCorpus) -> Draft | str:
    """Return the draft with the place of every quotation, or why there is none.

    A quotation that stands in the draft's own passage once is that one; otherwise it must stand in its document once.
    """
    places: list[DraftQuote] = []
    for quote in draft.quotes:
        found = _place(quote, draft, material)
        if isinstance(found, str):
            return found
        places.append(found)
    if draft.answerable and not places:
        return "it has an answer and quotes nothing"
    if not draft.answerable and places:
        return "it has no answer in the documents and quotes them"
    if len({quote.span for quote in places}) < len(places):
        return "it quotes the same words twice"
    return replace(draft, quotes=tuple(places))


def _place(quote: DraftQuote, draft: Draft, material: DraftingCorpus) -> DraftQuote | str:
    document = material.documents.get(quote.doc)
    if document is None:
        return f"it quotes {quote.doc!r}, which is no document"
    if not quote.text.strip():
        return "a quotation is blank"
    if quote.start is not None:
        stands = document.text.startswith(quote.text, quote.start)
        return quote if stands else f"{quote.text!r} does not stand at {quote.start} of {quote.doc!r}"
    starts = occurrences(quote.text, document.text)
    if quote.doc == draft.passage.doc:
        last = draft.passage.end - len(quote.text)
        starts = [start for start in starts if draft.passage.start <= start <= last] or starts
    if len(starts) != 1:
        return f"{quote.text!r} stands {'nowhere' if not starts else f'{len(starts)} times'} in {quote.doc!r}"
    return replace(quote, start=starts[0])


def place_in(passage: Chunk, said: str) -> tuple[int, int] | None:
    """Where, in the document of ``passage``, the words stand there exactly, but for white space; None unless once."""
    exact = [match.start() for match in re.finditer(re.escape(said), passage.text)]
    if len(exact) == 1:
        return passage.start + exact[0], passage.start + exact[0] + len(said)
    parts = _SHOWN_BREAK.sub("\n", said).split()
    if exact or not parts:
        return None
    found = list(re.finditer(r"\s+".join(map(re.escape, parts)), passage.text))
    if len(found) != 1:
        return None
    return passage.start + found[0].start(), passage.start + found[0].end()


def quote_of(passage: Chunk, said: str) -> DraftQuote:
    """The words as the document has them, with their place; as they were said where that is not clear."""
    place = place_in(passage, said)
    if place is None:
        return DraftQuote(passage.doc, said)
    start, end = place
    return DraftQuote(passage.doc, passage.text[start - passage.start : end - passage.start], start)


@dataclass(frozen=True, slots=True)
class QuestionRows:
    """A file of rows as it stands: its text, and its objects in order."""

    text: str
    records: tuple[Mapping[str, object], ...]

    @property
    def questions(self) -> list[str]:
        """What they ask."""
        return [str(record.get("question", "")) for record in self.records]

    @property
    def origins(self) -> list[tuple[str, str]]:
        """The method and the document of each row that was drafted."""
        drafted = [origin for record in self.records if isinstance(origin := record.get("origin"), dict)]
        passages = [passage if isinstance(passage := origin.get("passage"), dict) else {} for origin in drafted]
        return [(str(o.get("method", "")), str(p.get("doc", ""))) for o, p in zip(drafted, passages, strict=True)]

    @property
    def keys(self) -> set[str]:
        """By what a draft of the same question, or about the same, is known."""
        return keys_of(self.records)


def read_rows(path: Path) -> QuestionRows:
    """Read a file of rows; one that is not there has none.

    Raises:
        DatasetError: lines are not JSON objects.
    """
    found = read_json_lines(path, MAX_BYTES)
    if found.mistakes:
        raise DatasetError(list(found.mistakes.values()))
    return QuestionRows(found.text, tuple(found.records.values()))


def add_rows(
    path: Path, rows: Sequence[Mapping[str, object]], drafts: int | None = None
) -> Sequence[Mapping[str, object]]:
    """Write the file again, whole, with ``rows`` behind what it has by now; return those that were added.

    Others may have drafted meanwhile: rows that the file has by now, or that ask what one of its rows asks, are left
    out, and no more are added than make ``drafts`` drafted ones. Nothing is written where there are none.
    """
    if not rows:
        return []
    with locked(path.parent):  # somebody may be reviewing
        before = read_rows(path)
        keys = before.keys
        new = [row for row in rows if keys.isdisjoint(_keys(row))]
        if drafts is not None:
            new = new[: max(drafts - len(before.origins), 0)]
        if new:
            text = before.text if not before.text or before.text.endswith("\n") else f"{before.text}\n"
            write_file(text + json_lines(new), path)
    return new


def row_of(draft: Draft, others: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """The row of a draft, for a file with rows ``others``: answers and splits are on all of them or on none."""
    row: dict[str, object] = {"id": draft.id, "question": draft.question}
    answered = [other for other in others if other.get("answerable", True)]
    if draft.answerable and (not answered or "answer" in answered[0]):
        row["answer"] = draft.answer
    row["type"] = draft.type
    row["evidence"] = [_evidence(quote) for quote in draft.quotes]
    if not draft.answerable:
        row["answerable"] = False
    if others and "split" in others[0]:  # what people wrote is the test
        row["split"] = "search"
    origin: dict[str, object] = {"by": "drafted", "method": draft.method}
    origin |= {key: value for key, value in (("model", draft.model), ("prompt", draft.prompt)) if value}
    passage = {"doc": draft.passage.doc, "start": draft.passage.start, "end": draft.passage.end}
    return {**row, "origin": {**origin, "passage": passage}}


def rejected_row(refused: RejectedDraft) -> dict[str, object]:
    """The row of a draft that a filter refused."""
    return {**row_of(refused.draft, ()), "filter": refused.filter, "reason": refused.reason}


def _evidence(quote: DraftQuote) -> dict[str, object]:
    if quote.start is None:  # of a draft that was refused because nobody finds them
        return {"doc": quote.doc, "text": quote.text}
    return {"doc": quote.doc, "start": quote.start, "end": quote.span.end, "text": quote.text}


def keys_of(records: Iterable[Mapping[str, object]]) -> set[str]:
    """By what drafts of the same questions, or about the same, are known."""
    return {key for record in records for key in _keys(record)}


def _keys(record: Mapping[str, object]) -> Iterable[str]:
    yield str(record.get("id", ""))
    yield by_question(str(record.get("question", "")))
    origin, evidence = record.get("origin"), record.get("evidence")
    if isinstance(origin, dict):
        entries = evidence if isinstance(evidence, list) else []
        quoted = [str(entry.get("text", "")) for entry in entries if isinstance(entry, dict)]
        question, answer = str(record.get("question", "")), str(record.get("answer", ""))
        yield by_content(str(origin.get("method", "")), question, answer, tuple(quoted))
