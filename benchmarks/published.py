"""Data sets for benchmarks: bundled ones, folders, and published ones in their own layouts, Cranfield among them."""

import re
from collections import defaultdict
from pathlib import Path

from ragsmith.datasets.bundled import bundled_path
from ragsmith.datasets.dataset import load_dataset, make_dataset
from ragsmith.datasets.importers import import_dataset
from ragsmith.types import Dataset, Document, Example, Span

CRANFIELD = "cran.all.1400"


def read(name_or_path: str) -> tuple[Dataset, bool]:
    """The data set, and whether it has answers; without, only what is retrieved can be scored."""
    path = Path(name_or_path)
    if (path / CRANFIELD).is_file():
        return _cranfield(path), False
    if path.is_dir() and not (path / "dataset.yaml").is_file():
        return import_dataset(path).dataset, True
    return load_dataset(bundled_path("datasets", name_or_path)), True


def _cranfield(folder: Path) -> Dataset:
    """The Cranfield collection (Cleverdon 1967): 1,400 abstracts, and queries that are judged against all of them.

    The gold of a query is every abstract that is not judged "of no interest", as a whole. Judgements number the queries
    by their place in the file.
    """
    documents = []
    for number, record in enumerate(_records(folder / CRANFIELD), 1):
        title, _, rest = record.partition(".T\n")[2].partition(".A\n")
        text = " ".join(rest.partition(".W\n")[2].split()) or " ".join(title.split()) or "(no text)"
        documents.append(Document(f"cran{number:04}", " ".join(title.split()), text))
    gold = defaultdict(list)
    for line in (folder / "cranqrel").read_text(encoding="utf-8").splitlines():
        query, document, grade = map(int, line.split()[:3])
        if grade > 0:
            gold[query].append(documents[document - 1])
    queries = [" ".join(record.partition(".W\n")[2].split()) for record in _records(folder / "cran.qry")]
    examples = [
        Example(f"q{n:03}", text, "", "abstracts", tuple(Span(d.id, 0, len(d.text)) for d in gold[n]))
        for n, text in enumerate(queries, 1)
        if gold[n]
    ]
    return make_dataset({"name": "cranfield", "title": "Cranfield"}, documents, examples)


def _records(path: Path) -> list[str]:
    return re.split(r"^\.I \d+\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
