"""Models that another process asks: it gets what that model says, and no other."""

from __future__ import annotations

import pytest
from fault_server import FaultServer

from ragsmith.evaluation.actor_runner import collect_remote_models
from ragsmith.evaluation.actors import NodeSetup
from ragsmith.evaluation.experiment import Experiment
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
