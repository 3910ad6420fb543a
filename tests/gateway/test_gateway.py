"""The gateway remembers, joins and counts calls, and returns their costs."""

from __future__ import annotations

import base64
import random
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stored import put_call

from ragsmith.errors import ModelError, Notice
from ragsmith.gateway.call_context import CallCounts
from ragsmith.gateway.failures import Failures
from ragsmith.gateway.gateway import Gateway, TimingGateway
from ragsmith.gateway.leases import Lease
from ragsmith.gateway.vectors_and_scores import BLOCK_TEXTS, COLLECTION_TEXTS
from ragsmith.models.calls import Completion, StoredCall, result_key
from ragsmith.models.capabilities import CapabilityLearner, ModelCapabilities
from ragsmith.models.protocols import LanguageModel, Vectors
from ragsmith.models.tasks import Input, Task, parse_text
from ragsmith.models.usage import Meter, Usage
from ragsmith.store.store import Store

WAIT = 10


def number(reply: str) -> int:
    return int(reply)


SUM = Task("sum", "Add {a} and {b}.", number, lambda model, *, sample, a, b: a + b, max_tokens=8)
SAY = Task("say", "Say {what}.", parse_text, lambda model, *, sample, what: what)


class Chat:
    """A chat model with prepared replies, one after the other; ``asked`` holds what it was sent."""

    def __init__(self, *replies: str, name: str = "chat:one") -> None:
        self.id = name
        self._replies = list(replies)
        self._lock = threading.Lock()
        self.asked: list[tuple[str, int, int]] = []

    def complete(self, prompt: str, *, max_tokens: int, sample: int) -> Completion:
        with self._lock:
            self.asked.append((prompt, max_tokens, sample))
            return Completion(self._replies.pop(0), Usage(1, 0, 0, 10, 2, 0.5))


class Echo:
    """A chat model that repeats its prompt."""

    id = "chat:echo"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def complete(self, prompt: str, *, max_tokens: int, sample: int) -> Completion:
        self.asked.append(prompt)
        return Completion(prompt, Usage(1, 0, 0, 1, 1, 0.0))


def rows(store: Store) -> dict[str, StoredCall]:
    """The stored replies by key."""
    calls = [
        call for model in ("chat:one", "chat:two", "chat:echo", "adder") for call in store.sample_calls(model, 100)
    ]
    return {call.key: call for call in calls}


class Letters:
    """An embedder: whether a text begins with a or b. ``batches`` holds what it was given."""

    id = "letters"

    def __init__(self) -> None:
        self.batches: list[list[str]] = []

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.batches.append(list(texts))
        return np.array([[text.startswith("a"), text.startswith("b")] for text in texts], dtype=np.float32).reshape(
            -1, 2
        )


class Lengths:
    """A cross-encoder: the length of the text times that of the query."""

    id = "lengths"

    def __init__(self) -> None:
        self.batches: list[tuple[str, list[str]]] = []

    def score(self, query: str, texts: Sequence[str]) -> tuple[float, ...]:
        self.batches.append((query, list(texts)))
        return tuple(float(len(query) * len(text)) for text in texts)


class Adder:
    """A language model that performs tasks itself."""

    id = "adder"

    def __init__(self) -> None:
        self.runs = 0

    def run(self, task: Task[Any], *, sample: int = 0, **inputs: Input) -> Any:
        self.runs += 1
        return task.offline(self, sample=sample, **inputs)


# --- usage -----------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 50), min_size=5, max_size=5), st.integers(1, 9))
def test_shares_add_up_to_the_whole(numbers: list[int], n: int) -> None:
    usage = Usage(numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], seconds=0.5)
    shares = usage.shares(n)
    total = sum(shares, Usage())
    assert len(shares) == n
    assert (total.calls, total.texts_embedded, total.pairs_scored) == tuple(numbers[:3])
    assert (total.input_tokens, total.output_tokens) == tuple(numbers[3:])
    assert total.seconds == pytest.approx(0.5)


# --- chat models -----------------------------------------------------------------------------------------------------


def test_a_remembered_reply_costs_what_it_cost() -> None:
    chat, gateway = Chat("5"), Gateway()
    meters = [Meter(), Meter()]
    replies = [gateway.language_model(chat, meter).run(SUM, a=2, b=3) for meter in meters]
    assert replies == [5, 5]
    assert chat.asked == [("Add 2 and 3.", 8, 0)]
    assert [meter.total() for meter in meters] == [Usage(1, 0, 0, 10, 2, 0.5)] * 2
    assert gateway.counts()["language_model"] == CallCounts(asked=2, distinct=1, stored=0, made=1)


def test_a_stored_reply_costs_what_it_cost_and_is_not_asked_for(store: Store) -> None:
    Gateway(store).language_model(Chat("5"), Meter()).run(SUM, a=2, b=3)
    silent, gateway, meter = Chat(), Gateway(store), Meter()
    assert gateway.language_model(silent, meter).run(SUM, a=2, b=3) == 5
    assert silent.asked == []
    assert meter.total() == Usage(1, 0, 0, 10, 2, 0.5)
    assert gateway.counts()["language_model"] == CallCounts(asked=1, distinct=1, stored=1, made=0)


@pytest.mark.parametrize(
    "change",
    [
        {"a": 4},
        {"sample": 1},
        {"model": "chat:two"},
        {"task": Task("sum", "Add {a} to {b}.", number, SUM.offline, max_tokens=8)},
        {"task": Task("sum", "Add {a} and {b}.", number, SUM.offline, max_tokens=9)},
    ],
    ids=["input", "sample", "model", "prompt", "max_tokens"],
)
def test_what_determines_a_reply_is_in_its_key(change: dict[str, Any], store: Store) -> None:
    asked = []
    for changes in ({}, change):
        call = {"task": SUM, "a": 2, "sample": 0, "model": "chat:one", **changes}
        chat = Chat("5", name=call["model"])
        Gateway(store).language_model(chat, Meter()).run(call["task"], sample=call["sample"], a=call["a"], b=3)
        asked.append(len(chat.asked))
    assert asked == [1, 1]
    assert len(rows(store)) == 2


def test_the_same_prompt_of_another_task_is_the_same_call(store: Store) -> None:
    renamed = Task("plus", SUM.prompt, number, SUM.offline, max_tokens=8)
    chat = Chat("5")
    gateway = Gateway(store)
    assert [gateway.language_model(chat, Meter()).run(task, a=2, b=3) for task in (SUM, renamed)] == [5, 5]
    assert len(chat.asked) == 1


def test_an_unreadable_reply_is_an_error_and_is_not_kept(store: Store) -> None:
    chat = Chat("five", "still five", "5")
    model = Gateway(store, failures=Failures(store)).language_model(chat, Meter())
    for _ in range(2):  # the second time it fails at once: the same request would be paid for again
        with pytest.raises(ModelError, match="sum") as raised:
            model.run(SUM, a=2, b=3)
        assert "still five" in str(raised.value)
    assert len(chat.asked) == 2
    assert rows(store) == {}
    assert Gateway(store).language_model(chat, Meter()).run(SUM, a=2, b=3) == 5
    assert [call.value for call in rows(store).values()] == ["5"]


def test_an_unreadable_reply_is_asked_for_once_more_with_what_was_wrong(store: Store) -> None:
    chat = Chat("five", "5")
    meter = Meter()
    assert Gateway(store).language_model(chat, meter).run(SUM, a=2, b=3) == 5
    (first, *_), (second, *_) = chat.asked
    assert second.startswith(first)
    assert "could not be used" in second
    assert meter.total().calls == 2
    assert [call.value for call in rows(store).values()] == ["5"]


def test_a_stored_reply_that_cannot_be_read_any_more_is_asked_for_again(store: Store) -> None:
    Gateway(store).language_model(Chat("5"), Meter()).run(SUM, a=2, b=3)
    [key] = rows(store)
    store.put_calls([StoredCall(key, "chat:one", "sum", "five")], replacing=True)
    chat = Chat("6")
    assert Gateway(store).language_model(chat, Meter()).run(SUM, a=2, b=3) == 6
    assert len(chat.asked) == 1
    assert Gateway(store).language_model(Chat(), Meter()).run(SUM, a=2, b=3) == 6, "the store has the readable reply"


def test_a_reply_that_one_task_can_read_and_another_cannot_is_an_error_of_the_model() -> None:
    worded = Task("worded", SUM.prompt, parse_text, SUM.offline, max_tokens=8)
    gateway = Gateway()
    chat = Chat("five", "6")
    assert gateway.language_model(chat, Meter()).run(worded, a=2, b=3) == "five"
    with pytest.raises(ModelError):
        gateway.language_model(chat, Meter()).run(SUM, a=2, b=3)


def test_a_model_that_fails_is_asked_again_next_time(store: Store) -> None:
    class Failing(Chat):
        def complete(self, prompt: str, *, max_tokens: int, sample: int) -> Completion:
            if not self.asked:
                self.asked.append((prompt, max_tokens, sample))
                raise ModelError("the server is down")
            return super().complete(prompt, max_tokens=max_tokens, sample=sample)

    chat, meter = Failing("5"), Meter()
    model = Gateway(store).language_model(chat, meter)
    with pytest.raises(ModelError, match="the server is down"):
        model.run(SUM, a=2, b=3)
    assert meter.total() == Usage()
    assert model.run(SUM, a=2, b=3) == 5


def test_many_threads_make_each_distinct_call_once(store: Store) -> None:
    echo = Echo()
    gateway = Gateway(store)
    barrier = threading.Barrier(16)

    def work(seed: int) -> list[str]:
        words = [f"word {n % 40}" for n in range(120)]
        random.Random(seed).shuffle(words)
        barrier.wait(WAIT)
        model: LanguageModel = gateway.language_model(echo, Meter())
        return sorted(model.run(SAY, what=word) for word in words)

    with ThreadPoolExecutor(16) as pool:
        results = list(pool.map(work, range(16)))
    assert all(result == results[0] for result in results)
    assert len(echo.asked) == len(set(echo.asked)) == 40
    assert gateway.counts()["language_model"] == CallCounts(asked=16 * 120, distinct=40, stored=0, made=40)
    assert len(rows(store)) == 40


# --- models that perform tasks ---------------------------------------------------------------------------------------


def test_a_task_performed_here_is_remembered_and_not_stored(store: Store) -> None:
    adder = Adder()
    gateway = Gateway(store)
    meters = [Meter(), Meter(), Meter()]
    model = [gateway.language_model(adder, meter) for meter in meters]
    assert [model[0].run(SUM, a=2, b=3), model[1].run(SUM, a=2, b=3), model[2].run(SUM, a=3, b=3)] == [5, 5, 6]
    assert adder.runs == 2
    assert meters[0].total().calls == 1
    assert meters[0].total() == meters[1].total()
    assert rows(store) == {}
    assert model[0].id == "adder"


# --- embedders and cross-encoders ------------------------------------------------------------------------------------


def test_each_text_is_embedded_once_and_rows_are_in_the_order_of_the_texts() -> None:
    letters, gateway, meter = Letters(), Gateway(), Meter()
    view = gateway.embedder(letters, meter)
    assert view.embed(["aa", "b", "aa"]).tolist() == [[1, 0], [0, 1], [1, 0]]
    assert view.embed(["b", "ab"]).tolist() == [[0, 1], [1, 0]]
    assert letters.batches == [["aa", "b"], ["ab"]]
    assert meter.total().texts_embedded == 5
    assert gateway.counts()["embedder"] == CallCounts(asked=5, distinct=3, stored=0, made=3)
    assert view.id == "letters"


def test_one_object_in_several_roles_is_timed_in_each() -> None:
    class All(Letters, Lengths, Chat):
        def __init__(self) -> None:
            Letters.__init__(self)
            Lengths.__init__(self)
            Chat.__init__(self, "5")

    model, meter = All(), Meter()
    timing = TimingGateway(Gateway(), frozenset())
    assert timing.embedder(model, meter).embed(["a"]).tolist() == [[1, 0]]
    assert len(timing.cross_encoder(model, meter).score("a", ["b"])) == 1
    assert timing.language_model(model, meter).run(SUM, a=2, b=3) == 5


def test_a_collection_is_embedded_in_blocks_and_not_remembered() -> None:
    letters, gateway = Letters(), Gateway()
    view = gateway.embedder(letters, Meter())
    texts = [f"{'ab'[n % 2]}{n}" for n in range(COLLECTION_TEXTS)] + ["a0", "b1"]
    vectors = view.embed(texts)
    assert vectors.dtype == np.float32
    assert vectors.tolist() == [[1, 0], [0, 1]] * (len(texts) // 2)
    assert [text for batch in letters.batches for text in batch] == texts[:-2]
    assert {len(batch) for batch in letters.batches} == {BLOCK_TEXTS}
    found = gateway.counts()["embedder"]
    assert (found.asked, found.distinct, found.made) == (len(texts), len(texts) - 2, len(texts) - 2)
    view.embed(["a0"])
    assert letters.batches[-1] == ["a0"], "it was kept twice"


class Widening(Letters):
    """An embedder whose vectors become longer."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        rows = super().embed(texts)
        return rows if len(self.batches) == 1 else np.pad(rows, ((0, 0), (0, 1)))


def test_vectors_of_a_collection_that_become_longer_are_refused() -> None:
    view = Gateway().embedder(Widening(), Meter())
    with pytest.raises(ModelError, match=r"letters: the embedder returned vectors of 3 dimensions, after vectors of 2"):
        view.embed([f"a{n}" for n in range(COLLECTION_TEXTS)])


class Paid:
    """An embedder whose vectors are paid for, and which fails on batches that hold ``wrong``."""

    id = "paid"
    slow = True

    def __init__(self, wrong: str = "") -> None:
        self.wrong = wrong
        self.batches: list[Sequence[str]] = []

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.batches.append(texts)
        if self.wrong in texts:
            raise ModelError("no vectors")
        return np.stack([direction(float(text)) for text in texts])


def direction(n: float) -> Vectors:
    """A vector of length 1 that points elsewhere for each number below 300."""
    return np.array([np.cos(n / 100), np.sin(n / 100)], dtype=np.float32)


def test_vectors_are_stored_as_they_come_and_only_missing_ones_are_paid_for_again(store: Store) -> None:
    texts = [str(n) for n in range(200)]
    with pytest.raises(ModelError, match="no vectors"):
        Gateway(store).embedder(Paid(wrong="195"), Meter()).embed(texts)
    paid = Paid()
    np.testing.assert_array_equal(
        Gateway(store).embedder(paid, Meter()).embed(texts), [direction(n) for n in range(200)]
    )
    assert [list(batch) for batch in paid.batches] == [["195"]]


def test_a_text_that_fails_fails_its_collection_and_the_vectors_before_it_are_stored(store: Store) -> None:
    texts = [str(n) for n in range(COLLECTION_TEXTS)]
    with pytest.raises(ModelError, match="no vectors"):
        Gateway(store).embedder(Paid(wrong="70"), Meter()).embed(texts)
    again = Paid()
    Gateway(store).embedder(again, Meter()).embed(texts[:BLOCK_TEXTS])
    assert [list(batch) for batch in again.batches] == [["70"]]
    assert len(texts) > BLOCK_TEXTS


def test_vectors_that_another_process_asks_for_are_waited_for(store: Store) -> None:
    key = result_key("embedder", "paid", "7", "text")
    store.claim_many([key], "other", lease=Lease("other", "elsewhere:1"), is_gone=lambda owner, keys: False)
    vector = base64.b64encode(direction(70).tobytes()).decode()
    later = threading.Timer(0.2, put_call, (store, key, "paid", "text", vector))
    later.start()
    paid = Paid()
    found = Gateway(store).embedder(paid, Meter()).embed(["6", "7", "8"])
    np.testing.assert_array_equal(found, [direction(n) for n in (6, 70, 8)])
    assert paid.batches == [["6", "8"]]
    later.join()


class Rows:
    """An embedder that returns prepared rows."""

    def __init__(self, name: str, rows: Any, *, slow: bool = False) -> None:
        self.id, self.rows, self.slow = name, rows, slow

    def embed(self, texts: Sequence[str]) -> Any:
        return self.rows


@pytest.mark.parametrize("slow", [False, True])
def test_vectors_of_another_length_are_scaled_to_1_and_that_is_said_once(slow: bool, store: Store) -> None:
    unit = np.array([[0.6, 0.8], [0.0, 0.0], [1.0, 0.0]], dtype=np.float32)
    longer = Rows(f"too long, {slow=}", unit * [[50.0], [1.0], [0.1]], slow=slow)
    with pytest.warns(Notice, match=r"too long.*were scaled to it") as said:
        found = Gateway(store).embedder(longer, Meter()).embed(["one", " ", "two"])
    assert len(said) == 1
    again = Gateway(store).embedder(longer, Meter()).embed(["one", " ", "two"])  # the slow one's come from the store
    for vectors in (found, again):
        np.testing.assert_allclose(vectors, unit, atol=1e-7)
        assert vectors.dtype == np.float32
    as_they_are = Gateway().embedder(Rows("fine", unit), Meter()).embed(["one", " ", "two"])
    np.testing.assert_array_equal(as_they_are, unit)


@pytest.mark.parametrize(
    "rows", [[[1.0, 0.0]], [[1.0], [1.0, 0.0]], [[1.0, np.nan], [1.0, 0.0]], [["a"], ["b"]], [1, 2]]
)
def test_what_is_no_vector_for_each_text_is_refused(rows: Any) -> None:
    with pytest.raises(ModelError, match="broken: not a row of finite numbers for each of 2 texts came back"):
        Gateway().embedder(Rows("broken", rows), Meter()).embed(["one", "two"])


def test_no_texts_have_no_vectors() -> None:
    assert len(Gateway().embedder(Letters(), Meter()).embed([])) == 0


def test_each_pair_is_scored_once() -> None:
    lengths, gateway, meter = Lengths(), Gateway(), Meter()
    view = gateway.cross_encoder(lengths, meter)
    assert view.score("qq", ["a", "abc"]) == (2.0, 6.0)
    assert view.score("qq", ["abc", "ab"]) == (6.0, 4.0)
    assert view.score("q", ["abc"]) == (3.0,)
    assert lengths.batches == [("qq", ["a", "abc"]), ("qq", ["ab"]), ("q", ["abc"])]
    assert meter.total().pairs_scored == 5
    assert gateway.counts()["cross_encoder"] == CallCounts(asked=5, distinct=4, stored=0, made=4)


# --- capabilities of models ------------------------------------------------------------------------------------------


def test_learned_capabilities_are_stored_for_the_next_process(store: Store) -> None:
    first, second = Chat(), Chat()
    first.learner, second.learner = CapabilityLearner(), CapabilityLearner()  # type: ignore[attr-defined]
    Gateway(store).language_model(first, Meter())
    first.learner.learn(ModelCapabilities(frozenset({"seed"})))  # type: ignore[attr-defined]
    first.learner.learn(ModelCapabilities(thinking_tokens=512))  # type: ignore[attr-defined]
    Gateway(store).language_model(second, Meter())
    assert second.learner.capabilities == ModelCapabilities(frozenset({"seed"}), 512)  # type: ignore[attr-defined]


def test_samples_of_a_task_are_performed_apart() -> None:
    adder = Adder()
    model = Gateway().language_model(adder, Meter())
    for sample in (0, 1, 1):
        model.run(SUM, sample=sample, a=2, b=3)
    assert adder.runs == 2
