"""Find evidence for an existing list of questions by their quotations, else by their answers."""

import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import PurePath

from ragsmith.datasets.anchoring.answers import MIN_PROBABILITY, AnswerFinder
from ragsmith.datasets.anchoring.folded import fold
from ragsmith.datasets.anchoring.matches import EvidenceMatch, MatchType, NoMatch, NoMatchReason, find_least_certain
from ragsmith.datasets.anchoring.question_lists import ListedQuestion, QuotedEvidence
from ragsmith.datasets.anchoring.quotations import QuotationFinder
from ragsmith.datasets.evidence import EvidenceChecker
from ragsmith.text.files import shown
from ragsmith.text.suggest import did_you_mean
from ragsmith.types import Document, Example

MIN_QUOTED_WORDS = 8
"""Least words of an answer that is searched for as a quotation first."""
UNANSWERABLE = "unanswerable"
"""Stands for a match type where the documents do not answer the question."""


@dataclass(frozen=True, slots=True)
class Anchored:
    """A question with its evidence, or without if it is unanswerable; ``lost`` lists quotations not found."""

    asked: ListedQuestion
    places: tuple[EvidenceMatch, ...]
    lost: tuple[str, ...] = ()

    @property
    def example(self) -> Example:
        """The question as an example of a data set."""
        spans = {place.span for place in self.places}
        ordered = tuple(sorted(spans, key=lambda span: (span.doc, span.start, span.end)))
        asked = self.asked
        return Example(asked.id, asked.question, asked.answer, asked.type, ordered, asked.split, asked.answerable)

    @property
    def how(self) -> str:
        """The least certain match type of its places."""
        return find_least_certain(self.places) if self.places else UNANSWERABLE


@dataclass(frozen=True, slots=True)
class Unanchored:
    """A question whose evidence was not found, and why."""

    asked: ListedQuestion
    why: NoMatch


@dataclass(frozen=True)
class Anchoring:
    """Result of anchoring a list of questions, in the order of the list."""

    anchored: tuple[Anchored, ...]
    unanchored: tuple[Unanchored, ...]

    @cached_property
    def hows(self) -> dict[str, int]:
        """Anchored questions by their least certain match type, the most certain first."""
        counts = Counter(each.how for each in self.anchored)
        return {str(how): counts[how] for how in (*MatchType, UNANSWERABLE) if counts[how]}

    @cached_property
    def missing(self) -> dict[str, int]:
        """Questions not anchored, by reason."""
        counts = Counter(each.why.status for each in self.unanchored)
        return {str(status): counts[status] for status in NoMatchReason if counts[status]}


class Anchor:
    """Finds the evidence of questions in ``documents``; ``merged`` maps ids of dropped duplicates to kept ones."""

    def __init__(self, documents: Sequence[Document], merged: Mapping[str, str] | None = None) -> None:
        self.documents = documents
        self.quotations = QuotationFinder(documents)
        self._checker = EvidenceChecker({document.id: document for document in documents})
        self._names = {**_names(documents), **{id_.casefold(): kept for id_, kept in (merged or {}).items()}}

    @cached_property
    def answers(self) -> AnswerFinder:
        """The finder of answers, made on first use."""
        return AnswerFinder(self.documents)

    def anchor(self, asked: Iterable[ListedQuestion], at_least: float = MIN_PROBABILITY) -> Anchoring:
        """Anchor questions; ``at_least`` is the least estimated probability of a match by answer.

        If some have answers, one without is not anchored: a data set has answers for all questions or for none.
        """
        asked = list(asked)
        answered = any(each.answer for each in asked if each.answerable)
        first: dict[tuple[str, str], int] = {}
        results: list[Anchored | Unanchored] = []
        for each in asked:
            line = first.setdefault((fold(each.question).text, fold(each.answer).text), each.line)
            if line != each.line:
                why = NoMatch(NoMatchReason.REPEATED, f"line {line} asks and answers the same")
                results.append(Unanchored(each, why))
            elif each.answerable and answered and not each.answer:
                why = NoMatch(NoMatchReason.NOT_FOUND, "it has no answer, and other questions have one")
                results.append(Unanchored(each, why))
            else:
                results.append(self._find(each, at_least) if each.answerable else Anchored(each, ()))
        anchored = tuple(each for each in results if isinstance(each, Anchored))
        return Anchoring(anchored, tuple(each for each in results if isinstance(each, Unanchored)))

    def _find(self, asked: ListedQuestion, at_least: float) -> Anchored | Unanchored:
        """Find the evidence of an answerable question by its quotations, else by its answer."""
        docs: set[str] | None = None
        if asked.docs:
            docs = {id_ for name in asked.docs if (id_ := self.document(name))}
            if not docs:
                return Unanchored(asked, self._no_document(asked.docs[0]))
        found = [self._quoted(quotation, docs) for quotation in asked.quotations]
        places = tuple(dict.fromkeys(place for place in found if isinstance(place, EvidenceMatch)))
        lost = tuple(
            f"{shown(quotation.text or dict(quotation.record or {}))}: {place.reason}"
            for quotation, place in zip(asked.quotations, found, strict=True)
            if isinstance(place, NoMatch)
        )
        if places:
            return Anchored(asked, places, lost)
        missing = [each for each in found if isinstance(each, NoMatch)]
        ambiguous = [each for each in missing if each.status is NoMatchReason.AMBIGUOUS]
        if ambiguous or not asked.answer:
            no_evidence = NoMatch(NoMatchReason.NOT_FOUND, "it has neither an answer nor a quotation")
            return Unanchored(asked, [*ambiguous, *missing, no_evidence][0])
        answer = self._answered(asked, docs, at_least)
        if isinstance(answer, EvidenceMatch):
            return Anchored(asked, (answer,), lost)
        return Unanchored(asked, replace(answer, reason="; ".join([answer.reason, *lost[:1]])))

    def _no_document(self, name: str) -> NoMatch:
        reason = f"there is no document {shown(name)}; {did_you_mean(name, self._names)}"
        return NoMatch(NoMatchReason.NOT_FOUND, reason)

    def _quoted(self, quotation: QuotedEvidence, docs: Collection[str] | None) -> EvidenceMatch | NoMatch:
        if quotation.doc is not None:
            id_ = self.document(quotation.doc)
            if id_ is None:
                return self._no_document(quotation.doc)
            docs = {id_}
            if quotation.record is not None and (quotation.record.keys() - {"doc", "text"} or not quotation.text):
                span, problems = self._checker.span({**quotation.record, "doc": id_})
                if span is not None:
                    return EvidenceMatch(span, MatchType.GIVEN)
                if not quotation.text:
                    return NoMatch(NoMatchReason.NOT_FOUND, problems[0])
        return self._allowed(self.quotations.find(quotation.text, docs))

    def _answered(
        self, asked: ListedQuestion, docs: Collection[str] | None, at_least: float
    ) -> EvidenceMatch | NoMatch:
        if len(fold(asked.answer).words()) >= MIN_QUOTED_WORDS:
            quoted = self._allowed(self.quotations.find(asked.answer, docs, edited=False))
            if isinstance(quoted, EvidenceMatch):
                return quoted
        return self._allowed(self.answers.find(asked.question, asked.answer, docs, at_least))

    def _allowed(self, found: EvidenceMatch | NoMatch) -> EvidenceMatch | NoMatch:
        """Return ``found`` unless it is not valid evidence, such as a span that is mostly a heading."""
        if isinstance(found, EvidenceMatch):
            span = found.span
            text = self.quotations.pages[span.doc].document.text[span.start : span.end]
            _, problems = self._checker.span({"doc": span.doc, "start": span.start, "end": span.end, "text": text})
            if problems:
                return NoMatch(NoMatchReason.NOT_FOUND, problems[0], (found,))
        return found

    def document(self, name: str) -> str | None:
        """Return the id of the document called ``name``: an identifier, a file name or a title."""
        wanted = unicodedata.normalize("NFC", name)
        file = PurePath(wanted.replace("\\", "/")).name
        tried = (wanted, file, PurePath(file).stem)
        return next((self._names[key] for each in tried if (key := each.casefold()) in self._names), None)


def _names(documents: Sequence[Document]) -> Mapping[str, str]:
    """Map case-folded ids, stems of ids and titles to document ids, without stems and titles that are ambiguous."""
    names: dict[str, str] = {}
    ids = [document.id for document in documents]
    stems = [PurePath(id_).stem.casefold() for id_ in ids]
    titles = [document.title.casefold() for document in documents]
    for kind in (stems, titles):  # a title that is the stem of another document's id is that of the title
        counts = Counter(kind)
        names |= {name: id_ for name, id_ in zip(kind, ids, strict=True) if counts[name] == 1}
    return names | {id_.casefold(): id_ for id_ in ids}
