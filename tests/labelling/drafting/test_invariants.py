"""What holds whatever the documents are."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from made import Scripted

from ragsmith.labelling.drafting.draft import Draft, make_quote
from ragsmith.labelling.drafting.drafting import draft_dataset, select_balanced
from ragsmith.labelling.drafting.material import DraftingCorpus
from ragsmith.labelling.reviewing.decisions import Quote
from ragsmith.types import Chunk, Document

paragraph = st.text(st.characters(blacklist_categories=("Cs", "Cc")), min_size=1, max_size=200)
WORDS = ("the", "skipper", "must", "report", "to", "a", "harbour", "office", "within", "two", "hours", "of", "tide")
words = st.lists(st.sampled_from(WORDS), max_size=60)
text = st.lists(st.one_of(paragraph, words.map(" ".join)), min_size=1, max_size=6).map("\n\n".join)
texts = st.lists(text.filter(lambda t: bool(t.strip())), min_size=1, max_size=4)
asked_for = st.tuples(st.integers(0, 3), st.integers(0, 900), st.integers(5, 60), words.map(" ".join), st.booleans())
asks = st.lists(asked_for, max_size=12)


def slices(asked: Sequence[tuple[int, int, int, str, bool]]) -> Scripted:
    """Drafts that quote slices of passages, a few of them misquoted."""

    def made(passages: list[Chunk]) -> Iterator[Draft]:
        for number, start, length, question, exact in asked if passages else ():
            passage = passages[number % len(passages)]
            said = passage.text[start % len(passage.text) :][:length] + "?!" * (not exact)
            yield Draft(question, "Two hours.", (make_quote(passage, said),), "factual", "slices", passage.span)

    return Scripted(made)


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line] if path.exists() else []


@settings(max_examples=25, deadline=None)
@given(texts, asks, st.integers(1, 12))
def test_evidence_is_exact_and_counts_add_up(contents: list[str], asked: Any, questions: int) -> None:
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "documents").mkdir()
        (folder / "dataset.yaml").write_text("name: made\nlanguage: en\n")
        for number, content in enumerate(contents):
            (folder / "documents" / f"doc{number}.md").write_text(content, encoding="utf-8", newline="")
        first = draft_dataset(folder, slices(asked), questions=questions)
        kept, refused = rows(folder / "questions.jsonl"), rows(folder / "rejected.jsonl")
        again = draft_dataset(folder, slices(asked), questions=questions + 5)
    for row in kept:
        for entry in row["evidence"]:
            whole = contents[int(entry["doc"].removeprefix("doc"))]
            assert whole[entry["start"] : entry["end"]] == entry["text"]
    assert len(kept) == len(first.added) <= questions
    assert len(refused) == len(first.refusals) == sum(first.refused.values())
    assert sum(first.made.values()) == first.known + len(first.refusals) + len(first.added) + first.left
    assert len({row["id"] for row in kept}) == len(kept)
    # what was refused does not come back, neither as a question nor as a refusal
    questions_refused = {row["question"] for row in refused}
    assert questions_refused.isdisjoint(draft.question for draft in again.added)
    assert questions_refused.isdisjoint(one.draft.question for one in again.refusals)


@given(st.integers(0, 30), st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3)), max_size=25))
def test_selection_takes_as_many_as_there_are_and_none_twice(wanted: int, made: list[tuple[str, int]]) -> None:
    whole = " ".join(f"Boat number {i} carries load number {i * i}." for i in range(4))
    material = DraftingCorpus([Document("doc", "Doc", whole)])
    drafts = []
    for number, (method, place) in enumerate(made):
        quote = Quote("doc", told := f"Boat number {place}", whole.index(told))
        question = f"What does boat {place} of {number} carry?"
        drafts.append(Draft(question, f"{number}", (quote,), "t", method, material.passages[0].span))
    taken = select_balanced(drafts, wanted, material)
    assert len(taken) == min(wanted, len(drafts))
    assert len({draft.id for draft in taken}) == len(taken)
    assert set(taken) <= set(drafts)
