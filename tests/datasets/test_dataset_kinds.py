"""Documents of every kind and in folders: how they are named, titled, loaded, labelled and written back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from dataset_folder import ALPHA, evidence, questions, record, small_dataset
from pdf_file import pdf

import ragsmith
from ragsmith.datasets.dataset import load_dataset, load_documents, make_dataset, validate_dataset, write_dataset
from ragsmith.datasets.document_types import DOCUMENT_TYPES, find_document_type
from ragsmith.errors import DatasetError
from ragsmith.types import Document, Example, Modality, Span

CODE = "# Not a title\nimport this\n\n\ndef prime(pump):\n    pump.fill()\n"
CSV = "part,price\nseal,3\nvalve,\n"
ROWS = "part: seal; price: 3\npart: valve\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = small_dataset(tmp_path / "mixed")
    (folder / "documents" / "pump.PY").write_text(CODE)
    (folder / "documents" / "parts.csv").write_text(CSV)
    (folder / "documents" / "manual.pdf").write_bytes(pdf(["Fill the pump."], title="Pump manual"))
    (folder / "documents" / "plain.pdf").write_bytes(pdf(["# One", "Drain it."]))
    marks = [
        evidence("pump.PY", CODE, "# Not a title"),
        evidence("parts.csv", ROWS, "part: seal; price: 3"),
        evidence("manual.pdf", "Fill the pump.\n", "Fill the pump."),
    ]
    questions(folder, record(1, evidence=marks), record(2))
    return folder


def test_every_kind_has_its_id_title_text_and_modality(folder: Path) -> None:
    found = {document.id: document for document in load_dataset(folder).documents}
    assert list(found) == ["alpha", "beta", "manual.pdf", "parts.csv", "plain.pdf", "pump.PY"]
    assert found["pump.PY"] == Document("pump.PY", "pump.PY", CODE, Modality.CODE)
    assert found["parts.csv"] == Document("parts.csv", "parts.csv", ROWS, Modality.TABLE)
    assert found["manual.pdf"] == Document("manual.pdf", "Pump manual", "Fill the pump.\n")
    assert found["plain.pdf"] == Document("plain.pdf", "plain.pdf", "# One\nDrain it.\n")


def test_evidence_in_code_may_be_a_comment_and_in_text_no_heading(folder: Path) -> None:
    assert validate_dataset(folder) == ()
    questions(folder, record(1, evidence=[evidence("plain.pdf", "# One\nDrain it.\n", "# One")]))
    assert "is mostly a heading" in validate_dataset(folder)[0]


def test_a_data_set_of_every_kind_is_written_and_read_back_equal(folder: Path, tmp_path: Path) -> None:
    dataset = load_dataset(folder)
    write_dataset(dataset, tmp_path / "copy")
    assert load_dataset(tmp_path / "copy") == dataset
    names = sorted(path.name for path in (tmp_path / "copy" / "documents").iterdir())
    assert names == ["alpha.md", "beta.md", "manual.pdf.md", "parts.csv", "plain.pdf.md", "pump.PY"]
    assert (tmp_path / "copy" / "documents" / "parts.csv").read_text() == CSV


def test_titles_in_the_manifest_go_before_those_of_the_files(folder: Path, tmp_path: Path) -> None:
    titles = "titles:\n  alpha: First\n  pump.PY: 'The pump: its code'\n"
    (folder / "dataset.yaml").write_text(f"name: mixed\n{titles}")
    dataset = load_dataset(folder)
    assert [d.title for d in dataset.documents if d.id in ("alpha", "pump.PY")] == ["First", "The pump: its code"]
    write_dataset(dataset, tmp_path / "copy")
    assert load_dataset(tmp_path / "copy") == dataset


def test_any_title_and_a_dotted_id_survive_writing(tmp_path: Path) -> None:
    title = 'A "title": #1\u2028 é'
    documents = [Document("a.b.csv", title, "Gold."), Document("x" * 140, "x", "Gold too.")]
    dataset = make_dataset({"name": "n"}, documents, [Example("q", "Q", "A", "t", (Span("a.b.csv", 0, 4),))])
    write_dataset(dataset, tmp_path / "copy")
    assert load_dataset(tmp_path / "copy") == dataset


def test_a_pdf_and_its_text_beside_it_have_one_identifier(folder: Path) -> None:
    (folder / "documents" / "plain.pdf.md").write_text("Drain it.")
    expected = "documents/plain.pdf.md: has the same identifier 'plain.pdf' as plain.pdf; rename one of them"
    assert validate_dataset(folder)[0] == expected


def test_the_same_text_as_code_and_as_prose_are_two_documents(folder: Path) -> None:
    (folder / "documents" / "pump.md").write_text(CODE)
    (folder / "documents" / "twin.py").write_text(CODE)
    dataset = load_dataset(folder)
    assert dataset.merged == (("twin.py", "pump.PY"),)
    assert "pump" in {document.id for document in dataset.documents}


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (evidence("parts.csv", CSV, "seal,3"), "which is read as one line 'column: value; ...' a row"),
        ({"doc": "manual.pdf", "start": 0, "end": 4, "text": "none"}, "which is the text extracted from the PDF"),
        ({"doc": "pump", "start": 0, "end": 4, "text": "none"}, "there is no document 'pump'; did you mean 'pump.PY'?"),
    ],
)
def test_hints_know_the_kinds(folder: Path, entry: dict[str, object], said: str) -> None:
    questions(folder, record(1, evidence=[entry]))
    assert said in validate_dataset(folder)[0]


def test_no_two_kinds_share_an_ending_and_capitals_do_not_matter() -> None:
    suffixes = [suffix for kind in DOCUMENT_TYPES for suffix in kind.suffixes]
    assert len(suffixes) == len(set(suffixes))
    assert all(find_document_type(f"a{suffix.upper()}") is kind for kind in DOCUMENT_TYPES for suffix in kind.suffixes)
    assert find_document_type("Makefile") is None


@pytest.fixture
def nested(tmp_path: Path) -> Path:
    folder = small_dataset(tmp_path / "nested")
    inner = folder / "documents" / "manuals" / "v1.2 (old)"
    inner.mkdir(parents=True)
    (inner / "alpha.md").write_text("# Old alpha\n\nThe old rule was another.\n")
    (inner / "pump.py").write_text("RATE = 3\n")
    (folder / "documents" / ".git").mkdir()
    (folder / "documents" / ".git" / "config.md").write_text("hidden")
    return folder


def test_the_path_without_the_ending_is_the_id_and_flat_ones_stay_as_they_were(nested: Path) -> None:
    found = load_dataset(nested).documents
    ids = ["alpha", "beta", "manuals/v1.2 (old)/alpha", "manuals/v1.2 (old)/pump.py"]
    assert [document.id for document in found] == ids
    assert [document.title for document in found][2:] == ["Old alpha", ids[3]]
    assert load_documents(nested).documents == found


def test_evidence_points_into_them_and_they_are_written_back(nested: Path, tmp_path: Path) -> None:
    marks = [evidence("manuals/v1.2 (old)/pump.py", "RATE = 3\n", "RATE = 3")]
    questions(nested, record(1, evidence=marks), record(2))
    dataset = load_dataset(nested)
    write_dataset(dataset, tmp_path / "copy")
    assert load_dataset(tmp_path / "copy") == dataset


def test_equal_names_in_different_folders_are_different_documents(nested: Path) -> None:
    (nested / "documents" / "manuals" / "alpha.md").write_text("A third one.")
    assert validate_dataset(nested) == ()


@pytest.mark.parametrize("target", ["..", "/etc", "../manuals"])
def test_no_link_leads_out_or_around(nested: Path, target: str) -> None:
    (nested / "documents" / "manuals" / "again").symlink_to(target)
    expected = "documents/manuals/again: is a symbolic link, which is not followed; put the folder itself here"
    assert validate_dataset(nested) == (expected,)


def test_a_folder_with_an_odd_name_is_named_readably(nested: Path) -> None:
    (nested / "documents" / "a\x1bb").mkdir()
    (mistake,) = validate_dataset(nested)
    assert mistake == r"documents/'a\x1bb': the name has characters that cannot be printed; rename it"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may open every folder")
def test_a_closed_folder_is_a_mistake(nested: Path) -> None:
    closed = nested / "documents" / "manuals"
    closed.chmod(0)
    try:
        assert "documents/manuals: cannot be listed; check its permissions" in validate_dataset(nested)
    finally:
        closed.chmod(0o755)


def test_many_levels_are_no_matter(tmp_path: Path) -> None:
    deep = tmp_path / "deep"
    inner = deep.joinpath(*["d"] * 300)
    inner.mkdir(parents=True)
    (inner / "a.md").write_text(ALPHA)
    (document,) = load_documents(deep).documents
    assert document.id == "d/" * 300 + "a"


def test_without_questions_it_says_what_to_type(nested: Path) -> None:
    (nested / "questions.jsonl").unlink()
    with pytest.raises(DatasetError) as caught:
        ragsmith.load_dataset(nested)
    (mistake,) = caught.value.mistakes
    assert mistake.startswith(
        f"questions.jsonl: is missing; draft questions with `ragsmith dataset draft {nested} --llm MODEL"
    )


def test_documents_without_questions_have_the_titles_and_the_name_of_their_manifest(nested: Path) -> None:
    (nested / "questions.jsonl").unlink()
    (nested / "dataset.yaml").write_text("name: pumps\nlanguage: de\ntitles:\n  beta: Second\n")
    found = load_documents(nested)
    assert (found.name, found.language, found.documents[1].title) == ("pumps", "de", "Second")
