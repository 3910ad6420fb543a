"""Races of pipelines that ask a chat model to rank."""

from __future__ import annotations

from pathlib import Path

from fault_server import FaultServer
from never_repeating import answer
from served import left

from ragsmith.errors import BudgetExhausted
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.racing import Racing
from ragsmith.gateway.budget import Limits
from ragsmith.models.names import ModelName, ModelNames
from ragsmith.pipelines.space_file import load_space
from ragsmith.records.record import RunRecord, RunSettings
from ragsmith.runs.run import Allowance, Execution, Run
from ragsmith.store.store import Store

RACING = Racing(block=3, error=0.5, front=1)

SPACE = """
families:
  pre_embedding: [none]
  query_expansion: [none, hyde, multi_query]
  retrieval: [vector, bm25]
  reranking: [none]
  passage_filter: [{top_k: {k: 5}}, {similarity_threshold: {threshold: 0.99}}]
  passage_augment: [none]
  passage_compress: [none]
  prompt_maker: [listing]
  post_generation: [none]
"""


def asked(server: FaultServer, setup: Experiment) -> Experiment:
    server.answer = answer
    names = ModelNames(language_model=ModelName("openai:tiny", base_url=server.url))
    return Experiment(setup.dataset, names, setup.chunk_size)


def test_a_race_of_such_pipelines_ends_the_same_after_every_stop(
    tiny_setup: Experiment, store: Store, tmp_path: Path
) -> None:
    (tmp_path / "space.yaml").write_text(SPACE)
    space, settings = load_space(tmp_path / "space.yaml"), RunSettings(racing=RACING, warm_start=False, noise=0)
    with FaultServer() as server, Store.open(tmp_path / "stopped.sqlite") as stopped:
        whole = Run(asked(server, tiny_setup), space, store, settings, execution=Execution(workers=1)).go()
        needed, stops = len(server.log), 0
        for most in range(needed // 8, 2 * needed, needed // 8):
            try:
                ended = Run(
                    asked(server, tiny_setup),
                    space,
                    stopped,
                    settings,
                    execution=Execution(workers=4),
                    allowance=Allowance(limits=Limits(calls=most)),
                ).go()
            except BudgetExhausted:
                stops += 1
                continue
            stops += ended.state == "interrupted"
            if ended.state == "finished":
                break
        assert stops > 4
        assert len(server.log) == 2 * needed, "nothing is paid twice"
        assert left(stopped) == left(store)
        [run] = store.runs()
        [again] = stopped.runs()
        assert RunRecord.from_dict(run.value).dropped == RunRecord.from_dict(again.value).dropped
        assert RunRecord.from_dict(run.value).dropped, "some pipelines must be pruned"
        assert whole.winner
