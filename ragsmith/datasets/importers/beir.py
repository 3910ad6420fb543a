"""BEIR's layout and TREC's relevance judgements: a corpus, queries and qrels (Thakur et al. 2021).

A folder has ``corpus.jsonl`` (``_id``, ``title``, ``text``), ``queries.jsonl`` (``_id``, ``text``) and judgements:
``qrels/*.tsv`` with a header (``query-id``, ``corpus-id``, ``score``), or TREC files of four columns (query, an unused
number, document, relevance) named ``qrels``, ``qrels.txt`` or ``*.qrels``.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from ragsmith.datasets.importers.registry import (
    DocumentNames,
    EvidenceCollector,
    Imported,
    document_with_title,
    importer,
    read_large,
    read_lines,
)
from ragsmith.datasets.places import whole_document_span
from ragsmith.errors import DatasetError
from ragsmith.types import UNSPECIFIED, Document, Example

LAYOUT = "BEIR's"
CORPUS, QUERIES, QRELS = "corpus.jsonl", "queries.jsonl", "qrels"

SPLITS: Mapping[str, str] = MappingProxyType({"train": "search", "dev": "search", "test": "test"})
"""Splits of judgements by the stem of their file."""


Judgement = tuple[str, str, str | None]
"""The published identifiers of a query and of a relevant document, and the split."""


def find_qrels_files(folder: Path) -> list[Path]:
    """Return the files of judgements in ``folder``."""
    inner = sorted((folder / QRELS).glob("*.tsv")) if (folder / QRELS).is_dir() else []
    outer = [path for path in sorted(folder.glob("*")) if path.is_file() and "qrel" in path.name.lower()]
    return [*inner, *outer]


@importer(
    "beir",
    recognises=lambda path: (path / CORPUS).is_file() and bool(find_qrels_files(path)),
    paper="https://arxiv.org/abs/2104.08663",
)
def import_beir(source: Path) -> Imported:
    """Read the corpus, queries and judgements in the folder ``source``.

    The evidence consists of whole documents, as judgements have no offsets. There are no answers, so only retrieval can
    be scored. Queries without a relevant document are left out. Judgements in files named ``train`` or ``dev``, and
    ``test``, give the search and test split. Raises ``DatasetError`` when a file is not in this layout.
    """
    files = find_qrels_files(source) if source.is_dir() else []
    if not files:
        problem = f"has no judgements; give the folder with {CORPUS}, {QUERIES} and {QRELS}/*.tsv"
        raise DatasetError([f"{source}: {problem}"])
    names = DocumentNames()
    documents: dict[str, Document] = {}
    for fields in read_lines(source / CORPUS, LAYOUT):
        id_, title = fields.text("_id"), " ".join(str(fields.record.get("title") or "").split())
        if id_ in documents:
            raise DatasetError([f"{CORPUS}: the document {id_!r} occurs twice; keep one"])
        text = str(fields.record.get("text") or "").strip()
        if title or text:
            documents[id_] = document_with_title(names.name(id_), title, text)
    judgements = [judgement for path in files for judgement in _read_judgements(path)]
    has_parts = {part for _, _, part in judgements} == {"search", "test"}
    relevant: dict[str, dict[str, str | None]] = defaultdict(dict)
    for query, document, part in judgements:
        relevant[query][document] = part
    gold = EvidenceCollector()
    for fields in read_lines(source / QUERIES, LAYOUT):
        id_, question = fields.text("_id"), fields.text("text")
        parts = relevant.get(id_, {})
        spans = tuple(whole_document_span(documents[document]) for document in parts if document in documents)
        missing = [f"there is no document {document!r}" for document in parts if document not in documents]
        split = next(iter(parts.values()), None) if has_parts else None
        located = {"whole documents": len(parts) - len(missing)}
        gold.add(Example(id_, question, "", UNSPECIFIED, spans, split), located, missing)
    if not gold.examples:
        raise DatasetError([f"{source}: no query has a relevant document; do the files belong together?"])
    counts = f"{len(documents)} documents and {len(gold.examples)} queries with judgements"
    return gold.to_imported(source, list(documents.values()), f"{counts}, imported from BEIR's layout.")


def _read_judgements(path: Path) -> Iterator[Judgement]:
    """Yield the relevant documents of a file of judgements in BEIR's or TREC's form."""
    part = SPLITS.get(path.stem)
    for number, line in enumerate(read_large(path).splitlines(), start=1):
        cells = line.split("\t") if "\t" in line else line.split()
        if not line.strip() or (number == 1 and cells[-1].strip() == "score"):
            continue
        try:
            query, document, score = (cells[0], cells[-2], float(cells[-1])) if len(cells) in {3, 4} else ("", "", 0.0)
        except ValueError:
            query = ""
        if not query:
            problem = "is not a judgement; write query, document and score, or TREC's four columns"
            raise DatasetError([f"{path.name}:{number}: {problem}"])
        if score > 0:
            yield query.strip(), document.strip(), part
