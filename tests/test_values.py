"""Values of pipelines, progress of long tasks, and helpers for tests."""

from __future__ import annotations

import logging
import pickle

import pytest

from ragsmith.building import EVERY_SECONDS, TaskProgress, log_progress
from ragsmith.models.tasks import Task, parse_text
from ragsmith.testing import ScriptedModel, example_chunks, example_documents, fake_search, hits_of
from ragsmith.types import Chunk, Hit, LazyHits, Scale, get_chunks, get_ids

CHUNKS = tuple(Chunk(f"c{i}", "doc", i, 10 * i, 10 * i + 9, f"text {i}") for i in range(9))
ranking = LazyHits(CHUNKS, (4, 1, 7), (0.9, 0.5, 0.5), Scale.COSINE)
HITS = tuple(Hit(CHUNKS[i], score, Scale.COSINE) for i, score in ((4, 0.9), (1, 0.5), (7, 0.5)))


def test_it_is_equal_to_the_tuple_of_its_hits_in_every_way() -> None:
    assert ranking == HITS
    assert HITS == ranking  # noqa: SIM300  from both sides
    assert hash(ranking) == hash(HITS)
    assert {HITS: "known"}[ranking] == "known"  # type: ignore[index]
    assert repr(ranking) == repr(HITS)
    assert (*ranking,) == HITS
    assert ranking + HITS[:1] == HITS + HITS[:1] == HITS + ranking[:1]
    assert (len(ranking), ranking[0], ranking[-1], HITS[1] in ranking) == (3, HITS[0], HITS[2], True)
    assert ranking != HITS[:2]
    assert ranking != list(HITS)


def test_it_is_sliced_as_a_tuple_is() -> None:
    for at in (slice(2), slice(1, None), slice(-2, None), slice(None, None, -1), slice(0, 3, 2), slice(5, 9)):
        assert ranking[at] == HITS[at]
    assert ranking[:0] == ()
    assert not ranking[:0]


def test_equal_rankings_of_other_chunks_are_equal() -> None:
    assert ranking == LazyHits(CHUNKS[1:], (3, 0, 6), ranking.scores, Scale.COSINE)
    assert ranking != LazyHits(CHUNKS, ranking.positions, ranking.scores, Scale.BM25)
    assert ranking != LazyHits(CHUNKS, ranking.positions, (0.9, 0.5, 0.4), Scale.COSINE)
    assert ranking[:0] == LazyHits(CHUNKS, (), (), Scale.BM25)


def test_chunks_and_their_ids_are_those_of_the_hits() -> None:
    assert get_ids(ranking) == get_ids(HITS) == ("c4", "c1", "c7")
    assert get_chunks(ranking) == get_chunks(HITS) == (CHUNKS[4], CHUNKS[1], CHUNKS[7])


def test_another_process_is_sent_its_hits_and_not_all_chunks() -> None:
    sent = pickle.dumps(ranking)
    assert pickle.loads(sent) == HITS
    assert b"text 4" in sent
    assert b"text 0" not in sent


LOGGER = "ragsmith.building"


class Clock:
    """A clock that is set."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_it_is_told_every_so_often_how_far_something_is(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    clock = Clock()
    building = TaskProgress("embedding texts", 12_000, clock)
    for parts in range(0, 12_001, 1_000):
        clock.now = parts / 1_000  # seconds
        building.done(parts)
    assert EVERY_SECONDS == 5.0
    assert caplog.messages == ["embedding texts: 5,000 of 12,000", "embedding texts: 10,000 of 12,000"]
    assert [vars(record)["fields"] for record in caplog.records] == [
        {"what": "embedding texts", "done": done, "total": 12_000} for done in (5_000, 10_000)
    ]


def test_what_has_no_parts_is_told_when_it_begins_and_one_of_unknown_size_by_what_is_done(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    clock = Clock()
    building = TaskProgress("reading documents", clock=clock)
    log_progress("cutting 25,000 documents")
    clock.now = 6.0
    building.done(1_200)
    assert caplog.messages == ["cutting 25,000 documents", "reading documents: 1,200"]


def test_a_part_is_counted_behind_what_was_done_of_the_whole(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    clock = Clock()
    whole = TaskProgress("embedding texts", 40_000, clock)
    for start in (0, 20_000):
        with whole.around():
            part, other = TaskProgress("embedding texts", 20_000, clock), TaskProgress("reading", 5, clock)
            for parts in (10_000, 20_000):
                clock.now += 6.0
                part.done(parts)
        other.done(5)
        whole.done(start + 20_000)
    TaskProgress("embedding texts", 7, clock).done(7)
    assert [line for line in caplog.messages if line.startswith("embedding")] == [
        f"embedding texts: {done:,} of 40,000" for done in (10_000, 20_000, 30_000, 40_000)
    ]
    assert [line for line in caplog.messages if line.startswith("reading")] == ["reading: 5 of 5"] * 2


def test_progress_is_not_logged_by_default(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.NOTSET, LOGGER)  # as it is before a command of this process sets it
    log_progress("cutting 25,000 documents")
    assert caplog.messages == []


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
