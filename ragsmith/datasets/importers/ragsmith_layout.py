"""The published RAGSmith layout: a JSON file for each article, with its text, chunks and questions.

The evidence consists of chunks of the article (``reranked_relative_chunk_ids``). A chunk is a part of the text,
sometimes after its section heading. Offsets of chunks are approximate, so chunks are located by their text.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from ragsmith.datasets.evidence import find_occurrences
from ragsmith.datasets.importers.registry import EvidenceCollector, Fields, Imported, importer, read_files
from ragsmith.types import Document, Example, Span

LAYOUT = "RAGSmith's"
LICENCE = "MIT (questions and answers, RAGSmith); article texts CC BY-SA 4.0 (English Wikipedia)"

_FRONT_MATTER = re.compile(r"---\n.*?\n---\n", re.DOTALL)


ParsedQuestion = tuple[Example, int, list[str]]
"""A question, the number of its gold chunks, and a message for each missing chunk."""


@importer(
    "ragsmith", keys=[{"article", "chunks", "questions"}], licence=LICENCE, paper="https://arxiv.org/abs/2511.01386"
)
def import_ragsmith_layout(source: Path) -> Imported:
    """Read every ``*.json`` file in the folder ``source``, or the one file ``source``, as an article.

    A document is an article below its title as a heading, without the front matter of the export. Questions are named
    ``<article>-q01`` in their order. Chunks without an exact match and questions without evidence are omitted and
    noted. Raises ``DatasetError`` when a file is not in this layout.
    """
    articles = read_files(source, _parse_article)
    gold = EvidenceCollector()
    for _, questions in articles:
        for example, pieces, missing in questions:
            gold.add(example, pieces - len(missing), missing)
    return gold.to_imported(
        source,
        [document for document, _ in articles],
        f"{len(articles)} articles with questions, imported from RAGSmith's published layout.",
    )


def _parse_article(content: object) -> tuple[Document, list[ParsedQuestion]]:
    record = Fields.from_value(content, "the file", LAYOUT)
    about = Fields.from_value(record.get("article", dict), "the article", LAYOUT)
    title = " ".join(about.get("title", str).split())
    text = about.get("content", str)
    heading = f"# {title}\n\n"
    body = _FRONT_MATTER.sub("", text, count=1).strip() if text.startswith("---\n") else text.strip()
    document = Document(about.get("id", str), title, f"{heading}{body}\n")
    found = {chunk.get("id", str): _locate(chunk, document, len(heading)) for chunk in record.objects("chunks")}
    items = Fields.from_value(record.get("questions", dict), "the questions", LAYOUT).objects("items")
    return document, [_parse_question(item, f"{document.id}-q{n:02d}", found) for n, item in enumerate(items, start=1)]


def _parse_question(item: Fields, id_: str, found: Mapping[str, Span | None]) -> ParsedQuestion:
    chunks = list(dict.fromkeys(map(str, item.get("reranked_relative_chunk_ids", list))))
    question, answer, category = (item.get(key, str).strip() for key in ("question", "answer", "category"))
    spans = tuple(span for chunk in chunks if (span := found.get(chunk)))
    missing = [f"chunk {chunk} does not occur in its article" for chunk in chunks if not found.get(chunk)]
    return Example(id_, question, answer, category.lower(), spans), len(chunks), missing


def _locate(chunk: Fields, document: Document, shift: int) -> Span | None:
    """Return the occurrence of the text of ``chunk`` in the document that is nearest to its given offset."""
    text = chunk.get("content", str).strip()
    heading = chunk.get("section", str)
    if heading.startswith("="):  # "Lead" is a label, and may also be the first word
        text = text.removeprefix(heading).strip()
    expected = chunk.get("start_char", int) + shift
    starts = find_occurrences(text, document.text, shift) if text else ()
    if not starts:
        return None
    start = min(starts, key=lambda start: abs(start - expected))
    return Span(document.id, start, start + len(text))
