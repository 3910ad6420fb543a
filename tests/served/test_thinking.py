"""Whole searches on models that think before they answer, refuse parameters, or are cut."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from served import failures, left, searched, served, small
from thinking_server import MODES, ThinkingServer

from ragsmith.evaluation.experiment import Experiment
from ragsmith.models.names import ModelName, ModelNames
from ragsmith.pipelines.space import Space
from ragsmith.pipelines.space_file import load_space
from ragsmith.records.stored_run import StoredRun
from ragsmith.reporting import load_report
from ragsmith.reporting.run_data import choose_run
from ragsmith.store.store import Store

pytestmark = pytest.mark.filterwarnings("ignore:openai:ragsmith.errors.Notice")

SPACE = """
families:
  pre_embedding: [none]
  query_expansion: [none, hyde]
  retrieval: [bm25]
  reranking: [none]
  passage_filter: [top_k]
  passage_augment: [none]
  passage_compress: [none]
  prompt_maker: [listing, long_context_reorder]
  post_generation: [none]
"""


@pytest.fixture
def space(tmp_path: Path) -> Space:
    path = tmp_path / "space.yaml"
    path.write_text(SPACE)
    return load_space(path)


def some(prompt: str) -> bool:
    """Whether a prompt is one of a tenth."""
    return hashlib.sha256(prompt.encode()).digest()[0] < 26


def always(prompt: str, limit: int) -> bool:
    """Whether a reply is cut under any limit: some answers are."""
    return some(prompt) and "Answer the question from them" in prompt


@pytest.mark.parametrize("mode", MODES)
def test_a_model_that_thinks_is_searched_with_and_every_token_of_it_counted(
    mode: str, tiny_setup: Experiment, space: Space, store: Store
) -> None:
    with ThinkingServer(mode) as server:
        outcome = searched(served(tiny_setup, server.url), space, store)
    assert outcome.state == "finished"
    assert failures(store) == {}
    assert server.cut_replies > 0
    assert (outcome.spent.calls, outcome.spent.tokens) == (server.requests, server.tokens)
    assert not any("think" in value or "Score: 1\\n[2]" in value for value in left(store).calls.values())


def test_what_a_server_refuses_is_refused_once_and_never_by_the_next_search(
    tiny_setup: Experiment, space: Space, store: Store
) -> None:
    with ThinkingServer(refuses=("temperature", "max_tokens", "system")) as server:
        first = searched(served(tiny_setup, server.url), space, store, workers=32)
        assert failures(store) == {}
        assert len(server.refused) == 2  # no request has a system message
        assert (first.spent.calls, first.spent.tokens) == (server.requests, server.tokens)
        seen = server.requests
        other = served(tiny_setup, server.url)
        searched(Experiment(other.dataset, other.models, 150), space, store)
        assert server.requests > seen
        assert len(server.refused) == 2


def test_replies_that_only_the_first_limit_cuts_change_nothing(
    tiny_setup: Experiment, space: Space, tmp_path: Path, make: Callable[[str], Store]
) -> None:
    ended = []
    first: dict[str, int] = {}
    for name, cut in (
        ("clean", lambda *_: False),
        ("cut", lambda prompt, limit: some(prompt) and first.setdefault(prompt, limit) == limit),
    ):
        with ThinkingServer("usage", cut=cut, thinks=lambda _: 0) as server, make(name) as store:
            searched(served(tiny_setup, server.url), space, store)
            ended.append(left(store))
    assert server.cut_replies >= 3
    assert ended[0] == ended[1]


def test_answers_that_are_always_cut_are_named_and_scored_only_if_asked_for(
    tiny_setup: Experiment, space: Space, store: Store
) -> None:
    def search(server: ThinkingServer, **options: Any) -> Experiment:
        model = ModelName("openai:tiny", base_url=server.url, **options)
        setup = Experiment(tiny_setup.dataset, ModelNames(model), tiny_setup.chunk_size)
        searched(setup, space, store, replace(small(), test=True))
        return setup

    with ThinkingServer("usage", cut=always, thinks=lambda _: 0) as server:
        search(server)
        named = failures(store)
        assert named
        assert all("CutReply" in said and "--score-cut-answers" in said for said in named.values())
        results = store.results_many([row.key for row in store.evaluations(tiny_setup.dataset.digest)])
        assert not any("cut" in row.value for rows in results.values() for row in rows.values())
        assert not [note for note in load_report(store, "island").notes if "were truncated" in note]
        before = set(results)
        time.sleep(1.1)  # the latest search is reported, and starts differ by seconds
        search(server, cut_answers=True)
        results = store.results_many([row.key for row in store.evaluations(tiny_setup.dataset.digest)])
    taken = [row for key, rows in results.items() if key not in before for row in rows.values()]
    assert all(row.state == "ok" for row in taken)
    about = choose_run(store, "island")
    named_by_run = StoredRun(
        store, about.run, about.digest, about.record
    ).keys  # evaluations of the ablation are not among them
    cut = sum(row.value.get("cut", False) for key in named_by_run for row in results[key].values())
    [note] = [note for note in load_report(store, "island").notes if "were truncated" in note]
    assert note.startswith(f"{cut} answers")
    assert cut >= len({question for _, question in named})


@pytest.fixture
def make(tmp_path: Path) -> Callable[[str], Store]:
    return lambda name: Store.open(tmp_path / f"{name}.sqlite")
