"""HotpotQA: questions over several Wikipedia paragraphs, with the sentences that support the answer (Yang et al. 2018).

A file is a list of questions, each with its paragraphs (``context``), or an object of paragraphs by title (a corpus).
All paragraphs are pooled: a document is a paragraph under its title.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ragsmith.datasets.importers.imported import (
    DocumentNames,
    EvidenceCollector,
    Fields,
    Imported,
    check_ids,
    document_from_text,
    read_files,
)
from ragsmith.datasets.importers.registry import importer
from ragsmith.text.files import TextError, shown
from ragsmith.text.jsonl import kind
from ragsmith.types import Document, Example, Span

LAYOUT = "HotpotQA's"
LICENCE = "CC BY-SA 4.0 (HotpotQA; paragraphs from English Wikipedia)"

_LINE_BREAK = re.compile(r"\s*[\r\n]+\s*")

Fact = tuple[str, int]
"""A supporting sentence: title, and number of the sentence, from 0."""


@dataclass(frozen=True, slots=True)
class HotpotParagraph:
    """A title and its sentences, as published: a sentence brings the space in front of it."""

    title: str
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HotpotQuestion:
    """A question, the paragraphs it came with by title, and the sentences that support its answer."""

    id: str
    question: str
    answer: str
    type: str
    context: Mapping[str, HotpotParagraph]
    facts: tuple[Fact, ...]


@dataclass(frozen=True, slots=True)
class HotpotDocument:
    """A paragraph as a document, and where each of its sentences stands; blank ones stand nowhere."""

    document: Document
    spans: tuple[Span | None, ...]


@importer("hotpotqa", keys=[{"context", "supporting_facts"}], licence=LICENCE, paper="https://arxiv.org/abs/1809.09600")
def import_hotpotqa(source: Path) -> Imported:
    """Read the HotpotQA files in the folder ``source``, or the one file ``source``.

    Evidence are the supporting sentences, neighbours as one span. A fact whose sentence does not exist gives none, and
    a question without any is left out; the notes say so. Raises ``DatasetError`` when a file is not in this layout.
    """
    files = read_files(source, _read)
    asked = [question for questions, _ in files for question in questions]
    check_ids((question.id for question in asked), source, LAYOUT)
    corpus = [paragraph for _, paragraphs in files for paragraph in paragraphs]
    pool = {*corpus, *(paragraph for question in asked for paragraph in question.context.values())}
    return _imported(source, asked, pool)


def _imported(source: Path, asked: Sequence[HotpotQuestion], pool: Collection[HotpotParagraph]) -> Imported:
    names = DocumentNames()
    ordered = sorted(pool, key=lambda paragraph: (paragraph.title, paragraph.sentences))
    placed = {paragraph: _placed(paragraph, names.name(paragraph.title)) for paragraph in ordered}
    documents = [each.document for each in placed.values()]
    texts = {document.id: document.text for document in documents}
    gold = EvidenceCollector()
    for question in asked:
        found = {fact: _located(fact, question, placed) for fact in question.facts}
        spans = _merged([span for span in found.values() if span], texts)
        absent = [fact for fact, span in found.items() if span is None]
        lost = [f"sentence {n} of {shown(title)} does not stand there exactly once" for title, n in absent]
        example = Example(question.id, question.question, question.answer, question.type, spans)
        gold.add(example, len(question.facts), lost)
    described = f"{len(pool)} Wikipedia paragraphs with multi-hop questions, imported from HotpotQA."
    return gold.imported(source, documents, described)


def _placed(paragraph: HotpotParagraph, id_: str) -> HotpotDocument:
    """The paragraph under its title, on one line: a line break might begin a heading or a list."""
    heading = text = f"# {paragraph.title}\n\n"
    spans: list[Span | None] = []
    for sentence in paragraph.sentences:
        line = _LINE_BREAK.sub(" ", sentence)
        line = line.lstrip() if text == heading else line
        start = len(text) + len(line) - len(line.lstrip())
        spans.append(Span(id_, start, start + len(line.strip())) if line.strip() else None)
        text += line
    return HotpotDocument(document_from_text(id_, f"{text.rstrip()}\n"), tuple(spans))


def _located(fact: Fact, question: HotpotQuestion, placed: Mapping[HotpotParagraph, HotpotDocument]) -> Span | None:
    title, number = fact
    paragraph = question.context.get(title)
    if paragraph is None or not 0 <= number < len(paragraph.sentences):
        return None
    return placed[paragraph].spans[number]


def _merged(spans: Sequence[Span], texts: Mapping[str, str]) -> tuple[Span, ...]:
    """Join sentences with nothing but white space between them."""
    joined: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.doc, span.start)):
        last = joined[-1] if joined else None
        if last and last.doc == span.doc and not texts[span.doc][last.end : span.start].strip():
            joined[-1] = Span(span.doc, last.start, span.end)
        else:
            joined.append(span)
    return tuple(joined)


# --- reading ---------------------------------------------------------------------------------------------------------


def _read(content: object) -> tuple[list[HotpotQuestion], list[HotpotParagraph]]:
    """The questions in a file, and the paragraphs that come without any."""
    if isinstance(content, list):
        return [_asked(item, f"question {number}") for number, item in enumerate(content, start=1)], []
    if isinstance(content, dict):
        return [], [_paragraph([title, sentences], "the corpus") for title, sentences in content.items()]
    raise TextError(f"{kind(content)} stands here instead of a list of questions; give a file in {LAYOUT} layout")


def _asked(item: object, where: str) -> HotpotQuestion:
    fields = Fields.of(item, where, LAYOUT)
    id_ = fields.text("_id")
    fields = Fields(fields.record, f"{where} ({id_})", LAYOUT)
    paragraphs = [_paragraph(entry, fields.where) for entry in fields.get("context", list)]
    titled_so = Counter(paragraph.title for paragraph in dict.fromkeys(paragraphs))
    # a title that stands over two paragraphs does not say which of them is meant
    context = {paragraph.title: paragraph for paragraph in paragraphs if titled_so[paragraph.title] == 1}
    facts = [_fact(entry, fields) for entry in fields.get("supporting_facts", list)]
    question, answer, type_ = (fields.text(key) for key in ("question", "answer", "type"))
    return HotpotQuestion(id_, question, answer, type_, context, tuple(dict.fromkeys(facts)))


def _paragraph(entry: object, where: str) -> HotpotParagraph:
    match entry:
        case [str(title), list(entries)] if title.strip() and all(isinstance(e, str) for e in entries):
            sentences = tuple(map(str, entries))
            Fields({}, where, LAYOUT).printable("".join([title, *sentences]), "context")
            return HotpotParagraph(_title(title), sentences)
    raise TextError(f"{where}: a paragraph must be a title with a list of sentences; give a file in {LAYOUT} layout")


def _fact(entry: object, fields: Fields) -> Fact:
    match entry:
        case [str(title), int(number)] if not isinstance(number, bool):
            return _title(title), number
    raise fields.error("a supporting fact must be a title with the number of a sentence")


def _title(title: str) -> str:
    return " ".join(title.split())
