"""Fields of documents: where they are read, their types, and what they change."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from ragsmith.datasets.dataset import load_dataset, load_documents, make_dataset, write_dataset
from ragsmith.datasets.fields import get_types
from ragsmith.errors import DatasetError, UsageError
from ragsmith.text.filters import parse_filter
from ragsmith.types import Dataset, Document, Example

MANIFEST = "name: contracts\nfields:\n  year: number\n  signed: date\n  tags: list\n  path: list\n"
LEASE = (
    "---\ntenant: acme\nyear: 2023\nsigned: 2023-05-31\ntags: [rent, north]\nempty:\n---\n# Lease\n\nThe rent is due.\n"
)
QUESTION = '{"id": "q", "question": "What is due?", "answer": "The rent", "filter": "year>=2023 and tags=rent"}\n'


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def contracts(folder: Path, manifest: str = MANIFEST) -> Path:
    return write(
        folder,
        {
            "dataset.yaml": manifest,
            "documents/leases/a.md": LEASE,
            "documents/leases/copy.md": LEASE,
            "documents/rates.csv": "tenant,tags,price\nacme,x,1\nacme,y,\n",
            "documents/plain.txt": "--- not front matter\n",
            "questions.jsonl": QUESTION,
        },
    )


def test_fields_come_from_front_matter_columns_and_paths(tmp_path: Path) -> None:
    documents = {document.id: document.fields for document in load_dataset(contracts(tmp_path)).documents}
    assert documents == {
        "leases/a": {
            "tenant": "acme",
            "year": 2023.0,
            "signed": date(2023, 5, 31),
            "tags": ("rent", "north"),
            "path": ("leases", "leases/a"),
        },
        "leases/copy": {**documents["leases/a"], "path": ("leases", "leases/copy")},
        "rates.csv": {"tenant": "acme", "tags": ("x", "y"), "path": ("rates.csv",)},
        "plain": {"path": ("plain",)},
    }


def test_what_has_several_values_and_is_not_declared_is_no_field(tmp_path: Path) -> None:
    folder = contracts(tmp_path)
    for data in (load_documents(folder / "documents"), load_documents(contracts(tmp_path, "name: contracts\n"))):
        documents = {document.id: document.fields for document in data.documents}
        lease = {"tenant": "acme", "year": "2023", "signed": "2023-05-31"}
        # without the path, the copy has nothing of its own and is merged
        assert documents == {"leases/a": lease, "rates.csv": {"tenant": "acme"}, "plain": {}}


def test_the_sheet_of_a_workbook_is_a_field(tmp_path: Path) -> None:
    row = (
        '{"source": "prices.xlsx", "sha256": "0", "kind": "x", "converter": "x", "text_sha256": "0", "ending": ".csv", '
    )
    files = {"sources.jsonl": f'{row}"part": "North", "doc": "rates.csv", "file": "rates.csv"}}\n'}
    [fields] = [d.fields for d in load_dataset(write(contracts(tmp_path), files)).documents if d.id == "rates.csv"]
    assert fields["sheet"] == "North"


def test_a_data_set_is_written_with_its_fields_and_filters(tmp_path: Path) -> None:
    data = load_dataset(contracts(tmp_path / "first"))
    write_dataset(data, tmp_path / "second")
    again = load_dataset(tmp_path / "second")
    assert again.examples == data.examples
    assert again.digest == data.digest
    assert [document.fields for document in again.documents] == [document.fields for document in data.documents]


def test_the_digest_covers_fields_only_if_a_question_has_a_filter() -> None:
    def make(year: float | None, filtered: bool) -> Dataset:
        fields = {} if year is None else {"year": year}
        filter_ = parse_filter("year>=1", {"year": float}) if filtered else None
        example = Example("q", "Who?", "I", "fact", (), filter=filter_)
        return make_dataset({"name": "x"}, [Document("a", "A", "text", fields=fields)], [example])

    assert make(None, False).digest == make(1, False).digest == make(2, False).digest
    assert len({make(1, False).digest, make(1, True).digest, make(2, True).digest}) == 3


@pytest.mark.parametrize(
    ("manifest", "mistake"),
    [
        (
            "fields: {year: integer}",
            "dataset.yaml:2: a field must be one of text, number, date, list: write",
        ),
        ("fields: [year]", "dataset.yaml:2: a field must be one of"),
        (
            "fields: {signed: number}",
            "documents/leases/a.md: the field 'signed' is a number, not '2023-05-31'; correct it",
        ),
        ("fields: {tags: date}", "the field 'tags' has 2 values: declare it as list, not date"),
        ("fields: {year: text}", "'year' is text: declare it as number or date in dataset.yaml"),
    ],
)
def test_a_mistake_is_one_sentence(tmp_path: Path, manifest: str, mistake: str) -> None:
    with pytest.raises(DatasetError) as caught:
        load_dataset(contracts(tmp_path, f"name: contracts\n{manifest}\n"))
    assert any(mistake in each for each in caught.value.mistakes), caught.value.mistakes


@pytest.mark.parametrize(
    "front", ["---\n- a\n---\n", "---\na: [\n---\n", "---\na: &x 1\nb: *x\n---\n", "---\na: {b: 1}\n---\n"]
)
def test_front_matter_that_is_no_plain_yaml_has_no_fields(tmp_path: Path, front: str) -> None:
    [document] = load_documents(write(tmp_path, {"a.md": f"---\n{front}\n---\ntext\n"})).documents
    assert document.fields == {}


def test_a_field_has_one_type() -> None:
    documents = [Document("a", "A", "a", fields={"year": 1.0}), Document("b", "B", "b", fields={"year": "1"})]
    with pytest.raises(UsageError, match="the field 'year' of 'b' has another type than in others"):
        get_types(documents)
