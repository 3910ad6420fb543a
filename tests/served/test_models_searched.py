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
from ragsmith.exported.writing import winner_yaml
from ragsmith.models.names import ModelNames
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

SETTINGS = RunSettings(racing=None, probes=False, simplify=False, warm_start=False)


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
