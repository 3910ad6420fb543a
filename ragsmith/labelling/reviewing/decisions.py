"""What a reviewer may decide about a drafted question, and what becomes of its row; nothing is read or written here."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ragsmith.datasets.evidence import EvidenceChecker, occurrences
from ragsmith.digest import digest
from ragsmith.errors import UsageError
from ragsmith.text.files import shown
from ragsmith.text.jsonl import text_problems
from ragsmith.text.suggest import did_you_mean
from ragsmith.types import Document, Span

Row = Mapping[str, object]
"""A row of ``questions.jsonl`` or ``rejected.jsonl``."""

UNSAID = "a reviewer rejected it"
"""The reason of a rejection for which nobody gave one."""

REASONS = (
    "not clear what is asked",
    "the answer is wrong",
    "the quote does not show the answer",
    "nobody would ask this",
    "others ask the same",
)
"""Reasons that a key alone gives, 1 to 5."""

REVIEW = "review"
"""What stands in ``rejected.jsonl`` where the name of a filter stands that refused a draft."""


class DecisionState(StrEnum):
    """What became of a draft."""

    PENDING = "pending"
    ACCEPTED = "accepted"
    MENDED = "mended"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class DecisionQuote:
    """Words of document ``doc`` that are to be evidence; ``start`` is where they stand, if that is known."""

    doc: str
    text: str
    start: int | None = None


@dataclass(frozen=True, slots=True)
class Accept:
    """The draft is right as it is."""


@dataclass(frozen=True, slots=True)
class Edit:
    """The draft is right when this is changed; None leaves a part as it is.

    ``evidence`` is all that there is to be: positions in the evidence of the row, from 0, keep what stands there.
    """

    question: str | None = None
    answer: str | None = None
    evidence: tuple[int | DecisionQuote, ...] | None = None


@dataclass(frozen=True, slots=True)
class Reject:
    """The draft is wrong, or not worth asking."""

    reason: str = UNSAID


Decision = Accept | Edit | Reject


class UneditableDraft(UsageError):
    """A draft cannot be mended in this way; ``problems`` has a sentence for everything that is wrong."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


def is_drafted(row: Row) -> bool:
    """Whether a program made the question."""
    origin = row.get("origin")
    return isinstance(origin, Mapping) and origin.get("by") == "drafted"


def origin_of(row: Row) -> Mapping[str, object]:
    """Where the question comes from."""
    origin = row.get("origin")
    return origin if isinstance(origin, Mapping) else {}


def state_of(row: Row) -> DecisionState:
    """What became of a draft that stands in ``questions.jsonl``."""
    reviewed = origin_of(row).get("reviewed")
    return (
        DecisionState(str(reviewed))
        if reviewed in (DecisionState.ACCEPTED, DecisionState.MENDED)
        else DecisionState.PENDING
    )


def evidence_of(row: Row) -> tuple[Mapping[str, object], ...]:
    """The entries of the row's evidence."""
    evidence = row.get("evidence")
    return tuple(entry for entry in evidence if isinstance(entry, Mapping)) if isinstance(evidence, list) else ()


def seen(row: Row, state: DecisionState) -> str:
    """A short digest of what a reviewer looked at: a decision about something else is not taken."""
    return digest("seen", state.value, row)[:16]


def as_drafted(row: Row) -> Row:
    """The row without what a review wrote about it; what a mending changed stays changed."""
    origin = {key: value for key, value in origin_of(row).items() if key not in ("reviewed", "reviewer")}
    kept = {key: value for key, value in row.items() if key not in ("filter", "reason", "reviewer")}
    return {**kept, "origin": origin}


def decided(row: Row, decision: Decision, reviewer: str, checker: EvidenceChecker, *, answered: bool = True) -> Row:
    """The row after ``decision``; a mending that changes nothing accepts.

    ``row`` is as it was drafted, or as an earlier decision left it. ``answered`` says whether the questions of the data
    set have answers.

    Raises:
        Unmendable: the mended row would be wrong; everything that would be is listed.
    """
    plain = as_drafted(row)
    match decision:
        case Accept():
            return _marked(
                plain, state_of(row) if state_of(row) is DecisionState.MENDED else DecisionState.ACCEPTED, reviewer
            )
        case Edit():
            mended = _mended(plain, decision, checker, answered=answered)
            if mended == plain:
                return decided(row, Accept(), reviewer, checker)
            return _marked(mended, DecisionState.MENDED, reviewer)
        case Reject():
            reason = " ".join(decision.reason.split()) or UNSAID
            return {**plain, "filter": REVIEW, "reason": reason, "reviewer": reviewer}


def located(quote: DecisionQuote, document: Document) -> Span | str:
    """Where a quote stands in its document, or why that cannot be said.

    With a ``start`` it must stand there; without one it must stand at one place alone. White space may differ where
    nothing else does: lines are broken otherwise in a file that was edited.
    """
    if quote.start is not None:
        end = quote.start + len(quote.text)
        if quote.start >= 0 and quote.text and document.text[quote.start : end] == quote.text:
            return Span(document.id, quote.start, end)
        return f"{shown(quote.text)} does not stand at character {quote.start} of document {document.id!r}"
    wanted = quote.text.strip()
    if not wanted:
        return f"a quote from document {document.id!r} is blank; write it or remove it"
    found = [(start, start + len(wanted)) for start in occurrences(wanted, document.text)]
    if not found:
        loose = re.compile(r"\s+".join(re.escape(word) for word in wanted.split()))
        found = [match.span() for match in loose.finditer(document.text)]
    match found:
        case [(start, end)]:
            return Span(document.id, start, end)
        case []:
            return f"{shown(wanted)} stands nowhere in document {document.id!r}; copy the words exactly"
        case _:
            places = ", ".join(str(start) for start, _ in found[:4]) + (", ..." if len(found) > 4 else "")
            return (
                f"{shown(wanted)} stands at {len(found)} places in document {document.id!r} (characters {places}); "
                "quote more of the text around it"
            )


def _marked(row: Row, state: DecisionState, reviewer: str) -> Row:
    return {**row, "origin": {**origin_of(row), "reviewed": state.value, "reviewer": reviewer}}


def _mended(row: Row, mend: Edit, checker: EvidenceChecker, *, answered: bool) -> Row:
    """``row`` with what was changed."""
    changed = dict(row)
    problems: list[str] = []
    if mend.question is not None:
        changed["question"] = mend.question.strip()
        problems += text_problems(changed, ("question",))
    if mend.evidence is not None:
        entries, wrong = _entries(row, mend.evidence, checker)
        changed["evidence"] = entries
        problems += wrong
    answerable = bool(evidence_of(row) if mend.evidence is None else mend.evidence)
    if answerable:
        changed.pop("answerable", None)
    elif row.get("answerable", True):
        problems.append("no evidence is left; quote the words that hold the answer, or reject the question")
    if mend.answer is not None and not (mend.answer.strip() == "" and "answer" not in row):
        changed["answer"] = mend.answer.strip()
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


def _entries(
    row: Row, wanted: Sequence[int | DecisionQuote], checker: EvidenceChecker
) -> tuple[list[Mapping[str, object]], list[str]]:
    """The entries of a mended row's evidence, and what is wrong with the new ones."""
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
            problems.append(f"there is no document {shown(item.doc)}; {did_you_mean(item.doc, checker.documents)}")
            continue
        span = located(item, document)
        if isinstance(span, str):
            problems.append(span)
            continue
        text = document.text[span.start : span.end]
        entry = {"doc": document.id, "start": span.start, "end": span.end, "text": text}
        same = next((old for old in before if {key: old.get(key) for key in entry} == entry), entry)
        problems += checker.span(entry)[1]
        if same in entries:
            problems.append(f"{shown(text)} is quoted twice; keep one of them")
        entries.append(same)
    return entries, problems
