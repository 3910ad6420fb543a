"""The questions of a data set follow their evidence to other documents, and those without it are left out."""

from __future__ import annotations

from ragsmith.datasets.anchoring.other_documents import put_on_documents
from ragsmith.datasets.dataset import make_dataset
from ragsmith.types import Dataset, Document, Example, Span

DUES = "The salt dues of the harbour are paid by the buyer before the ship sails."
BELL = "The bell rings."
WALL = "The wall stands."


def texts(**documents: str) -> Dataset:
    return make_dataset({"name": "now"}, [Document(name, name, text) for name, text in documents.items()], [])


def asked(before: Dataset, **evidence: str) -> Dataset:
    """The documents with a question for each text, which is its evidence."""
    examples = []
    for name, text in evidence.items():
        doc = next(each for each in before.documents if text in each.text)
        start = doc.text.index(text)
        examples.append(Example(name, f"What of {name}?", name, "fact", (Span(doc.id, start, start + len(text)),)))
    examples.append(Example("nobody", "Who knows?", "", "fact", (), answerable=False))
    return make_dataset({"name": "before"}, before.documents, examples)


BEFORE = asked(texts(a=f"{DUES} {BELL}", b=WALL), dues=DUES, bell=BELL, wall=WALL)


def found(now: Dataset) -> dict[str, list[str]]:
    """The text of the evidence of each question in the documents ``now``."""
    moved = put_on_documents(BEFORE, now)
    by_id = {document.id: document.text for document in moved.documents}
    return {each.id: [by_id[one.doc][one.start : one.end] for one in each.evidence] for each in moved.examples}


ALL = {"bell": [BELL], "dues": [DUES], "nobody": [], "wall": [WALL]}


def test_evidence_is_found_where_it_stood_and_where_it_moved_to() -> None:
    assert found(texts(a=f"{DUES} {BELL}", b=WALL)) == ALL
    assert found(texts(a=f"Of old: {BELL} {DUES}", b=f"Look! {WALL}", c="New.")) == ALL
    assert found(texts(a=BELL, b=WALL, c=f"Moved here. {DUES}")) == ALL


def test_edited_words_are_followed() -> None:
    edited = DUES.replace("harbour", "harbor").replace("buyer", "buyre")
    assert found(texts(a=f"{edited} {BELL}", b=WALL)) == {**ALL, "dues": [edited]}


def test_a_question_without_its_evidence_or_with_an_ambiguous_one_is_left_out() -> None:
    for gone in (texts(a=DUES, b=WALL), texts(a=f"{DUES} The bell sleeps. {BELL} {BELL}", b=WALL)):
        assert found(gone) == {name: text for name, text in ALL.items() if name != "bell"}


def test_an_identical_document_with_another_name_takes_no_evidence_away() -> None:
    assert found(texts(a=f"{DUES} {BELL}", a_copy=f"{DUES} {BELL}", b=WALL, aa=WALL)) == ALL


ROWS = "| Class | Fee |\n| --- | --- |\n| Full permit | M 300 |\n| Work begun without a permit | M 500 |"
TABLE = asked(texts(fees=f"# Fees\n\nPaid at the counter.\n\n{ROWS}\n\nSee also the list."), head="| Class | Fee |")


def heads(table: str) -> list[str]:
    moved = put_on_documents(TABLE, texts(fees=f"# Fees\n\n{table}\n\nPaid at the counter. See also the list."))
    [text] = [document.text for document in moved.documents]
    return [text[one.start : one.end] for each in moved.examples for one in each.evidence]


def test_an_edited_text_of_few_words_is_found_by_its_paragraph() -> None:
    assert heads(ROWS.replace("Class", "Calss")) == ["| Calss | Fee |"]


def test_what_was_deleted_from_a_paragraph_is_not_found() -> None:
    assert heads(ROWS.replace("| Class | Fee |\n| --- | --- |\n", "")) == []


def test_an_edited_text_is_found_in_its_document_though_another_has_the_text_as_it_was() -> None:
    edited = DUES.replace("harbour", "harbor")
    before = asked(texts(a=f"{DUES} {BELL}", b=f"{WALL} {DUES}"), dues=DUES)
    [dues, _] = put_on_documents(before, texts(a=f"{edited} {BELL}", b=f"{WALL} {DUES}")).examples
    assert dues.evidence == (Span("a", 0, len(edited)),)
