"""The schema of a reply at servers that honour, ignore or refuse it: what is sent, learnt and read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fault_kinds import completion
from fault_server import Fault, FaultServer
from schema_replies import LLAMA_CPP_PYTHON, REFUSALS, REFUSALS_OF_ONE, honour, refuse

from ragsmith.errors import ModelError, RefusedContent
from ragsmith.gateway.gateway import Gateway
from ragsmith.measures.judge import JUDGE
from ragsmith.models.capabilities import ModelCapabilities
from ragsmith.models.served.json_endpoint import JsonEndpoint
from ragsmith.models.served.openai_chat import OpenAIChat
from ragsmith.models.served.policy import Policy
from ragsmith.models.tasks import Task
from ragsmith.models.usage import Meter
from ragsmith.techniques.query_expansion.decomposition import DECOMPOSE
from ragsmith.techniques.query_expansion.hyde import IMAGINE_PASSAGE
from ragsmith.techniques.reranking.llm import make_ranking_task

INPUTS: dict[str, Any] = {
    "question": "When is the rent due?",
    "reference": "The rent is due monthly.",
    "answer": "The rent is due weekly.",
    "passages": ("The rent is due.", "The sky is blue."),
    "n": 2,
    "words": 60,
}
RANKING = make_ranking_task(2)
BOTH = frozenset({"json_schema", "json_object"})


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as server:
        yield server


@pytest.fixture
def make(server: FaultServer) -> Iterator[Callable[..., OpenAIChat]]:
    made: list[OpenAIChat] = []

    def make(**options: Any) -> OpenAIChat:
        policy = Policy(attempts=3, pause=0.0, deadline=5.0, failures_in_a_row=1000)
        made.append(OpenAIChat("tiny", endpoint=JsonEndpoint(server.url, policy=policy), **options))
        return made[-1]

    yield make
    for chat in made:
        chat.provider.close()


@pytest.fixture
def chat(make: Callable[..., OpenAIChat]) -> OpenAIChat:
    return make()


def perform(chat: OpenAIChat, *tasks: Task[Any]) -> list[Any]:
    model = Gateway().language_model(chat, Meter())
    return [model.run(task, **{name: INPUTS[name] for name in task.inputs}) for task in tasks]


def types(server: FaultServer) -> list[str]:
    """The types of response_format that were sent; "" for none."""
    return [request.body.get("response_format", {}).get("type", "") for request in server.log]


TEXT_RESULTS = [
    0.75,
    (0, 1),
    tuple(f"{begin} this matter?" for begin in ("What is", "How does one explain", "Why does one speak of")),
]
"""What the text of `fault_replies` says."""


def test_a_task_with_a_form_is_sent_with_its_schema_and_another_one_as_before(
    chat: OpenAIChat, server: FaultServer
) -> None:
    server.schemas = honour
    perform(chat, JUDGE, IMAGINE_PASSAGE)
    scored, free = (request.body for request in server.log)
    assert scored.pop("response_format") == {
        "type": "json_schema",
        "json_schema": {
            "name": "verdict",
            "strict": True,
            "schema": {
                "type": "object",
                "properties": {"score": {"type": "integer", "enum": [1, 2, 3, 4, 5]}},
                "required": ["score"],
                "additionalProperties": False,
            },
        },
    }
    assert scored.keys() == free.keys() == {"model", "messages", "temperature", "max_tokens", "seed"}


def test_replies_of_a_server_that_honours_a_schema_or_ignores_it_are_read_alike(
    make: Callable[..., OpenAIChat], server: FaultServer
) -> None:
    for verdict in (server.schemas, honour):
        server.schemas = verdict
        chat = make()
        assert perform(chat, JUDGE, RANKING, DECOMPOSE) == TEXT_RESULTS
        assert chat.learner.capabilities == ModelCapabilities(takes_forms=True)
    assert types(server) == ["json_schema"] * 6


@pytest.mark.parametrize("said", REFUSALS.values(), ids=REFUSALS)
@pytest.mark.parametrize("status", [400, 422])
def test_a_server_that_takes_no_schema_refuses_it_once_and_gets_text(
    said: str, status: int, chat: OpenAIChat, server: FaultServer
) -> None:
    server.schemas = refuse(said, status=status)
    kept: list[ModelCapabilities] = []
    chat.learner.on_change = kept.append
    assert perform(chat, JUDGE, RANKING, DECOMPOSE) == TEXT_RESULTS
    assert types(server) == ["json_schema", "json_object", "", "", ""]
    assert kept == [ModelCapabilities(BOTH)]


def test_a_schema_is_refused_once_however_many_ask_after_requests_without_one(
    chat: OpenAIChat, server: FaultServer
) -> None:
    server.latency = 0.05
    server.schemas = refuse(REFUSALS["DeepSeek"])
    chat.complete("Question", max_tokens=64, sample=0)
    with ThreadPoolExecutor(32) as pool:
        list(pool.map(lambda n: chat.complete(f"Question {n}", max_tokens=64, sample=0, form=JUDGE.form), range(64)))
    assert Counter(types(server)) == {"": 65, "json_schema": 1, "json_object": 1}


def test_what_was_learnt_holds_for_the_next_command(make: Callable[..., OpenAIChat], server: FaultServer) -> None:
    server.schemas = refuse(REFUSALS["DeepSeek"])
    chat = make()
    chat.learner.restore(ModelCapabilities.from_dict(ModelCapabilities(BOTH).to_dict()))
    perform(chat, JUDGE)
    assert types(server) == [""]
    stored_before = {"refuses": ["seed"], "thinking_tokens": 0, "begins_in_thought": False}
    assert ModelCapabilities.from_dict(stored_before) == ModelCapabilities(frozenset({"seed"}))


@pytest.mark.parametrize("said", REFUSALS_OF_ONE.values(), ids=REFUSALS_OF_ONE)
@pytest.mark.parametrize("first", [RANKING, JUDGE], ids=lambda task: task.name)
def test_a_refusal_of_one_schema_disables_no_other(
    said: str, first: Task[Any], chat: OpenAIChat, server: FaultServer
) -> None:
    server.schemas = refuse(said, key="ranking")
    other = JUDGE if first is RANKING else RANKING
    perform(chat, first, other, RANKING, DECOMPOSE)
    assert chat.learner.capabilities.refuses == {"json_schema of ranking", "json_object of ranking"}
    by_task = {
        (request.body.get("response_format", {}).get("type", ""), "Rank them" in str(request.body["messages"]))
        for request in server.log
    }
    assert by_task == {("json_schema", True), ("json_object", True), ("", True), ("json_schema", False)}


def test_once_a_schema_was_taken_any_refusal_is_of_one(chat: OpenAIChat, server: FaultServer) -> None:
    server.schemas = refuse("response_format is wrong", key="ranking")
    assert [*perform(chat, JUDGE, RANKING, DECOMPOSE), *perform(chat, RANKING)] == [*TEXT_RESULTS, TEXT_RESULTS[1]]
    assert types(server) == ["json_schema", "json_schema", "json_object", "", "json_schema", ""]


def test_a_server_that_fails_at_the_first_type_is_sent_the_second(chat: OpenAIChat, server: FaultServer) -> None:
    server.schemas = refuse(LLAMA_CPP_PYTHON, status=500, kinds=("json_schema",))
    assert perform(chat, JUDGE, RANKING, DECOMPOSE) == TEXT_RESULTS
    assert types(server) == ["json_schema", *["json_object"] * 3]  # a failure is not repeated
    assert server.log[1].body["response_format"]["schema"]["properties"]["score"]["enum"] == [1, 2, 3, 4, 5]
    assert chat.learner.capabilities == ModelCapabilities(frozenset({"json_schema"}), takes_forms=True)


def write_json(server: FaultServer, *texts: str) -> None:
    """Have ``server`` refuse ``json_schema``, and write ``texts`` one after the other to ``json_object``."""
    written = iter(texts)

    def answer(path: str, body: Any) -> Any:
        return completion(next(written) if body.get("response_format", {}).get("type") == "json_object" else "Score: 4")

    server.answer = answer
    server.schemas = lambda requested: (
        Fault(status=400, said=REFUSALS["Groq"]) if requested["type"] == "json_schema" else False
    )


def judge(chat: OpenAIChat, *questions: str) -> list[float]:
    model = Gateway().language_model(chat, Meter())
    return [model.run(JUDGE, question=one, reference="Monthly.", answer="Weekly.") for one in questions]


def test_a_server_that_writes_any_json_to_two_prompts_gets_text(chat: OpenAIChat, server: FaultServer) -> None:
    write_json(server, '{"rating": "good"}', '{"stars": 4}')
    assert [*judge(chat, "When?"), *judge(chat, "When?", "Why?", "Who?")] == [0.75] * 4
    # an unreadable reply is requested as text, with the error; the same prompt again counts once
    assert types(server) == ["json_schema", "json_object", "", "", "json_object", "", ""]
    assert chat.learner.capabilities == ModelCapabilities(BOTH)


def test_a_server_whose_json_once_had_another_form_is_sent_the_form_again(
    chat: OpenAIChat, server: FaultServer
) -> None:
    write_json(server, '{"rating": "good"}', '{"score": 4}', '{"score": 2}', '{"rating": 1}', '{"score": 5}')
    assert judge(chat, "When?", "Why?", "Who?", "Where?", "What?") == [0.75, 0.75, 0.25, 0.75, 1.0]
    assert types(server) == ["json_schema", "json_object", "", *["json_object"] * 3, "", "json_object"]
    assert chat.learner.capabilities == ModelCapabilities(frozenset({"json_schema"}), takes_forms=True)


def test_other_failures_teach_nothing_about_schemas(chat: OpenAIChat, server: FaultServer) -> None:
    server.always = Fault(status=400, said="the prompt is not allowed")
    with pytest.raises(ModelError, match="not allowed"):
        perform(chat, JUDGE)
    assert types(server) == ["json_schema"]
    server.always = Fault(status=400, said="response_format or whatever else")
    with pytest.raises(ModelError, match="HTTP 400"):
        perform(chat, JUDGE)
    assert types(server)[1:] == ["json_schema", "json_object", ""]
    for said in ("out of memory", "the schema of the database is older than the program"):
        server.always = Fault(status=500, said=said)
        with pytest.raises(ModelError, match="HTTP 500") as failed:
            perform(chat, JUDGE)
        assert not isinstance(failed.value, RefusedContent)  # which would be stored, and never asked again
    assert chat.learner.capabilities == ModelCapabilities()


def test_json_that_is_cut_is_requested_again_with_more_tokens(chat: OpenAIChat, server: FaultServer) -> None:
    replies = [completion('{"score', finish_reason="length"), completion('{"score": 4}')]
    server.answer = lambda path, body: replies.pop(0)
    assert perform(chat, JUDGE) == [0.75]
    assert [request.body["max_tokens"] for request in server.log] == [256, 1024]


def test_a_schema_under_which_a_model_never_ends_is_left_out_of_one_more_request(
    make: Callable[..., OpenAIChat], server: FaultServer
) -> None:
    def answer(path: str, body: Any) -> Any:
        padded = completion('{"score":' + "\n" * 300, finish_reason="length")
        return padded if "response_format" in body else completion("Score: 4")

    server.answer = answer
    chat = make()
    assert [*perform(chat, JUDGE), *perform(chat, JUDGE)] == [0.75, 0.75]
    assert types(server) == ["json_schema", ""] * 2
    assert {request.body["max_tokens"] for request in server.log} == {256}
    assert chat.learner.capabilities == ModelCapabilities(takes_forms=True)  # other tasks keep their forms


def test_json_of_other_keys_is_requested_again_with_the_error(chat: OpenAIChat, server: FaultServer) -> None:
    replies = [completion('{"rating": 4}'), completion('```json\n{"score": 4}\n```')]
    server.answer = lambda path, body: replies.pop(0)
    assert perform(chat, JUDGE) == [0.75]
    assert "could not be used: JSON that is cut or has other keys or values than score" in str(server.log[1].body)


def test_the_option_turns_schemas_off_and_is_part_of_the_id(
    make: Callable[..., OpenAIChat], server: FaultServer
) -> None:
    off, on = make(structured_output=False), make()
    server.schemas = honour
    assert perform(off, JUDGE, RANKING, DECOMPOSE) == TEXT_RESULTS
    assert types(server) == ["", "", ""]
    assert on.id == make(structured_output=True).id == "openai:tiny@temperature=0"
    assert off.id == "openai:tiny@temperature=0@structured_output=False"
