"""Whole searches on servers that fail: what may pass changes nothing, and what does not is never a score."""

from __future__ import annotations

import math
import os
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from fault_kinds import Fault, endpoint
from fault_server import Request
from served import Left, Ruled, calls, failures, is_judging, left, passing, said, searched, served, small

from ragsmith.datasets.splits import split
from ragsmith.errors import ModelUnavailable, ProviderTrouble, StoreError
from ragsmith.evaluation.evaluation import load_evaluation
from ragsmith.evaluation.experiment import Experiment
from ragsmith.gateway.budget import Payment
from ragsmith.gateway.gateway import Gateway
from ragsmith.measures.planted_answers import MAX_PLANTED
from ragsmith.models.calls import StoredCall
from ragsmith.models.usage import Meter
from ragsmith.pipelines.genes import label
from ragsmith.pipelines.space import Space
from ragsmith.pipelines.space_file import load_space
from ragsmith.records.record import ExcludedQuestion, RunRecord
from ragsmith.store.store import Store

NOWHERE = "http://127.0.0.1:9/v1"
"""A port without a server."""


@pytest.fixture
def server() -> Iterator[Ruled]:
    with Ruled() as server:
        yield server


@pytest.fixture
def judge() -> Iterator[Ruled]:
    with Ruled() as judge:
        yield judge


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[[str], Store]]:
    """A cache by its name."""
    with ExitStack() as stack:
        yield cache(lambda name: stack.enter_context(Store.open(tmp_path / f"{name}.sqlite")))


@pytest.fixture(scope="session")
def one(tmp_path_factory: pytest.TempPathFactory) -> Space:
    """A space of one pipeline that asks an embedder, a reranker and a language model.

    Only two texts of a question are reranked: that is 3 requests where all fail, and so a test that spoils a few
    questions does not make a model unavailable.
    """
    path = tmp_path_factory.mktemp("space") / "one.yaml"
    path.write_text(
        "families:\n  pre_embedding: [none]\n  query_expansion: [none]\n  retrieval: [vector]\n"
        "  reranking: [cross_encoder: {depth: [2]}]\n  passage_filter: [top_k]\n  passage_augment: [none]\n"
        "  passage_compress: [none]\n  prompt_maker: [listing]\n  post_generation: [none]\n"
    )
    return load_space(path)


def asked(setup: Experiment) -> dict[str, str]:
    """The search questions, which every candidate is asked: id to text."""
    return {example.id: example.question for example in sorted(split(setup.dataset).search, key=lambda e: e.id)}


def excluded(store: Store) -> Mapping[str, ExcludedQuestion]:
    """The questions that failed for every pipeline of the one run."""
    [run] = store.runs()
    return RunRecord.from_dict(run.value).excluded


# --- faults that pass ------------------------------------------------------------------------------------------------


def test_faults_that_pass_change_nothing(
    server: Ruled, tiny_setup: Experiment, space: Space, opened: Callable[[str], Store]
) -> None:
    setup = served(tiny_setup, server.url, embedder=server.url, reranker=server.url)
    clean = searched(setup, space, opened("clean"), settings=small(4))
    drawn, dated = passing(0.2), Counter[str]()

    def rule(request: Request) -> Fault | None:
        if request.number >= 40 and request.attempt == 1 and dated.total() < 2:
            dated[request.digest] += 1
            return Fault("429_date", wait=0.1)
        return drawn(request)

    with Ruled(rule) as troubled:
        setup = served(tiny_setup, troubled.url, embedder=troubled.url, reranker=troubled.url)
        outcome = searched(setup, space, opened("troubled"), settings=small(4))
    assert outcome.winner.key == clean.winner.key
    assert left(opened("troubled")) == left(opened("clean"))

    faults = Counter(request.fault for request in troubled.log)
    assert {"429", "429_ms", "429_date", "500", "502", "reset", "cut", "cut_stream"} < faults.keys()
    assert faults.total() - faults[""] > 0.15 * faults.total()
    assert troubled.most_given() == 1
    for told in [request for request in troubled.log if request.told is not None]:
        again = next(r for r in troubled.log if r.digest == told.digest and r.attempt == told.attempt + 1)
        assert again.time >= told.replied + told.told


# --- faults that stay ------------------------------------------------------------------------------------------------


def test_a_refused_key_or_model_stops_the_run(server: Ruled, tiny_setup: Experiment, one: Space, store: Store) -> None:
    server.rule = lambda request: Fault(status=401) if request.number >= 10 else None
    with pytest.raises(ModelUnavailable, match=r"openai:tiny.*HTTP 401"):
        searched(served(tiny_setup, server.url), one, store)
    assert {request.attempt for request in server.log} == {1}
    assert len(server.log) <= 10 + 4 * 8  # what the others had begun; on a busy machine a few more are sent meanwhile
    server.rule = lambda request: None
    assert searched(served(tiny_setup, server.url), one, store).state == "finished"
    assert server.most_given() == 1


SPOILT: dict[str, dict[str, str]] = {
    "chat": {"malformed": "the reply is not valid JSON", "no_finish": "finish_reason 'None'"},
    "embeddings": {"wrong_length": "the vectors have 63 numbers; expected 64", "zero": "a vector is zero"},
    "rerank": {"too_few": r"the reply has \d+ scores for \d+ texts", "nan": "a score is missing or not finite"},
}
"""By API: what is wrong with a reply of status 200, and what the failure says."""


@pytest.fixture(scope="module")
def undisturbed(tiny_setup: Experiment, one: Space, tmp_path_factory: pytest.TempPathFactory) -> Left:
    path = tmp_path_factory.mktemp("clean") / "cache.sqlite"
    with Ruled() as server, Store.open(path) as store:
        url = server.url
        searched(served(tiny_setup, url, embedder=url, reranker=url), one, store)
        return left(store)


@pytest.mark.parametrize("api", SPOILT)
def test_a_reply_that_is_no_answer_is_never_scored_or_kept(
    server: Ruled, tiny_setup: Experiment, one: Space, store: Store, undisturbed: Left, api: str
) -> None:
    questions = asked(tiny_setup)
    kinds = dict(zip(questions, SPOILT[api], strict=False))

    def rule(request: Request) -> Fault | None:
        if endpoint(request.path, request.body) != api or is_judging(request):
            return None
        return next((Fault(kind) for q, kind in kinds.items() if questions[q] in said(request)), None)

    server.rule = rule
    setup = served(tiny_setup, server.url, embedder=server.url, reranker=server.url, attempts=2)
    workers = 1 if api == "embeddings" else 8  # alone, a question is embedded in a batch of its own
    outcome = searched(setup, one, store, workers=workers)
    for_all = api == "chat"  # BM25 alone asks neither of the others, and answers
    assert (set(excluded(store)), outcome.winner is None) == ((set(kinds), False) if for_all else (set(), True))
    found, failed = left(store), failures(store)
    assert {question for _, question in failed} == set(kinds)
    for (_, question), error in failed.items():
        kind = "Unreadable" if kinds[question] == "no_finish" else "ProviderTrouble"  # the model's, or the server's
        assert re.search(rf"^{kind}: .*{SPOILT[api][kinds[question]]}.* \(attempts: 2\)", error), error
    scored = found.results.keys() - failed.keys()
    assert scored
    assert all(found.results[place] == undisturbed.results[place] for place in scored)
    assert found.calls.items() < undisturbed.calls.items()

    server.rule = lambda request: None
    setup = served(tiny_setup, server.url, embedder=server.url, reranker=server.url)
    searched(setup, one, store, retry_failed=True)
    assert left(store) == undisturbed


# --- a server that answers, but not in its protocol ------------------------------------------------------------------


IMPATIENT: Mapping[str, Any] = {"attempts": 2, "failures_in_a_row": 3}


@pytest.fixture(scope="module")
def clean(tiny_setup: Experiment, space: Space, tmp_path_factory: pytest.TempPathFactory) -> Left:
    """What a search leaves whose servers never fail."""
    with Ruled() as server, Store.open(tmp_path_factory.mktemp("clean") / "cache.sqlite") as store:
        searched(served(tiny_setup, server.url, embedder=server.url, reranker=server.url), space, store, small(4))
        return left(store)


@pytest.mark.parametrize(
    ("api", "kind", "lasting"),
    [
        ("chat", "page", 5),
        ("chat", "page", math.inf),
        ("chat", "no_choices", math.inf),
        ("embeddings", "page", math.inf),
        ("embeddings", "nan", 5),
        ("embeddings", "nan", math.inf),
        ("embeddings", "wrong_length", 5),
        ("embeddings", "wrong_length", math.inf),
        ("rerank", "too_few", 5),
        ("rerank", "too_few", math.inf),
    ],
)
def test_the_same_command_ends_as_without_the_trouble_once_it_is_over(
    server: Ruled,
    tiny_setup: Experiment,
    space: Space,
    store: Store,
    clean: Left,
    api: str,
    kind: str,
    lasting: float,
) -> None:
    requests = Counter[str]()

    def rule(request: Request) -> Fault | None:
        requests[endpoint(request.path, request.body)] += 1
        in_trouble = 3 < requests[api] <= 3 + lasting and endpoint(request.path, request.body) == api
        return Fault(kind) if in_trouble else None

    def run() -> Any:
        setup = served(tiny_setup, server.url, embedder=server.url, reranker=server.url, **IMPATIENT)
        return searched(setup, space, store, small(4), workers=4)

    server.rule = rule
    if lasting == math.inf:
        with pytest.raises(ModelUnavailable, match=r": run the same command later"):
            run()
        assert left(store).winner is None
        server.rule = lambda request: None
    assert run().winner.key == clean.winner
    found = left(store)
    assert found.ranking == clean.ranking
    assert failures(store) == {}
    assert clean.results.items() <= found.results.items()
    assert server.most_given() <= 1 + (lasting == math.inf)  # what was in flight when the run stopped is asked again


def test_vectors_of_another_length_than_those_stored_before_are_trouble(
    server: Ruled, tiny_setup: Experiment, store: Store
) -> None:
    def embed(*texts: str) -> Any:
        setup = served(tiny_setup, server.url, embedder=server.url, **IMPATIENT)
        with Store.open(store.location) as opened:  # as another command does
            return Gateway(opened).embedder(setup.loaded_models.embedder, Meter()).embed(texts)

    server.rule = lambda request: Fault("wrong_length")
    assert embed("The library is closed.").shape[1] == 63  # nothing is known of the model
    server.rule = lambda request: None
    before = embed(*(f"The ferry has {n} seats." for n in range(100)))
    server.rule = lambda request: Fault("wrong_length")
    with pytest.raises(ProviderTrouble, match="the vectors have 63 numbers; expected 64"):
        embed("The market opens on Thursdays.")
    server.rule = lambda request: None
    assert embed("The market opens on Thursdays.").shape[1] == before.shape[1] == 64
    assert embed("The library is closed.").shape[1] == 64  # the wrong vector counts as damaged
    assert server.most_given() == 1


def test_trouble_while_a_judge_is_checked_says_nothing_of_the_judge(
    server: Ruled, judge: Ruled, tiny_setup: Experiment, one: Space, store: Store
) -> None:
    judge.rule = lambda request: Fault("page") if request.number % 2 else None
    setup = served(tiny_setup, server.url, judge=judge.url, attempts=1)
    with pytest.raises(ModelUnavailable, match=r"the reply is not valid JSON .*: run the same command later"):
        searched(setup, one, store)
    judge.rule = lambda request: None
    assert searched(served(tiny_setup, server.url, judge=judge.url), one, store).state == "finished"
    assert judge.most_given() == 1


# --- a judge that is down --------------------------------------------------------------------------------------------


def write_models(path: Path, server: Ruled, judge: str, **options: object) -> Path:
    given = "".join(f", {name}: {value}" for name, value in options.items())
    path.write_text(
        f"language_model: {{model: 'openai:tiny', base_url: '{server.url}'}}\n"
        f"judge: {{model: 'openai:judge', base_url: '{judge}'{given}}}\n"
    )
    return path


@pytest.mark.parametrize("trouble", ["refuses connections", "500", "hang"])
def test_without_a_judge_a_run_stops_soon_and_nothing_is_paid_twice(
    server: Ruled,
    judge: Ruled,
    ragsmith: Callable[..., Any],
    search_arguments: Callable[..., list[object]],
    tmp_path: Path,
    trouble: str,
) -> None:
    place = NOWHERE if trouble.startswith("refuses") else judge.url
    checked = 0 if trouble.startswith("refuses") else 2 * MAX_PLANTED
    judge.script, judge.always = [None] * checked, Fault(trouble)
    server.latency = 0.15
    options = {"attempts": 1, "deadline": 0.5}
    models = write_models(tmp_path / "models.yaml", server, place, **options)
    command = search_arguments(
        *("--models", models, "--workers", 12, "--max-evaluations", 2, "--no-probes"),
        cache=tmp_path / "cache.sqlite",
        reports=tmp_path / "reports",
    )
    began = time.monotonic()
    ended = ragsmith(*command)
    assert time.monotonic() - began < 40  # three probes of five seconds among them
    assert ended.code == 1, ended.err
    assert re.search(rf"{place} seems to be down|no answer from {place.removesuffix('/v1')}", ended.err)
    assert "same command" in ended.err
    assert list(tmp_path.rglob("winner.yaml")) == []
    with Store.open(tmp_path / "cache.sqlite") as store:
        found = left(store)
    assert (found.state, found.winner) == ("failed", None)
    assert bool(server.log) == bool(checked), "the judge is asked first"
    assert len(found.calls) == checked + len(server.log)  # also what was in flight when the judge was given up

    write_models(models, server, judge.url)
    judge.script, judge.always, server.latency = [], None, 0.0
    ended = ragsmith(*command)
    assert ended.code == 0, ended.err
    assert (tmp_path / "reports" / "island" / "winner.yaml").exists()
    assert {request.attempt for request in server.log} == {1}


# --- a question that always fails ------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A space of two pipelines: BM25 with the question, and with a passage that is imagined first."""
    path = tmp_path_factory.mktemp("space") / "two.yaml"
    path.write_text(
        "families:\n  pre_embedding: [none]\n  query_expansion: [none, hyde]\n  retrieval: [bm25]\n"
        "  reranking: [none]\n  passage_filter: [top_k: {k: [2]}]\n  passage_augment: [none]\n"
        "  passage_compress: [none]\n  prompt_maker: [listing]\n  post_generation: [none]\n"
    )
    return path


def test_a_candidate_does_not_rise_by_failing_on_what_is_hard(
    server: Ruled, tiny_setup: Experiment, two: Path, opened: Callable[[str], Store]
) -> None:
    setup = served(tiny_setup, server.url)
    clean = searched(setup, load_space(two), opened("clean"), settings=small(2, "exhaustive"))
    questions = asked(tiny_setup)
    keys = [key for _, key, _ in left(opened("clean")).ranking]
    both = [load_evaluation(opened("clean"), key, tuple(questions)).values("fitness") for key in keys]
    worst = {question: min(values) for question, *values in zip(questions, *both, strict=True)}
    hard = sorted(worst, key=lambda question: worst[question])[: len(worst) // 2]
    texts = [questions[question] for question in hard]
    assert "hyde" not in label(clean.winner.candidate)

    def rule(request: Request) -> Fault | None:
        imagines = "Write a passage of four to six sentences" in said(request)
        return Fault(status=400) if imagines and any(text in said(request) for text in texts) else None

    with Ruled(rule) as picky:
        store = opened("picky")
        setup = served(tiny_setup, picky.url)
        outcome = searched(setup, load_space(two), store, settings=small(2, "exhaustive"))
    assert outcome.winner.key == clean.winner.key
    assert outcome.winner.mean("fitness") == clean.winner.mean("fitness")

    [other] = {key for _, key, _ in left(store).ranking} - {clean.winner.key}
    evaluation = load_evaluation(store, other, tuple(questions))
    values = evaluation.values("fitness")
    assert math.fsum(values) / len(values) > clean.winner.mean("fitness")  # it would have won by what it answered
    assert evaluation.mean("fitness") is None
    assert set(evaluation.failures) == set(hard)
    assert {e["stage"] for e in evaluation.failures.values()} == {"query_expansion.hyde"}


def test_a_failure_is_in_the_report_with_the_coverage(
    server: Ruled,
    two: Path,
    tiny_folder: Path,
    tiny_setup: Experiment,
    ragsmith: Callable[..., Any],
    tmp_path: Path,
) -> None:
    text = next(iter(asked(tiny_setup).values()))
    server.rule = lambda request: (
        Fault(status=400, said="too odd") if "Write a passage" in said(request) and text in said(request) else None
    )
    command = ("search", "--dataset", tiny_folder, "--space", two, "--chunk-size", 100, "--strategy", "exhaustive")
    places = ("--cache", tmp_path / "cache.sqlite", "--reports", tmp_path / "reports")
    ended = ragsmith(*command, *places, "--llm", "openai:tiny", "--base-url", server.url)
    assert ended.code == 0, ended.err
    assert re.search(r"\d answers failed: see Failures in the report", ended.out)
    assert re.search(r" 2  0\.\d+ .*\(n 17\) .*hyde", ended.out)
    folder = tmp_path / "reports" / "island"
    written = (folder / "winner.yaml").read_text()
    assert "technique: hyde" not in written
    assert re.search(r"failed_answers: \d+\n  max_failure_rate: 0.1\n  excluded_questions: {}", written)
    report = (folder / "report.md").read_text()
    assert "| 1 | **bm25 + top_k(k=2)** |" in report
    assert "| 18 = 18 + 0 |" in report
    assert "| 18 = 17 + 1 |" in report
    assert re.search(r"query_expansion.hyde.*RefusedContent.*HTTP 400 \(too odd\)", report)


def test_a_question_on_which_all_fail_is_excluded_by_name_and_the_others_decide(
    server: Ruled,
    search_arguments: Callable[..., list[object]],
    tiny_setup: Experiment,
    ragsmith: Callable[..., Any],
    tmp_path: Path,
) -> None:
    text = next(iter(asked(tiny_setup).values()))
    server.rule = lambda request: Fault(status=400, said="too odd") if text in said(request) else None
    command = search_arguments(
        *("--llm", "openai:tiny", "--base-url", server.url, "--max-evaluations", 2, "--no-probes"),
        cache=tmp_path / "cache.sqlite",
        reports=tmp_path / "reports",
    )
    ended = ragsmith(*command, "--quiet")
    assert ended.code == 0, ended.err
    named = next(question for question, asked_as in asked(tiny_setup).items() if asked_as == text)
    assert "excluded, as every pipeline failed on them: 1 of the questions" in ended.out
    assert re.search(rf" {named} \(search\), .*HTTP 400 \(too odd\)", " ".join(ended.out.split()))
    [winner] = tmp_path.rglob("winner.yaml")
    exported = yaml.safe_load(winner.read_text())
    assert list(exported["run"]["excluded_questions"]) == exported["expected"]["search"]["failed"] == [named]
    assert exported["expected"]["search"]["questions"] == 17
    assert named in (winner.parent / "report.md").read_text()
    server.rule = lambda request: None
    before = len(server.log)
    again = ragsmith(*command)  # what is refused is not asked again
    assert (again.code, f"{named} (search)" in again.out) == (0, True)
    assert len(server.log) == before
    ended = ragsmith(*command, "--retry-failed")
    assert ended.code == 0, ended.err
    assert (len(server.log) > before, server.most_given()) == (True, 1)


# --- a full disk -----------------------------------------------------------------------------------------------------


class Filling(Store):
    """A cache on a disk that is full for some of the writes of replies: those with numbers in ``full``."""

    full: Container[int] = ()
    writes = 0

    def put_calls(
        self, calls: Iterable[StoredCall], *, replacing: bool = False, payment: Payment | None = None
    ) -> None:
        self.writes += 1
        if self.writes in self.full:
            raise StoreError(f"{self.place} cannot be written, the disk is full: free some space")
        super().put_calls(calls, replacing=replacing, payment=payment)


@pytest.mark.parametrize(
    ("full", "lost"),
    [pytest.param({4}, False, id="for a while"), pytest.param(range(4, 1000), True, id="for good")],
)
def test_a_full_disk_stops_the_run_and_what_it_has_paid_for_is_written_when_there_is_room_again(
    server: Ruled, tiny_setup: Experiment, space: Space, tmp_path: Path, full: Container[int], lost: bool
) -> None:
    server.latency = 0.05
    setup = served(tiny_setup, server.url)
    with Filling.open(tmp_path / "cache.sqlite") as store:
        store.full = full
        with pytest.raises(StoreError, match="the disk is full") as raised:
            searched(setup, space, store, workers=4)
        kept = len(calls(store))
        assert ("could not be stored" in str(raised.value)) == lost
    sent = len(server.log)
    assert kept < sent if lost else kept == sent
    assert sent <= kept + 4 * 2, "nothing but what was in flight was sent after the first reply that was not written"
    with Store.open(tmp_path / "cache.sqlite") as store:
        assert searched(served(tiny_setup, server.url), space, store, workers=4).state == "finished"
        assert left(store).state == "finished"
    again = sum(1 for request in server.given) - len({request.digest for request in server.given})
    assert again == sent - kept, "only a reply that no disk had room for is paid for again"


# --- Ctrl-C ----------------------------------------------------------------------------------------------------------


def test_an_interrupt_ends_a_slow_search_and_keeps_what_was_sent(
    server: Ruled,
    spawn: Callable[..., subprocess.Popen[str]],
    search_arguments: Callable[..., list[object]],
    tmp_path: Path,
) -> None:
    server.latency = 0.5
    process = spawn(*search_arguments("--llm", "openai:tiny", "--base-url", server.url, "--workers", 8))
    while len(server.log) < 12:
        assert process.poll() is None
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    began = time.monotonic()
    _, err = process.communicate(timeout=30)
    assert time.monotonic() - began < 15  # 2 s on a machine at rest
    assert process.returncode == 130, err
    assert "same command" in err
    assert "Traceback" not in err
    with Store.open(tmp_path / "cache.sqlite") as store:
        assert len(left(store).calls) == len(server.log)
        assert left(store).state == "interrupted"
