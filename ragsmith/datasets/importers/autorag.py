"""AutoRAG's pair of files (Kim et al. 2024): ``corpus.parquet`` with passages, ``qa.parquet`` with questions on them.

A passage has ``doc_id`` and ``contents``, and optionally its file and offsets (``path``, ``start_end_idx``). A question
has ``qid``, ``query``, ``retrieval_gt`` (groups of alternative passages) and ``generation_gt``.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from ragsmith.datasets.importers.registry import (
    DocumentNames,
    EvidenceCollector,
    Fields,
    Imported,
    check_ids,
    document_with_title,
    importer,
)
from ragsmith.datasets.places import strip_span, whole_document_span
from ragsmith.errors import warn_caller
from ragsmith.extensions import Package
from ragsmith.text.files import FORBIDDEN, TextError
from ragsmith.types import UNSPECIFIED, Document, Example, Span

LAYOUT = "AutoRAG's"
CORPUS, QUESTIONS = "corpus.parquet", "qa.parquet"


@importer(
    "autorag",
    recognises=lambda path: (path / CORPUS).is_file() or (path.suffix.lower() == ".parquet" and path.is_file()),
    paper="https://arxiv.org/abs/2410.20878",
    package=Package("pyarrow", "pyarrow", "parquet"),
)
def import_autorag(source: Path) -> Imported:
    """Read ``corpus.parquet`` and ``qa.parquet`` in the folder ``source``; needs pyarrow, the extra ``parquet``.

    Passages with consistent offsets and without gaps are joined to their file; all others become documents. All
    passages of a group are evidence, although one is sufficient: the notes count such questions. Raises
    ``DatasetError`` when a file is not in this layout.
    """
    folder = source if source.is_dir() else source.parent
    passages = [Fields(row, f"{CORPUS}, row {n}", LAYOUT) for n, row in enumerate(_read_rows(folder / CORPUS), start=1)]
    questions = [
        Fields(row, f"{QUESTIONS}, row {n}", LAYOUT) for n, row in enumerate(_read_rows(folder / QUESTIONS), 1)
    ]
    check_ids((str(row.record.get("qid")) for row in questions), source, LAYOUT)
    documents, spans_by_passage = _make_documents(passages)
    gold = EvidenceCollector()
    n_alternative = 0
    for row in questions:
        groups = _parse_groups(row)
        n_alternative += any(len(group) > 1 for group in groups)
        ids = list(dict.fromkeys(id_ for group in groups for id_ in group))
        spans = tuple(dict.fromkeys(spans_by_passage[id_][0] for id_ in ids if id_ in spans_by_passage))
        example = Example(row.text("qid"), row.text("query"), _parse_answer(row), UNSPECIFIED, spans)
        located = Counter(spans_by_passage[id_][1] for id_ in ids if id_ in spans_by_passage)
        gold.add(example, located, [f"there is no passage {id_!r}" for id_ in ids if id_ not in spans_by_passage])
    if n_alternative:
        gold.notes.append(f"{n_alternative} questions need one of several passages: all of these are their evidence")
    if any(e.answer for e in gold.examples) and not all(e.answer for e in gold.examples):
        gold.notes += [
            f"{e.id}: left out, because it has no answer and others have one" for e in gold.examples if not e.answer
        ]
        gold.examples = [example for example in gold.examples if example.answer]
    return gold.to_imported(source, documents, f"{len(documents)} documents with questions, imported from AutoRAG.")


def _read_rows(path: Path) -> list[dict[str, Any]]:
    import pyarrow  # noqa: PLC0415
    from pyarrow import parquet  # noqa: PLC0415

    if not path.is_file():
        raise TextError(f"{path.name}: is missing; give the folder with {CORPUS} and {QUESTIONS}")
    try:
        rows: list[dict[str, Any]] = parquet.read_table(path).to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        raise TextError(f"{path.name}: is not a Parquet file ({str(error).splitlines()[0]}); write it again") from None
    cleaned = [{key: _without_controls(value) for key, value in row.items()} for row in rows]
    if cleaned != rows:
        warn_caller(f"{path.name}: control characters were removed")
    return cleaned


def _without_controls(value: Any) -> Any:
    """Return a text, or a list of texts at any depth, without control characters; other values as they are."""
    if isinstance(value, str):
        return FORBIDDEN.sub("", value)
    return list(map(_without_controls, value)) if isinstance(value, list) else value


def _parse_groups(row: Fields) -> list[list[str]]:
    """Return the groups of alternative passages for a question."""
    value = row.record.get("retrieval_gt")
    groups = value if isinstance(value, list) else []
    found = [group if isinstance(group, list) else [group] for group in groups]
    if not all(isinstance(id_, str) for group in found for id_ in group):
        raise row.error("'retrieval_gt' must be lists of identifiers of passages")
    return [[id_ for id_ in group if id_] for group in found]


def _parse_answer(row: Fields) -> str:
    """Return the first reference answer, or ""."""
    value = row.record.get("generation_gt")
    first = (value[0] if value else "") if isinstance(value, list) else value
    return str(first or "").strip()


PassageSpans = Mapping[str, tuple[Span, str]]
"""Spans of passages and methods of matching, by identifier."""


def _make_documents(passages: Sequence[Fields]) -> tuple[list[Document], PassageSpans]:
    files: dict[str, list[Fields]] = defaultdict(list)
    for row in passages:
        row.text("contents")
        files[str(row.record.get("path") or "")].append(row)
    names = DocumentNames()
    documents: list[Document] = []
    spans_by_passage: dict[str, tuple[Span, str]] = {}
    for file, rows in files.items():
        text = _join_passages(rows) if file else None
        if text is not None:
            document = document_with_title(names.name(PurePath(file.replace("\\", "/")).stem), "", text)
            documents.append(document)
            for row in rows:
                start = _parse_start(row)
                span = strip_span(document, start, start + len(row.get("contents", str)))
                spans_by_passage[row.text("doc_id")] = span, "exact"
            continue
        for row in rows:
            document = document_with_title(names.name(row.text("doc_id")), "", row.text("contents"))
            documents.append(document)
            spans_by_passage[row.text("doc_id")] = (
                whole_document_span(document),
                "whole passages, which became documents",
            )
    return documents, spans_by_passage


def _join_passages(rows: Sequence[Fields]) -> str | None:
    """Join passages to the text of their file; None if offsets are missing or inconsistent, or leave gaps."""
    text = ""
    for row in sorted(rows, key=_parse_start):
        start, contents = _parse_start(row), row.get("contents", str)
        if start < 0 or start > len(text) or text[start : start + len(contents)] != contents[: len(text) - start]:
            return None
        text = text[:start] + contents if start + len(contents) > len(text) else text
    return text


def _parse_start(row: Fields) -> int:
    """Return the offset of a passage in its file, -1 if unknown."""
    match row.record.get("start_end_idx"):
        case [int(start), int()]:
            return start
    return -1
