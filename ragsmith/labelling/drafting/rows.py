"""The rows of drafted questions: ``questions.jsonl`` has those that are kept, ``rejected.jsonl`` those that are not.

What a file has is never changed, but for rows that are added behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ragsmith.datasets.locking import locked
from ragsmith.datasets.questions import MAX_BYTES
from ragsmith.errors import DatasetError
from ragsmith.labelling.drafting.draft import Draft, DraftQuote, RejectedDraft, by_content, by_question
from ragsmith.text.jsonl import json_lines, read_json_lines
from ragsmith.text.writing import write_file


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
