"""``evaluate --latency``: seconds by stage, with warm and cold starts, and their reports.

Time passes only where a model says so: texts take `EMBEDDED` seconds together, however many they are, and a list takes
`RERANKED`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fault_replies import chat_reply
from hypothesis import given
from hypothesis import strategies as st

from ragsmith.assessment.scores import evaluate
from ragsmith.datasets.dataset import load_dataset
from ragsmith.evaluation.experiment import Experiment
from ragsmith.exported.pipeline import COLD_STARTS, Pipeline
from ragsmith.gateway.budget import Price, Prices
from ragsmith.models.calls import Completion
from ragsmith.models.embedded.wordllama import WordLlamaEmbedder
from ragsmith.models.names import ModelNames, partition_models
from ragsmith.models.usage import Usage
from ragsmith.pipelines.genes import Candidate
from ragsmith.pipelines.stages import COLD, START, TOTAL, WARM, StageTimes
from ragsmith.records.objectives import load_timings, store_timings
from ragsmith.reporting.results import latency_percentiles
from ragsmith.store.store import LatencyRow, Store

EMBEDDED, RERANKED = 0.125, 0.5
DAY = "2026-11-28"

Build = Callable[..., Candidate]


class Passing:
    """A clock, and models that move it."""

    def __init__(self) -> None:
        self.now = 0.0
        self._words = WordLlamaEmbedder()
        self.embedder: Any = type("Slow", (), {"id": "words", "slow": True, "embed": self._embed})()
        self.cross_encoder: Any = type("Slow", (), {"id": "reranker", "slow": True, "score": self._score})()

    def clock(self) -> float:
        return self.now

    def _embed(self, texts: Sequence[str]) -> Any:
        self.now += EMBEDDED
        return self._words.embed(texts)

    def _score(self, query: str, texts: Sequence[str]) -> tuple[float, ...]:
        self.now += RERANKED
        return tuple(float(len(text)) for text in texts)


class Chat:
    id = "chat"
    provider = None

    def complete(self, prompt: str, *, max_tokens: int, sample: int) -> Completion:
        return Completion(chat_reply(prompt), Usage(1, 0, 0, 10, 2, 1.0))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "cache.sqlite") as opened:
        yield opened


def setup_of(folder: Path, **models: Any) -> Experiment:
    names, given_models = partition_models(models)
    return Experiment(load_dataset(folder), ModelNames().override(names), 100, given=given_models)


def test_each_station_has_the_time_that_passed_there(tiny_folder: Path, pipeline: Build) -> None:
    passing = Passing()
    setup = setup_of(tiny_folder, embedder=passing.embedder, cross_encoder=passing.cross_encoder)
    asked = Pipeline(pipeline(query_expansion="hyde", reranking="cross_encoder"), setup)
    examples = setup.dataset.examples
    timings = asked.timings(examples, clock=passing.clock)
    warm = {timing.question: timing.seconds for timing in timings if timing.state == WARM}
    assert warm.keys() == {example.id for example in examples}
    for seconds in warm.values():
        spent = {stage: took for stage, took in seconds.items() if took}
        assert spent == {"retrieval": EMBEDDED, "reranking": RERANKED, TOTAL: EMBEDDED + RERANKED}
    cold = [timing.seconds for timing in timings if timing.state == COLD]
    assert len(cold) == COLD_STARTS
    for seconds in cold:
        assert seconds[START] >= EMBEDDED  # the collection has to be embedded first
        assert seconds[TOTAL] == seconds[START] + EMBEDDED + RERANKED


def test_nothing_is_remembered_between_questions(tiny_folder: Path, pipeline: Build) -> None:
    passing = Passing()
    setup = setup_of(tiny_folder, embedder=passing.embedder)
    example = setup.dataset.examples[0]
    asked = Pipeline(pipeline(), setup)
    twice = [timing for _ in range(2) for timing in asked.timings([example], clock=passing.clock)]
    assert {timing.seconds["retrieval"] for timing in twice} == {EMBEDDED}


@given(
    st.lists(st.dictionaries(st.sampled_from(["retrieval", "reranking", "generation"]), st.floats(0, 9)), min_size=1),
    st.lists(st.floats(0, 9)),
)
def test_percentiles_are_those_of_all_measurements(warm: list[dict[str, float]], cold: list[float]) -> None:
    timings = [StageTimes(f"q{i}", WARM, {**its, TOTAL: sum(its.values())}) for i, its in enumerate(warm)]
    timings += [StageTimes(f"q{i}", COLD, {START: took, TOTAL: took}) for i, took in enumerate(cold)]
    found = latency_percentiles(timings, lambda question: ["type even"] if int(question[1:]) % 2 == 0 else [])
    assert {one.state for one in found} == {WARM, *([COLD] if cold else [])}
    for one in found:
        if one.state == COLD:
            seconds = cold
        else:
            chosen = timings[: len(warm)][:: 2 if one.questions == "type even" else 1]
            seconds = [timing.seconds.get(one.stage, 0.0) for timing in chosen]
        assert one.n == len(seconds)
        expected = [1000 * value for value in np.percentile(seconds, [50, 90, 99])]
        assert [one.p50_ms, one.p90_ms, one.p99_ms] == pytest.approx(expected)
    assert [one.questions for one in found] == sorted(one.questions for one in found)


def test_what_was_measured_last_is_kept_beside_what_a_search_weighed(store: Store) -> None:
    weighed = store.put_latency(LatencyRow("key", "machine", "a", "ok", 0.5))
    first = [
        StageTimes("a", WARM, {TOTAL: 1.0}),
        StageTimes("b", WARM, {TOTAL: 2.0}),
        StageTimes("b", COLD, {TOTAL: 3.0}),
    ]
    store_timings(store, "key", "digest", "machine", first)
    assert load_timings(store, ["key", "other"]) == {"key": {"machine": first}}
    store_timings(store, "key", "digest", "machine", first[:1])
    store_timings(store, "key", "digest", "another", first[1:])
    assert load_timings(store, ["key"]) == {"key": {"another": first[1:], "machine": first[:1]}}
    assert store.latencies(["key"], "machine") == {"key": {"a": weighed}}
    assert store.verify() == []


def test_money_is_what_was_recorded_times_the_price(tiny_folder: Path, pipeline: Build, store: Store) -> None:
    asked = Pipeline(pipeline(), setup_of(tiny_folder, language_model=Chat()))
    found = evaluate(
        asked, store, at_home=False, day=DAY, prices=Prices({"chat": Price(input=3.0, output=5.0, requests=1.0)})
    )
    assert found.money is not None
    assert found.money.per_1000 == pytest.approx(1000 * ((10 * 3.0 + 2 * 5.0) / 1e6 + 1.0 / 1000))
    assert found.money.n == found.parts["all"].scored > 0


def test_money_is_not_told_where_it_is_not_known(tiny_folder: Path, pipeline: Build, store: Store) -> None:
    asked = Pipeline(pipeline(), setup_of(tiny_folder, language_model=Chat()))
    money = evaluate(asked, store, at_home=False, day=DAY, prices=Prices({})).money
    assert money is not None
    assert (money.per_1000, money.why) == (None, "needs the price of chat")
    embedded = Pipeline(pipeline(), setup_of(tiny_folder))
    money = evaluate(embedded, store, at_home=False, day=DAY, prices=Prices({})).money
    assert money is not None
    assert (money.per_1000, money.why) == (None, "no chat model is used, so there is no cost")
    assert evaluate(embedded, store, at_home=False, day=DAY).money is None
