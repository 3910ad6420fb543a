"""The published RAGSmith layout: one JSON file an article, with its text, its chunks and questions on them.

Gold are chunks of the article (``reranked_relative_chunk_ids``). A chunk is a stretch of the text, some with their
section heading repeated in front; its offsets are only approximate, so it is looked up by its words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ragsmith.datasets.dataset import make_dataset
from ragsmith.datasets.importers.imported import Imported
from ragsmith.errors import DatasetError
from ragsmith.text.files import MIB, TextError, read_text
from ragsmith.text.jsonl import parse_record
from ragsmith.types import Document, Example, Span

MAX_BYTES = 64 * MIB
LICENCE = "MIT (questions and answers, RAGSmith); article texts CC BY-SA 4.0 (English Wikipedia)"

T = TypeVar("T")

_FRONT_MATTER = re.compile(r"---\n.*?\n---\n", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Asked:
    """A question and the identifiers of its gold chunks."""

    question: str
    answer: str
    type: str
    chunks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Article:
    """A document, its questions in order, and where its chunks stand; chunks that do not are absent."""

    document: Document
    questions: tuple[Asked, ...]
    spans: Mapping[str, Span]


def import_ragsmith_layout(folder: Path) -> Imported:
    """Read every ``*.json`` file in ``folder`` as an article.

    A document is the article under its title as a heading, without the export's front matter. Questions keep their
    order: ``<article>-q01``. A chunk that is not found exactly gives no evidence, and a question without any is left
    out; the notes say so. Raises ``DatasetError`` when a file is not in this layout.
    """
    articles: list[Article] = []
    mistakes: list[str] = []
    for path in sorted(folder.glob("*.json"), key=lambda path: path.name):
        try:
            articles.append(_article(parse_record(read_text(path, limit=MAX_BYTES))))
        except TextError as error:
            mistakes.append(f"{path.name}: {error}")
    if not articles and not mistakes:
        mistakes.append(f"{folder}: has no *.json files; give the folder with one JSON file an article")
    if mistakes:
        raise DatasetError(mistakes)
    return _imported(folder, articles)


def _imported(folder: Path, articles: Sequence[Article]) -> Imported:
    examples: list[Example] = []
    notes: list[str] = []
    located = total = 0
    for article in articles:
        for number, asked in enumerate(article.questions, start=1):
            id_ = f"{article.document.id}-q{number:02d}"
            spans = tuple(article.spans[chunk] for chunk in asked.chunks if chunk in article.spans)
            total += len(asked.chunks)
            located += len(spans)
            lost = [chunk for chunk in asked.chunks if chunk not in article.spans]
            notes += [f"{id_}: chunk {chunk} does not stand in its article" for chunk in lost]
            if spans:
                examples.append(Example(id_, asked.question, asked.answer, asked.type, spans))
            else:
                notes.append(f"{id_}: left out, because none of its evidence was found")
    dataset = make_dataset(_about(folder, len(articles)), [article.document for article in articles], examples)
    return Imported(dataset, located, total, tuple(notes))


def _about(folder: Path, articles: int) -> dict[str, str]:
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", folder.resolve().name).strip("-._") or "ragsmith"
    return {
        "name": name[:64],
        "title": name.replace("_", " "),
        "description": f"{articles} articles with questions, imported from RAGSmith's published layout.",
        "licence": LICENCE,
        "language": "en",
    }


def _article(record: Mapping[str, object]) -> Article:
    about = _field(record, "article", dict)
    title = " ".join(_field(about, "title", str).split())
    content = _field(about, "content", str)
    heading = f"# {title}\n\n"
    body = _FRONT_MATTER.sub("", content, count=1).strip() if content.startswith("---\n") else content.strip()
    document = Document(_field(about, "id", str), title, f"{heading}{body}\n")
    found = ((_field(chunk, "id", str), _locate(chunk, document, len(heading))) for chunk in _items(record, "chunks"))
    spans = {id_: span for id_, span in found if span is not None}
    items = _items(_field(record, "questions", dict), "items")
    return Article(document, tuple(_asked(item) for item in items), spans)


def _asked(item: Mapping[str, object]) -> Asked:
    gold = _field(item, "reranked_relative_chunk_ids", list)
    chunks = tuple(dict.fromkeys(str(chunk) for chunk in gold))
    return Asked(
        _field(item, "question", str).strip(),
        _field(item, "answer", str).strip(),
        _field(item, "category", str).strip().lower(),
        chunks,
    )


def _locate(chunk: Mapping[str, object], document: Document, shift: int) -> Span | None:
    """Return where the words of ``chunk`` stand in the document, nearest to where the chunk says it stands."""
    text = _field(chunk, "content", str).strip()
    heading = _field(chunk, "section", str)
    if heading.startswith("="):  # "Lead" is a label, and may also be the first word
        text = text.removeprefix(heading).strip()
    expected = _field(chunk, "start_char", int) + shift
    starts = list(_occurrences(text, document.text, shift)) if text else []
    if not starts:
        return None
    start = min(starts, key=lambda start: abs(start - expected))
    return Span(document.id, start, start + len(text))


def _occurrences(text: str, whole: str, at: int) -> Iterator[int]:
    while (at := whole.find(text, at)) >= 0:
        yield at
        at += 1


def _items(record: Mapping[str, object], key: str) -> list[Mapping[str, object]]:
    items = _field(record, key, list)
    if not all(isinstance(item, dict) for item in items):
        raise TextError(f"{key!r} must be a list of objects; give a file in RAGSmith's layout")
    return items


def _field(record: Mapping[str, object], key: str, type_: type[T]) -> T:
    value = record.get(key)
    if not isinstance(value, type_):
        raise TextError(f"has no {key!r} of type {type_.__name__}; give a file in RAGSmith's layout")
    return value
