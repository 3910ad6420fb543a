"""SQuAD's layout and similar layouts: paragraphs with questions whose answers are spans of the paragraph.

Nested as published (Rajpurkar et al. 2016): articles, paragraphs, questions; or flat, as a list of questions with a
paragraph (``context``) and ``answers`` with ``text`` and ``answer_start``, in JSON or JSONL. Questions with
``is_impossible``, or without answers, are unanswerable (Rajpurkar et al. 2018).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ragsmith.datasets.evidence import find_occurrences
from ragsmith.datasets.importers.registry import (
    DocumentNames,
    EvidenceCollector,
    Fields,
    Imported,
    check_ids,
    document_with_title,
    importer,
    numbered_ids,
    read_files,
    read_lines,
)
from ragsmith.types import UNSPECIFIED, Document, Example, Span

LAYOUT = "SQuAD's"


@dataclass(frozen=True, slots=True)
class SquadQuestion:
    """A question and its answers with their offsets in the paragraph."""

    id: str
    question: str
    answers: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class SquadParagraph:
    """A paragraph of an article as published, and its questions."""

    title: str
    text: str
    questions: tuple[SquadQuestion, ...]


@importer(
    "squad",
    keys=[{"title", "paragraphs"}, {"context", "question", "answers"}],
    paper="https://arxiv.org/abs/1606.05250",
)
def import_squad(source: Path) -> Imported:
    """Read the SQuAD files in the folder ``source``, or the file ``source``.

    A document is an article, or a paragraph without a title. The evidence is the first answer at its offset, else the
    nearest occurrence in the paragraph. Raises ``DatasetError`` when a file is not in this layout.
    """
    paragraphs = [paragraph for paragraphs in _read(source) for paragraph in paragraphs]
    check_ids((question.id for paragraph in paragraphs for question in paragraph.questions), source, LAYOUT)
    documents, starts = _make_documents(paragraphs)
    gold = EvidenceCollector()
    for paragraph in paragraphs:
        document, start = starts[paragraph.title, paragraph.text]
        for question in paragraph.questions:
            if not question.answers:
                gold.examples.append(Example(question.id, question.question, "", UNSPECIFIED, (), answerable=False))
                continue
            text, offset = question.answers[0]
            at, method = _locate_answer(text, paragraph.text, offset)
            spans = (Span(document.id, start + at, start + at + len(text)),) if at >= 0 else ()
            missing = () if spans else (f"the answer {text!r} does not occur in its paragraph",)
            gold.add(Example(question.id, question.question, text, UNSPECIFIED, spans), {method: len(spans)}, missing)
    return gold.to_imported(
        source, documents, f"{len(documents)} documents with questions, imported from SQuAD's layout."
    )


def _locate_answer(answer: str, paragraph: str, offset: int) -> tuple[int, str]:
    """Return the offset of an answer in a paragraph, -1 if it does not occur, and the method of matching."""
    if offset >= 0 and paragraph[offset : offset + len(answer)] == answer:
        return offset, "exact"
    found = find_occurrences(answer, paragraph)
    return min(found, key=lambda at: abs(at - offset), default=-1), "exact, nearest to the place that was given"


def _make_documents(
    paragraphs: Sequence[SquadParagraph],
) -> tuple[list[Document], Mapping[tuple[str, str], tuple[Document, int]]]:
    """Return the documents, and the document and offset of each paragraph by title and text."""
    names = DocumentNames()
    grouped: dict[str, list[str]] = {}
    for paragraph in paragraphs:
        texts = grouped.setdefault(paragraph.title or f"\0{paragraph.text}", [])
        if paragraph.text not in texts:
            texts.append(paragraph.text)
    documents: list[Document] = []
    starts: dict[tuple[str, str], tuple[Document, int]] = {}
    for id_, (key, texts) in zip(numbered_ids("paragraph-", len(grouped)), grouped.items(), strict=True):
        title = "" if key.startswith("\0") else key.replace("_", " ")
        document = document_with_title(names.name(title or id_), title, "\n\n".join(texts))
        documents.append(document)
        at = len(document.text) - len("\n\n".join(texts)) - 1
        for text in texts:
            starts["" if key.startswith("\0") else key, text] = document, at
            at += len(text) + 2
    return documents, starts


# --- reading ---------------------------------------------------------------------------------------------------------


def _read(source: Path) -> list[list[SquadParagraph]]:
    if source.is_file() and source.suffix.lower() == ".jsonl":
        return [[_parse_flat(fields) for fields in read_lines(source, LAYOUT)]]
    return read_files(source, _parse_content)


def _parse_content(content: object) -> list[SquadParagraph]:
    if isinstance(content, list):
        return [
            _parse_flat(Fields.from_value(item, f"question {number}", LAYOUT))
            for number, item in enumerate(content, start=1)
        ]
    fields = Fields.from_value(content, "the file", LAYOUT)
    entries = list(fields.objects("data"))
    if entries and "paragraphs" not in entries[0].record:
        return [_parse_flat(entry) for entry in entries]
    return [paragraph for entry in entries for paragraph in _parse_article(entry)]


def _parse_article(fields: Fields) -> Iterator[SquadParagraph]:
    title = " ".join(str(fields.record.get("title") or "").split())
    for paragraph in fields.objects("paragraphs"):
        yield SquadParagraph(
            title, _parse_context(paragraph), tuple(_parse_question(item) for item in paragraph.objects("qas"))
        )


def _parse_flat(fields: Fields) -> SquadParagraph:
    title = " ".join(str(fields.record.get("title") or "").split())
    answers = fields.record.get("answers")
    if isinstance(answers, dict):  # columns, as in data frames
        texts, starts = (answers.get(key) for key in ("text", "answer_start"))
        if not isinstance(texts, list) or not isinstance(starts, list) or len(texts) != len(starts):
            raise fields.error("'answers' must have lists 'text' and 'answer_start' of one length")
        answers = [{"text": text, "answer_start": start} for text, start in zip(texts, starts, strict=True)]
    question = _parse_question(Fields({**fields.record, "answers": answers}, fields.where, LAYOUT))
    return SquadParagraph(title, _parse_context(fields), (question,))


def _parse_context(fields: Fields) -> str:
    """Return a paragraph with its surrounding white space, which offsets of answers include."""
    fields.text("context")
    return fields.get("context", str)


def _parse_question(fields: Fields) -> SquadQuestion:
    items = [] if fields.record.get("is_impossible") is True else list(fields.objects("answers"))
    answers = tuple((answer.text("text"), answer.get("answer_start", int)) for answer in items)
    return SquadQuestion(
        str(fields.record.get("id") or fields.text("question"))[:200], fields.text("question"), answers
    )
