"""Drafted questions, their quotations, and their rows in ``questions.jsonl`` and ``rejected.jsonl``."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ragsmith.datasets.evidence import ANY, entry_places, find_occurrences
from ragsmith.datasets.locking import lock_questions
from ragsmith.datasets.questions import MAX_BYTES
from ragsmith.digest import digest
from ragsmith.errors import DatasetError
from ragsmith.labelling.drafting.material import DraftingCorpus
from ragsmith.labelling.reviewing.decisions import Quote
from ragsmith.text.jsonl import json_lines, read_json_lines
from ragsmith.text.words import normalise_answer
from ragsmith.text.writing import write_file
from ragsmith.types import Chunk, Span


@dataclass(frozen=True, slots=True)
class Draft:
    """Question and answer that ``model`` wrote about ``passage`` with the prompt of a method.

    ``quotes`` are its evidence, empty for an unanswerable question. ``prompt`` is the digest of the prompt.
    """

    question: str
    answer: str
    quotes: tuple[Quote, ...]
    type: str
    method: str
    passage: Span
    answerable: bool = True
    model: str = ""
    prompt: str = ""

    @property
    def id(self) -> str:
        """Identifier of its row, a digest of the content, which is the same on every machine."""
        return f"draft-{digest('draft', self.question, self.answer, self._quotations)[:12]}"

    @property
    def keys(self) -> tuple[str, str]:
        """Keys that identify duplicates of a rejected draft: from its question, and from its answer and quotations."""
        return question_key(self.question), content_key(self.method, self.question, self.answer, self._quotations)

    @property
    def all_keys(self) -> frozenset[str]:
        """All keys of its row: those of `keys`, its identifier, and the key of its content without an answer."""
        return frozenset((*self.keys, self.id, content_key(self.method, self.question, "", self._quotations)))

    @property
    def _quotations(self) -> tuple[str, ...]:
        return tuple(quote.text for quote in self.quotes)


def question_key(question: str) -> str:
    """Return a key of a question that ignores case and punctuation."""
    return f"asks {normalise_answer(question)}"


def content_key(method: str, question: str, answer: str, quotations: tuple[str, ...]) -> str:
    """Return a key of a draft that is made from its answer and quotations, or from its question without quotations."""
    return f"about {digest('content', method, answer, quotations)}" if quotations else question_key(question)


@dataclass(frozen=True, slots=True)
class RejectedDraft:
    """Draft that was rejected by a filter, with the reason as a sentence."""

    draft: Draft
    filter: str
    reason: str


_QUOTED_LINE_BREAK = re.compile(r"\n[^\S\n]*> ?")
"""Line break with the prefix of quoted lines in prompts."""


def locate_quotes(draft: Draft, corpus: DraftingCorpus) -> Draft | str:
    """Return the draft with located quotations, or the reason why a quotation cannot be located.

    A quotation must occur exactly once in the passage of the draft, or else exactly once in its document.
    """
    quotes: list[Quote] = []
    for quote in draft.quotes:
        found = _locate_quote(quote, draft, corpus)
        if isinstance(found, str):
            return found
        copies = corpus.copies.find(found.span, draft.question)
        quotes.append(replace(found, copies=tuple(map(corpus.quote, copies))))
    if draft.answerable and not quotes:
        return "it has an answer but no quotation"
    if not draft.answerable and quotes:
        return "it is marked as unanswerable but quotes the documents"
    if len({quote.span for quote in quotes}) < len(quotes):
        return "it quotes the same words twice"
    return replace(draft, quotes=tuple(quotes))


def _locate_quote(quote: Quote, draft: Draft, corpus: DraftingCorpus) -> Quote | str:
    document = corpus.documents.get(quote.doc)
    if document is None:
        return f"it quotes {quote.doc!r}, which is not a document"
    if not quote.text.strip():
        return "a quotation is blank"
    if quote.start is not None:
        is_exact = document.text.startswith(quote.text, quote.start)
        return quote if is_exact else f"{quote.text!r} is not at offset {quote.start} of {quote.doc!r}"
    starts = find_occurrences(quote.text, document.text)
    if quote.doc == draft.passage.doc:
        last = draft.passage.end - len(quote.text)
        starts = [start for start in starts if draft.passage.start <= start <= last] or starts
    if len(starts) != 1:
        count = f"occurs {len(starts)} times" if starts else "does not occur"
        return f"{quote.text!r} {count} in {quote.doc!r}"
    return replace(quote, start=starts[0])


def locate_in_passage(passage: Chunk, quote: str) -> tuple[int, int] | None:
    """Return the start and end of ``quote`` in the document of ``passage``, or None.

    The passage must contain it exactly once; white space may differ.
    """
    exact = [match.start() for match in re.finditer(re.escape(quote), passage.text)]
    if len(exact) == 1:
        return passage.start + exact[0], passage.start + exact[0] + len(quote)
    parts = _QUOTED_LINE_BREAK.sub("\n", quote).split()
    if exact or not parts:
        return None
    found = list(re.finditer(r"\s+".join(map(re.escape, parts)), passage.text))
    return (passage.start + found[0].start(), passage.start + found[0].end()) if len(found) == 1 else None


def make_quote(passage: Chunk, quote: str) -> Quote:
    """Return the located quotation in the wording of the document.

    If it does not occur exactly once in ``passage``, return it as the model wrote it, without a position.
    """
    place = locate_in_passage(passage, quote)
    if place is None:
        return Quote(passage.doc, quote)
    start, end = place
    return Quote(passage.doc, passage.text[start - passage.start : end - passage.start], start)


@dataclass(frozen=True, slots=True)
class QuestionRows:
    """Contents of a JSON Lines file of questions: its text, and its rows in order."""

    text: str
    records: tuple[Mapping[str, object], ...]

    @property
    def questions(self) -> list[str]:
        """Questions of the rows."""
        return [str(record.get("question", "")) for record in self.records]

    @property
    def origins(self) -> list[tuple[str, str]]:
        """Method and document of each drafted row."""
        drafted = [origin for record in self.records if isinstance(origin := record.get("origin"), dict)]
        passages = [passage if isinstance(passage := origin.get("passage"), dict) else {} for origin in drafted]
        return [(str(o.get("method", "")), str(p.get("doc", ""))) for o, p in zip(drafted, passages, strict=True)]


def read_rows(path: Path) -> QuestionRows:
    """Read a JSON Lines file of questions; a missing file has no rows.

    Raises:
        DatasetError: some lines are not JSON objects.
    """
    found = read_json_lines(path, MAX_BYTES)
    if found.mistakes:
        raise DatasetError(list(found.mistakes.values()))
    return QuestionRows(found.text, tuple(found.records.values()))


def add_rows(
    path: Path, rows: Sequence[Mapping[str, object]], max_drafts: int | None = None
) -> Sequence[Mapping[str, object]]:
    """Append ``rows`` to the file by rewriting it; return the rows that were added.

    As other processes may have added rows, those whose keys are already in the file are left out, and the file gets at
    most ``max_drafts`` drafted rows. If no rows are added, the file is not written.
    """
    if not rows:
        return []
    with lock_questions(path.parent):  # a review may be running
        before = read_rows(path)
        keys = collect_keys(before.records)
        new = [row for row in rows if keys.isdisjoint(_iter_keys(row))]
        if max_drafts is not None:
            new = new[: max(max_drafts - len(before.origins), 0)]
        if new:
            text = before.text if not before.text or before.text.endswith("\n") else f"{before.text}\n"
            write_file(text + json_lines(new), path)
    return new


def make_row(draft: Draft, others: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """Return the row of a draft for a file with the rows ``others``.

    It has an answer and a split only if the other rows have them, too.
    """
    row: dict[str, object] = {"id": draft.id, "question": draft.question}
    answered = [other for other in others if other.get("answerable", True)]
    if draft.answerable and (not answered or "answer" in answered[0]):
        row["answer"] = draft.answer
    row["type"] = draft.type
    row["evidence"] = [_evidence_entry(quote) for quote in draft.quotes]
    if not draft.answerable:
        row["answerable"] = False
    if others and "split" in others[0]:  # only human-written questions are in the test split
        row["split"] = "search"
    origin: dict[str, object] = {"by": "drafted", "method": draft.method}
    origin |= {key: value for key, value in (("model", draft.model), ("prompt", draft.prompt)) if value}
    passage = {"doc": draft.passage.doc, "start": draft.passage.start, "end": draft.passage.end}
    return {**row, "origin": {**origin, "passage": passage}}


def make_rejected_row(rejected: RejectedDraft) -> dict[str, object]:
    """Return the row of a rejected draft."""
    return {**make_row(rejected.draft, ()), "filter": rejected.filter, "reason": rejected.reason}


def _evidence_entry(quote: Quote) -> dict[str, object]:
    if quote.copies:
        return {ANY: [_evidence_entry(place) for place in (replace(quote, copies=()), *quote.copies)]}
    if quote.start is None:  # the draft was rejected because the quotation was not found
        return {"doc": quote.doc, "text": quote.text}
    return {"doc": quote.doc, "start": quote.start, "end": quote.span.end, "text": quote.text}


def collect_keys(records: Iterable[Mapping[str, object]]) -> set[str]:
    """Return the keys of rows, by which duplicate drafts are detected."""
    return {key for record in records for key in _iter_keys(record)}


def _iter_keys(record: Mapping[str, object]) -> Iterable[str]:
    yield str(record.get("id", ""))
    yield question_key(str(record.get("question", "")))
    origin, evidence = record.get("origin"), record.get("evidence")
    if isinstance(origin, dict):
        entries = evidence if isinstance(evidence, list) else []
        first = [place for entry in entries for place in entry_places(entry)[:1]]  # copies are of the same text
        quotations = [str(place.get("text", "")) for place in first if isinstance(place, dict)]
        question, answer = str(record.get("question", "")), str(record.get("answer", ""))
        yield content_key(str(origin.get("method", "")), question, answer, tuple(quotations))
