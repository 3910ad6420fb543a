"""Statements that stand in several documents are anchored to all of their places."""

import json
from pathlib import Path

import pytest
from company_folder import TOPICS, company_folder, rule_of, says

from ragsmith.datasets.anchoring.anchor import EvidenceFinder
from ragsmith.datasets.anchoring.anchor_dataset import anchor_list
from ragsmith.datasets.anchoring.question_lists import ListedQuestion, QuotedEvidence
from ragsmith.datasets.anchoring.repair_dataset import relocate_evidence, repair_dataset
from ragsmith.datasets.chunking.chunking import cut_documents
from ragsmith.datasets.dataset import load_dataset, load_documents
from ragsmith.datasets.relevance import ChunkMap
from ragsmith.datasets.statements import StatementIndex
from ragsmith.types import Dataset, Document, Modality, Span, places_of


@pytest.fixture(scope="module")
def company(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the company folder with its list anchored in place."""
    folder = company_folder(tmp_path_factory.mktemp("company"))
    anchor_list(folder / "list.csv", folder)
    return folder


@pytest.fixture(scope="module")
def anchored(company: Path) -> Dataset:
    return load_dataset(company)


def test_a_help_desks_list_is_anchored_in_a_folder_that_repeats_itself(anchored: Dataset) -> None:
    texts = {document.id: document.text for document in anchored.documents}
    assert (len(texts), len(anchored.examples)) == (60, 40)
    places = {example.id: [*map(places_of, example.evidence)] for example in anchored.examples}
    wrong = [
        (example.question, texts[place.doc][place.start : place.end])
        for example in anchored.examples
        for place in places[example.id][0]
        if not says(texts[place.doc][place.start : place.end], rule_of(example.question))
    ]
    assert wrong == []
    assert sum(len(found) == 1 and len(found[0]) == 3 for found in places.values()) == 38  # the others name a document


def test_relevance_is_the_same_whichever_copy_is_found(anchored: Dataset) -> None:
    chunk_map = ChunkMap(cut_documents(anchored.documents, 900, 0))
    for example in anchored.examples:
        relevance = chunk_map.relevance(example.evidence)
        found = {relevance.rank_units([chunk]) for chunk in relevance.relevant}
        copies = len(places_of(example.evidence[0]))
        assert (len(found), len(relevance.units), len({chunk.split("#")[0] for chunk in relevance.relevant})) == (
            1,
            1,
            copies,
        )


def test_evidence_by_hand_in_repeated_statements_is_accepted(tmp_path: Path) -> None:
    folder = company_folder(tmp_path)
    rules = [(rule, question, answer) for topic in TOPICS.values() for rule, question, answer in topic]
    rows = [
        {"id": f"q{n}", "question": question, "answer": answer, "evidence": [{"text": rule.rstrip(".")}]}
        for n, (rule, question, answer) in enumerate(rules)
    ]
    (folder / "dataset.yaml").write_text("name: company\nlanguage: en\n")
    (folder / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    counts = {len(places_of(gold)) for example in load_dataset(folder).examples for gold in example.evidence}
    assert counts == {3}


RULE = "The invoice is paid within thirty days after it has been received."


def finder(*texts: str, titles: tuple[str, ...] = ()) -> EvidenceFinder:
    ids = [f"d{number}" for number in range(len(texts))]
    return EvidenceFinder([Document(i, title, text) for i, title, text in zip(ids, titles or ids, texts, strict=True)])


def found_docs(texts: EvidenceFinder, question: str, quotation: str = RULE, **given: object) -> list[str]:
    quoted = QuotedEvidence(quotation, **given)  # type: ignore[arg-type]
    (one,) = texts.anchor([ListedQuestion(1, "q", question, "Thirty days.", quotations=(quoted,))]).anchored
    return [place.doc for place in places_of(one.example.evidence[0])]


def test_copies_differ_in_case_white_space_punctuation_and_list_marks_only() -> None:
    copies = finder(
        f"# Rules\n\nSee the annex. {RULE} It may be late.\n",
        f"- {RULE.upper().rstrip('.')}\n",
        f"3. {RULE.replace(' after', ',  after')}\n",
        "* The invoice is paid within thirty days\nafter it has been received\n",
        f"{RULE.replace('thirty', 'forty')}\n",
        f"{RULE.rstrip('.')} and checked.\n",
    )
    assert found_docs(copies, "When is it paid?") == ["d0", "d1", "d2", "d3"]


def test_a_question_that_names_a_document_is_not_about_its_copies() -> None:
    contracts = finder(
        f"Arkell is the supplier. {RULE}", f"Brand is the supplier. {RULE}", titles=("Freight", "Cleaning")
    )
    assert found_docs(contracts, "When is the invoice paid?") == ["d0", "d1"]
    assert found_docs(contracts, "When is the invoice of Arkell paid?") == ["d0"]
    assert found_docs(contracts, "When is the freight paid?") == ["d0"]
    assert found_docs(contracts, "When is the invoice paid?", doc="d1") == ["d1"]


def test_short_sentences_and_rows_are_no_copies() -> None:
    short = StatementIndex([Document("a", "a", "It costs ten euros."), Document("b", "b", "It costs ten euros.")])
    assert short.copies(Span("a", 0, 19)) == ()
    row = "| a month | of paid leave | for all who work here | from now on |\n"
    tables = [Document(doc, doc, f"| {doc} | b | c | d |\n|---|---|---|---|\n{row}") for doc in "ab"]
    start = tables[0].text.index(row)
    assert StatementIndex(tables).copies(Span("a", start, start + len(row) - 1)) == ()
    sheets = [Document(doc, doc, "rate: the rate of a day in the city of Turin\n", Modality.TABLE) for doc in "ab"]
    assert StatementIndex(sheets).copies(Span("a", 0, 20)) == ()


def test_words_of_a_statement_are_found_in_its_copies() -> None:
    texts = [f"First of all. {RULE} More.", f"- {RULE}\n- Other."]
    index = StatementIndex(Document(f"d{n}", "", text) for n, text in enumerate(texts))
    start = texts[0].index("thirty")
    (copy,) = index.copies(Span("d0", start, start + len("thirty days")))
    assert (copy.doc, texts[1][copy.start : copy.end]) == ("d1", "thirty days")


def test_a_list_may_give_several_places() -> None:
    texts = finder(f"{RULE} One.", "Pay after thirty days. Two.")
    given = {"any": [{"doc": "d0", "text": RULE}, {"doc": "d1", "text": "Pay after thirty days."}]}
    assert found_docs(texts, "When?", "", record=given) == ["d0", "d1"]


def test_every_place_is_repaired_after_an_edit(company: Path) -> None:
    before = {example.id: len(places_of(example.evidence[0])) for example in load_dataset(company).examples}
    for path in (company / "documents" / "slides").iterdir():
        path.write_text(f"All of this is new.\n\n{path.read_text()}")
    result = repair_dataset(company)
    assert (result.unrepaired, result.changed_questions) == ((), 40)
    after = load_dataset(company).examples
    assert {example.id: len(places_of(example.evidence[0])) for example in after} == before
    texts = {document.id: document.text for document in load_documents(company).documents}
    places = [
        (texts[p.doc][p.start : p.end], rule_of(one.question)) for one in after for p in places_of(one.evidence[0])
    ]
    assert all(says(text, rule) for text, rule in places)


def test_places_that_are_gone_are_left_out_where_evidence_is_found_again() -> None:
    documents = {doc: Document(doc, doc, f"New. {RULE}") for doc in ("a", "b")}
    entries = [{"doc": doc, "start": 0, "end": len(RULE), "text": RULE} for doc in ("a", "b", "gone")]
    moved = [{**entry, "start": 5, "end": 5 + len(RULE)} for entry in entries[:2]]
    assert relocate_evidence({"any": entries[:2]}, documents) == [{"any": moved}]
    assert relocate_evidence({"any": entries[1:]}, {"b": documents["b"]}) == [moved[1]]


def test_a_place_in_a_removed_document_is_left_out_by_a_repair(tmp_path: Path) -> None:
    folder = company_folder(tmp_path)
    anchor_list(folder / "list.csv", folder)
    (folder / "documents" / "slides" / "badges.md").unlink()
    assert repair_dataset(folder).unrepaired == ()
    places = [places_of(example.evidence[0]) for example in load_dataset(folder).examples]
    assert sorted(map(len, places)) == [1, 1, 2, 2, *[3] * 36]
