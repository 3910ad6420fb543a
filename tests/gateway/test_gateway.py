"""The gateway: remembers, joins, counts, and returns the bill."""

from __future__ import annotations

import base64
import random
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stored import put_call

from ragsmith.errors import ModelError, Notice
from ragsmith.gateway.budget import Payment
from ragsmith.gateway.call_context import CallCounts
from ragsmith.gateway.failures import FailedCall, Failures
from ragsmith.gateway.gateway import Gateway
from ragsmith.gateway.leases import Lease
from ragsmith.gateway.vectors_and_scores import BLOCK_TEXTS, COLLECTION_TEXTS
from ragsmith.models.calls import Completion, StoredCall, result_key
from ragsmith.models.capabilities import CapabilityLearner, ModelCapabilities
from ragsmith.models.protocols import LanguageModel, Vectors
from ragsmith.models.tasks import Input, Task, parse_text
from ragsmith.models.usage import Meter, Usage

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


class Calls:
    """Where paid replies are kept: a dictionary."""

    def __init__(self) -> None:
        self.rows: dict[str, StoredCall] = {}
        self.failed: dict[str, FailedCall] = {}
        self.known: dict[str, ModelCapabilities] = {}

    def traits(self, model: str) -> ModelCapabilities | None:
        return self.known.get(model)

    def put_traits(self, model: str, traits: ModelCapabilities) -> None:
        self.known[model] = self.known.get(model, ModelCapabilities()) | traits

    def get_call(self, key: str) -> StoredCall | None:
        return self.rows.get(key)

    def get_calls(self, keys: Iterable[str]) -> dict[str, StoredCall]:
        return {key: self.rows[key] for key in keys if key in self.rows}

    def put_calls(
        self, calls: Iterable[StoredCall], *, replacing: bool = False, payment: Payment | None = None
    ) -> None:
        for call in calls:
            if replacing or call.key not in self.rows:
                self.rows[call.key] = call

    def failed_calls(self, keys: Iterable[str]) -> dict[str, FailedCall]:
        return {key: self.failed[key] for key in keys if key in self.failed}

    def put_failed_calls(self, failed: Sequence[FailedCall]) -> None:
        self.failed |= {one.key: one for one in failed}

    def has_reply(self, model: str, task: str | None) -> bool:
        return any(call.model == model and task in (None, call.task) for call in self.rows.values())

    def claim_many(
        self, keys: Sequence[str], owner: str, *, lease: Lease | None, is_gone: Callable[[Lease, Collection[str]], bool]
    ) -> tuple[set[str], dict[str, StoredCall]]:
        found = self.get_calls(keys)
        return set(keys) - found.keys(), found

    def renew(self, lease: Lease) -> None:
        pass

    def release(self, owner: str, key: str | None = None) -> None:
        pass


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


def test_a_stored_reply_costs_what_it_cost_and_is_not_asked_for() -> None:
    store = Calls()
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
def test_what_determines_a_reply_is_in_its_key(change: dict[str, Any]) -> None:
    store = Calls()
    asked = []
    for changes in ({}, change):
        call = {"task": SUM, "a": 2, "sample": 0, "model": "chat:one", **changes}
        chat = Chat("5", name=call["model"])
        Gateway(store).language_model(chat, Meter()).run(call["task"], sample=call["sample"], a=call["a"], b=3)
        asked.append(len(chat.asked))
    assert asked == [1, 1]
    assert len(store.rows) == 2


def test_the_same_prompt_of_another_task_is_the_same_call() -> None:
    renamed = Task("plus", SUM.prompt, number, SUM.offline, max_tokens=8)
    chat, store = Chat("5"), Calls()
    gateway = Gateway(store)
    assert [gateway.language_model(chat, Meter()).run(task, a=2, b=3) for task in (SUM, renamed)] == [5, 5]
    assert len(chat.asked) == 1


def test_an_unreadable_reply_is_an_error_and_is_not_kept() -> None:
    chat, store = Chat("five", "still five", "5"), Calls()
    model = Gateway(store, failures=Failures(store)).language_model(chat, Meter())
    for _ in range(2):  # the second time it fails at once: the same request would be paid for again
        with pytest.raises(ModelError, match="sum") as raised:
            model.run(SUM, a=2, b=3)
        assert "still five" in str(raised.value)
    assert len(chat.asked) == 2
    assert store.rows == {}
    assert Gateway(store).language_model(chat, Meter()).run(SUM, a=2, b=3) == 5
    assert [call.value for call in store.rows.values()] == ["5"]


def test_an_unreadable_reply_is_asked_for_once_more_with_what_was_wrong() -> None:
    chat, store = Chat("five", "5"), Calls()
    meter = Meter()
    assert Gateway(store).language_model(chat, meter).run(SUM, a=2, b=3) == 5
    (first, *_), (second, *_) = chat.asked
    assert second.startswith(first)
    assert "could not be used" in second
    assert meter.total().calls == 2
    assert [call.value for call in store.rows.values()] == ["5"]


def test_a_reply_asked_for_twice_costs_as_much_from_the_store() -> None:
    store, meters = Calls(), [Meter(), Meter()]
    for meter in meters:
        assert Gateway(store).language_model(Chat("five", "5"), meter).run(SUM, a=2, b=3) == 5
    assert [meter.total() for meter in meters] == [Usage(2, 0, 0, 20, 4, 1.0)] * 2


def test_a_stored_reply_that_cannot_be_read_any_more_is_asked_for_again() -> None:
    store = Calls()
    Gateway(store).language_model(Chat("5"), Meter()).run(SUM, a=2, b=3)
    [key] = store.rows
    store.put_calls([StoredCall(key, "chat:one", "sum", "five")], replacing=True)
    chat = Chat("6")
    assert Gateway(store).language_model(chat, Meter()).run(SUM, a=2, b=3) == 6
    assert len(chat.asked) == 1
    assert store.rows[key].value == "6"


def test_a_reply_asked_for_again_is_paid_once_only(store: Any) -> None:
    """The store keeps the first reply under a key; an unreadable one has to give way."""
    calls = Calls()
    Gateway(calls).language_model(Chat("5"), Meter()).run(SUM, a=2, b=3)
    [key] = calls.rows
    put_call(store, key, "chat:one", "sum", "five")
    Gateway(store).language_model(Chat("6"), Meter()).run(SUM, a=2, b=3)
    silent = Chat()
    assert Gateway(store).language_model(silent, Meter()).run(SUM, a=2, b=3) == 6


def test_a_reply_that_one_task_can_read_and_another_cannot_is_an_error_of_the_model() -> None:
    worded = Task("worded", SUM.prompt, parse_text, SUM.offline, max_tokens=8)
    gateway = Gateway()
    chat = Chat("five", "6")
    assert gateway.language_model(chat, Meter()).run(worded, a=2, b=3) == "five"
    with pytest.raises(ModelError):
        gateway.language_model(chat, Meter()).run(SUM, a=2, b=3)


def test_a_model_that_fails_is_asked_again_next_time() -> None:
    class Failing(Chat):
        def complete(self, prompt: str, *, max_tokens: int, sample: int) -> Completion:
            if not self.asked:
                self.asked.append((prompt, max_tokens, sample))
                raise ModelError("the server is down")
            return super().complete(prompt, max_tokens=max_tokens, sample=sample)

    chat, store, meter = Failing("5"), Calls(), Meter()
    model = Gateway(store).language_model(chat, meter)
    with pytest.raises(ModelError, match="the server is down"):
        model.run(SUM, a=2, b=3)
    assert meter.total() == Usage()
    assert model.run(SUM, a=2, b=3) == 5


def test_many_threads_make_each_distinct_call_once() -> None:
    echo, store = Echo(), Calls()
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
    assert len(store.rows) == 40


def test_what_a_reply_costs_is_what_the_store_keeps() -> None:
    store = Calls()
    Gateway(store).language_model(Chat("5"), Meter()).run(SUM, a=2, b=3)
    [call] = store.rows.values()
    assert (call.model, call.task, call.value) == ("chat:one", "sum", "5")
    assert (call.calls, call.input_tokens, call.output_tokens, call.seconds) == (1, 10, 2, 0.5)


# --- models that perform tasks ---------------------------------------------------------------------------------------


def test_a_task_performed_here_is_remembered_and_not_stored() -> None:
    adder, store = Adder(), Calls()
    gateway = Gateway(store)
    meters = [Meter(), Meter(), Meter()]
    model = [gateway.language_model(adder, meter) for meter in meters]
    assert [model[0].run(SUM, a=2, b=3), model[1].run(SUM, a=2, b=3), model[2].run(SUM, a=3, b=3)] == [5, 5, 6]
    assert adder.runs == 2
    assert meters[0].total().calls == 1
    assert meters[0].total() == meters[1].total()
    assert store.rows == {}
    assert model[0].id == "adder"


def test_samples_of_a_task_are_performed_apart() -> None:
    adder = Adder()
    model = Gateway().language_model(adder, Meter())
    for sample in (0, 1, 1):
        model.run(SUM, sample=sample, a=2, b=3)
    assert adder.runs == 2


# --- embedders and cross-encoders ------------------------------------------------------------------------------------


def test_each_text_is_embedded_once_and_rows_stand_in_the_order_asked() -> None:
    letters, gateway, meter = Letters(), Gateway(), Meter()
    view = gateway.embedder(letters, meter)
    assert view.embed(["aa", "b", "aa"]).tolist() == [[1, 0], [0, 1], [1, 0]]
    assert view.embed(["b", "ab"]).tolist() == [[0, 1], [1, 0]]
    assert letters.batches == [["aa", "b"], ["ab"]]
    assert meter.total().texts_embedded == 5
    assert gateway.counts()["embedder"] == CallCounts(asked=5, distinct=3, stored=0, made=3)
    assert view.id == "letters"


def test_a_whole_collection_is_embedded_block_by_block_and_told_of_and_not_remembered_besides() -> None:
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
    with pytest.raises(ModelError, match=r"letters: vectors of 3 numbers came back, and of 2 before"):
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


def test_vectors_are_kept_as_they_come_and_only_the_others_are_paid_for_again(store: Any) -> None:
    texts = [str(n) for n in range(200)]
    with pytest.raises(ModelError, match="no vectors"):
        Gateway(store).embedder(Paid(wrong="195"), Meter()).embed(texts)
    paid = Paid()
    np.testing.assert_array_equal(
        Gateway(store).embedder(paid, Meter()).embed(texts), [direction(n) for n in range(200)]
    )
    assert [list(batch) for batch in paid.batches] == [["195"]]


def test_a_text_that_cannot_be_embedded_fails_its_collection_and_those_before_it_are_kept(store: Any) -> None:
    texts = [str(n) for n in range(COLLECTION_TEXTS)]
    with pytest.raises(ModelError, match="no vectors"):
        Gateway(store).embedder(Paid(wrong="70"), Meter()).embed(texts)
    again = Paid()
    Gateway(store).embedder(again, Meter()).embed(texts[:BLOCK_TEXTS])
    assert [list(batch) for batch in again.batches] == [["70"]]
    assert len(texts) > BLOCK_TEXTS


def test_vectors_that_another_process_asks_for_are_waited_for(store: Any) -> None:
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
    """An embedder that returns what it is told."""

    def __init__(self, name: str, rows: Any, *, slow: bool = False) -> None:
        self.id, self.rows, self.slow = name, rows, slow

    def embed(self, texts: Sequence[str]) -> Any:
        return self.rows


@pytest.mark.parametrize("slow", [False, True])
def test_vectors_of_another_length_are_scaled_to_1_and_that_is_said_once(slow: bool, store: Any) -> None:
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


def test_no_texts_have_no_scores() -> None:
    assert Gateway().cross_encoder(Lengths(), Meter()).score("q", []) == ()


def test_each_pair_is_scored_once() -> None:
    lengths, gateway, meter = Lengths(), Gateway(), Meter()
    view = gateway.cross_encoder(lengths, meter)
    assert view.score("qq", ["a", "abc"]) == (2.0, 6.0)
    assert view.score("qq", ["abc", "ab"]) == (6.0, 4.0)
    assert view.score("q", ["abc"]) == (3.0,)
    assert lengths.batches == [("qq", ["a", "abc"]), ("qq", ["ab"]), ("q", ["abc"])]
    assert meter.total().pairs_scored == 5
    assert gateway.counts()["cross_encoder"] == CallCounts(asked=5, distinct=4, stored=0, made=4)


@pytest.mark.parametrize("kind", ["embedder", "cross_encoder"])
def test_many_threads_compute_each_distinct_text_once(kind: str) -> None:
    letters, lengths, gateway = Letters(), Lengths(), Gateway()
    barrier = threading.Barrier(8)
    ask: Callable[[list[str]], Any] = {
        "embedder": gateway.embedder(letters, Meter()).embed,
        "cross_encoder": lambda texts: gateway.cross_encoder(lengths, Meter()).score("q", texts),
    }[kind]

    def work(offset: int) -> None:
        barrier.wait(WAIT)
        for start in range(30):
            ask(["a" * ((start + offset + n) % 30) for n in range(5)])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    made = [text for batch in letters.batches for text in batch] + [t for _, batch in lengths.batches for t in batch]
    assert len(made) == len(set(made)) == 30
    assert gateway.counts()[kind] == CallCounts(asked=8 * 30 * 5, distinct=30, stored=0, made=30)


# --- what is learnt of models ----------------------------------------------------------------------------------------


def test_what_is_learnt_of_a_model_is_kept_and_known_to_the_next_process() -> None:
    calls, first, second = Calls(), Chat(), Chat()
    first.learner, second.learner = CapabilityLearner(), CapabilityLearner()  # type: ignore[attr-defined]
    Gateway(calls).language_model(first, Meter())
    first.learner.learn(ModelCapabilities(frozenset({"seed"})))  # type: ignore[attr-defined]
    first.learner.learn(ModelCapabilities(thinking_tokens=512))  # type: ignore[attr-defined]
    Gateway(calls).language_model(second, Meter())
    assert second.learner.capabilities == ModelCapabilities(frozenset({"seed"}), 512)  # type: ignore[attr-defined]
