"""Find the evidence of listed questions by their quotations, else by their answers."""

import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import PurePath

from ragsmith.datasets.anchoring.answers import MIN_PROBABILITY, AnswerFinder
from ragsmith.datasets.anchoring.copies import CopyFinder
from ragsmith.datasets.anchoring.matches import EvidenceMatch, MatchType, NoMatch, NoMatchReason, find_least_certain
from ragsmith.datasets.anchoring.question_lists import ListedQuestion, QuotedEvidence
from ragsmith.datasets.anchoring.quotations import QuotationFinder
from ragsmith.datasets.documents import path_ids
from ragsmith.datasets.evidence import ANY, EvidenceChecker, join_places, sort_spans
from ragsmith.datasets.label_checks import OtherNumber
from ragsmith.text.files import shorten
from ragsmith.text.folded import fold
from ragsmith.text.suggest import did_you_mean
from ragsmith.types import Document, Example

MIN_QUOTED_WORDS = 8
"""Minimum number of words of an answer that is first searched for as a quotation."""
UNANSWERABLE = "unanswerable"
"""Value reported instead of a match type for questions that the documents do not answer."""


@dataclass(frozen=True, slots=True)
class AnchoredQuestion:
    """A question with its evidence; an unanswerable question has no matches.

    ``missing_quotations`` has a message for each quotation that was not found.
    """

    question: ListedQuestion
    matches: tuple[EvidenceMatch, ...]
    missing_quotations: tuple[str, ...] = ()

    @property
    def example(self) -> Example:
        """The question as an example of a data set."""
        spans = sort_spans(match.span for match in self.matches)
        q = self.question
        return Example(q.id, q.question, q.answer, q.type, spans, q.split, q.answerable)

    @property
    def match_type(self) -> str:
        """The least certain match type of the evidence."""
        return find_least_certain(self.matches) if self.matches else UNANSWERABLE


@dataclass(frozen=True, slots=True)
class UnanchoredQuestion:
    """A question whose evidence was not found, with the reason."""

    question: ListedQuestion
    no_match: NoMatch


@dataclass(frozen=True)
class AnchoringResult:
    """Result of anchoring a list of questions, in the order of the list.

    ``other_numbers`` are the answers with another number than their evidence, once both are written.
    """

    anchored: tuple[AnchoredQuestion, ...]
    unanchored: tuple[UnanchoredQuestion, ...]
    other_numbers: tuple[OtherNumber, ...] = ()

    @cached_property
    def match_counts(self) -> dict[str, int]:
        """Numbers of anchored questions by their least certain match type, the most certain first."""
        counts = Counter(question.match_type for question in self.anchored)
        return {str(type_): counts[type_] for type_ in (*MatchType, UNANSWERABLE) if counts[type_]}

    @cached_property
    def reason_counts(self) -> dict[str, int]:
        """Numbers of unanchored questions by reason."""
        counts = Counter(question.no_match.status for question in self.unanchored)
        return {str(status): counts[status] for status in NoMatchReason if counts[status]}


class EvidenceFinder:
    """A finder of the evidence of questions in ``documents``; ``merged`` maps ids of duplicates to remaining ids."""

    def __init__(self, documents: Sequence[Document], merged: Mapping[str, str] | None = None) -> None:
        self.documents = documents
        self.quotations = QuotationFinder(documents)
        self._copies = CopyFinder(documents, self.quotations.statements)
        self._checker = EvidenceChecker({document.id: document for document in documents})
        self._names = {**_index_names(documents), **{id_.casefold(): first for id_, first in (merged or {}).items()}}

    @cached_property
    def answers(self) -> AnswerFinder:
        """The finder of answers, created on first use."""
        return AnswerFinder(self.documents)

    def anchor(self, questions: Iterable[ListedQuestion], at_least: float = MIN_PROBABILITY) -> AnchoringResult:
        """Find the evidence of ``questions``; ``at_least`` is the minimum estimated probability of a match by answer.

        If some questions have answers, the others are not anchored, as a data set has answers for all or for none.
        """
        questions = list(questions)
        has_answers = any(question.answer for question in questions if question.answerable)
        first_lines: dict[tuple[str, str], int] = {}
        results: list[AnchoredQuestion | UnanchoredQuestion] = []
        for question in questions:
            key = (fold(question.question).text, fold(question.answer).text)
            line = first_lines.setdefault(key, question.line)
            if line != question.line:
                reason = f"line {line} has the same question and answer"
                results.append(UnanchoredQuestion(question, NoMatch(NoMatchReason.REPEATED, reason)))
            elif question.answerable and has_answers and not question.answer:
                reason = "it has no answer, and other questions have one"
                results.append(UnanchoredQuestion(question, NoMatch(NoMatchReason.NOT_FOUND, reason)))
            elif question.answerable:
                results.append(self._find(question, at_least))
            else:
                results.append(AnchoredQuestion(question, ()))
        anchored = tuple(result for result in results if isinstance(result, AnchoredQuestion))
        return AnchoringResult(anchored, tuple(result for result in results if isinstance(result, UnanchoredQuestion)))

    def _find(self, question: ListedQuestion, at_least: float) -> AnchoredQuestion | UnanchoredQuestion:
        """Find the evidence of an answerable question by its quotations, else by its answer."""
        docs: set[str] | None = None
        if question.docs:
            docs = {id_ for name in question.docs if (id_ := self.document_id(name))}
            if not docs:
                return UnanchoredQuestion(question, self._missing_document(question.docs[0]))
        outcomes = [self._find_quotation(quotation, question, docs) for quotation in question.quotations]
        matches = tuple(dict.fromkeys(outcome for outcome in outcomes if isinstance(outcome, EvidenceMatch)))
        missing = tuple(
            f"{shorten(quotation.text or dict(quotation.record or {}))}: {outcome.reason}"
            for quotation, outcome in zip(question.quotations, outcomes, strict=True)
            if isinstance(outcome, NoMatch)
        )
        if matches:
            return AnchoredQuestion(question, matches, missing)
        failures = [outcome for outcome in outcomes if isinstance(outcome, NoMatch)]
        ambiguous = [failure for failure in failures if failure.status is NoMatchReason.AMBIGUOUS]
        if ambiguous or not question.answer:
            no_evidence = NoMatch(NoMatchReason.NOT_FOUND, "it has neither an answer nor a quotation")
            return UnanchoredQuestion(question, [*ambiguous, *failures, no_evidence][0])
        answer = self._add_copies(self._find_answer(question, docs, at_least), question, docs)
        if isinstance(answer, EvidenceMatch):
            return AnchoredQuestion(question, (answer,), missing)
        return UnanchoredQuestion(question, replace(answer, reason="; ".join([answer.reason, *missing[:1]])))

    def _add_copies(
        self, outcome: EvidenceMatch | NoMatch, question: ListedQuestion, docs: Collection[str] | None
    ) -> EvidenceMatch | NoMatch:
        """Return ``outcome`` with the copies in ``docs`` (by default all) that the question means as further places."""
        if isinstance(outcome, NoMatch) or outcome.match_type is MatchType.GIVEN:
            return outcome
        copies = self._copies.find(outcome.span, question.question)
        places = [outcome.span, *(place for place in copies if docs is None or place.doc in docs)]
        return replace(outcome, span=join_places(places)) if len(places) > 1 else outcome

    def _missing_document(self, name: str) -> NoMatch:
        reason = f"there is no document {shorten(name)}; {did_you_mean(name, self._names)}"
        return NoMatch(NoMatchReason.NOT_FOUND, reason)

    def _find_quotation(
        self, quotation: QuotedEvidence, question: ListedQuestion, docs: Collection[str] | None
    ) -> EvidenceMatch | NoMatch:
        if quotation.record is not None and ANY in quotation.record:
            joined, problems = self._checker.span(quotation.record)
            if joined is None:
                return NoMatch(NoMatchReason.NOT_FOUND, problems[0])
            return EvidenceMatch(joined, MatchType.GIVEN)
        if quotation.doc is not None:
            id_ = self.document_id(quotation.doc)
            if id_ is None:
                return self._missing_document(quotation.doc)
            docs = {id_}
            if quotation.record is not None and (quotation.record.keys() - {"doc", "text"} or not quotation.text):
                span, problems = self._checker.span({**quotation.record, "doc": id_})
                if span is not None:
                    return EvidenceMatch(span, MatchType.GIVEN)
                if not quotation.text:
                    return NoMatch(NoMatchReason.NOT_FOUND, problems[0])
        return self._add_copies(self._validate(self.quotations.find(quotation.text, docs)), question, docs)

    def _find_answer(
        self, question: ListedQuestion, docs: Collection[str] | None, at_least: float
    ) -> EvidenceMatch | NoMatch:
        if len(fold(question.answer).words()) >= MIN_QUOTED_WORDS:
            quoted = self._validate(self.quotations.find(question.answer, docs, fuzzy=False))
            if isinstance(quoted, EvidenceMatch):
                return quoted
        return self._validate(self.answers.find(question.question, question.answer, docs, at_least))

    def _validate(self, outcome: EvidenceMatch | NoMatch) -> EvidenceMatch | NoMatch:
        """Return ``outcome``, or the problem of a match that is not valid evidence, such as a heading."""
        if isinstance(outcome, EvidenceMatch):
            span = outcome.span
            text = self.quotations.documents[span.doc].source.text[span.start : span.end]
            _, problems = self._checker.span({"doc": span.doc, "start": span.start, "end": span.end, "text": text})
            if problems:
                return NoMatch(NoMatchReason.NOT_FOUND, problems[0], (outcome,))
        return outcome

    def document_id(self, name: str) -> str | None:
        """Return the id of the document with this identifier, path, file name or title."""
        normalised = unicodedata.normalize("NFC", name)
        stem = PurePath(normalised.replace("\\", "/")).stem
        keys = (candidate.casefold() for candidate in (normalised, *path_ids(normalised), stem))
        return next((self._names[key] for key in keys if key in self._names), None)


def _index_names(documents: Sequence[Document]) -> Mapping[str, str]:
    """Map case-folded ids, stems of ids and titles to document ids, without ambiguous stems and titles."""
    names: dict[str, str] = {}
    ids = [document.id for document in documents]
    stems = [PurePath(id_).stem.casefold() for id_ in ids]
    titles = [document.title.casefold() for document in documents]
    for aliases in (stems, titles):  # a title takes precedence over the same stem
        counts = Counter(aliases)
        names |= {name: id_ for name, id_ in zip(aliases, ids, strict=True) if counts[name] == 1}
    return names | {id_.casefold(): id_ for id_ in ids}
