"""Models that another process asks: it gets what that model says, and no other."""

from __future__ import annotations

import pytest
from fault_server import FaultServer
from judges import Flatterer, Judge

from ragsmith.datasets.dataset import load_dataset
from ragsmith.diagnosis.interventions import Repetition
from ragsmith.evaluation.actor_runner import collect_remote_models
from ragsmith.evaluation.baselines import baseline
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.node_setup import NodeSetup
from ragsmith.evaluation.threads import evaluate_job
from ragsmith.gateway.remote import RemoteGateway, RemoteModel, answer_remote
from ragsmith.models.names import ModelName, ModelNames
from ragsmith.models.tasks import Task, parse_text
from ragsmith.models.usage import Meter

SAY = Task("say", "Say {word}.", parse_text, lambda model, **_: "", max_tokens=64)


def test_roles_with_one_id_and_other_options_each_have_their_own_model(
    tiny_setup: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-a-test")
    with FaultServer() as writer, FaultServer() as marker:
        models = ModelNames(
            language_model=ModelName("openai:tiny", base_url=writer.url, cut_answers=True, answer_tokens=300),
            judge=ModelName("openai:tiny", base_url=marker.url),
        )
        setup = Experiment(tiny_setup.dataset, models, tiny_setup.chunk_size)
        engine = setup.engine()
        remote, here = collect_remote_models(setup, engine)
        node = NodeSetup(setup.dataset, models, setup.chunk_size, remote=remote).loaded_models
        there = RemoteGateway(lambda request: answer_remote(engine.gateway, here, request))
        for model, word in ((node.language_model, "this"), (node.judge, "that")):
            assert there.language_model(model, Meter()).run(SAY, word=word)
    assert node.language_model.id == node.judge.id
    assert [request.body["messages"][-1]["content"] for request in writer.log] == ["Say this."]
    assert [request.body["messages"][-1]["content"] for request in marker.log] == ["Say that."]
    assert isinstance(node.language_model, RemoteModel)
    assert isinstance(node.judge, RemoteModel)
    assert (node.language_model.cut_answers, node.judge.cut_answers) == (True, False)
    assert (node.language_model.answer_tokens, node.judge.answer_tokens) == (300, None)
    assert not isinstance(node.embedder, RemoteModel)


def test_a_node_needs_no_keys_of_served_models(tiny_setup: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-a-test")
    models = ModelNames(language_model=ModelName("openai:tiny"), judge=ModelName("openai:other"))
    setup = Experiment(tiny_setup.dataset, models, tiny_setup.chunk_size)
    remote, _ = collect_remote_models(setup, setup.engine())
    monkeypatch.delenv("OPENAI_API_KEY")
    node = NodeSetup(setup.dataset, models, setup.chunk_size, remote=remote)
    assert node.model_ids == setup.model_ids
    assert isinstance(node.loaded_models.judge, RemoteModel)


def test_a_node_that_answers_again_gets_other_samples_of_the_writer_and_the_same_of_the_judge() -> None:
    """The changes of a repetition are those of one process, which asks its models itself."""
    law = load_dataset("law")
    again: dict[bool, list[object]] = {}
    samples: dict[bool, list[int]] = {}
    for on_node in (False, True):
        given = {"language_model": Flatterer(law, 0.6, 1, moody=0.5), "judge": Judge("honest")}
        names = ModelNames().override({role: f"given:{model.id}" for role, model in given.items()})
        setup = Experiment(law, names, given=given)
        engine = setup.engine()
        remote, here = collect_remote_models(setup, engine)
        if on_node:
            leader, setup = engine, NodeSetup(law, names, setup.chunk_size, remote=remote)
            engine = setup.engine(
                gateway=RemoteGateway(lambda request, to=leader, of=here: answer_remote(to.gateway, of, request))
            )
        found = [
            evaluate_job(engine, setup, baseline("bm25"), (0, example.id), Repetition())
            for example in setup.split.test[:8]
        ]
        again[on_node] = [one.value for one in found]
        samples[on_node] = given["language_model"].samples
    assert again[True] == again[False]
    assert samples[True] == samples[False] == [0, 1_000] * 8
