"""The check of models requests every task of a space, and stores capabilities and replies."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fault_replies import chat_reply

from ragsmith import check_models
from ragsmith.errors import ModelUnavailable, UsageError
from ragsmith.models.calls import Completion, completion_key
from ragsmith.models.capabilities import CapabilityLearner, ModelCapabilities
from ragsmith.models.registry import REGISTRY
from ragsmith.models.tasks import Task
from ragsmith.models.usage import Usage
from ragsmith.store.store import Store
from ragsmith.techniques.families import FAMILIES
from ragsmith.techniques.task_lookup import find_tasks


class Chat:
    """A chat model with scripted replies that records its prompts."""

    def __init__(self, name: str = "my chat", reply: Any = chat_reply) -> None:
        self.id, self.reply, self.learner = name, reply, CapabilityLearner()
        self.asked: list[tuple[str, int]] = []

    def complete(self, prompt: str, *, max_tokens: int, sample: int) -> Completion:
        self.asked.append((prompt, max_tokens))
        return Completion(self.reply(prompt), Usage(1, 0, 0, 7, 5, 0.1))


def test_every_task_of_every_technique_is_requested() -> None:
    [checked, *_] = check_models(space="seeds", faithfulness=True)
    [filtering, *_] = check_models(space={"query_expansion": ["self_query"]})  # which needs documents with fields
    known = {
        task.name
        for family in FAMILIES
        for technique in family.techniques.values()
        if not technique.analysis_only
        for task in find_tasks(technique)
    }
    assert known <= {task.task for task in (*checked.tasks, *filtering.tasks)}
    assert [task for task in checked.tasks if task.problem] == []


def test_each_role_gets_the_tasks_of_a_search() -> None:
    writes, plans, judges = Chat("writes"), Chat("plans"), Chat("judges")
    told: list[int] = []
    models = {"language_model": writes, "controller": plans, "judge": judges, "cross_encoder": "none"}
    found = check_models(models, space="quick", on_start=told.append)
    assert {
        one.role: [task.task for task in one.tasks] for one in found if one.role in ("language_model", "judge")
    } == {
        "language_model": ["answer"],
        "judge": ["judge"],
    }
    assert [one.role for one in found if not one.ok] == ["judge"]  # its scores are arbitrary
    assert told == [len(writes.asked) + len(plans.asked) + len(judges.asked)]
    assert judges.asked[0][0].count("\n</answer>\n") == 1  # an answer is shown as material


def test_capabilities_and_replies_are_stored(tmp_path: Path) -> None:
    chat = Chat()
    chat.learner.learn(ModelCapabilities(thinking_tokens=64))
    with Store.open(tmp_path / "cache.sqlite") as store:
        store.put_capabilities(chat.id, ModelCapabilities(frozenset({"seed"})))
        [checked, *_] = check_models({"language_model": chat}, space="quick", cache=store)
        assert (checked.refuses, checked.thinking_tokens) == ((), 64)
        chat.learner.learn(ModelCapabilities(thinking_tokens=128))
        stored = store.capabilities(chat.id)
        assert stored is not None
        assert (stored.refuses, stored.thinking_tokens) == (frozenset(), 128)
        for prompt, limit in chat.asked:
            kept = store.get_calls([completion_key(chat.id, prompt, limit, 0)]).get(
                completion_key(chat.id, prompt, limit, 0)
            )
            assert kept is not None
            assert (kept.value, kept.input_tokens, kept.output_tokens) == (chat_reply(prompt), 7, 5)


@pytest.mark.parametrize("cut_answers", [True, False])
def test_a_cut_answer_is_one_where_a_search_would_score_it(cut_answers: bool, tmp_path: Path) -> None:
    class Cut(Chat):
        def complete(self, prompt: str, *, max_tokens: int, sample: int) -> Completion:
            reply = super().complete(prompt, max_tokens=max_tokens, sample=sample)
            is_answer = "Answer the question from them" in prompt
            return Completion(reply.text, reply.usage, cut_at=max_tokens if is_answer else 0)

    chat = Cut()
    chat.cut_answers = cut_answers  # type: ignore[attr-defined]
    with Store.open(tmp_path / "cache.sqlite") as store:
        [checked, *_] = check_models({"language_model": chat}, space="quick", judge_cases=False, cache=store)
        [answer] = [task for task in checked.tasks if task.task == "answer"]
        assert (answer.able, bool(answer.problem)) == (cut_answers, not cut_answers)
        prompts = {prompt for prompt, _ in chat.asked if "Answer the question from them" in prompt}
        keys = {cut: [completion_key(chat.id, one, 1024, 0, cut=cut) for one in prompts] for cut in (True, False)}
        assert {cut: len(store.get_calls(found)) for cut, found in keys.items()} == {True: 3 * cut_answers, False: 0}


def test_a_model_that_loops_in_a_form_is_asked_for_text_as_a_search_asks_it() -> None:
    class Looping(Chat):
        structured_output = True

        def complete(self, prompt: str, *, max_tokens: int, sample: int, form: Any = None) -> Completion:
            reply = super().complete(prompt, max_tokens=max_tokens, sample=sample)
            return reply if form is None else Completion('{"score":' + " " * 400, reply.usage, cut_at=max_tokens)

    chat = Looping()
    [checked, *_] = check_models({"language_model": chat}, space="quick", judge_cases=False)
    found = {
        task.task: (task.problem, task.able, task.asked, task.requests, task.usage.calls) for task in checked.tasks
    }
    assert (found["answer"], found["judge"]) == (("", True, 3, 3, 3), ("", True, 1, 2, 2))
    assert len(chat.asked) == sum(task.requests for task in checked.tasks)


def test_a_model_that_performs_tasks_itself_is_given_what_they_need() -> None:
    given: dict[str, set[str]] = {}

    def run(task: Task[Any], *, sample: int = 0, **inputs: Any) -> None:
        given[task.name] = set(inputs)
        task.render(inputs)

    model = SimpleNamespace(id="mine", run=run, run_all=None)
    model.run_all = run
    [checked, *_] = check_models({"language_model": model}, space="quick")
    assert [task.problem for task in checked.tasks] == [""] * len(checked.tasks)
    assert given["judge"] == {"question", "reference", "answer"}


def test_a_model_that_cannot_judge_is_not_checked_as_a_judge() -> None:
    chat = Chat(reply=lambda prompt: "hm")
    [checked, *_] = check_models({"language_model": chat, "cross_encoder": "none"}, space="quick")
    assert checked.judged is None
    assert len([prompt for prompt, _ in chat.asked if "the word Score" in prompt]) == 2  # as in a search
    assert "judge" in checked.cannot


@pytest.fixture
def annotated(tiny_folder: Path, tmp_path: Path) -> list[Path]:
    """Three islands, each with one wrong answer that names it."""
    found = []
    for name in ("marrow", "harrow", "farrow"):
        home = shutil.copytree(tiny_folder, tmp_path / name)
        about = (home / "dataset.yaml").read_text()
        (home / "dataset.yaml").write_text(about.replace("name: island", f"name: {name}"))
        note = {"id": "ferry-2", "cluster": "c", "traits": [], "wrong_kind": "number", "paraphrase": "50 minutes."}
        (home / "annotations.jsonl").write_text(json.dumps({**note, "wrong": f"An hour to {name}."}))
        found.append(home)
    return found


@pytest.mark.parametrize(("judge_cases", "at", "kept"), [(True, "harrow", ["marrow"]), (False, "marrow", [])])
def test_a_judge_that_goes_away_loses_nothing_that_it_was_asked_before(
    judge_cases: bool, at: str, kept: list[str], annotated: list[Path]
) -> None:
    gone: list[str] = []

    def reply(prompt: str) -> str:
        if at in prompt:
            gone.append(prompt)
            raise ModelUnavailable("the account has no credit")
        return chat_reply(prompt)

    models = {"judge": Chat("judges", reply), "cross_encoder": "none"}
    found = check_models(models, space="quick", judge_cases=judge_cases, calibration=annotated)[-1]
    assert [one.dataset for one in found.calibrated] == kept
    assert (found.judged is not None) == judge_cases
    assert [task.problem for task in found.tasks] == [""] * len(found.tasks)
    assert found.tasks
    missing = [folder.name for folder in annotated][len(kept) :]
    assert found.problem.startswith(f"the calibration is incomplete, without {', '.join(missing)}: ")
    assert found.problem.endswith("the account has no credit")
    assert not found.ok
    assert len(gone) == 1


def test_a_judge_that_goes_away_in_the_bundled_cases_is_still_checked_for_its_tasks(annotated: list[Path]) -> None:
    asked: list[str] = []

    def reply(prompt: str) -> str:
        if asked:
            raise ModelUnavailable("the account has no credit")
        asked.append(prompt)
        return chat_reply(prompt)

    models = {"judge": Chat("judges", reply), "cross_encoder": "none"}
    found = check_models(models, space="quick", calibration=annotated[:1])[-1]
    assert (found.judged, found.calibrated) == (None, ())
    assert [task.problem for task in found.tasks] == [""]
    assert found.problem.startswith("the calibration is incomplete, without the bundled cases, marrow: ")


MODELS = '''
"""Models that write down what they are asked."""

import numpy as np

from ragsmith.models.calls import Completion
from ragsmith.models.registry import provider
from ragsmith.models.usage import Usage


def writer(name):
    @provider("language_model", name)
    class Writer:
        id = f"{name}:1"

        def complete(self, prompt, *, max_tokens, sample):
            judges = "reference answer" in prompt
            with open(LEDGER, "a") as file:
                file.write(f"{name} {'judges' if judges else 'writes'}\\n")
            return Completion("Score: 3" if judges else "It is so. [1]", Usage(1, 0, 0, 7, 5, 0.1))


writer("first_writer")
writer("second_writer")


@provider("embedder", "same_vectors")
class SameVectors:
    id = "same_vectors:1"

    def embed(self, texts):
        return np.ones((len(texts), 1), dtype=np.float32)
'''


def test_models_that_a_space_searches_over_are_asked_and_the_first_judges(
    tiny_space: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for its, name in (
        ("language_model", "first_writer"),
        ("language_model", "second_writer"),
        ("embedder", "same_vectors"),
    ):
        monkeypatch.setitem(REGISTRY, (its, name), None)  # so that the test unregisters them
        del REGISTRY[its, name]
    (tmp_path / "own.py").write_text(f"LEDGER = {str(tmp_path / 'ledger')!r}\n{MODELS}")
    space = tmp_path / "space.yaml"
    space.write_text(
        f"{tiny_space.read_text()}\nimports: [own.py]\n"
        "models: {language_model: [first_writer, second_writer], embedder: [wordllama, same_vectors]}\n"
    )
    found = check_models(space=space, judge_cases=False, faithfulness=False)
    assert [(one.role, one.name) for one in found] == [
        ("language_model", "first_writer"),
        ("embedder", "wordllama"),
        ("cross_encoder", "late_interaction"),
        ("embedder", "same_vectors"),
        ("language_model", "second_writer"),
    ]
    assert all(one.ok for one in found if one.role == "embedder")
    asked = [{task.task for task in one.tasks} for one in found if one.role == "language_model"]
    assert asked[0] - asked[1] == {"judge"}
    assert "answer" in asked[1]
    ledger = (tmp_path / "ledger").read_text().splitlines()
    assert "first_writer judges" in ledger
    assert "second_writer judges" not in ledger
    with pytest.raises(UsageError, match="language_model is searched over by the space"):
        check_models({"language_model": "extractive"}, space=space)
