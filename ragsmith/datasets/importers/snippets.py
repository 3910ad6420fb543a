"""Data sets whose evidence consists of spans of files: LegalBench-RAG and Chroma's chunking evaluation.

LegalBench-RAG (Pipitone and Alami 2024) has ``corpus/`` and ``benchmarks/*.json`` with ``tests``, each with a ``query``
and ``snippets`` (``file_path``, ``span``). Chroma's (Smith and Troynikov 2024) has ``corpora/*.md`` or ``.txt`` and
``questions_df.csv`` with ``question``, ``references`` (JSON: ``content``, ``start_index``, ``end_index``) and
``corpus_id``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ragsmith.datasets.anchoring.question_lists import read_rows
from ragsmith.datasets.evidence import find_occurrences
from ragsmith.datasets.importers.registry import (
    DocumentNames,
    EvidenceCollector,
    Fields,
    Imported,
    document_from_text,
    importer,
    numbered_ids,
    read_files,
)
from ragsmith.datasets.ingest.decoding import read_any_text
from ragsmith.text.files import TextError, parse_each, read_text
from ragsmith.text.jsonl import parse_json
from ragsmith.types import UNSPECIFIED, Document, Example, Span

MAX_BYTES = 64 << 20
"""Maximum size of a file of the corpus, in bytes."""

QUESTIONS = "questions_df.csv"


@dataclass(frozen=True, slots=True)
class Snippet:
    """A span of a file, and its text if given."""

    file: str
    start: int
    end: int
    text: str | None


SnippetQuestion = tuple[str, tuple[Snippet, ...]]
"""A question and the spans with its answer."""


@importer(
    "legalbench-rag",
    keys=[{"query", "snippets"}],
    recognises=lambda path: (path / "benchmarks").is_dir() and (path / "corpus").is_dir(),
    paper="https://arxiv.org/abs/2408.10343",
)
def import_legalbench_rag(source: Path) -> Imported:
    """Read the folder ``source`` with ``corpus/`` and ``benchmarks/``; the snippets are the evidence.

    There are no answers, so only retrieval can be scored. Raises ``DatasetError`` when a file is not in this layout.
    """
    layout = "LegalBench-RAG's"

    def read(content: object) -> list[SnippetQuestion]:
        tests = Fields.from_value(content, "the file", layout).objects("tests")
        return [(test.text("query"), tuple(map(_parse_snippet, test.objects("snippets")))) for test in tests]

    files = read_files(source / "benchmarks" if source.is_dir() else source, read)
    corpus = (source if source.is_dir() else source.parent.parent) / "corpus"
    return _build_dataset(source, corpus, [question for file in files for question in file], "LegalBench-RAG")


@importer(
    "chroma",
    keys=[{"question", "references", "corpus_id"}],
    recognises=lambda path: (path / QUESTIONS).is_file(),
    paper="https://research.trychroma.com/evaluating-chunking",
)
def import_chroma(source: Path) -> Imported:
    """Read the folder ``source`` with ``questions_df.csv`` and ``corpora/``; the references are the evidence.

    There are no answers, so only retrieval can be scored. Raises ``DatasetError`` when a file is not in this layout.
    """
    file = source / QUESTIONS if source.is_dir() else source
    rows = [Fields(row, f"line {line}", "Chroma's") for line, row in read_rows(file)]
    questions = parse_each(rows, _parse_references, name=lambda _: file.name)
    return _build_dataset(source, file.parent / "corpora", questions, "Chroma's chunking evaluation")


def _parse_snippet(fields: Fields) -> Snippet:
    match fields.get("span", list):
        case [int(start), int(end)]:
            text = fields.record.get("answer")
            return Snippet(fields.text("file_path"), start, end, text if isinstance(text, str) else None)
    raise fields.error("'span' must be two integers")


def _parse_references(fields: Fields) -> SnippetQuestion:
    found = parse_json(fields.text("references"))
    items = found if isinstance(found, list) else [found]
    file = fields.text("corpus_id")
    return (
        fields.text("question"),
        tuple(
            Snippet(file, item.get("start_index", int), item.get("end_index", int), item.get("content", str))
            for item in (Fields.from_value(item, f"{fields.where}, reference", fields.layout) for item in items)
        ),
    )


def _build_dataset(source: Path, corpus: Path, questions: list[SnippetQuestion], layout: str) -> Imported:
    files = dict.fromkeys(snippet.file for _, snippets in questions for snippet in snippets)
    documents, texts = _read_documents(corpus, files)
    gold = EvidenceCollector()
    for id_, (question, snippets) in zip(numbered_ids("q", len(questions)), questions, strict=True):
        outcomes = [_locate(snippet, documents, texts) for snippet in snippets]
        spans = tuple(dict.fromkeys(outcome for outcome in outcomes if isinstance(outcome, Span)))
        missing = [outcome for outcome in outcomes if isinstance(outcome, str)]
        gold.add(Example(id_, question, "", UNSPECIFIED, spans), len(outcomes) - len(missing), missing)
    return gold.to_imported(
        source,
        list(documents.values()),
        f"{len(documents)} documents with questions on spans of them, imported from {layout}.",
    )


def _locate(snippet: Snippet, documents: Mapping[str, Document], texts: Mapping[str, str]) -> Span | str:
    """Return the span of a snippet, or the problem."""
    document, text = documents[snippet.file], texts[snippet.file]
    at = f"[{snippet.start}, {snippet.end}) of {snippet.file}"
    if not 0 <= snippet.start < snippet.end <= len(text):
        return f"{at} is outside its {len(text)} characters"
    quote = snippet.text
    if quote is None or text[snippet.start : snippet.end] == quote:
        return Span(document.id, snippet.start, snippet.end)
    starts = find_occurrences(quote, text) if quote else ()
    if len(starts) == 1:
        return Span(document.id, starts[0], starts[0] + len(quote))
    return f"{at} is not the given text, which occurs {len(starts)} times"


def _read_documents(corpus: Path, files: Mapping[str, None]) -> tuple[dict[str, Document], dict[str, str]]:
    """Return the documents and the texts of ``files``, by file."""
    paths = {file: _find_path(corpus, file) for file in sorted(files)}
    read = parse_each(
        paths,
        lambda file: _read_published(paths[file]),
        name=lambda file: f"{corpus.name}/{file}",
    )
    texts = dict(zip(paths, read, strict=True))
    names = DocumentNames()
    documents: dict[str, Document] = {}
    for file, path in paths.items():
        name = str(PurePosixPath(file).with_suffix("")) if path.suffix in {".md", ".txt"} else file
        documents[file] = document_from_text(names.name(name), texts[file])
    return documents, texts


def _read_published(path: Path) -> str:
    """Return the text of a file of the corpus unchanged, as offsets refer to it, if it can be used like that."""
    try:
        return read_text(path, limit=MAX_BYTES, links=True)
    except TextError:
        return read_any_text(path, limit=MAX_BYTES, links=True)


def _find_path(corpus: Path, file: str) -> Path:
    """Return the path of a file of the corpus, which may lack its suffix; never one outside the corpus."""
    parts = PurePosixPath(file).parts
    is_inside = ".." not in parts and not file.startswith("/")
    paths = [corpus / f"{file}{suffix}" for suffix in ("", ".md", ".txt")] if is_inside else []
    return next((path for path in paths if path.is_file()), corpus / parts[-1])
