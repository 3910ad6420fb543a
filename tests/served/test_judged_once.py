"""One answer is judged once, whichever pipelines gave it."""

from __future__ import annotations

from typing import Any

from fault_kinds import completion
from fault_server import FaultServer
from never_repeating import answer
from served import is_judging

from ragsmith.evaluation.experiment import Experiment
from ragsmith.measures.planted_answers import MAX_PLANTED
from ragsmith.models.names import ModelName, ModelNames
from ragsmith.pipelines.space import Space
from ragsmith.records.record import RunSettings
from ragsmith.runs.run import Execution, Run
from ragsmith.store.store import Store

SETTINGS = RunSettings(max_evaluations=6, racing=None, probes=False, simplify=False, warm_start=False)


def same_answer(path: str, body: Any) -> Any:
    """Every pipeline gives the same answer to every question."""
    told = answer(path, body)
    return completion("It is not known.") if "Answer the question from them" in str(body) else told


def test_equal_answers_of_several_pipelines_to_a_question_cost_one_request_of_the_judge(
    tiny_setup: Experiment, space: Space, store: Store
) -> None:
    with FaultServer() as server:
        server.answer = same_answer
        names = ModelNames(language_model=ModelName("openai:tiny", base_url=server.url))
        setup = Experiment(tiny_setup.dataset, names, tiny_setup.chunk_size)
        found = Run(setup, space, store, SETTINGS, execution=Execution(workers=8)).go()
        judged = [request for request in server.log if is_judging(request)]
    answered = {question for one in found.evaluations.values() for question in one.records}
    assert len(found.evaluations) > 2
    assert len(server.log) > 2 * len(answered), "prompts differ, and each is answered"
    assert len(judged) == len(answered) + 2 * MAX_PLANTED
