"""The bundled `law` as it was while it had eleven documents and a hundred questions: a part of what it is now."""

from __future__ import annotations

from dataclasses import replace

from ragsmith.datasets.dataset import load_dataset, make_dataset
from ragsmith.types import Dataset

TESTED = (1, 2, 8, 9, 15, 18, 21, 26, *range(41, 48), *range(61, 67), 81, 82, 85, 88, 90, 91, 94, 99)
UNUSED = (27, 48, 74, 75, 78, 86)


def first_law() -> Dataset:
    """Its documents, and its questions in the parts that they were in."""
    data = load_dataset("law")
    parts = {f"law-{number:03}": part for part, its in (("test", TESTED), ("unused", UNUSED)) for number in its}
    examples = [replace(e, split=parts.get(e.id, "search")) for e in data.examples if e.id <= "law-100"]
    about = {span.doc for example in examples for span in example.evidence}
    documents = [document for document in data.documents if document.id in about]
    return make_dataset({"name": "law", "language": "en"}, documents, examples)
