"""Documents in folders within a data set's folder of documents: how they are named, found and written back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from dataset_folder import ALPHA, evidence, questions, record, small_dataset

import ragsmith
from ragsmith.datasets.dataset import load_dataset, load_documents, validate_dataset, write_dataset
from ragsmith.errors import DatasetError


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
        f"questions.jsonl: is missing; draft questions with  ragsmith dataset draft {nested} --llm MODEL ,"
    )


def test_documents_without_questions_have_the_titles_and_the_name_of_their_manifest(nested: Path) -> None:
    (nested / "questions.jsonl").unlink()
    (nested / "dataset.yaml").write_text("name: pumps\nlanguage: de\ntitles:\n  beta: Second\n")
    found = load_documents(nested)
    assert (found.name, found.language, found.documents[1].title) == ("pumps", "de", "Second")
