"""HotpotQA: questions over several Wikipedia paragraphs, with the sentences that support the answer (Yang et al. 2018).

A file is a list of questions, each with its paragraphs (``context``), or an object of paragraphs by title (a corpus).
All paragraphs are pooled: a document is a paragraph under its title.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from ragsmith.datasets.importers.registry import (
    DocumentNames,
    EvidenceCollector,
    Fields,
    Imported,
    check_ids,
    document_from_text,
    importer,
    read_files,
)
from ragsmith.text.files import TextError, shorten
from ragsmith.text.jsonl import name_type
from ragsmith.types import Document, Example, Span

LAYOUT = "HotpotQA's"
LICENCE = "CC BY-SA 4.0 (HotpotQA; paragraphs from English Wikipedia)"

_LINE_BREAK = re.compile(r"\s*[\r\n]+\s*")

Fact = tuple[str, int]
"""A supporting sentence: title, and number of the sentence, from 0."""


class HotpotParagraph(NamedTuple):
    """A title and its sentences as published, with leading spaces."""

    title: str
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HotpotQuestion:
    """A question without evidence, its paragraphs by title, and its supporting facts."""

    example: Example
    context: Mapping[str, HotpotParagraph]
    facts: tuple[Fact, ...]


@importer("hotpotqa", keys=[{"context", "supporting_facts"}], licence=LICENCE, paper="https://arxiv.org/abs/1809.09600")
def import_hotpotqa(source: Path) -> Imported:
    """Read the HotpotQA files in the folder ``source``, or the file ``source``.

    The evidence consists of the supporting sentences; adjacent sentences are merged to one span. Facts whose sentence
    does not exist and questions without evidence are omitted and noted. Raises ``DatasetError`` when a file is not in
    this layout.
    """
    files = read_files(source, _read)
    questions = [question for parsed, _ in files for question in parsed]
    check_ids((question.example.id for question in questions), source, LAYOUT)
    corpus = [paragraph for _, paragraphs in files for paragraph in paragraphs]
    pool = {*corpus, *(paragraph for question in questions for paragraph in question.context.values())}
    names = DocumentNames()
    documents: list[Document] = []
    spans_of: dict[HotpotParagraph, list[Span | None]] = {}
    for paragraph in sorted(pool):
        document, spans_of[paragraph] = _make_document(paragraph, names.name(paragraph.title))
        documents.append(document)
    texts = {document.id: document.text for document in documents}
    gold = EvidenceCollector()
    for question in questions:
        found = {fact: _locate(fact, question, spans_of) for fact in question.facts}
        spans = _merge_adjacent([span for span in found.values() if span], texts)
        absent = [fact for fact, span in found.items() if span is None]
        missing = [f"sentence {n} of {shorten(title)} does not occur there exactly once" for title, n in absent]
        gold.add(replace(question.example, evidence=spans), len(question.facts) - len(absent), missing)
    return gold.to_imported(
        source, documents, f"{len(pool)} Wikipedia paragraphs with multi-hop questions, imported from HotpotQA."
    )


def _make_document(paragraph: HotpotParagraph, id_: str) -> tuple[Document, list[Span | None]]:
    """Return the paragraph as one line below its title, and the spans of its sentences, None for blank ones.

    Line breaks are removed, as the next line might begin a heading or a list.
    """
    heading = text = f"# {paragraph.title}\n\n"
    spans: list[Span | None] = []
    for sentence in paragraph.sentences:
        line = _LINE_BREAK.sub(" ", sentence)
        line = line.lstrip() if text == heading else line
        start = len(text) + len(line) - len(line.lstrip())
        spans.append(Span(id_, start, start + len(line.strip())) if line.strip() else None)
        text += line
    return document_from_text(id_, f"{text.rstrip()}\n"), spans


def _locate(
    fact: Fact, question: HotpotQuestion, spans_of: Mapping[HotpotParagraph, Sequence[Span | None]]
) -> Span | None:
    title, number = fact
    paragraph = question.context.get(title)
    if paragraph is None or not 0 <= number < len(paragraph.sentences):
        return None
    return spans_of[paragraph][number]


def _merge_adjacent(spans: Sequence[Span], texts: Mapping[str, str]) -> tuple[Span, ...]:
    """Merge spans with only white space between them."""
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
    """Return the questions in a file, and the paragraphs of a corpus."""
    if isinstance(content, list):
        return [_parse_question(item, f"question {number}") for number, item in enumerate(content, start=1)], []
    if isinstance(content, dict):
        return [], [_parse_paragraph([title, sentences], "the corpus") for title, sentences in content.items()]
    raise TextError(f"expected a list of questions, found {name_type(content)}; give a file in {LAYOUT} layout")


def _parse_question(item: object, where: str) -> HotpotQuestion:
    fields = Fields.from_value(item, where, LAYOUT)
    id_ = fields.text("_id")
    fields = Fields(fields.record, f"{where} ({id_})", LAYOUT)
    paragraphs = [_parse_paragraph(entry, fields.where) for entry in fields.get("context", list)]
    title_counts = Counter(paragraph.title for paragraph in dict.fromkeys(paragraphs))
    # a title of two paragraphs is ambiguous
    context = {paragraph.title: paragraph for paragraph in paragraphs if title_counts[paragraph.title] == 1}
    facts = [_parse_fact(entry, fields) for entry in fields.get("supporting_facts", list)]
    question, answer, type_ = (fields.text(key) for key in ("question", "answer", "type"))
    return HotpotQuestion(Example(id_, question, answer, type_, ()), context, tuple(dict.fromkeys(facts)))


def _parse_paragraph(entry: object, where: str) -> HotpotParagraph:
    match entry:
        case [str(title), list(entries)] if title.strip() and all(isinstance(e, str) for e in entries):
            sentences = tuple(map(str, entries))
            return HotpotParagraph(_normalize_title(title), sentences)
    raise TextError(f"{where}: a paragraph must be a title with a list of sentences; give a file in {LAYOUT} layout")


def _parse_fact(entry: object, fields: Fields) -> Fact:
    match entry:
        case [str(title), int(number)] if not isinstance(number, bool):
            return _normalize_title(title), number
    raise fields.error("a supporting fact must be a title with the number of a sentence")


def _normalize_title(title: str) -> str:
    return " ".join(title.split())
