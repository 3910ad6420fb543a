"""The mailbox of an actor: a request is answered once, however often it, its answer or who collects it is lost."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from ragsmith.errors import UsageError
from ragsmith.evaluation.mailbox import Answers, Mailbox, Request
from ragsmith.gateway.remote import STORE


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


def asked(mailbox: Mailbox, threads: ThreadPoolExecutor, *requests: Request) -> tuple[list[Future[bytes]], list[str]]:
    """What will be the answers to requests, and the numbers under which they were collected."""
    answers = [threads.submit(mailbox.ask, request) for request in requests]
    numbers: dict[bytes, str] = {}
    while len(numbers) < len(requests):
        numbers |= {packed: number for number, (_, packed) in mailbox.exchange({})}
    return answers, [numbers[packed] for _, packed in requests]


def test_a_request_is_handed_out_once_and_again_when_its_collection_was_lost(threads: ThreadPoolExecutor) -> None:
    mailbox = Mailbox()
    [answer], [number] = asked(mailbox, threads, (STORE, b"what?"))
    assert mailbox.exchange({}) == []
    assert mailbox.exchange({}, again=True) == [(number, (STORE, b"what?"))]
    mailbox.exchange({number: b"that"})
    assert answer.result() == b"that"
    assert mailbox.exchange({number: b"that"}, again=True) == []


def test_an_answer_comes_to_whoever_asked_alone(threads: ThreadPoolExecutor) -> None:
    mailbox = Mailbox()
    answers, numbers = asked(mailbox, threads, (STORE, b"one"), (STORE, b"two"))
    mailbox.exchange({numbers[1]: b"TWO", "another": b"nobody asked"})
    assert answers[1].result() == b"TWO"
    assert not answers[0].done()
    mailbox.exchange({numbers[0]: b"ONE"})
    assert answers[0].result() == b"ONE"


def test_of_two_collections_that_wait_the_later_one_gets_the_request(threads: ThreadPoolExecutor) -> None:
    mailbox = Mailbox()
    collections = [threads.submit(mailbox.exchange, {}) for _ in range(2)]
    answer = threads.submit(mailbox.ask, (STORE, b"what?"))
    [(number, request)] = [taken for collection in collections for taken in collection.result()]
    assert request == (STORE, b"what?")
    mailbox.exchange({number: b"that"})
    assert answer.result() == b"that"


def say(request: str) -> object:
    if request == "fail":
        raise UsageError("no")
    return threading.Lock() if request == "lock" else request.upper()


@pytest.mark.parametrize("kind", [STORE, "language_model"])
@pytest.mark.parametrize(("request_", "is_answer"), [("that", True), ("fail", False), ("lock", False), ("", False)])
def test_who_asks_gets_an_answer_or_an_error_whatever_comes_of_it(kind: str, request_: str, is_answer: bool) -> None:
    with ThreadPoolExecutor(1) as pool:
        answers = Answers(say, pool, pickle.dumps)
        answers.delivered(3, {}, [("number", (kind, pickle.dumps(request_) if request_ else b""))])
    said = pickle.loads(answers.undelivered(3)["number"])
    assert said[0] == is_answer
    assert said[1] == "THAT" if is_answer else isinstance(said[1], Exception)


def test_a_repeated_request_is_answered_once_and_its_answer_kept_until_it_is_delivered() -> None:
    seen = []
    with ThreadPoolExecutor(1) as pool:
        answers = Answers(seen.append, pool, pickle.dumps)
        request = "number", (STORE, pickle.dumps("what?"))
        answers.delivered(0, {}, [request])
        answers.delivered(0, {}, [request])
        kept = answers.undelivered(0)
        assert kept.keys() == {"number"}
        assert answers.undelivered(1) == {}
        answers.delivered(0, kept, [])
    assert answers.undelivered(0) == {}
    assert seen == ["what?"]
