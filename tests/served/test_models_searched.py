"""A search over language models: both write, the first marks, and nothing is asked twice."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from fault_server import FaultServer
from never_repeating import answer
from served import is_judging, said

from ragsmith.evaluation.evaluation import load_evaluation
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.keys import evaluation_key
from ragsmith.exported.writing import winner_yaml
from ragsmith.models.names import ModelName, ModelNames
from ragsmith.pipelines.genes import label
from ragsmith.pipelines.space import Space
from ragsmith.pipelines.space_file import load_space
from ragsmith.records.record import RunRecord, RunSettings
from ragsmith.runs.plan import plan
from ragsmith.runs.run import Execution, Run
from ragsmith.store.store import Store

SPACE = """
families:
  pre_embedding: [none]
  query_expansion: [none]
  retrieval: [vector, bm25]
  reranking: [none]
  passage_filter: [top_k]
  passage_augment: [none]
  passage_compress: [none]
  prompt_maker: [listing]
  post_generation: [none]
corpus: {chunk_size: [100, 200]}
models: {language_model: ["openai:first", "openai:second"]}
"""

SETTINGS = RunSettings(racing=None, probes=False, simplify=False, warm_start=False, noise=0)


@pytest.fixture
def searched_space(tmp_path: Path) -> Space:
    (tmp_path / "space.yaml").write_text(SPACE)
    return load_space(tmp_path / "space.yaml")


def test_both_write_and_the_first_marks(
    tiny_setup: Experiment, searched_space: Space, store: Store, tmp_path: Path
) -> None:
    with FaultServer() as server:
        server.answer = answer
        setup = replace(tiny_setup, models=ModelNames(base_url=server.url)).with_searched_settings(
            searched_space.settings
        )
        planned = plan(setup, searched_space, store, SETTINGS, sample=1000)
        assert server.log == []
        run = Run(setup, searched_space, store, SETTINGS, execution=Execution(workers=4))
        outcome = run.go()
        asked = Counter((str((request.body or {})["model"]), said(request)) for request in server.log)
        judged = {str((request.body or {})["model"]) for request in server.log if is_judging(request)}
        written = {str((request.body or {})["model"]) for request in server.log if not is_judging(request)}
    assert judged == {"first"}
    assert written == {"first", "second"}
    assert set(asked.values()) == {1}
    # An option is left out of the winner on its answers, which a plan does not know: it may count some pipelines more.
    assert asked.total() <= planned.totals["calls"] <= 1.2 * asked.total()
    assert outcome.winner is not None
    assert "language_model openai:" in label(outcome.winner.candidate)
    row = store.run(run.key)
    assert row is not None
    questions = RunRecord.from_dict(row.value).split.search
    keys = {proposal.evaluation for proposal in store.proposals(run.key)} | set(RunRecord.from_dict(row.value).told)
    assert len(keys) == searched_space.size
    for place in (1, 2, 3, 4):  # replies depend on the prompt alone, so both models do the same
        file = yaml.safe_load(winner_yaml(store, run.key, setup, tmp_path, str(place)))
        marked_by = file.get("marked_by", {"chunk_size": 100, "models": file["models"]})
        assert (marked_by["chunk_size"], marked_by["models"]["language_model"]) == (100, "openai:first")
    assert all(load_evaluation(store, key, questions).complete for key in keys)


def test_each_model_has_its_own_server_and_key(
    tiny_setup: Experiment, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECOND_KEY", "secret-of-the-second")
    with FaultServer() as one, FaultServer() as two:
        one.answer = answer  # the other replies otherwise, so that pipelines with it have places of their own
        listed = {"model": "openai:second", "base_url": two.url, "api_key_env": "SECOND_KEY", "in_flight": 1}
        content = yaml.safe_load(SPACE) | {"models": {"language_model": ["openai:first", listed]}}
        (tmp_path / "space.yaml").write_text(yaml.safe_dump(content))
        space = load_space(tmp_path / "space.yaml")
        setup = replace(tiny_setup, models=ModelNames(base_url=one.url)).with_searched_settings(space.settings)
        run = Run(setup, space, store, SETTINGS, execution=Execution(workers=4))
        outcome = run.go()
        plain = replace(setup, searched=(), models=ModelNames(base_url=two.url)).with_searched_settings(
            load_space(plain_space(tmp_path)).settings
        )
        assert Run(plain, space, store, SETTINGS, execution=Execution(workers=4)).key == run.key
    asked = [{str((request.body or {})["model"]) for request in server.log} for server in (one, two)]
    assert asked == [{"first"}, {"second"}]
    assert {request.headers.get("authorization") for request in two.log} == {"Bearer secret-of-the-second"}
    assert not any("secret" in value for request in one.log for value in request.headers.values())
    assert outcome.winner is not None
    files = [winner_yaml(store, run.key, setup, tmp_path, str(place)) for place in range(1, 5)]
    assert any("openai:second" in file for file in files)
    for text in (*files, *(str(row) for row in everything_in(store))):
        assert not [secret for secret in (two.url, "SECOND_KEY", "secret-of-the-second") if secret in text]


def test_the_limit_of_answers_is_searched_over_and_planned(
    tiny_setup: Experiment, store: Store, tmp_path: Path
) -> None:
    content = yaml.safe_load(SPACE) | {"corpus": {"chunk_size": [100]}}
    content["models"] = {"language_model": ["openai:first", {"model": "openai:first", "answer_tokens": 300}]}
    (tmp_path / "space.yaml").write_text(yaml.safe_dump(content))
    space = load_space(tmp_path / "space.yaml")
    with FaultServer() as server:
        server.answer = answer
        setup = replace(tiny_setup, models=ModelNames(base_url=server.url)).with_searched_settings(space.settings)
        short = replace(tiny_setup, models=ModelNames(ModelName("openai:first", answer_tokens=2), base_url=server.url))
        first = space.without_settings()
        few = plan(short, first, store, SETTINGS, sample=1000)
        planned = plan(setup, space, store, SETTINGS, sample=1000)
        Run(setup, space, store, SETTINGS, execution=Execution(workers=4)).go()
        written = Counter((request.body or {})["max_tokens"] for request in server.log if not is_judging(request))
        assert set(written) == {1024, 300}
        keys = {evaluation_key(setup, space.candidate((*[0] * 10, place))) for place in (0, 1)}
        assert len(keys) == 2
        again = plan(setup, space, store, SETTINGS, sample=1000)
    [before, known, line] = [one for found in (planned, again, few) for one in found.lines if one.request == "answer"]
    assert written.total() <= before.calls <= 1.2 * written.total()
    assert known.cached >= 0.8 * written.total(), "replies within both limits are known"
    assert 0 < line.output_tokens <= 2 * line.calls


def plain_space(folder: Path) -> Path:
    (folder / "plain.yaml").write_text(SPACE)
    return folder / "plain.yaml"


def everything_in(store: Store) -> list[object]:
    with store._database.reading() as connection:
        tables = connection.exec_driver_sql("select name from sqlite_master where type = 'table'").fetchall()
        return [row for (name,) in tables for row in connection.exec_driver_sql(f'select * from "{name}"')]
