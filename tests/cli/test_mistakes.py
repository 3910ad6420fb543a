"""What is said of mistakes on the command line and in Python, listed in mistakes.yaml."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import ragsmith as library
from ragsmith.errors import UsageError
from ragsmith.store.store import Store

LISTED = yaml.safe_load((Path(__file__).parent / "mistakes.yaml").read_text(encoding="utf-8"))

FILES = {
    "bad.yaml": b"a: [1, 2\nb: }\n",
    "list.yaml": b"- 1\n",
    "empty.yaml": b"",
    "binary.yaml": bytes(range(256)),
    "models.yaml": b"llm: openai:x\n",
    "prices.yaml": b"openai:x: {input: cheap}\n",
    "twice.yaml": b"language_model: openai:x\nlanguage_model: openai:y\n",
    "typo.yaml": b"families:\n  retreival: [bm25]\n",
    "top.yaml": b"retrieval: [bm25]\n",
    "handwritten.yaml": b"pipeline:\n  retrieval: bm25\n",
    "named/dataset.yaml": b"nam: set\nname: set\n",
    "named/documents/gate.md": b"# Gate\n",
    "set/dataset.yaml": b"name: set\n",
    "set/documents/gate.md": b"# Gate\n",
    "short.yaml": b"families:\n  retrieval: [bm25]\n",
    "empty.csv": b"",
    "object.json": b'{"question": "When?"}',
    "fake.xlsx": b"PK\x03\x04",
    "notes.txt": b"notes",
    "questions.csv": b"question,answer\nWhen is the gate shut?,At ten\n",
    "answers.jsonl": b'{"id": "q", "answer": "x", "contexts": []}\nno json\n',
    "broken.py": b"def f(:\n",
    "fit.py": b"def careful(measures):\n    return 1.0\n",
    "docs/gate.md": b"# Gate\n\nThe gate is shut at ten at night.\n",
}


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of a user who makes mistakes, and a pipeline that was moved away from its documents."""
    folder = tmp_path_factory.mktemp("mistakes")
    for name, content in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        library.recommend("docs", output="winner.yaml")
        with Store.open(folder / "cache.sqlite"):  # one without a search
            pass
    for name in ("empty", "moved"):
        (folder / name).mkdir()
    (folder / "moved" / "winner.yaml").write_bytes((folder / "winner.yaml").read_bytes())
    return folder


def matches(said: str, expected: str) -> bool:
    """Whether a message is the expected one, in which ``{cut}`` stands for any text."""
    return re.fullmatch(re.escape(expected).replace(re.escape("{cut}"), ".*"), said, re.DOTALL) is not None


@pytest.fixture(autouse=True)
def _in_scratch(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(scratch)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


@pytest.mark.parametrize(("line", "expected"), LISTED["command line"].items())
def test_a_mistake_on_the_command_line_is_one_sentence(ragsmith: Callable[..., Any], line: str, expected: str) -> None:
    ended = ragsmith(*shlex.split(line))
    said = ended.err.removeprefix("error: ").removesuffix("\n")
    assert (ended.code, matches(said, expected), said) == (2, True, said)


@pytest.mark.parametrize(("call", "expected"), LISTED["Python"].items())
def test_a_mistake_in_python_is_one_sentence(call: str, expected: str) -> None:
    with pytest.raises(UsageError) as refused:
        eval(f"library.{call}", {"library": library})  # the calls are those of the file beside this one
    said = str(refused.value)
    assert (matches(said, expected), said) == (True, said)
