"""The published RAGSmith layout: one JSON file an article, with its text, its chunks and questions on them.

Gold are chunks of the article (``reranked_relative_chunk_ids``). A chunk is a stretch of the text, some with their
section heading repeated in front; its offsets are only approximate, so it is looked up by its words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ragsmith.datasets.evidence import occurrences
from ragsmith.datasets.importers.imported import Fields, Gold, Imported, read_files
from ragsmith.datasets.importers.registry import importer
from ragsmith.types import Document, Example, Span

LAYOUT = "RAGSmith's"
LICENCE = "MIT (questions and answers, RAGSmith); article texts CC BY-SA 4.0 (English Wikipedia)"

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


@importer(
    "ragsmith", keys=[{"article", "chunks", "questions"}], licence=LICENCE, paper="https://arxiv.org/abs/2511.01386"
)
def import_ragsmith_layout(source: Path) -> Imported:
    """Read every ``*.json`` file in the folder ``source``, or the one file ``source``, as an article.

    A document is the article under its title as a heading, without the export's front matter. Questions keep their
    order: ``<article>-q01``. A chunk that is not found exactly gives no evidence, and a question without any is left
    out; the notes say so. Raises ``DatasetError`` when a file is not in this layout.
    """
    articles = read_files(source, _article)
    gold = Gold()
    for article in articles:
        for number, asked in enumerate(article.questions, start=1):
            id_ = f"{article.document.id}-q{number:02d}"
            spans = tuple(article.spans[chunk] for chunk in asked.chunks if chunk in article.spans)
            absent = [chunk for chunk in asked.chunks if chunk not in article.spans]
            lost = [f"chunk {chunk} does not stand in its article" for chunk in absent]
            gold.add(Example(id_, asked.question, asked.answer, asked.type, spans), len(asked.chunks), lost)
    described = f"{len(articles)} articles with questions, imported from RAGSmith's published layout."
    documents = [article.document for article in articles]
    return gold.imported(source, documents, described)


def _article(content: object) -> Article:
    record = Fields.of(content, "the file", LAYOUT)
    about = Fields.of(record.get("article", dict), "the article", LAYOUT)
    title = " ".join(about.get("title", str).split())
    text = about.get("content", str)
    heading = f"# {title}\n\n"
    body = _FRONT_MATTER.sub("", text, count=1).strip() if text.startswith("---\n") else text.strip()
    document = Document(about.get("id", str), title, f"{heading}{body}\n")
    found = {chunk.get("id", str): _locate(chunk, document, len(heading)) for chunk in record.objects("chunks")}
    items = Fields.of(record.get("questions", dict), "the questions", LAYOUT).objects("items")
    spans = {id_: span for id_, span in found.items() if span is not None}
    return Article(document, tuple(_asked(item) for item in items), spans)


def _asked(item: Fields) -> Asked:
    gold = item.get("reranked_relative_chunk_ids", list)
    question, answer, category = (item.get(key, str).strip() for key in ("question", "answer", "category"))
    return Asked(question, answer, category.lower(), tuple(dict.fromkeys(map(str, gold))))


def _locate(chunk: Fields, document: Document, shift: int) -> Span | None:
    """Return where the words of ``chunk`` stand in the document, nearest to where the chunk says it stands."""
    text = chunk.get("content", str).strip()
    heading = chunk.get("section", str)
    if heading.startswith("="):  # "Lead" is a label, and may also be the first word
        text = text.removeprefix(heading).strip()
    expected = chunk.get("start_char", int) + shift
    starts = occurrences(text, document.text, shift) if text else ()
    if not starts:
        return None
    start = min(starts, key=lambda start: abs(start - expected))
    return Span(document.id, start, start + len(text))
