"""Decisions of reviewers about drafted questions, and their application to rows, without input or output."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ragsmith.datasets.evidence import EvidenceChecker, find_occurrences
from ragsmith.digest import digest
from ragsmith.errors import UsageError
from ragsmith.text.files import shorten
from ragsmith.text.jsonl import text_problems
from ragsmith.text.suggest import did_you_mean
from ragsmith.types import DRAFTED, Document, Span

Row = Mapping[str, object]
"""Row of ``questions.jsonl`` or ``rejected.jsonl``."""

NO_REASON = "a reviewer rejected it"
"""Reason of a rejection without a given reason."""

REASONS = (
    "not clear what is asked",
    "the answer is wrong",
    "the quote does not show the answer",
    "nobody would ask this",
    "others ask the same",
)
"""Predefined reasons of rejection, for the keys 1 to 5."""

REVIEW = "review"
"""Value of the key ``filter`` in ``rejected.jsonl`` for drafts that a reviewer rejected."""


class DecisionState(StrEnum):
    """State of a draft in a review."""

    PENDING = "pending"
    ACCEPTED = "accepted"
    MENDED = "mended"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class Quote:
    """Quotation of document ``doc``; ``start`` is its position, or None if it is not located.

    ``copies`` are quotations of the same statement in other places.
    """

    doc: str
    text: str
    start: int | None = None
    copies: tuple[Quote, ...] = ()

    @property
    def span(self) -> Span:
        """Span of the quotation.

        Raises:
            ValueError: the quotation is not located.
        """
        if self.start is None:
            raise ValueError(f"the quotation {self.text!r} has not been located in {self.doc!r}")
        return Span(self.doc, self.start, self.start + len(self.text))


@dataclass(frozen=True, slots=True)
class Accept:
    """Decision that a draft is correct without changes."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Decision that a draft is correct after changes; None leaves a part unchanged.

    ``evidence`` is the complete new evidence: an integer keeps the entry at that index of the row's evidence.
    """

    question: str | None = None
    answer: str | None = None
    evidence: tuple[int | Quote, ...] | None = None


@dataclass(frozen=True, slots=True)
class Reject:
    """Decision that a draft is wrong or of no use."""

    reason: str = NO_REASON


Decision = Accept | Edit | Reject


class UneditableDraft(UsageError):
    """An edit of a draft is invalid; ``problems`` are its errors, each a sentence."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


def is_drafted(row: Row) -> bool:
    """Whether a program drafted the question."""
    return origin_of(row).get("by") == DRAFTED


def origin_of(row: Row) -> Mapping[str, object]:
    """Return the origin of the question."""
    origin = row.get("origin")
    return origin if isinstance(origin, Mapping) else {}


def state_of(row: Row) -> DecisionState:
    """Return the state of a draft in ``questions.jsonl``."""
    reviewed = origin_of(row).get("reviewed")
    return (
        DecisionState(str(reviewed))
        if reviewed in (DecisionState.ACCEPTED, DecisionState.MENDED)
        else DecisionState.PENDING
    )


def evidence_of(row: Row) -> tuple[Mapping[str, object], ...]:
    """Return the entries of the evidence of a row."""
    evidence = row.get("evidence")
    return tuple(entry for entry in evidence if isinstance(entry, Mapping)) if isinstance(evidence, list) else ()


def state_digest(row: Row, state: DecisionState) -> str:
    """Return a short digest of a row and its state, by which decisions about an outdated row are detected."""
    return digest("seen", state.value, row)[:16]


def as_drafted(row: Row) -> Row:
    """Return the row without the keys that a review adds; edits are kept."""
    origin = {key: value for key, value in origin_of(row).items() if key not in ("reviewed", "reviewer")}
    kept = {key: value for key, value in row.items() if key not in ("filter", "reason", "reviewer")}
    return {**kept, "origin": origin}


def apply_decision(
    row: Row, decision: Decision, reviewer: str, checker: EvidenceChecker, *, answered: bool = True
) -> Row:
    """Return the row after ``decision``; an edit without changes accepts the draft.

    ``row`` is the drafted row, or that after an earlier decision. ``answered`` is whether the questions of the data set
    have answers.

    Raises:
        UneditableDraft: the edited row is invalid; all errors are listed.
    """
    plain = as_drafted(row)
    match decision:
        case Accept():
            return _mark_reviewed(
                plain, state_of(row) if state_of(row) is DecisionState.MENDED else DecisionState.ACCEPTED, reviewer
            )
        case Edit():
            edited = _apply_edit(plain, decision, checker, answered=answered)
            if edited == plain:
                return apply_decision(row, Accept(), reviewer, checker)
            return _mark_reviewed(edited, DecisionState.MENDED, reviewer)
        case Reject():
            reason = " ".join(decision.reason.split()) or NO_REASON
            return {**plain, "filter": REVIEW, "reason": reason, "reviewer": reviewer}


def locate_quote(quote: Quote, document: Document) -> Span | str:
    """Return the span of a quote in its document, or the reason why it cannot be located.

    A quote with a ``start`` must occur at that position, others exactly once. White space may differ, as line breaks
    change when a file is edited.
    """
    if quote.start is not None:
        end = quote.start + len(quote.text)
        if quote.start >= 0 and quote.text and document.text[quote.start : end] == quote.text:
            return Span(document.id, quote.start, end)
        return f"{shorten(quote.text)} is not at character {quote.start} of document {document.id!r}"
    wanted = quote.text.strip()
    if not wanted:
        return f"a quote from document {document.id!r} is blank; write it or remove it"
    found = [(start, start + len(wanted)) for start in find_occurrences(wanted, document.text)]
    if not found:
        loose = re.compile(r"\s+".join(re.escape(word) for word in wanted.split()))
        found = [match.span() for match in loose.finditer(document.text)]
    match found:
        case [(start, end)]:
            return Span(document.id, start, end)
        case []:
            return f"{shorten(wanted)} does not occur in document {document.id!r}; copy the words exactly"
        case _:
            places = ", ".join(str(start) for start, _ in found[:4]) + (", ..." if len(found) > 4 else "")
            return (
                f"{shorten(wanted)} occurs {len(found)} times in document {document.id!r} (at characters {places}); "
                "quote more of the text around it"
            )


def _mark_reviewed(row: Row, state: DecisionState, reviewer: str) -> Row:
    return {**row, "origin": {**origin_of(row), "reviewed": state.value, "reviewer": reviewer}}


def _apply_edit(row: Row, edit: Edit, checker: EvidenceChecker, *, answered: bool) -> Row:
    """Return ``row`` with the changes of an edit."""
    changed = dict(row)
    problems: list[str] = []
    if edit.question is not None:
        changed["question"] = edit.question.strip()
        problems += text_problems(changed, ("question",))
    if edit.evidence is not None:
        entries, wrong = _edit_evidence(row, edit.evidence, checker)
        changed["evidence"] = entries
        problems += wrong
    answerable = bool(evidence_of(row) if edit.evidence is None else edit.evidence)
    if answerable:
        changed.pop("answerable", None)
    elif row.get("answerable", True):
        problems.append("no evidence is left; quote the words that hold the answer, or reject the question")
    if edit.answer is not None and not (edit.answer.strip() == "" and "answer" not in row):
        changed["answer"] = edit.answer.strip()
    if answerable and answered and not str(changed.get("answer", "")).strip():
        problems.append("the answer is blank; write it, as every question of this data set has one")
    elif not answered or (not answerable and not changed.get("answer")):
        changed.pop("answer", None)
    else:
        problems += text_problems(changed, ("answer",))
    if problems:
        raise UneditableDraft(problems)
    order = [*row, *(key for key in changed if key not in row)]
    return {key: changed[key] for key in order if key in changed}


def _edit_evidence(
    row: Row, wanted: Sequence[int | Quote], checker: EvidenceChecker
) -> tuple[list[Mapping[str, object]], list[str]]:
    """Return the entries of the evidence of an edited row, and the problems of the new ones."""
    before = evidence_of(row)
    entries: list[Mapping[str, object]] = []
    problems: list[str] = []
    for item in wanted:
        if isinstance(item, int):
            if not 0 <= item < len(before):
                problems.append(f"there is no evidence {item + 1} to keep; the question has {len(before)}")
            elif before[item] in entries:
                problems.append(f"evidence {item + 1} is there twice; keep one of them")
            else:
                entries.append(before[item])
            continue
        document = checker.documents.get(item.doc)
        if document is None:
            problems.append(f"there is no document {shorten(item.doc)}; {did_you_mean(item.doc, checker.documents)}")
            continue
        span = locate_quote(item, document)
        if isinstance(span, str):
            problems.append(span)
            continue
        text = document.text[span.start : span.end]
        entry = {"doc": document.id, "start": span.start, "end": span.end, "text": text}
        same = next((old for old in before if {key: old.get(key) for key in entry} == entry), entry)
        problems += checker.span(entry)[1]
        if same in entries:
            problems.append(f"{shorten(text)} is quoted twice; keep one of them")
        entries.append(same)
    return entries, problems
