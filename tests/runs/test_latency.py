"""Latency as an objective: measurement, storage, and searches that weigh it.

Time passes only where a model says so: the chat model by the seconds of its replies, the reranker by moving the clock.
"""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from fault_replies import chat_reply
from served import grouped
from stored import go_on, recorded

from ragsmith.datasets.dataset import load_dataset
from ragsmith.errors import RefusedContent, UsageError
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.latency import TIMED_QUESTIONS, describe_machine
from ragsmith.exported.writing import winner_yaml
from ragsmith.gateway.gateway import Gateway
from ragsmith.models.calls import Completion, StoredCall
from ragsmith.models.embedded.wordllama import WordLlamaEmbedder
from ragsmith.models.names import ModelName, ModelNames, partition_models
from ragsmith.models.served.policy import Policy
from ragsmith.models.usage import Meter, Usage
from ragsmith.pipelines.space import Space
from ragsmith.records.objectives import with_machine
from ragsmith.records.record import RunSettings
from ragsmith.reporting.building import load_report
from ragsmith.reporting.report_files import ranking_csv
from ragsmith.reporting.summary import summary_lines
from ragsmith.reporting.wording import explain_front
from ragsmith.runs.plan import plan
from ragsmith.runs.run import Run, RunOutcome
from ragsmith.runs.run_context import Latencies
from ragsmith.runs.token_estimates import estimate_tokens
from ragsmith.store.store import LatencyRow, Store
from ragsmith.strategies import GeneticSettings
from ragsmith.techniques.query_expansion.hyde import IMAGINE_PASSAGE

ANSWER, IMAGINED, RERANKED = 1.0, 0.25, 0.5
"""Seconds of a reply, of one to hyde, and of a reranked list."""

SETTINGS = RunSettings(
    strategy="nsga2",
    objectives=("quality", "latency"),
    racing=None,
    seed=7,
    genetic=GeneticSettings(population=4, generations=2, elitism=2),
    warm_start=False,
    noise=0,
    probes=False,
    machine="a machine for tests",
)


@dataclass
class Chat:
    id: str = "chat"
    prompts: list[str] = field(default_factory=list)
    provider: Any = None
    seconds: float | None = None
    by_prompt: dict[str, float] = field(default_factory=dict)

    def complete(self, prompt: str, *, max_tokens: int, sample: int) -> Completion:
        self.prompts.append(prompt)
        seconds = self.seconds or (IMAGINED if "Write a passage of" in prompt else ANSWER)
        seconds = next((own for word, own in self.by_prompt.items() if f"is {word}?" in prompt), seconds)
        return Completion(chat_reply(prompt), Usage(1, 0, 0, 10, 2, seconds))


class Words:
    """Embeds, as if that took long enough to keep the vectors."""

    id = "words"
    slow = True

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._words = WordLlamaEmbedder()

    def embed(self, texts: Sequence[str]) -> Any:
        self.asked += texts
        return self._words.embed(texts)


class Reranker:
    """Scores by length, and lets time pass; one that is ``tired`` refuses what it has scored before."""

    id = "reranker"
    slow = True

    def __init__(self) -> None:
        self.now = 0.0
        self.asked: set[tuple[str, str]] = set()
        self.tired = False

    def score(self, query: str, texts: Sequence[str]) -> tuple[float, ...]:
        pairs = {(query, text) for text in texts}
        if self.tired and pairs & self.asked:
            raise RefusedContent("no time for that")
        self.asked |= pairs
        self.now += RERANKED
        return tuple(float(len(text)) for text in texts)

    def clock(self) -> float:
        return self.now


@dataclass
class World:
    setup: Experiment
    chat: Chat
    words: Words
    reranker: Reranker


@pytest.fixture
def world(tiny_folder: Path) -> World:
    return made(tiny_folder)


def made(folder: Path) -> World:
    chat, words, reranker = Chat(), Words(), Reranker()
    names, given = partition_models({"language_model": chat, "embedder": words, "cross_encoder": reranker})
    setup = Experiment(load_dataset(folder), ModelNames().override(names), 100, given=given)
    return World(setup, chat, words, reranker)


def searched(world: World, space: Space, store: Store, settings: RunSettings = SETTINGS, **more: Any) -> RunOutcome:
    return Run(
        world.setup, space, store, settings, **grouped(**{"workers": 8, "clock": world.reranker.clock, **more})
    ).go()


def kept(store: Store, outcome: RunOutcome) -> dict[str, dict[str, LatencyRow]]:
    machine = recorded(store, outcome).settings.measured_on
    found = store.latencies([key for key, _ in outcome.evaluations], machine)
    return {key: by_question for key, by_question in found.items() if by_question}


def rows(path: Path, table: str) -> list[tuple[Any, ...]]:
    with sqlite3.connect(path) as connection:
        return sorted(connection.execute(f"SELECT * FROM {table}").fetchall())


def end(store: Store, outcome: RunOutcome) -> tuple[Any, ...]:
    record = recorded(store, outcome)
    proposals = [(row.position, row.genome, row.evaluation, row.value) for row in store.proposals(outcome.key)]
    front = [(row.key, row.latency_seconds) for row in load_report(store, "island").front]
    return record.history, record.winner, record.test, record.removals, proposals, front


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, tiny_folder: Path, space: Space) -> Iterator[Any]:
    world = made(tiny_folder)
    with Store.open(tmp_path_factory.mktemp("timed") / "cache.sqlite") as opened:
        yield opened, searched(world, space, opened), world


def test_a_question_takes_what_its_stages_take_one_after_the_other(finished: tuple[Store, RunOutcome, World]) -> None:
    store, outcome, world = finished
    found = kept(store, outcome)
    told = {row.evaluation for row in store.proposals(outcome.key)} | set(recorded(store, outcome).told)
    assert told <= set(found)
    by_key = {key: evaluation for (key, _), evaluation in outcome.evaluations.items()}
    for key, by_question in found.items():
        genes = {gene.technique.name for gene in by_key[key].candidate}
        expected = ANSWER + IMAGINED * ("hyde" in genes) + RERANKED * ("cross_encoder" in genes)
        assert [row.value for row in by_question.values()] == pytest.approx([expected] * TIMED_QUESTIONS)
        assert set(by_question) == set(world.setup.order[:TIMED_QUESTIONS])


def test_no_reply_is_paid_twice_and_only_queries_are_embedded_anew(finished: tuple[Store, RunOutcome, World]) -> None:
    _, _, world = finished
    assert len(world.chat.prompts) == len(set(world.chat.prompts))
    twice = {text for text in world.words.asked if world.words.asked.count(text) > 1}
    asked = {world.setup.examples[question].question for question in world.setup.order[:TIMED_QUESTIONS]}
    assert asked <= twice
    assert not twice & {chunk.text for chunk in world.setup.corpus.chunks}


def test_the_front_is_what_nothing_else_is_as_good_and_as_fast_as(finished: tuple[Store, RunOutcome, World]) -> None:
    store, _, _ = finished
    domain = load_report(store, "island")
    reached = {(row.level, row.latency_seconds or 0.0) for row in domain.ranking}
    best = {(f, s) for f, s in reached if not any(g >= f and t <= s and (g, t) != (f, s) for g, t in reached)}
    assert {(row.level, row.latency_seconds) for row in domain.front} == best
    assert domain.front[-1].latency_seconds == ANSWER
    lines = summary_lines(domain, columns=1000)
    head = next(line for line in lines if line.startswith("front of quality, latency"))
    assert f"the median of {TIMED_QUESTIONS} questions, on {SETTINGS.machine}" in head
    assert "1.000 s  " in lines[lines.index(head) + len(domain.front)]
    assert f"{TIMED_QUESTIONS} questions, one at a time" in explain_front(domain)
    assert "unless it finds nothing or has no latency. " in explain_front(domain)
    assert "latency_seconds" in ranking_csv(domain).splitlines()[0].split(",")


def test_a_search_that_goes_on_reads_what_was_measured_and_goes_the_same_way(
    finished: tuple[Store, RunOutcome, World], space: Space, tmp_path: Path
) -> None:
    store, outcome, world = finished

    def no_clock() -> float:
        raise AssertionError("nothing is timed twice")

    again = searched(world, space, store, clock=no_clock)
    assert (again.key, again.computed) == (outcome.key, 0)
    assert end(store, again) == end(store, outcome)
    with Store.open(tmp_path / "paused.sqlite") as other:
        ticks = itertools.count()
        short = replace(SETTINGS, time_limit=30.0)
        resumed, starts = go_on(lambda: searched(world, space, other, short, now=lambda: float(next(ticks))))
        assert starts > 2
        assert end(other, resumed) == end(store, outcome)


def test_another_machine_is_another_search(finished: tuple[Store, RunOutcome, World], space: Space) -> None:
    store, outcome, world = finished
    elsewhere = replace(SETTINGS, machine="another")
    assert Run(world.setup, space, store, elsewhere).key != outcome.key
    here = Run(world.setup, space, store, replace(SETTINGS, machine=None))
    assert here.key == Run(world.setup, space, store, replace(SETTINGS, machine=describe_machine())).key


@pytest.mark.parametrize("objectives", [("quality",), ("quality", "calls")])
def test_nothing_is_timed_unless_it_is_weighed(
    objectives: tuple[str, ...], world: World, space: Space, store: Store
) -> None:
    strategy = "nsga2" if len(objectives) > 1 else "genetic"
    settings = replace(SETTINGS, objectives=objectives, strategy=strategy, machine=None)
    outcome = searched(world, space, store, settings)
    assert store.statistics()["tables"]["latency"]["rows"] == 0
    assert recorded(store, outcome).settings.machine is None
    with pytest.raises(UsageError, match="measured no latency: search with --objectives quality,latency"):
        winner_yaml(store, outcome.key, world.setup, Path(), "latency<=2")


def test_what_cannot_be_timed_has_no_latency_and_is_tried_again_by_the_next_search(
    world: World, space: Space, store: Store
) -> None:
    world.reranker.tired = True
    outcome = searched(world, space, store)
    timed = kept(store, outcome)
    failed = {key: row for key, rows in timed.items() for row in rows.values() if row.state == "failed"}
    assert failed
    for row in failed.values():
        assert row.value["stage"] == "reranking.cross_encoder"
        assert row.value["error"] == "RefusedContent: no time for that"
    domain = load_report(store, "island")
    assert not {row.key for row in domain.front} & set(failed)
    assert {row.key for row in domain.ranking if row.latency_seconds is None} <= set(failed)
    assert all("cross_encoder" not in population for population in domain.front[0].genes.values())
    assert not store.verify()
    world.reranker.tired = False
    again = searched(world, space, store)
    assert {row.state for rows in kept(store, again).values() for row in rows.values()} == {"ok"}


def test_a_pipeline_is_picked_by_its_seconds(finished: tuple[Store, RunOutcome, World], world: World) -> None:
    store, outcome, world = finished
    domain = load_report(store, "island")
    for most in (ANSWER, ANSWER + IMAGINED, ANSWER + IMAGINED + RERANKED):
        written = yaml.safe_load(winner_yaml(store, outcome.key, world.setup, Path(), f"latency <= {most}"))
        able = [row for row in domain.ranking if row.latency_seconds is not None and row.latency_seconds <= most]
        assert written["expected"]["search"]["fitness"] == max(row.level for row in able)
        assert written["run"]["latency_seconds"] <= most
        assert (written["run"]["latency_questions"], written["run"]["machine"]) == (TIMED_QUESTIONS, SETTINGS.machine)
    with pytest.raises(UsageError, match=r"the fastest pipeline of this search takes 1\.000 s a question"):
        winner_yaml(store, outcome.key, world.setup, Path(), "latency<=0.5")


def test_a_plan_says_what_timing_takes_and_that_no_reply_is_asked_for_again(
    world: World, space: Space, store: Store
) -> None:
    found = plan(world.setup, space, store, SETTINGS, sample=1000)
    assert found.genomes is not None
    assert 2 * TIMED_QUESTIONS < found.timed <= TIMED_QUESTIONS * found.genomes
    timed = {line.request: line for line in found.lines if line.request.endswith(", timed")}
    assert set(timed) == {"embed queries, timed", "score a list of passages, timed"}
    for line in timed.values():
        assert 0 < line.calls <= 2 * found.timed  # hyde searches for the question, and for what it imagined
    assert not world.chat.prompts
    rows = kept(store, searched(world, space, store)).values()
    assert found.timed == pytest.approx(sum(map(len, rows)), rel=0.3)
    without = plan(world.setup, space, store, replace(SETTINGS, objectives=("quality", "calls")), sample=1000)
    assert without.timed == 0
    assert not [line for line in without.lines if line.request.endswith(", timed")]


def test_replies_that_are_asked_for_together_are_waited_for_together() -> None:
    meter, chat = Meter(), Chat()
    view = Gateway().language_model(chat, meter)
    view.run_all(IMAGINE_PASSAGE, [{"question": "When?"}, {"question": "Where?"}])
    view.run(IMAGINE_PASSAGE, question="Who?")
    assert meter.total().calls == 3
    assert meter.total().seconds == 2 * IMAGINED


@pytest.mark.parametrize(("at_once", "seconds"), [(1, 20.0), (8, 3.0), (20, 1.0), (32, 1.0)])
def test_no_more_are_waited_for_together_than_may_be_in_flight(at_once: int, seconds: float) -> None:
    meter, chat = Meter(), Chat()
    chat.seconds = 1.0
    chat.provider = SimpleNamespace(policy=Policy(in_flight=at_once), slots=at_once)
    Gateway().language_model(chat, meter).run_all(IMAGINE_PASSAGE, [{"question": f"Where is {i}?"} for i in range(20)])
    assert meter.total().seconds == seconds


def test_a_free_slot_takes_the_next_that_waits() -> None:
    meter, chat = Meter(), Chat()
    chat.by_prompt = {"one": 3.0, "two": 1.0, "three": 1.0, "four": 2.0}
    chat.provider = SimpleNamespace(policy=Policy(in_flight=2), slots=2)
    Gateway().language_model(chat, meter).run_all(
        IMAGINE_PASSAGE, [{"question": f"Where is {n}?"} for n in chat.by_prompt]
    )
    assert meter.total().seconds == 4.0  # one takes 3, and the others, at the same time, 1, 1 and 2


def test_a_model_that_does_not_say_how_long_it_took_is_timed(store: Store) -> None:
    chat = Chat()
    silent = SimpleNamespace(
        id="silent", complete=lambda prompt, **more: Completion(chat_reply(prompt), Usage(1, 0, 0, 10, 2))
    )
    meters = Meter(), Meter()
    for meter in meters:  # the second time from the store
        Gateway(store).language_model(silent, meter).run(IMAGINE_PASSAGE, question="When?")
    assert 0 < meters[0].total().seconds == meters[1].total().seconds
    Gateway(store).language_model(chat, meters[0]).run(IMAGINE_PASSAGE, question="When?")
    assert meters[0].total().seconds == meters[1].total().seconds + IMAGINED


FAILED = {"stage": "timing", "error": "no"}


def test_what_another_process_measured_first_stays(store: Store) -> None:
    first, second = (LatencyRow("key", "machine", "a", "ok", seconds) for seconds in (1.0, 3.0))
    failed = LatencyRow("key", "machine", "a", "failed", FAILED)
    assert store.put_latency(failed) == failed
    assert store.put_latency(first) == first
    assert store.put_latency(second) == first
    assert store.put_latency(failed) == first
    beside = LatencyRow("key", "machine", "b", "failed", FAILED)
    assert store.put_latency(beside) == beside
    store.put_latency(replace(second, machine="another"))
    assert store.latencies(["key", "other"], "machine") == {"key": {"a": first, "b": beside}, "other": {}}


@dataclass
class Stopwatch:
    """Times questions as if it were an evaluator: a minute for the first, two for the second, and so on."""

    asked: list[str] = field(default_factory=list)

    def measure_seconds(self, candidate: Any, question: str) -> float:
        self.asked.append(question)
        return 60.0 * len(self.asked)


def test_searches_that_begin_with_other_questions_leave_each_other_what_they_measured(store: Store) -> None:
    watch: Any = Stopwatch()
    names = tuple("abcdefgh")
    evaluation = Evaluation("key", (), names, {name: {} for name in names}, {})
    forwards, backwards = (Latencies(watch, store, "machine", order) for order in (names, names[::-1]))
    assert forwards.get_median(evaluation) == 180.0
    assert backwards.get_median(evaluation) == 360.0  # of 4 and 5 minutes from before, and 6, 7 and 8
    assert watch.asked == [*"abcde", *"hgf"]
    assert (forwards.get_median(evaluation), backwards.get_median(evaluation)) == (180.0, 360.0)
    assert len(watch.asked) == 8
    unanswered = replace(evaluation, records={}, failures={name: {} for name in names})
    assert forwards.get_median(unanswered) is None


def test_the_key_has_whatever_else_takes_time(tiny_folder: Path) -> None:
    data = load_dataset(tiny_folder)

    def measured(vector_store: str | None = None, **options: Any) -> str:
        embedder = ModelName("hf:any/model", **options)
        setup = Experiment(data, ModelNames(embedder=embedder, vector_store=vector_store), 100)
        return with_machine(replace(SETTINGS, machine=None), [setup]).measured_on

    plain = measured()
    assert plain.startswith(f"{describe_machine()}, ")
    others = measured(device="cuda"), measured(batch_size=8), measured("qdrant:here"), measured(dimensions=None)
    assert len({plain, *others}) == 4
    assert others[-1] == plain
    assert measured("qdrant:http://a:6333") == measured("qdrant:http://b:6333") != measured("qdrant:here")
    assert measured("qdrant:here") == measured("qdrant:there")
    served = ModelName("openai:tiny", base_url="http://127.0.0.1:1/v1", deadline=3.0)
    moved, faster = (
        served.with_options(base_url="http://127.0.0.1:2/v1", deadline=None),
        served.with_options(in_flight=1),
    )
    keys = [
        with_machine(SETTINGS, [Experiment(data, ModelNames(language_model=name), 100)]).measured_on
        for name in (served, moved, faster)
    ]
    assert keys[0] == keys[1] != keys[2]


def test_a_search_that_only_times_stops_at_its_time_limit(world: World, space: Space, store: Store) -> None:
    searched(world, space, store)
    elsewhere = replace(SETTINGS, machine="another", time_limit=0.5)
    ticks = itertools.count()
    outcome = searched(world, space, store, elsewhere, now=lambda: float(next(ticks)))
    assert (outcome.state, outcome.computed) == ("interrupted", 0)


def test_a_finished_search_is_brought_up_to_date_by_what_can_be_timed_now(
    world: World, space: Space, store: Store
) -> None:
    settings = replace(SETTINGS, strategy="random", max_evaluations=12, simplify=False)

    def ended(at: float) -> str | None:
        outcome = searched(world, space, store, settings, now=lambda: at)
        assert (outcome.state, outcome.computed == 0) == ("finished", at > 0)
        run = store.run(outcome.key)
        assert run is not None
        return run.finished

    world.reranker.tired = True
    first = ended(0.0)
    assert ended(1.0) == first  # it fails again
    world.reranker.tired = False
    second = ended(2.0)
    assert second != first
    assert ended(3.0) == second


def test_a_plan_takes_seconds_from_replies_that_say_them() -> None:
    replies = [StoredCall(str(seconds), "chat", "answer", "yes", seconds=seconds) for seconds in (0.0, 2.0, 4.0)]
    found, _ = estimate_tokens(Chat(), replies, {}, None, None)
    assert found.latency == 3.0
