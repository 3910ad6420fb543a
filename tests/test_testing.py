from __future__ import annotations

import pytest

from ragsmith.models.tasks import Task, parse_text
from ragsmith.testing import ScriptedModel, example_chunks, example_documents, fake_search, hits_of
from ragsmith.types import Scale

ECHO = Task(name="echo", prompt="Say {what}", parse=parse_text, offline=lambda model, *, sample, what: what)


def test_a_scripted_model_gives_its_results_in_order_and_counts() -> None:
    model = ScriptedModel({"echo": ["one", "two", "three"]})
    assert [model.run(ECHO, what="a"), model.run(ECHO, sample=1, what="b")] == ["one", "two"]
    assert model.count("echo") == 2
    assert model.left("echo") == 1
    assert [(call.task, call.sample, dict(call.inputs)) for call in model.calls][1] == ("echo", 1, {"what": "b"})


def test_a_scripted_model_refuses_what_it_was_not_told() -> None:
    with pytest.raises(AssertionError, match=r"'echo'.*'what': 'a'"):
        ScriptedModel().run(ECHO, what="a")


def test_a_scripted_model_notices_a_forgotten_input() -> None:
    with pytest.raises(TypeError, match="what"):
        ScriptedModel({"echo": ["one"]}).run(ECHO)


def test_a_fake_search_records_queries_and_finds_nothing_for_unknown_ones() -> None:
    hits = hits_of(example_chunks(), [3.0, 2.0], Scale.BM25)
    search = fake_search({"a": hits})
    assert search(("a", "b")) == (hits, ())
    assert search(("c",)) == ((),)
    assert search.calls == [("a", "b"), ("c",)]
    assert search.queries == ("a", "b", "c")
    assert fake_search(hits)(["x", "y"]) == (hits, hits)


def test_example_chunks_are_slices_of_the_example_documents() -> None:
    documents = {document.id: document for document in example_documents()}
    chunks = example_chunks()
    assert len(chunks) == 10
    assert all(documents[chunk.doc].text[chunk.start : chunk.end] == chunk.text for chunk in chunks)
    assert [chunk.index for chunk in chunks] == [0, 1, 2, 3, 0, 1, 2, 0, 1, 2]
