"""A review as a file to edit."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from drafted import FACTS, drafted_dataset, drafted_row, rows_of, text_of

from ragsmith.errors import DatasetError, UsageError
from ragsmith.labelling.reviewing.decisions import Accept
from ragsmith.labelling.reviewing.review import Review
from ragsmith.labelling.reviewing.sheet import apply_sheet, write_sheet

Edit = Callable[[str, dict[str, str]], str]


def edit_markdown(text: str, id_: str, **changes: str) -> str:
    """Change fields of one section as a person does."""
    head, *sections = re.split(r"(?m)^(?=## )", text)
    [place] = [place for place, section in enumerate(sections) if section.startswith(f"## {id_}\n")]
    for label, value in changes.items():
        line = label in ("Decision", "Reason", "Seen")
        pattern = rf"^({label}):.*$" if line else rf"^({label}[^\n]*:)\n(?:>[^\n]*\n)*"
        block = f": {value}" if line else "\n" + "".join(f"> {text}\n" for text in value.split("\n"))
        sections[place] = re.sub(pattern, rf"\g<1>{block}", sections[place], count=1, flags=re.MULTILINE)
    return head + "".join(sections)


def edit_csv(text: str, id_: str, **changes: str) -> str:
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    names = {"Quote": "quote_1"}
    for row in rows:
        if row["id"] == id_:
            row.update({names.get(key, key.lower()): value for key, value in changes.items()})
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, rows[0].keys())
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()


EDITS: dict[str, Any] = {".md": edit_markdown, ".csv": edit_csv}


@pytest.fixture(params=sorted(EDITS))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    formula = drafted_row(80, question='=HYPERLINK("x"), is it?\nsecond line', answer="-1 + 2")
    return drafted_dataset(tmp_path / "yard", 6, formula)


def edit(path: Path, id_: str, **changes: str) -> None:
    text = path.read_bytes().decode()
    path.write_bytes(EDITS[path.suffix](text, id_, **changes).encode())


def test_a_file_is_written_edited_and_applied(folder: Path, tmp_path: Path, kind: str) -> None:
    review, path = Review.open(folder), tmp_path / f"review{kind}"
    assert write_sheet(review, path) == 7
    edit(path, "draft-000", Decision="accept")
    edit(path, "draft-001", Decision="mend", Question="Is it\nso?", Quote="carry   fire across\nthe yard")
    edit(path, "draft-002", Decision="Reject", Reason="too vague")
    edit(path, "draft-080", Decision="accept")
    applied = apply_sheet(review, path, "ada")
    assert applied.counts == {"accepted": 2, "mended": 1, "rejected": 1}
    assert (applied.undecided, applied.meanwhile) == (3, ())
    rows = rows_of(folder)
    assert rows["draft-001"]["question"] == "Is it\nso?"
    assert rows["draft-001"]["evidence"][0]["text"] == "carry fire across the yard"
    assert rows["draft-080"]["question"] == drafted_row(80, question='=HYPERLINK("x"), is it?\nsecond line')["question"]
    assert rows["draft-080"]["origin"]["reviewed"] == "accepted"
    assert rows_of(folder, "rejected.jsonl")["draft-002"]["reason"] == "too vague"
    again = apply_sheet(review, path, "ada")
    assert (sum(again.counts.values()), again.meanwhile) == (0, ())


def test_all_mistakes_are_listed_and_nothing_is_applied(folder: Path, tmp_path: Path, kind: str) -> None:
    review, path = Review.open(folder), tmp_path / f"review{kind}"
    write_sheet(review, path)
    edit(path, "draft-000", Decision="accept")
    edit(path, "draft-001", Decision="burn")
    edit(path, "draft-002", Decision="mend", Quote="The bell is rung.")
    edit(path, "draft-003", Decision="mend", Question="", Answer="")
    edit(path, "draft-004", Decision="accept", Question="Changed?")
    edit(path, "draft-005", Decision="accept", Seen="")
    before = (folder / "questions.jsonl").read_bytes()
    with pytest.raises(DatasetError) as raised:
        apply_sheet(review, path, "ada")
    said = "\n".join(raised.value.mistakes)
    for words in (
        "'burn' is no decision",
        "stands at 2 places",
        "'question' is blank",
        "the answer is blank",
        "says accept, and the text was changed; write mend",
        "what was seen is missing",
    ):
        assert words in said
    assert len(raised.value.mistakes) == 6
    assert all(re.match(rf"review{re.escape(kind)}:\d+ \(draft-", mistake) for mistake in raised.value.mistakes)
    assert (folder / "questions.jsonl").read_bytes() == before


def test_what_another_decided_meanwhile_is_said_and_stays(folder: Path, tmp_path: Path, kind: str) -> None:
    review, path = Review.open(folder), tmp_path / f"review{kind}"
    write_sheet(review, path)
    review.decide("draft-001", Accept(), reviewer="ben")
    edit(path, "draft-001", Decision="reject")
    applied = apply_sheet(review, path, "ada")
    assert applied.meanwhile[0].endswith("(draft-001): ben accepted it meanwhile; left as it is")
    assert rows_of(folder)["draft-001"]["origin"]["reviewer"] == "ben"


def test_a_file_with_decisions_is_not_overwritten(folder: Path, tmp_path: Path, kind: str) -> None:
    review, path = Review.open(folder), tmp_path / f"review{kind}"
    write_sheet(review, path)
    write_sheet(review, path)
    edit(path, "draft-001", Decision="reject")
    with pytest.raises(UsageError, match="has 1 decisions"):
        write_sheet(review, path)
    path.write_text("my own notes\n")
    with pytest.raises(UsageError, match="is no file of a review"):
        write_sheet(review, path)
    assert path.read_text() == "my own notes\n"


def test_no_cell_is_a_formula_and_a_spreadsheet_may_add_its_marks(folder: Path, tmp_path: Path) -> None:
    review, path = Review.open(folder), tmp_path / "review.csv"
    write_sheet(review, path)
    cells = [cell for row in csv.reader(io.StringIO(path.read_bytes().decode(), newline="")) for cell in row]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@"))]
    rows = list(csv.reader(io.StringIO(path.read_bytes().decode(), newline="")))
    rows[1][0] = "accept"
    buffer = io.StringIO()
    csv.writer(buffer, delimiter=";").writerows(rows)
    path.write_bytes(b"\xef\xbb\xbf" + buffer.getvalue().encode())
    assert apply_sheet(review, path, "ada").counts["accepted"] == 1


def test_other_files_are_refused(folder: Path, tmp_path: Path) -> None:
    review = Review.open(folder)
    with pytest.raises(UsageError, match=r"is no \.md and no \.csv file"):
        write_sheet(review, tmp_path / "review.txt")
    (tmp_path / "a.csv").write_text("x,y\n")
    with pytest.raises(DatasetError, match="lacks the column 'decision'"):
        apply_sheet(review, tmp_path / "a.csv", "ada")
    (tmp_path / "a.md").write_text("## draft-001\n\nDecision: accept\nlost words\n")
    with pytest.raises(DatasetError, match="'lost words' belongs to nothing"):
        apply_sheet(review, tmp_path / "a.md", "ada")
    with pytest.raises(DatasetError, match="is missing"):
        apply_sheet(review, tmp_path / "gone.md", "ada")


def test_the_command_writes_and_reads(folder: Path, tmp_path: Path, ragsmith: Callable[..., Any]) -> None:
    path = tmp_path / "review.md"
    written = ragsmith("dataset", "review", folder, "--write", path)
    assert (written.code, f"{path}: 7 questions to decide about" in written.out) == (0, True)
    assert FACTS[0] in path.read_text()
    edit(path, "draft-001", Decision="accept")
    read = ragsmith("dataset", "review", folder, "--read", path, "--reviewer", "ada")
    assert (read.code, "1 accepted, 0 mended, 0 rejected" in read.out) == (0, True)
    edit(path, "draft-001", Decision="burn")
    assert ragsmith("dataset", "review", folder, "--read", path).code == 2
    both = ragsmith("dataset", "review", folder, "--read", path, "--terminal")
    assert (both.code, "give one of them" in both.err) == (2, True)


def test_the_same_words_from_two_places_stay_two_pieces_of_evidence(tmp_path: Path, kind: str) -> None:
    words = "The bell is rung."
    first = text_of("mill").index(words)
    starts = (first, text_of("mill").index(words, first + 1))
    entries = [{"doc": "mill", "start": start, "end": start + len(words), "text": words} for start in starts]
    folder = drafted_dataset(tmp_path / "bells", 0, drafted_row(7, evidence=entries))
    review, path = Review.open(folder), tmp_path / f"review{kind}"
    write_sheet(review, path)
    edit(path, "draft-007", Decision="mend", Question="When is it rung?")
    apply_sheet(review, path, "ada")
    assert rows_of(folder)["draft-007"]["evidence"] == entries


def test_a_quote_that_was_copied_is_said_to_be_there_twice(folder: Path, tmp_path: Path) -> None:
    review, path = Review.open(folder), tmp_path / "review.md"
    write_sheet(review, path)
    edit(path, "draft-001", Decision="mend", Question="When?")
    path.write_text(
        re.sub(r"(?s)(## draft-001\n.*?)(Quote in `mill`:\n> [^\n]*\n)", r"\1\2\2", path.read_text(), count=1)
    )
    with pytest.raises(DatasetError, match="is quoted twice"):
        apply_sheet(review, path, "ada")


def test_commands_to_type_quote_what_has_spaces(tmp_path: Path, ragsmith: Callable[..., Any]) -> None:
    folder, path = drafted_dataset(tmp_path / "the yard"), tmp_path / "my review.md"
    shown = ragsmith("dataset", "review", folder, "--write", path)
    command = f"ragsmith dataset review '{folder}' --read '{path}'"
    assert command in shown.out
    assert command in path.read_text()
