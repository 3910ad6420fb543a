"""HotpotQA's supporting sentences become spans in the paragraphs they are from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragsmith.datasets.dataset import load_dataset, write_dataset
from ragsmith.datasets.importers.hotpotqa import import_hotpotqa
from ragsmith.errors import DatasetError, Notice

OAK = ["Oak", ["The oak is a tree.", " It is old.", " ", " It has acorns.", " Birds\nlike it."]]
ELM = ["Elm: A/B?", ["The elm is a tree.", " It is tall."]]
ASH = ["ash", ["The ash burns."]]
ASH_AGAIN = ["Ash", ["The ash of a fire."]]


def question(number: int, *facts: object, context: tuple[Any, ...] = (OAK, ELM), **changes: object) -> dict[str, Any]:
    base: dict[str, Any] = {
        "_id": f"q{number}",
        "question": " Which tree?",
        "answer": "Oak ",
        "type": "bridge",
        "level": "easy",
        "context": list(context),
        "supporting_facts": list(facts),
    }
    return {key: value for key, value in {**base, **changes}.items() if value is not None}


def write(folder: Path, *questions: object, name: str = "qa.json") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps(list(questions)), encoding="utf-8")
    return folder


def test_a_paragraph_is_a_document_under_its_title(tmp_path: Path) -> None:
    imported = import_hotpotqa(
        write(tmp_path / "my trees", question(1, ["Oak", 0], context=(OAK, ELM, ASH, ASH_AGAIN)))
    )
    found = {document.id: (document.title, document.text) for document in imported.dataset.documents}
    assert found == {
        "Ash": ("Ash", "# Ash\n\nThe ash of a fire.\n"),
        "Elm_A_B": ("Elm: A/B?", "# Elm: A/B?\n\nThe elm is a tree. It is tall.\n"),
        "Oak": ("Oak", "# Oak\n\nThe oak is a tree. It is old.  It has acorns. Birds like it.\n"),
        "ash-2": ("ash", "# ash\n\nThe ash burns.\n"),  # a disk may not tell Ash.md from ash.md
    }
    assert imported.dataset.name == "my-trees"
    write_dataset(imported.dataset, tmp_path / "written")
    assert load_dataset(tmp_path / "written") == imported.dataset


def test_supporting_sentences_are_spans_and_neighbours_one_span(tmp_path: Path) -> None:
    facts = (["Elm: A/B?", 1], ["Oak", 3], ["Oak", 1], ["Oak", 4], ["Oak", 1])
    imported = import_hotpotqa(write(tmp_path / "data", question(1, *facts)))
    [example] = imported.dataset.examples
    texts = {document.id: document.text for document in imported.dataset.documents}
    assert [texts[span.doc][span.start : span.end] for span in example.evidence] == [
        "It is tall.",
        "It is old.  It has acorns. Birds like it.",  # nothing but a blank sentence between them
    ]
    assert (example.id, example.question, example.answer, example.type) == ("q1", "Which tree?", "Oak", "bridge")
    assert (imported.located, imported.total, imported.notes) == (4, 4, ())


def test_facts_that_do_not_exist_are_counted_and_named(tmp_path: Path) -> None:
    first = question(1, ["Oak", 0], ["Oak", 9], ["Fir", 0])
    second = question(2, ["Oak", 2], ["Oak", -1])
    imported = import_hotpotqa(write(tmp_path / "data", first, second))
    assert (imported.located, imported.total) == (1, 5)
    assert imported.notes == (
        "q1: sentence 9 of 'Oak' does not occur there exactly once",
        "q1: sentence 0 of 'Fir' does not occur there exactly once",
        "q2: sentence 2 of 'Oak' does not occur there exactly once",
        "q2: sentence -1 of 'Oak' does not occur there exactly once",
        "q2: left out, because none of its evidence was found",
    )
    assert [example.id for example in imported.dataset.examples] == ["q1"]


def test_files_are_pooled_with_a_corpus(tmp_path: Path) -> None:
    folder = write(tmp_path / "data", question(1, ["Oak", 0]))
    write(folder, question(2, ["Elm: A/B?", 0]), name="more.json")
    (folder / "corpus.json").write_text(json.dumps(dict([OAK, ASH])))
    imported = import_hotpotqa(folder)
    assert [document.id for document in imported.dataset.documents] == ["Elm_A_B", "Oak", "ash"]
    assert [example.id for example in imported.dataset.examples] == ["q1", "q2"]
    assert [example.id for example in import_hotpotqa(folder / "more.json").dataset.examples] == ["q2"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('"text"', "qa.json: expected a list of questions, found a text; give a file in HotpotQA's layout"),
        ("[{]", "qa.json:1: not valid JSON: Expecting property name enclosed in double quotes at column 3"),
        ("[NaN]", "qa.json: not valid JSON: NaN is not a number"),
        ("[" * 100_000, "qa.json: the JSON is nested too deeply"),
        ("[]", "data: has no questions"),
        ("[1]", "qa.json: question 1: expected an object, found an integer"),
        ([question(1, _id=None)], "qa.json: question 1: '_id' is missing; give a file in HotpotQA's layout"),
        ([question(1), question(2, answer=7)], "qa.json: question 2 (q2): 'answer' is an integer, not a text"),
        ([question(1, answer=" ")], "qa.json: question 1 (q1): 'answer' is blank"),
        (
            [question(1, context=(["Oak", "text"],))],
            "qa.json: question 1 (q1): a paragraph must be a title with a list",
        ),
        ([question(1, ["Oak", "0"])], "qa.json: question 1 (q1): a supporting fact must be a title with the number"),
        ([question(1, ["Oak", 0])] * 2, "the question 'q1' occurs 2 times; give each file once"),
    ],
)
def test_other_files_are_refused_with_their_place(tmp_path: Path, content: Any, said: str) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "qa.json").write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(DatasetError) as refusal:
        import_hotpotqa(folder)
    [mistake] = refusal.value.mistakes
    assert mistake.removeprefix(f"{tmp_path}/").startswith(said)


def test_control_characters_are_dropped_and_said(tmp_path: Path) -> None:
    source = write(tmp_path / "data", question(1, ["Oak", 0], answer="a\x1bb", context=(OAK,)))
    with pytest.warns(Notice, match=r"^qa\.json: 1 control character was removed$"):
        [example] = import_hotpotqa(source).dataset.examples
    assert example.answer == "ab"
