"""One's own prompts: which files are accepted, and how tasks ask with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ragsmith.errors import UsageError
from ragsmith.models.own_prompts import OwnPrompt, read_prompts, with_prompts
from ragsmith.models.protocols import LanguageModel
from ragsmith.models.tasks import Input, Task, parse_text

ECHO = Task("echo", "{>passage}\n\nRepeat it {n} times.", parse_text, lambda model, **_: "")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "brief.txt").write_text("Say this {n} times:\n{passage}")
    (tmp_path / "same.txt").write_text("Say this {n} times:\n{passage}")
    (tmp_path / "long.txt").write_text("Say this word for word, {n} times:\n{passage}")
    (tmp_path / "blank.txt").write_text(" \n")
    return tmp_path


def test_a_reworded_task_encloses_the_same_inputs() -> None:
    reworded = ECHO.reword("Say {n} times, {n}:\n{passage}")
    assert reworded.render({"n": 2, "passage": "a</passage>"}) == "Say 2 times, 2:\n<passage>\na(/passage>\n</passage>"
    assert (reworded.name, reworded.parse, reworded.max_tokens) == (ECHO.name, ECHO.parse, ECHO.max_tokens)
    assert ECHO.reword(ECHO.prompt) == ECHO


@pytest.mark.parametrize(
    ("prompt", "problem"),
    [
        ("Say {n}.", "the prompt of echo lacks {passage}"),
        ("Say {n} {passage} {context}.", "the prompt of echo has no placeholder {context}: known: n, passage"),
        ("Say {n} {pasage}.", "did you mean 'passage'"),
    ],
)
def test_other_placeholders_are_an_error(prompt: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem.replace("{", r"\{")):
        ECHO.reword(prompt)


def test_files_are_read_by_role(files: Path) -> None:
    brief, long = (OwnPrompt(name, (files / f"{name}.txt").read_text()) for name in ("brief", "long"))
    assert read_prompts({"echo": ["default", "brief.txt"], "other": "long.txt"}, files) == {
        "echo": (None, brief),
        "other": (long,),
    }
    listed = [f"echo={files / 'long.txt'}", "echo=default"]
    assert read_prompts(listed) == {"echo": (long, None)}
    assert read_prompts({"echo": files / "brief.txt"})["echo"][0] == OwnPrompt("another name", brief.text)


@pytest.mark.parametrize(
    ("listed", "problem"),
    [
        ({"echo": "absent.txt"}, r"the prompt of echo, .*absent\.txt: is missing"),
        ({"echo": "blank.txt"}, r"blank\.txt is blank: write what the model is to do"),
        ({"echo": ["brief.txt", "same.txt"]}, "different names and texts"),
        ({"echo": ["brief.txt", "brief.txt"]}, "different names and texts"),
        ({"echo": []}, "different names and texts"),
        ({"echo": None}, "must be a file or the word default, not None"),
        ({"echo": 5}, "must be a file or the word default, not 5"),
        ({"echo": {"brief.txt": "long.txt"}}, "must be a file or the word default, not {'brief.txt'"),
        ({"echo": [3]}, "must be a file or the word default, not 3"),
        (["echo"], "must be ROLE=FILE"),
        ([5], "the prompt 5 must be ROLE=FILE, such as answer=brief.txt"),
        (5, r"prompts must be files by role, such as \{'answer': 'brief.txt'\}, or a list of texts .*, not 5$"),
        ("echo=brief.txt", "prompts must be files by role, .*, not 'echo=brief.txt'$"),
        (Path("brief.txt"), "prompts must be files by role"),
        ({"echo=brief.txt"}, "prompts must be files by role"),
    ],
)
def test_files_that_cannot_be_used_are_an_error(files: Path, listed: Any, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        read_prompts(listed, files)


class Recorder(LanguageModel):
    """Replies with the prompt of the task."""

    id = "recorder"

    def run(self, task: Task[Any], *, sample: int = 0, **inputs: Input) -> Any:
        return task.prompt


def test_a_model_is_asked_with_ones_own_prompt() -> None:
    recorder = Recorder()
    model = with_prompts(recorder, {"echo": OwnPrompt("brief", "Say {n} times: {passage}")})
    other = Task("other", "{passage}", parse_text, lambda model, **_: "")
    assert model.id == "recorder"
    assert model.run(ECHO, n=2, passage="a") == "Say {n} times: {>passage}"
    assert model.run_all(ECHO, [{"n": 2, "passage": "b"}]) == ("Say {n} times: {>passage}",)
    assert model.run(other, passage="c") == "{passage}"
    assert with_prompts(recorder, {}) is recorder
