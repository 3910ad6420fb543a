"""``ragsmith models check``, and the flags that name models."""

from __future__ import annotations

import json
import random
import re
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from fault_kinds import Fault, completion, reply_to
from fault_replies import chat_reply, number
from fault_server import FaultServer
from schema_replies import LLAMA_CPP_PYTHON, REFUSALS, REFUSALS_OF_ONE, Verdict, honour, refuse

from ragsmith.models.calls import completion_key
from ragsmith.models.capabilities import ModelCapabilities
from ragsmith.store.store import Store

Command = Callable[..., Any]
Arguments = Callable[..., list[object]]
KEY = "secret-0123456789"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("OPENAI_BASE_URL", "CO_API_KEY", "COHERE_API_KEY", "JINA_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as running:
        yield running


@pytest.fixture
def models_file(tmp_path: Path, server: FaultServer) -> Path:
    path = tmp_path / "models.yaml"
    path.write_text(
        yaml.safe_dump(
            {
                "language_model": {"model": "openai:big", "base_url": server.url},
                "embedder": {"model": "openai:e", "base_url": server.url, "dimensions": 16},
                "cross_encoder": {"model": "rerank:r", "base_url": server.root},
            }
        )
    )
    return path


def test_the_embedded_models_answer(ragsmith: Command) -> None:
    shown = ragsmith("models", "check", "--json")
    assert (shown.code, shown.err) == (0, "")  # nothing is sent
    found = {model["role"]: model for model in json.loads(shown.out)}
    assert list(found) == ["language_model", "embedder", "cross_encoder"]
    assert all(model["ok"] and model["problem"] == "" for model in found.values())
    asked = {task["task"]: task["problem"] for task in found["language_model"]["tasks"]}
    assert {"answer", "imagine_passage", "rank_passages", "extract_relations", "judge", "support"} <= asked.keys()
    assert set(asked.values()) == {""}
    assert found["embedder"]["dimensions"] == 256


def test_served_models_are_asked_once_for_each_task_of_the_space(
    ragsmith: Command, server: FaultServer, models_file: Path
) -> None:
    flags = ("--models", models_file, "--controller", "openai:small", "--base-url", server.url, "--space", "quick")
    shown = ragsmith("models", "check", *flags, "--no-judge-cases", "--json")
    assert shown.code == 0
    found = {model["role"]: model for model in json.loads(shown.out)}
    assert {role: model["id"] for role, model in found.items()} == {
        "language_model": "openai:big@temperature=0",
        "embedder": "openai:e@dimensions=16",
        "cross_encoder": "rerank:r",
        "controller": "openai:small@temperature=0",
    }
    assert found["embedder"]["dimensions"] == 16
    asked = {role: [task["task"] for task in model["tasks"]] for role, model in found.items()}
    assert asked["language_model"] == ["answer", "judge"]
    assert sorted(asked["controller"]) == ["imagine_passage", "write_header"]
    assert len(server.log) == 8  # three answers, as they may be alike
    assert shown.err.startswith("sending up to 8 requests, and one more for each truncated or unreadable reply")


def test_a_table_for_people(ragsmith: Command, server: FaultServer, models_file: Path) -> None:
    flags = ("--models", models_file, "--judge", "openai:j", "--base-url", server.url, "--space", "quick")
    shown = ragsmith("models", "check", *flags)
    assert shown.code == 1  # as this judge cannot judge
    assert "judge: this model cannot judge" in shown.out
    lines = [line.split() for line in shown.out.splitlines()]
    assert lines[0] == ["role", "task", "answers", "tokens", "in", "tokens", "out", "thinking", "seconds"]
    rows = {tuple(line[:2]): line[2:] for line in lines[2:8]}  # in the order in which they end
    assert rows["language_model", "answer"][:3] == ["ok", "36", "9"]
    assert rows["judge", "judge"][:3] == ["ok", "12", "3"]
    assert {("embedder", "vectors"), ("cross_encoder", "scores")} <= rows.keys()
    said = shown.out.splitlines()[8:]
    assert said[0] == "language_model: openai:big@temperature=0"
    assert "embedder: openai:e@dimensions=16; 16 dimensions" in said
    judged = next(line for line in said if line.startswith("judge: on the bundled cases"))
    assert re.fullmatch(r"judge: on the bundled cases it marked .* of 240 comparisons .* of 40 \(.*\).*", judged)
    assert shown.err.startswith("sending up to 188 requests")


def test_a_server_that_fails_is_one_sentence_and_one_request(
    ragsmith: Command, server: FaultServer, models_file: Path
) -> None:
    with FaultServer() as broken:
        broken.always = Fault("key")
        chosen = yaml.safe_load(models_file.read_text()) | {"judge": {"model": "openai:j", "base_url": broken.url}}
        models_file.write_text(yaml.safe_dump(chosen))
        shown = ragsmith("models", "check", "--models", models_file, "--reranker", "cohere:rerank-v3.5", "--json")
        assert len(broken.log) == 1
    assert shown.code == 1
    found = {model["role"]: model for model in json.loads(shown.out)}
    assert {role: model["ok"] for role, model in found.items()} == {
        "language_model": True,
        "embedder": True,
        "cross_encoder": False,
        "judge": False,
    }
    assert "HTTP 500" in found["judge"]["problem"]
    assert found["judge"]["tasks"] == []
    assert found["cross_encoder"]["problem"] == "CO_API_KEY or COHERE_API_KEY is not set: export it"
    assert KEY not in shown.out + shown.err


def test_a_task_that_is_not_done_is_named(ragsmith: Command, server: FaultServer, models_file: Path) -> None:
    def answer(path: str, body: Any) -> Any:
        is_judge = path.endswith("/completions") and "the word Score" in body["messages"][-1]["content"]
        return completion("I would rather not say.") if is_judge else reply_to("POST", path, body)

    server.answer = answer
    shown = ragsmith("models", "check", "--models", models_file, "--space", "quick")
    assert shown.code == 1
    [judge] = [line.split() for line in shown.out.splitlines() if line.split()[1:2] == ["judge"]]
    assert judge[:3] == ["language_model", "judge", "no"]
    assert (
        "language_model, judge: two replies to judge cannot be read; the last: the verdict 'I would rather not say.'"
        in shown.out
    )
    assert len({request.digest for request in server.log}) == len(server.log)  # nothing is asked twice


WORDS = ("so", "hm", "and", "then", "but", "the", "wait", "is", "it", "of")


class Thinking:
    """Answers of a model that thinks 50 to 2,000 tokens before it says a word, shown in one of three ways."""

    def __init__(self, way: str) -> None:
        self.way = way
        self.tokens = 0

    def __call__(self, path: str, body: Any) -> Any:
        prompt = body["messages"][-1]["content"]
        text = chat_reply(prompt)
        thoughts, most = 50 + number(prompt, 1951), body["max_tokens"]
        said = min(most, thoughts + len(text) // 4 + 1)
        is_cut = said == most
        text = "" if is_cut else text
        thought = " ".join(map(str, random.Random(prompt).choices(WORDS, k=thoughts)))
        shown = {"tags": {"content": f"<think>{thought}{'' if is_cut else '</think>'}{text}"}}
        shown["field"] = {"content": text, "reasoning_content": thought}
        message = {"role": "assistant", "content": text} | shown.get(self.way, {})
        reply = completion(None, message=message, finish_reason="length" if is_cut else "stop")
        self.tokens += 100 + said
        return reply | {"usage": {"prompt_tokens": 100, "completion_tokens": said}}


@pytest.mark.parametrize("way", ["field", "tags", "usage"])
def test_a_model_that_thinks_gets_the_room_it_needs_and_a_search_begins_with_it(
    ragsmith: Command, server: FaultServer, tmp_path: Path, way: str
) -> None:
    server.answer = thinking = Thinking(way)
    flags = ("--llm", "openai:deep", "--base-url", server.url, "--cache", tmp_path / "cache.sqlite", "--no-judge-cases")
    shown = ragsmith("models", "check", *flags, "--json")
    assert shown.code == 0
    [checked] = [model for model in json.loads(shown.out) if model["role"] == "language_model"]
    assert checked["ok"]
    assert {task["requests"] - task["asked"] for task in checked["tasks"]} == {0, 2}  # of three answers two are cut
    spent = sum(task["usage"]["input_tokens"] + task["usage"]["output_tokens"] for task in checked["tasks"])
    assert spent == thinking.tokens  # those of replies that were cut, too
    assert any(task["thought_tokens"] for task in checked["tasks"]) == (way != "usage")
    assert checked["thinking_tokens"] >= 1024
    before = len(server.log)
    again = ragsmith("models", "check", *flags)
    assert again.code == 0
    assert len(server.log) - before == sum(task["asked"] for task in checked["tasks"])  # nothing is cut any more
    needed = checked["thinking_tokens"]
    assert f"needs {needed:,} tokens to think" in again.out
    assert f"    language_model: {{model: 'openai:deep', thinking_tokens: {needed}}}" in again.out


def test_an_unreachable_address_is_reported(ragsmith: Command) -> None:
    shown = ragsmith("models", "check", "--llm", "openai:x", "--base-url", "http://127.0.0.1:1/v1")
    assert shown.code == 1
    assert (
        "language_model: openai:x@temperature=0: no answer from http://127.0.0.1:1; is the server running?" in shown.out
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--llm", "opnai:x"), "unknown language model 'opnai:x'; did you mean 'openai:x'?"),
        (("--reranker", "bert"), "unknown reranker 'bert'"),
        (("--base-url", "localhost"), "the base URL must begin with http"),
        (("--models", "nowhere.yaml"), "nowhere.yaml: is missing"),
        (("--calibration", "workshop"), "--calibration workshop has no answers to calibrate with"),
        (("--calibration", "nowhere"), "'nowhere' is neither a folder nor the name of a data set"),
    ],
)
def test_a_wrong_request(ragsmith: Command, arguments: tuple[str, ...], said: str) -> None:
    shown = ragsmith("models", "check", *arguments)
    assert (shown.code, shown.out) == (2, "")
    assert said in shown.err


def test_a_wrong_file_has_its_line(ragsmith: Command, tmp_path: Path) -> None:
    path = tmp_path / "models.yaml"
    path.write_text("judge:\n  model: openai:x\n  api_key_env: sk-hush-hush-hush\n")
    for command in (("models", "check"), ("search", "--dataset", "law"), ("audit", "--dataset", "law")):
        shown = ragsmith(*command, "--models", path)
        assert shown.code == 2
        assert f"{path}:3: api_key_env must be the name of an environment variable" in shown.err
        assert "hush" not in shown.err


def test_models_of_a_file_search_and_answer(
    ragsmith: Command,
    search_arguments: Arguments,
    server: FaultServer,
    models_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = search_arguments(
        *("--models", models_file, "--judge", "extractive", "--population", 6, "--generations", 1, "--no-probes")
    )
    assert ragsmith(*arguments, "--quiet").code == 0
    winner = tmp_path / "reports" / "island" / "winner.yaml"
    exported = yaml.safe_load(winner.read_text())["models"]
    assert {role: name for role, name in exported.items() if role != "ids"} == {
        "language_model": "openai:big",
        "embedder": {"model": "openai:e", "dimensions": 16},
        "cross_encoder": "rerank:r",
        "judge": "extractive",
    }
    assert "127.0.0.1" not in winner.read_text()
    asked = len(server.log)
    monkeypatch.delenv("OPENAI_API_KEY")
    dataset = arguments[2]
    assert ragsmith("export", "--dataset", dataset, "-o", winner).code == 0  # neither key nor server is needed
    assert yaml.safe_load(winner.read_text())["models"] == exported
    assert len(server.log) == asked
    refused = ragsmith("ask", winner, "Who founded the library?")
    assert refused.code == 2
    assert "OPENAI_API_KEY is not set" in refused.err
    shown = ragsmith("ask", winner, "Who founded the library?", "--models", models_file)
    assert (shown.code, shown.err) == (0, "")
    assert "Oda Lenz" in shown.out
    verified = ragsmith("verify", winner, "--models", models_file, "--cache", "cache.sqlite")
    assert (verified.code, verified.err) == (0, "")


@pytest.mark.parametrize("flag", ["--llm", "--embedder", "--reranker"])
def test_a_model_that_the_space_searches_over_is_not_given_as_well(
    ragsmith: Command, tiny_space: Path, tmp_path: Path, flag: str
) -> None:
    listed = {"--llm": "language_model: [extractive", "--embedder": "embedder: [wordllama"}
    space = tmp_path / "space.yaml"
    role = listed.get(flag, "cross_encoder: [late_interaction")
    space.write_text(f"{tiny_space.read_text()}models: {{{role}]}}\n")
    refused = ragsmith("models", "check", "--space", space, flag, "openai:some")
    assert refused.code == 2
    assert refused.err == f"error: {flag} is searched over by the space 'tiny': leave it out\n"


# --- answers of a data set that are known to be right or wrong --------------------------------------------------------


@pytest.fixture
def annotated(tiny_folder: Path, tmp_path: Path) -> Path:
    home = shutil.copytree(tiny_folder, tmp_path / "island")
    note = {"id": "ferry-2", "cluster": "c", "traits": [], "wrong_kind": "number"}
    (home / "annotations.jsonl").write_text(json.dumps({**note, "paraphrase": "50 minutes.", "wrong": "An hour."}))
    return home


def test_the_embedded_judge_is_calibrated_and_nothing_is_sent(ragsmith: Command, annotated: Path) -> None:
    asked = ("models", "check", "--no-judge-cases", "--space", "quick", "--calibration", annotated)
    found = json.loads(ragsmith(*asked, "--json").out)[0]
    assert found["judged"] is None
    [calibrated] = found["calibrated"]
    assert calibrated["dataset"] == "island"
    assert {kind: share["n"] for kind, share in calibrated["accuracy"].items()} == {
        "right": 1,
        "number": 1,
        "negation": 0,
        "confusion": 0,
    }
    shown = ragsmith(*asked)
    assert (shown.code, shown.err) == (0, "")
    assert "1 right, 1 number, 0 negation, 0 confusion" in " ".join(shown.out.split())


def test_a_served_judge_marks_each_answer_once_and_it_is_said_before(
    ragsmith: Command, server: FaultServer, annotated: Path
) -> None:
    judge = ("--judge", "openai:strict", "--base-url", server.url)
    asked = ("models", "check", *judge, "--no-judge-cases", "--space", "quick", "--calibration", annotated, "--json")
    shown = ragsmith(*asked)
    assert shown.err.startswith("sending up to 3 requests")
    assert len(server.log) == 3
    by_role = {one["role"]: one for one in json.loads(shown.out)}
    assert len(by_role["judge"]["calibrated"]) == 1
    assert by_role["language_model"]["calibrated"] == []


# --- interruptions, answers that are none, own prompts ----------------------------------------------------------------


@pytest.mark.parametrize("as_json", [False, True])
def test_an_interrupted_check_shows_what_it_found_and_keeps_what_arrived(
    spawn: Command, server: FaultServer, tmp_path: Path, as_json: bool
) -> None:
    server.latency = lambda request: 0.0 if "Answer the question from them" in str(request.body) else 60.0
    flags = ("--base-url", server.url, "--cache", "cache.sqlite", "--space", "quick", *(["--json"] if as_json else []))
    process = spawn("models", "check", "--llm", "openai:slow", *flags)
    before: list[str] = []
    while not as_json and not any(line.split()[:3] == ["language_model", "answer", "ok"] for line in before):
        before.append(process.stdout.readline())  # though it is a pipe
    while len(server.log) < 6:  # answers, and the tasks that have to wait
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "interrupted" in err
    assert "Traceback" not in err
    if as_json:
        found = {model["role"]: model for model in json.loads(out)}
        assert {model["interrupted"] for model in found.values()} == {True}
        assert [task["task"] for task in found["language_model"]["tasks"]] == ["answer"]
        assert "judge" in found["language_model"]["not_asked"]
        assert found["embedder"]["not_asked"] == []
    else:
        told = " ".join(out.split())
        assert "language_model, not asked: write_header, imagine_passage, judge, the bundled cases" in told
        assert "embedder, not asked" not in told
        rows = [line for line in before if line.strip()]
        assert len({line.index("ok") for line in rows[2:]}) == 1  # aligned
    answers = [one.body for one in server.log if "Answer the question from them" in str(one.body)]
    with Store.open(tmp_path / "cache.sqlite") as store:
        keys = [
            completion_key("openai:slow@temperature=0", one["messages"][-1]["content"], one["max_tokens"], 0)
            for one in answers
        ]
        assert len(store.get_calls(keys)) == 3


def _passages(prompt: str) -> str:
    return prompt.partition("</context>")[0]


@pytest.mark.parametrize(
    ("reply", "said", "is_none"),
    [
        (lambda prompt: _passages(prompt)[:900], "3 copied passages", True),
        (lambda prompt: f"{number(prompt, 99)} is it. Answer the question from them and from nothing else.", "", True),
        (lambda prompt: "The court decides on it.", "3 the same for several", True),
        (lambda prompt: "The passages do not contain the answer.", "3 declined", True),
        (chat_reply, "", False),
    ],
)
def test_answers_that_are_none_are_named_and_the_role_is_said(
    ragsmith: Command, server: FaultServer, reply: Callable[[str], str], said: str, is_none: bool
) -> None:
    def answer(path: str, body: Any) -> Any:
        prompt = body["messages"][-1]["content"]
        is_answer = "Answer the question from them" in prompt
        return completion(reply(prompt)) if is_answer else reply_to("POST", path, body)

    server.answer = answer
    flags = ("--llm", "openai:odd", "--base-url", server.url, "--space", "quick", "--no-judge-cases")
    [found, *_] = json.loads(ragsmith("models", "check", *flags, "--json").out)
    [task] = [task for task in found["tasks"] if task["task"] == "answer"]
    assert said in task["remark"]
    assert found["roles"].startswith("this model cannot answer: use it for ") == is_none
    assert found["ok"] == (not is_none)
    shown = ragsmith("models", "check", *flags)
    assert shown.code == int(is_none)
    [row] = [line.split() for line in shown.out.splitlines() if line.split()[:2] == ["language_model", "answer"]]
    assert row[2] == ("no" if is_none else "ok")
    told = " ".join(shown.out.split())
    assert f"language_model, answer: {task['remark']}" in told or not task["remark"]
    assert ("this model cannot answer" in told) == is_none


def test_own_prompts_of_the_space_are_sent(ragsmith: Command, server: FaultServer, tmp_path: Path) -> None:
    (tmp_path / "brief.txt").write_text("{context}\n\nIn three words: {question}\n")
    quick = yaml.safe_load((Path(__file__).parents[2] / "search_spaces/quick.yaml").read_text())
    space = tmp_path / "space.yaml"
    space.write_text(yaml.safe_dump(quick | {"prompts": {"answer": ["default", "brief.txt"]}}))
    flags = ("--llm", "openai:x", "--base-url", server.url, "--space", space, "--no-judge-cases", "--json")
    shown = ragsmith("models", "check", *flags)
    [found, *_] = json.loads(shown.out)
    asked = {task["task"]: task["asked"] for task in found["tasks"]}
    assert (asked["answer"], asked["answer (brief)"]) == (3, 3)
    sent = [one.body["messages"][-1]["content"] for one in server.log if "messages" in (one.body or {})]
    assert sum("In three words: " in prompt for prompt in sent) == 3
    assert shown.err.startswith(f"sending up to {len(sent)} requests")


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        (refuse(REFUSALS["DeepSeek"]), "takes no schema: replies are read from text"),
        (refuse(LLAMA_CPP_PYTHON, status=500, kinds=("json_schema",)), "takes a schema as json_object"),
        (refuse(REFUSALS_OF_ONE["llama.cpp"], key="score"), "takes no schema of verdict: replies are read from text"),
    ],
)
def test_what_a_server_makes_of_schemas_is_shown_and_found_out_once_by_each_check(
    verdict: Verdict, said: str, ragsmith: Command, server: FaultServer, tmp_path: Path
) -> None:
    server.schemas = verdict
    flags = ("--llm", "openai:tiny", "--base-url", server.url, "--space", "quick", "--no-judge-cases")
    first = ragsmith("models", "check", *flags, "--cache", tmp_path / "cache.sqlite")
    assert (first.code, said in " ".join(first.out.split())) == (0, True)
    refused = [request.status for request in server.log if request.status not in (0, 200)]
    assert 1 <= len(refused) <= 2
    again = ragsmith("models", "check", *flags, "--cache", tmp_path / "cache.sqlite")
    assert (again.code, said in " ".join(again.out.split())) == (0, True)
    assert [request.status for request in server.log if request.status not in (0, 200)] == refused * 2


def test_a_check_of_a_server_that_has_changed_replaces_what_it_refused(
    ragsmith: Command, server: FaultServer, tmp_path: Path
) -> None:
    cache = tmp_path / "cache.sqlite"
    flags = ("--llm", "openai:tiny", "--judge", "openai:tiny", "--base-url", server.url, "--no-judge-cases")

    def check() -> str:
        return " ".join(ragsmith("models", "check", *flags, "--cache", cache).out.split())

    def stored() -> ModelCapabilities | None:
        with Store.open(cache) as store:
            return store.capabilities("openai:tiny@temperature=0")

    server.schemas = refuse(REFUSALS["DeepSeek"])
    assert "takes no schema" in check()
    found = stored()
    assert found is not None
    assert (found.refuses, found.takes_forms) == ({"json_schema", "json_object"}, False)
    server.schemas = honour
    server.always = Fault(status=503, said="starting")
    check()
    assert stored() == found  # a server that is down says nothing of it
    server.always = None
    assert "takes no schema" not in check()
    renewed = stored()
    assert renewed is not None
    assert (renewed.refuses, renewed.takes_forms) == (frozenset(), True)
    assert renewed.tasks.keys() == found.tasks.keys()
    server.schemas = refuse(REFUSALS_OF_ONE["llama.cpp"], key="ranking")  # which the judge is not asked for
    assert "takes no schema of ranking" in check()
    again = stored()
    assert again is not None
    assert again.refuses == {"json_schema of ranking", "json_object of ranking"}


def test_a_file_of_models_turns_schemas_off(ragsmith: Command, server: FaultServer, models_file: Path) -> None:
    server.schemas = honour
    flags = ("--models", models_file, "--space", "quick", "--no-judge-cases", "--json")

    def check() -> tuple[str, set[str]]:
        shown = ragsmith("models", "check", *flags)
        found = {model["role"]: model for model in json.loads(shown.out)}
        sent = {
            str(request.body.get("response_format", {}).get("type"))
            for request in server.log
            if "messages" in (request.body or {})
        }
        server.log.clear()
        return found["language_model"]["id"], sent

    assert check() == ("openai:big@temperature=0", {"json_schema", "None"})
    known = yaml.safe_load(models_file.read_text())
    known["language_model"]["structured_output"] = False
    models_file.write_text(yaml.safe_dump(known))
    assert check() == ("openai:big@temperature=0@structured_output=False", {"None"})
    known["language_model"]["structured_output"] = "maybe"
    models_file.write_text(yaml.safe_dump(known))
    wrong = ragsmith("models", "check", *flags)
    assert (wrong.code, "structured_output must be" in wrong.err) == (2, True)
