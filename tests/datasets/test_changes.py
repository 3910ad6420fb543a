"""Changes of documents are detected, and questions that they still answer are kept."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ragsmith.datasets.changes import DocumentChanges, changes, contents, still_answerable
from ragsmith.types import Document, Example, Modality, Span


def document(name: str, text: str) -> Document:
    return Document(name, name, text)


def example(*evidence: Span) -> Example:
    return Example("q", "What is paid?", "Salt dues.", "fact", evidence)


BEFORE = (document("a", "Salt dues are paid. The bell rings."), document("b", "The wall stands."))
SALT, WALL = Span("a", 0, 19), Span("b", 0, 16)


@given(*[st.dictionaries(st.sampled_from("abcd"), st.sampled_from(["one", "two"]))] * 2)
def test_each_document_is_counted_once_as_what_happened_to_it(before: dict[str, str], after: dict[str, str]) -> None:
    found = changes(before, after)
    same = {name for name in before if after.get(name) == before[name]}
    for name in before | after:
        said = [name in found.added, name in found.changed, name in found.removed, name in same]
        assert said == [
            name not in before,
            name in before and name in after and name not in same,
            name not in after,
            name in same,
        ]
    assert bool(found) == (before != after)


def test_the_kind_of_a_text_counts_and_its_title_does_not() -> None:
    known = contents(BEFORE)
    assert contents([Document("a", "another title", BEFORE[0].text), BEFORE[1]]) == known
    assert contents([Document("a", "a", BEFORE[0].text, Modality.CODE), BEFORE[1]]) != known


def test_changes_are_said_in_words() -> None:
    assert str(DocumentChanges(("a", "b"), (), ("c",))) == "2 added, 1 removed"
    assert str(DocumentChanges()) == "none added, changed or removed"


def test_evidence_is_found_where_it_stood_and_where_it_moved_to() -> None:
    assert still_answerable([example(SALT, WALL)], BEFORE, BEFORE) == (example(SALT, WALL),)
    moved = (document("a", "Of old: Salt dues are paid."), BEFORE[1])
    assert still_answerable([example(SALT)], BEFORE, moved) == (example(Span("a", 8, 27)),)


def test_a_question_without_its_evidence_is_left_out() -> None:
    gone = (document("a", "The bell rings."), BEFORE[1])
    twice = (document("a", "See: Salt dues are paid. Salt dues are paid."), BEFORE[1])
    for after in (gone, twice, BEFORE[1:]):
        assert still_answerable([example(SALT), example(WALL), example(SALT, WALL)], BEFORE, after) == (example(WALL),)
    assert still_answerable([example()], BEFORE, gone) == (example(),)
