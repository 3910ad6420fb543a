"""Fixtures shared by all tests: a tiny data set and space on disk, a fresh store, the command line.

- ``tiny_folder``: four short documents about the island of Marrow, 24 questions, six for each document.
- ``tiny_space``: a YAML file of 48 cheap pipelines over it.
- ``tiny_setup``: the data set in chunks of about one sentence, on the embedded models.
- ``store``: a fresh cache; ``place``: where one may be opened, a file and, where PostgreSQL is installed, a database.
- ``open_folder``: a folder that every user can reach, for tests of permissions.
- ``registered``: puts a technique of the test's own into a family, and takes it out afterwards.
- ``ragsmith``: runs the command line in this process; ``spawn`` starts it in one of its own.
"""

from __future__ import annotations

import csv
import gc
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from listening import listen_to_signals
from postgres_server import Server, missing, postgres, programs_with_vectors, vectors_missing

# no test, and no process that one starts, may touch the ledger of looks of whoever runs the tests
os.environ["RAGSMITH_LEDGER"] = "off"
# threads that wait for each other cost far more than they save on matrices as small as these; set before numpy is read
os.environ["OPENBLAS_NUM_THREADS"] = os.environ.get("OPENBLAS_NUM_THREADS", "1")

from ragsmith.datasets.dataset import load_dataset
from ragsmith.digest import digest
from ragsmith.evaluation.experiment import Experiment
from ragsmith.pipelines.genes import Candidate, read_configuration
from ragsmith.pipelines.space import Space
from ragsmith.pipelines.space_file import load_space
from ragsmith.store.store import Store
from ragsmith.techniques.families import FAMILIES
from ragsmith.techniques.registry import Family, Fitting, Technique, load_techniques

CHUNK_SIZE = 100


def pytest_pycollect_makemodule(module_path: Path) -> None:
    """Load the profile of hypothesis where a file uses it: importing it takes a third of a second."""
    if "hypothesis" in module_path.read_text(encoding="utf-8"):
        from hypothesis import settings  # noqa: PLC0415  most files need none

        # no test depends on the machine's speed, or luck
        settings.register_profile("ragsmith", deadline=None, derandomize=True)
        settings.load_profile("ragsmith")


ISLAND = Path(__file__).with_name("support") / "island.csv"
"""The facts of the tiny data set: a document, a sentence of it, and a question with its answer."""

SPACE = """\
name: tiny
description: Cheap pipelines for tests.
families:
  pre_embedding: [none]
  query_expansion: [none, hyde]
  retrieval: [vector, bm25, hybrid]
  reranking: [none, cross_encoder]
  passage_filter:
    - top_k: {k: [2, 4]}
  passage_augment: [none, prev_next]
  passage_compress: [none]
  prompt_maker: [listing]
  post_generation: [none]
"""


def write_island(folder: Path, name: str = "island") -> Path:
    """Write the data set to ``folder``; every sentence is a paragraph, and the evidence of one question."""
    (folder / "documents").mkdir(parents=True)
    (folder / "dataset.yaml").write_text(f"name: {name}\ntitle: The island of Marrow\nlicence: CC0\nlanguage: en\n")
    facts = list(csv.DictReader(ISLAND.read_text(encoding="utf-8").splitlines()))
    texts = {
        doc: f"# The {doc}\n\n" + "\n\n".join(fact["sentence"] for fact in its) + "\n"
        for doc, its in groupby(facts, key=lambda fact: fact["doc"])
    }
    for doc, text in texts.items():
        (folder / "documents" / f"{doc}.md").write_text(text)
    records = []
    for number, (doc, sentence, question, answer) in enumerate(map(dict.values, facts)):
        start = texts[doc].index(sentence)
        span = {"doc": doc, "start": start, "end": start + len(sentence), "text": sentence}
        about = {"id": f"{doc}-{number % 6 + 1}", "question": question, "answer": answer, "type": "factual"}
        records.append({**about, "evidence": [span]})
    (folder / "questions.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return folder


PROCESSES = ("test_resume.py", "test_processes.py", "test_store_files.py", "test_openai_chat.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that start processes can be left out: ``pytest -m "not processes"`` is the quick suite."""
    for item in items:
        elsewhere = {"served", "integrations"} & set(item.path.parts)  # servers, and what waits for them
        if elsewhere or item.path.name in PROCESSES or "spawn" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.processes)


def pytest_collection_finish() -> None:
    """What thousands of collected tests hold is not looked through again and again: a tenth of the time."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 1_000)  # as the command line does


@pytest.fixture(autouse=True)
def ledger(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, request: Any) -> Path:
    """Each test counts its looks at test questions in a ledger of its own, which is only made when one is counted."""
    path = tmp_path_factory.getbasetemp() / "ledgers" / f"{digest(request.node.nodeid)}.sqlite"
    monkeypatch.setenv("RAGSMITH_LEDGER", str(path))
    return path


@pytest.fixture(scope="session", autouse=True)
def techniques() -> None:
    load_techniques()


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_island(tmp_path_factory.mktemp("data") / "island")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can reach."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
        folder.chmod(0o755)


@pytest.fixture(scope="session")
def tiny_space(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("spaces") / "tiny.yaml"
    path.write_text(SPACE)
    return path


@pytest.fixture(scope="session")
def tiny_setup(tiny_folder: Path) -> Experiment:
    return Experiment(load_dataset(tiny_folder), chunk_size=CHUNK_SIZE)


@pytest.fixture(scope="session")
def space(tiny_space: Path) -> Space:
    return load_space(tiny_space)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "cache.sqlite") as opened:
        yield opened


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    """Without PostgreSQL a test that asks for it is skipped, but on CI it fails."""
    if why := missing():
        (pytest.fail if os.environ.get("RAGSMITH_REAL") else pytest.skip)(why)
    with postgres() as server:
        yield server


@pytest.fixture(scope="session")
def vector_server() -> Iterator[Server]:
    """A PostgreSQL with pgvector. Without one a test that asks for it is skipped, but on CI it fails."""
    if why := vectors_missing():
        (pytest.fail if os.environ.get("RAGSMITH_REAL") else pytest.skip)(why)
    with postgres(programs_with_vectors(), locale=("--locale=C",)) as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    if request.param == "sqlite":
        return tmp_path / "cache.sqlite"
    return str(request.getfixturevalue("postgres_server").database())


@pytest.fixture
def registered() -> Iterator[Callable[..., Technique]]:
    """Call it with a family, a function, optionally how it is fitted, and optionally ``choices``."""
    added: list[tuple[Family[Any], str]] = []

    def register(
        family: Family[Any], fn: Callable[..., Any], fitting: Fitting | None = None, **choices: tuple[Any, ...]
    ) -> Technique:
        family(paper="https://example.org", choices=choices, fitting=fitting)(fn)
        added.append((family, fn.__name__))
        return family[fn.__name__]

    yield register
    for family, name in added:
        del family.techniques[name]


@pytest.fixture
def pipeline() -> Callable[..., Candidate]:
    """A pipeline: naive RAG with the options given, as in ``pipeline(retrieval="bm25")``; or (name, parameters)."""

    def build(**options: str | tuple[str, dict[str, Any]]) -> Candidate:
        plain: dict[str, Any] = dict.fromkeys((family.name for family in FAMILIES), "none")
        plain |= {"retrieval": "vector", "passage_filter": "top_k", "prompt_maker": "listing"} | options
        pairs = {family: (o, {}) if isinstance(o, str) else o for family, o in plain.items()}
        return read_configuration({f: {"technique": name, "parameters": p} for f, (name, p) in pairs.items()})

    return build


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str


@pytest.fixture
def ragsmith(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """Run a command in this process."""
    from ragsmith.cli import run  # noqa: PLC0415

    def command(*arguments: object) -> Ended:
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return Ended(code, said.out, said.err)

    return command


@pytest.fixture
def spawn(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a command in a process and a process group of its own; what still runs at the end is killed."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: object, stdin: int | None = None, **environment: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "ragsmith", *map(str, arguments)],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1]), **environment},
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=listen_to_signals,  # noqa: PLW1509  it only calls the system
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def search_arguments(tiny_folder: Path, tiny_space: Path) -> Callable[..., list[object]]:
    """Arguments of a small search on the tiny data set, in the folder it is run in."""

    def arguments(*more: object, cache: str = "cache.sqlite", reports: str = "reports") -> list[object]:
        genetic = () if "--strategy" in more else ("--population", 8, "--generations", 2)
        return [
            *("search", "--dataset", tiny_folder, "--space", tiny_space, "--chunk-size", CHUNK_SIZE),
            *(*genetic, "--cache", cache, "--reports", reports),
            *more,
        ]

    return arguments
