"""What holds whatever the documents are."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ragsmith.labelling.drafting.draft import Draft, Quote
from ragsmith.labelling.drafting.drafting import Drafted, draft_dataset
from ragsmith.labelling.drafting.material import Material
from ragsmith.labelling.drafting.rewording import overlap, reworded, words_near
from ragsmith.labelling.drafting.selection import chosen
from ragsmith.types import Document

SUBJECTS = ("The skipper", "A pilot", "The harbour office", "The lamp of the quay", "Anna Lindqvist", "Old boats")
VERBS = ("must report to", "pays", "keeps", "was built by", "may leave", "receives", "close")
OBJECTS = ("the northern lighthouse", "eleven crowns a day", "the list of the crew", "every barge of the fleet")
ENDS = (
    "within two hours",
    "because the ebb is strong",
    "in 1931",
    "by lowering a flag",
    "if the wind exceeds forty knots",
)

sentence = st.builds(
    lambda *parts: f"{' '.join(parts)}.",
    st.sampled_from(SUBJECTS),
    st.sampled_from(VERBS),
    st.sampled_from(OBJECTS),
    st.sampled_from(ENDS),
)
odd = st.text(st.characters(blacklist_categories=("Cs", "Cc")), min_size=1, max_size=30)
paragraph = st.lists(st.one_of(sentence, sentence, odd), min_size=1, max_size=6).map(" ".join)
table = st.lists(st.integers(1, 99), min_size=2, max_size=5).map(
    lambda cells: "| Boat | Dues |\n|---|---|\n" + "\n".join(f"| Boat {i} | {n} crowns |" for i, n in enumerate(cells))
)
text = st.lists(st.one_of(paragraph, paragraph, table, st.just("## Dues")), min_size=1, max_size=6).map("\n\n".join)
texts = st.lists(text.filter(lambda t: bool(t.strip())), min_size=1, max_size=4)


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line] if path.exists() else []


def data_set(folder: Path, contents: list[str]) -> None:
    (folder / "documents").mkdir()
    (folder / "dataset.yaml").write_text("name: made\nlanguage: en\n")
    for number, content in enumerate(contents):
        (folder / "documents" / f"doc{number}.md").write_text(content, encoding="utf-8", newline="")


def drafted(contents: list[str], questions: int, seed: int = 0) -> tuple[Drafted, list[Any], list[Any], Drafted, int]:
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        data_set(folder, contents)
        first = draft_dataset(folder, questions=questions, seed=seed)
        kept, refused = rows(folder / "questions.jsonl"), rows(folder / "rejected.jsonl")
        again = draft_dataset(folder, questions=questions + 5, seed=seed)
        return first, kept, refused, again, len(rows(folder / "rejected.jsonl"))


@settings(max_examples=25, deadline=None)
@given(texts, st.integers(1, 12))
def test_evidence_is_exact_and_counts_add_up(contents: list[str], questions: int) -> None:
    first, kept, refused, again, rejected = drafted(contents, questions)
    for row in [*kept, *refused]:
        for entry in row["evidence"]:
            whole = contents[int(entry["doc"].removeprefix("doc"))]
            assert whole[entry["start"] : entry["end"]] == entry["text"]
    assert len(kept) == len(first.added) <= questions
    assert len(refused) == len(first.refusals) == sum(first.refused.values())
    assert sum(first.made.values()) == first.known + len(first.refusals) + len(first.added) + first.left
    assert len({row["id"] for row in kept}) == len(kept)
    assert all(bool(row["evidence"]) == row.get("answerable", True) for row in kept)
    # what was refused does not come back, neither as a question nor as a refusal
    asked = {row["question"] for row in refused}
    assert asked.isdisjoint(draft.question for draft in again.added)
    assert asked.isdisjoint(one.draft.question for one in again.refusals)
    assert rejected == len(refused) + len(again.refusals)


@settings(max_examples=10, deadline=None)
@given(texts, st.integers(0, 3))
def test_the_same_seed_drafts_the_same_rows(contents: list[str], seed: int) -> None:
    assert drafted(contents, 6, seed)[1:3] == drafted(contents, 6, seed)[1:3]


@given(st.lists(sentence, min_size=1, max_size=3), st.floats(0, 1))
def test_rewording_never_moves_a_question_towards_its_evidence(told: list[str], share: float) -> None:
    whole = " ".join(told)
    material = Material([Document("doc", "Doc", whole)])
    one = Draft(
        f"When is it true that {told[0][:-1]}?", "x", (Quote("doc", told[0], 0),), "t", "m", material.passages[0].span
    )
    near = words_near(one, material)
    other = reworded(one, material, (share,))
    assert overlap(other.question, near) <= overlap(one.question, near)
    assert other == reworded(one, material, (share,))
    assert share < 1 or other == one


@given(st.integers(0, 30), st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3)), max_size=25))
def test_selection_takes_as_many_as_there_are_and_none_twice(wanted: int, made: list[tuple[str, int]]) -> None:
    whole = " ".join(f"Boat number {i} carries load number {i * i}." for i in range(4))
    material = Material([Document("doc", "Doc", whole)])
    drafts = []
    for number, (method, place) in enumerate(made):
        quote = Quote("doc", told := f"Boat number {place}", whole.index(told))
        question = f"What does boat {place} of {number} carry?"
        drafts.append(Draft(question, f"{number}", (quote,), "t", method, material.passages[0].span))
    taken = chosen(drafts, wanted, material)
    assert len(taken) == min(wanted, len(drafts))
    assert len({draft.id for draft in taken}) == len(taken)
    assert set(taken) <= set(drafts)
