"""Failures of requests: which are repeated, and when a model counts as unavailable."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ragsmith.errors import CutReply, ModelError, ModelUnavailable, RefusedContent, TooLong, Unreadable
from ragsmith.gateway.failures import MAX_FAILED_REQUESTS, Failures
from ragsmith.gateway.gateway import Gateway
from ragsmith.models.calls import Completion
from ragsmith.models.protocols import LanguageModel, Vectors
from ragsmith.models.tasks import Task, parse_text
from ragsmith.models.usage import Meter, Usage
from ragsmith.store.store import Store

SAY = Task("say", "Say {what}.", parse_text, lambda model, *, sample, what: what)
LASTING = [RefusedContent, Unreadable, CutReply, TooLong]


class Picky:
    """A chat model that fails on prompts that hold ``wrong``, with ``error``; ``asked`` holds all prompts."""

    id = "openai:picky"

    def __init__(self, wrong: str = "", error: ModelError | None = None) -> None:
        self.wrong, self.error = wrong, error or RefusedContent("HTTP 400", calls=1)
        self.asked: list[str] = []

    def complete(self, prompt: str, *, max_tokens: int, sample: int) -> Completion:
        self.asked.append(prompt)
        if self.wrong in prompt:
            raise self.error
        return Completion(prompt, Usage(1, 0, 0, 1, 1, 0.0))


class Slow(Picky):
    """One that replies to prompts with the word ``slow`` only when the test sets ``ended``."""

    def __init__(self, wrong: str, slow: str) -> None:
        super().__init__(wrong)
        self.slow, self.begun, self.ended = slow, threading.Event(), threading.Event()

    def complete(self, prompt: str, *, max_tokens: int, sample: int) -> Completion:
        if self.slow in prompt:
            self.begun.set()
            self.ended.wait(10)
        return super().complete(prompt, max_tokens=max_tokens, sample=sample)


def language_model(store: Store | None, model: Picky, role: str = "", *, again: bool = False) -> LanguageModel:
    """The view of the model in a new command."""
    return Gateway(store, failures=Failures(store, retry_failed=again)).language_model(model, Meter(), role)


def refuse(view: LanguageModel, *inputs: object, error: type[ModelError] = RefusedContent) -> None:
    """Check that the model fails on each input."""
    for what in inputs:
        with pytest.raises(error):
            view.run(SAY, what=str(what))


def say(model: Picky, store: Store | None, what: str, *, again: bool = False, role: str = "") -> str:
    """Ask in a new command."""
    return language_model(store, model, role, again=again).run(SAY, what=what)


@pytest.mark.parametrize("error", LASTING)
def test_a_lasting_failure_is_asked_once_by_all_commands(store: Store, error: type[ModelError]) -> None:
    model = Picky("odd", error("it cannot be", calls=3))
    for _ in range(3):
        with pytest.raises(error, match=r"^it cannot be$"):
            say(model, store, "odd things")
    assert len(model.asked) == 1
    [failed] = store.failed_calls(failed_keys(store)).values()
    assert (failed.model, failed.task, failed.kind) == ("openai:picky", "say in 2048 tokens", error.kind)
    assert (failed.attempts, failed.calls) == (1, 3)


def failed_keys(store: Store) -> list[str]:
    with store._database.reading() as connection:
        return [row[0] for row in connection.exec_driver_sql("select key from failed_call")]


def test_a_servers_own_error_is_asked_again_by_the_next_command_and_not_in_this_one(store: Store) -> None:
    model = Picky("odd", ModelError("HTTP 500", calls=5))
    for _ in range(2):
        view = language_model(store, model)
        refuse(view, *["odd things"] * 3, error=ModelError)
    assert len(model.asked) == 2
    [failed] = store.failed_calls(failed_keys(store)).values()
    assert (failed.kind, failed.attempts, failed.calls) == ("server error", 2, 10)


class Writer(Picky):
    """A chat model that writes more than the first limit of a task; it fails at larger ones with ``error``, if any."""

    def __init__(self, error: ModelError | None) -> None:
        super().__init__("nothing")
        self.failing, self.limits = error, list[int]()

    def complete(self, prompt: str, *, max_tokens: int, sample: int) -> Completion:
        self.limits.append(max_tokens)
        if max_tokens <= SAY.max_tokens:
            return Completion("a long text", Usage(1, 0, 0, 1, max_tokens, 0.0), cut_at=max_tokens)
        if self.failing is not None:
            raise self.failing
        return super().complete(prompt, max_tokens=max_tokens, sample=sample)


def test_a_server_error_does_not_make_the_limit_of_a_truncated_reply_forgotten(store: Store) -> None:
    model = Writer(ModelError("HTTP 500", calls=5))
    with pytest.raises(ModelError, match="HTTP 500"):
        say(model, store, "more")
    assert model.limits == [512, 2048]
    [failed] = store.failed_calls(failed_keys(store)).values()
    assert (failed.kind, failed.task, failed.attempts, failed.calls) == ("cut", "say in 512 tokens", 1, 1 + 5)
    model.failing = None
    assert say(model, store, "more") == "Say more."
    assert model.limits == [512, 2048, 2048]


def test_a_repeated_request_may_be_answered_and_is_then_no_failure(store: Store) -> None:
    with pytest.raises(RefusedContent):
        say(Picky("odd"), store, "odd things")
    model = Picky("nothing")
    assert say(model, store, "odd things", again=True) == "Say odd things."
    assert failed_keys(store) == []
    assert say(model, store, "odd things") == "Say odd things."
    assert len(model.asked) == 1


def test_another_model_prompt_or_limit_is_asked(store: Store) -> None:
    model = Picky("odd")
    with pytest.raises(RefusedContent):
        say(model, store, "odd things")
    other = Picky("nothing")
    other.id = "openai:other"
    assert say(other, store, "odd things")
    with pytest.raises(RefusedContent):
        say(model, store, "other odd things")
    view = language_model(store, model)
    with pytest.raises(RefusedContent):
        view.run(replace(SAY, max_tokens=9), what="odd things")
    assert len(model.asked) == 3


def test_a_reply_that_one_task_cannot_read_another_may_ask_for(store: Store) -> None:
    model = Picky("odd", Unreadable("two replies to say cannot be read"))
    with pytest.raises(Unreadable):
        say(model, store, "odd things")
    other = replace(SAY, name="tell")
    with pytest.raises(Unreadable):
        language_model(store, model).run(other, what="odd things")
    assert len(model.asked) == 2


def test_a_failure_that_is_damaged_is_asked_again(tmp_path: Path) -> None:
    model = Picky("odd")
    with Store.open(tmp_path / "cache.sqlite") as store:
        with pytest.raises(RefusedContent):
            say(model, store, "odd things")
        with store._database.writing() as connection:
            connection.exec_driver_sql("update failed_call set kind = 'unreadable'")
        with pytest.raises(RefusedContent):
            say(model, store, "odd things")
        assert len(model.asked) == 2
        assert any(name.startswith("failed_call:") for name in store.damaged)


def test_without_a_run_everything_is_asked_again(store: Store) -> None:
    model = Picky("odd")
    view = Gateway(store).language_model(model, Meter())
    refuse(view, "odd things", "odd things")
    assert len(model.asked) == 2
    assert failed_keys(store) == []


# --- an unavailable model --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [*LASTING, ModelError])
def test_a_judge_that_never_answers_ends_the_run(store: Store, error: type[ModelError]) -> None:
    model = Picky("", error("HTTP 400 (no such thing)"))
    view = language_model(store, model, "judge")
    for _ in range(2):  # the same request counts once
        refuse(view, *range(MAX_FAILED_REQUESTS - 1), error=error)
    with pytest.raises(
        ModelUnavailable, match=r"the judge openai:picky .* 20 requests .*HTTP 400 \(no such.*--retry-f"
    ):
        view.run(SAY, what="one more")
    assert len(model.asked) == MAX_FAILED_REQUESTS


def test_the_next_command_ends_as_soon_and_asks_nothing(store: Store) -> None:
    model = Picky("")
    for _ in range(2):
        view = language_model(store, model, "judge")
        refuse(view, *range(MAX_FAILED_REQUESTS - 1))
        with pytest.raises(ModelUnavailable):
            view.run(SAY, what="one more")
    assert len(model.asked) == MAX_FAILED_REQUESTS


def test_one_reply_ever_is_enough_to_go_on(store: Store) -> None:
    model = Picky("odd")
    assert say(model, store, "something", role="judge")
    view = language_model(store, model, "judge")
    refuse(view, *(f"odd {n}" for n in range(2 * MAX_FAILED_REQUESTS)))
    assert len(model.asked) == 1 + 2 * MAX_FAILED_REQUESTS


def test_refusals_that_are_quicker_than_replies_do_not_count_yet(store: Store) -> None:
    """One request is slow, and meanwhile others are refused: it may be answered."""
    model = Slow("odd", slow="something")
    view = language_model(store, model, "judge")
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(view.run, SAY, what="something")
        assert model.begun.wait(10)
        refuse(view, *(f"odd {n}" for n in range(2 * MAX_FAILED_REQUESTS)))
        model.ended.set()
        assert slow.result(10) == "Say something."


def test_failures_of_earlier_commands_count_while_a_request_is_waited_for(store: Store) -> None:
    model = Slow("", slow="new")
    refuse(language_model(store, model, "judge"), *range(MAX_FAILED_REQUESTS - 1))
    refuse(language_model(store, model, "judge"), "last")
    view = language_model(store, model, "judge")
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(view.run, SAY, what="new")
        assert model.begun.wait(10)
        refuse(view, *range(MAX_FAILED_REQUESTS - 1))
        with pytest.raises(ModelUnavailable):
            view.run(SAY, what="last")
        model.ended.set()
        with pytest.raises(ModelUnavailable):
            slow.result(10)


def test_a_model_without_a_role_ends_no_run(store: Store) -> None:
    view = language_model(store, Picky(""))
    refuse(view, *range(2 * MAX_FAILED_REQUESTS))


# --- vectors and scores ----------------------------------------------------------------------------------------------


class PickyEmbedder:
    """An embedder that is paid for, and refuses every batch with a text that holds ``wrong``."""

    id = "openai:vectors"
    slow = True

    def __init__(self, wrong: str) -> None:
        self.wrong = wrong
        self.batches: list[Sequence[str]] = []

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.batches.append(tuple(texts))
        if any(self.wrong in given for given in texts):
            raise RefusedContent("HTTP 400")
        return np.ones((len(texts), 1), dtype=np.float32)


class PickyReranker(PickyEmbedder):
    """A reranker of that kind."""

    def score(self, query: str, texts: Sequence[str]) -> tuple[float, ...]:
        return tuple(map(float, self.embed(texts)[:, 0]))


@pytest.fixture(params=["embedder", "reranker"])
def asked(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def use(kind: str, model: PickyReranker, store: Store, texts: Sequence[str]) -> int:
    gateway = Gateway(store, failures=Failures(store))
    if kind == "embedder":
        return len(gateway.embedder(model, Meter()).embed(texts))
    return len(gateway.cross_encoder(model, Meter()).score("which?", texts))


def test_the_text_at_fault_is_found_and_the_others_are_stored(store: Store, asked: str) -> None:
    texts = [f"text {n}" for n in range(40)]
    model = PickyReranker("text 17")
    for _ in range(2):
        with pytest.raises(RefusedContent, match="HTTP 400"):
            use(asked, model, store, texts)
    assert len(model.batches) <= 14  # two for each time that 40 is halved, and two for the ends
    assert len(failed_keys(store)) == 1
    before = len(model.batches)
    assert use(asked, model, store, [given for given in texts if given != "text 17"]) == 39
    assert len(model.batches) == before


def test_an_embedder_that_refuses_everything_ends_the_run_soon(store: Store) -> None:
    model = PickyReranker("text")
    with pytest.raises(ModelUnavailable, match="the embedder openai:vectors has given no usable reply"):
        use("embedder", model, store, [f"text {n}" for n in range(64)])
    assert len(model.batches) == MAX_FAILED_REQUESTS


def test_a_reranker_that_refuses_a_query_is_asked_three_times(store: Store) -> None:
    model = PickyReranker("text")
    texts = [f"text {n}" for n in range(64)]
    for _ in range(2):
        with pytest.raises(RefusedContent, match="HTTP 400"):
            use("reranker", model, store, texts)
    assert model.batches == [tuple(texts), ("text 0",), ("text 63",)]
    assert len(failed_keys(store)) == 64


def test_a_reranker_that_refuses_every_query_ends_the_run(store: Store) -> None:
    """Each query counts once, however many texts it is asked with, now and in earlier commands."""
    model = PickyReranker("text")
    texts = [f"text {n}" for n in range(10)]
    for _ in range(2):
        reranker = Gateway(store, failures=Failures(store)).cross_encoder(model, Meter())
        for n in range(MAX_FAILED_REQUESTS - 1):
            with pytest.raises(RefusedContent):
                reranker.score(f"query {n}", texts)
    assert len(model.batches) == 3 * (MAX_FAILED_REQUESTS - 1)
    with pytest.raises(ModelUnavailable, match=f"no usable reply to {MAX_FAILED_REQUESTS} requests"):
        reranker.score("one query more", texts)


@pytest.mark.parametrize("wrong", ["text 0", "text 1", "text 2"])
def test_any_text_of_a_query_may_be_at_fault(store: Store, wrong: str) -> None:
    texts = ["text 0", "text 1", "text 2"]
    model = PickyReranker(wrong)
    with pytest.raises(RefusedContent):
        use("reranker", model, store, texts)
    assert len(failed_keys(store)) == 1
    before = len(model.batches)
    assert use("reranker", model, store, [given for given in texts if given != wrong]) == 2
    assert len(model.batches) == before
