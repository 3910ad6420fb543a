"""A user's file with a technique, a measure, a fitness and a provider, without packaging."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.processes

MINE = '''\
"""Things of one's own."""

from zlib import crc32

import numpy as np
from settings_of_mine import KEEP

from ragsmith.measures.registry import measure
from ragsmith.models.registry import model_id, provider
from ragsmith.techniques.families import passage_filter
from ragsmith.techniques.fusion import rank
from ragsmith.text.words import words
from ragsmith.types import Hits, Question


@passage_filter(paper="https://doi.org/10.1145/3539618.3591698")
def few(question: Question, hits: Hits, *, keep: int = KEEP) -> Hits:
    """Keep few."""
    return rank(hits)[:keep]


@measure(label="Words", subject="answer", range=(0.0, float("inf")))
def answer_words(case) -> float:
    """How many words the answer has."""
    return float(len(words(case.answer)))


@provider("embedder", "hashing_of_mine")
class Hashing:
    """Embeds a text as counts of its words."""

    def __init__(self) -> None:
        self.id = model_id("hashing_of_mine", "words")

    def embed(self, texts):
        counts = np.zeros((len(texts), 256), dtype=np.float32)
        for row, text in zip(counts, texts, strict=True):
            for word in words(text):
                row[crc32(word.encode()) % 256] += 1
        return counts / np.maximum(np.linalg.norm(counts, axis=1, keepdims=True), 1)


def fitness(measures):
    return (measures["retrieval"] * measures["generation"]) ** 0.5 - measures["answer_words"] / 1000
'''
OPTIONS = {
    "retrieval": "[vector, bm25, hybrid: {weight: [0.3, 0.5]}]",
    "passage_filter": "[few: {keep: [1, 2, 3]}, few]",
    "prompt_maker": "[listing, long_context_reorder]",
}
FAMILIES = ("pre_embedding", "query_expansion", "retrieval", "reranking", "passage_filter", "passage_augment")
REST = ("passage_compress", "prompt_maker", "post_generation")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with the file, a module next to it, and a space that names the technique, but not the file."""
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "settings_of_mine.py").write_text("KEEP = 4\n")
    options = "\n".join(f"  {family}: {OPTIONS.get(family, '[none]')}" for family in (*FAMILIES, *REST))
    (tmp_path / "space.yaml").write_text(f"families:\n{options}\n")
    return tmp_path


@pytest.fixture
def command(home: Path, spawn: Callable[..., subprocess.Popen[str]]) -> Callable[..., tuple[int, str, str]]:
    """Run a command in a process of its own: its exit code, and what it said."""

    def run(*arguments: object) -> tuple[int, str, str]:
        process = spawn(*arguments)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    return run


def searching(dataset: Path, name: str, *more: object, imports: bool = True) -> list[object]:
    return [
        *("search", "--dataset", dataset, "--space", "space.yaml", "--chunk-size", 100, "--strategy", "exhaustive"),
        *("--embedder", "hashing_of_mine", "--fitness", "mine.py:fitness", "--no-probes", "--json"),
        *("--cache", f"{name}.sqlite", "--reports", name, *(("--import", "mine.py") if imports else ()), *more),
    ]


def found(result: tuple[int, str, str]) -> Any:
    code, out, err = result
    assert code == 0, err
    return json.loads(out)


def test_one_and_four_workers_and_a_killed_search_find_the_same_winner(
    home: Path,
    tiny_folder: Path,
    command: Callable[..., tuple[int, str, str]],
    spawn: Callable[..., subprocess.Popen[str]],
) -> None:
    alone = found(command(*searching(tiny_folder, "one", "--workers", 1)))
    process = spawn(*searching(tiny_folder, "killed", "--workers", 4))
    while not (home / "killed.sqlite-wal").exists() and process.poll() is None:
        time.sleep(0.01)
    time.sleep(1)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    found(command(*searching(tiny_folder, "killed", "--workers", 4)))
    space = home / "space.yaml"
    space.write_text(f"imports: [mine.py]\n{space.read_text()}")
    in_space = found(command(*searching(tiny_folder, "one", "--workers", 4, imports=False)))
    assert in_space["computed"] == 0
    assert in_space["reused"] == alone["computed"] + alone["reused"]
    winners = [(home / name / "island" / "winner.yaml").read_bytes() for name in ("one", "killed")]
    assert winners[0] == winners[1]
    for part in (b"answer_words", b"technique: few", b"file: ../../mine.py", b"hashing_of_mine:words@code="):
        assert part in winners[0]


def test_a_winner_brings_its_file_with_it_unless_that_is_missing_or_has_changed(
    home: Path, tiny_folder: Path, command: Callable[..., tuple[int, str, str]]
) -> None:
    first = found(command(*searching(tiny_folder, "kept", "--workers", 1)))
    winner = home / "kept" / "island" / "winner.yaml"
    assert found(command("verify", winner, "--json"))["verified"]
    assert found(command("ask", winner, "When does the ferry to Marrow leave?", "--json"))["answer"]
    assert found(command("techniques", "few", "--import", "mine.py", "--json"))[0]["name"] == "few"
    code, _, err = command("report", "--cache", "kept.sqlite", "-o", "again")
    assert code == 0, err
    assert (home / "again" / "island" / "report.md").read_bytes() == (winner.parent / "report.md").read_bytes()
    code, _, err = command("export", "--dataset", tiny_folder, "--cache", "kept.sqlite", "-o", "kept/island/again.yaml")
    assert code == 0, err
    assert (winner.parent / "again.yaml").read_bytes() == winner.read_bytes()

    file = home / "mine.py"
    moved = file.rename(home / "away.py")
    code, _, err = command("verify", winner)
    assert (code, err.count("\n")) == (2, 1)
    assert "which is missing: put it back, or name it with --import" in err
    moved.rename(file)
    (home / "settings_of_mine.py").write_text("KEEP = 5\n")  # next to the file, and part of it
    code, _, err = command("verify", winner)
    assert (code, err.count("\n")) == (2, 1)
    assert "has changed since the pipeline was found: put it back, or search again" in err
    again = found(command(*searching(tiny_folder, "kept", "--workers", 1, "--test")))
    assert (again["computed"], again["reused"]) == (first["computed"], first["reused"])


EDITED = """\
from ragsmith.techniques.families import passage_filter
from ragsmith.techniques.fusion import rank
from ragsmith.types import Hits, Question


@passage_filter(paper="https://doi.org/10.1145/3539618.3591698")
def few(question: Question, hits: Hits, *, keep: int = 3) -> Hits:
    return rank(hits)[:keep]
"""


def test_an_edited_technique_is_another_look_at_the_test_questions(
    home: Path, tiny_folder: Path, command: Callable[..., tuple[int, str, str]]
) -> None:
    (home / "space.yaml").write_text((home / "space.yaml").read_text().replace("few: {keep: [1, 2, 3]}, few", "few"))
    search = ("search", tiny_folder, "--space", "space.yaml", "--import", "edited.py", "--cache", "edited.sqlite")
    options = ("--chunk-size", 100, "--strategy", "exhaustive", "--workers", 1, "--no-probes", "--json")

    def searched(code: str) -> tuple[bool, set[int | None]]:
        (home / "edited.py").write_text(code)
        result = found(command(*search, *options))
        return "not_tested" in result, {one["look"] for one in result["decision"]["differences"]}

    assert searched(EDITED) == (False, {1})
    assert searched(EDITED) == (False, {1})  # the same pipelines are the same look
    assert searched(EDITED.replace("[:keep]", "[1 : keep + 1]")) == (True, {None})
