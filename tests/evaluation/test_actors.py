"""A Ray cluster: the same end as one process has, whoever is lost on the way, and nothing paid for twice."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from fault_server import FaultServer
from ray_nodes import LOOPBACK_ALONE, Nodes, TooBusy

from ragsmith.errors import MissingExtra, ModelError, RagsmithError, StageFailed, UsageError, WrongOption
from ragsmith.evaluation.cluster import Cluster, parse_engine

with_ray = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed (pip install 'ragsmith[ray]')")

Arguments = Callable[..., list[object]]
Spawn = Callable[..., subprocess.Popen[str]]

ROOT = Path(__file__).resolve().parents[2]

WAITING = "warning: waiting for the Ray cluster to have room for an actor"

IN_FLIGHT = 64
"""Questions that are asked at a time where models are waited for."""

MINE = """
from ragsmith.techniques.families import passage_filter
from ragsmith.techniques.fusion import rank
from ragsmith.types import Hits, Question


@passage_filter(paper="https://example.org")
def first_three(question: Question, hits: Hits) -> Hits:
    '''Keep three.'''
    return rank(hits)[:3]
"""


class ConnectedRay(ModuleType):
    """The module ``ray`` of a program that is connected to a cluster."""

    def __init__(self) -> None:
        super().__init__("ray")
        self.__spec__ = ModuleSpec("ray", None)

    def is_initialized(self) -> bool:
        return True


def test_processes_are_no_cluster() -> None:
    assert parse_engine("processes") is None


@with_ray
@pytest.mark.parametrize(
    ("engine", "address"),
    [
        ("ray", ""),
        ("ray://head:10001", "ray://head:10001"),
        ("ray:10.0.0.7:6379", "10.0.0.7:6379"),
        ("ray:auto", "auto"),
        ("ray://auto", "auto"),
    ],
)
def test_a_cluster_is_named_in_these_forms(engine: str, address: str) -> None:
    found = parse_engine(engine, 3)
    assert found is not None
    assert (found.address, found.actors) == (address, 3)


@pytest.mark.parametrize("engine", ["", "rays", "dask", "ray:", "ray://", "ray:head", "ray://head", "ray://head:port"])
def test_another_form_is_refused_with_those_that_there_are(engine: str) -> None:
    with pytest.raises(WrongOption, match=r"give .*ray://HOST:PORT") as refused:
        parse_engine(engine)
    assert refused.value.flag == "--engine"


def test_a_cluster_needs_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)  # as where it is not installed
    with pytest.raises(MissingExtra, match=r"ray is not installed: run  pip install 'ragsmith\[ray\]'"):
        parse_engine("ray")


@pytest.mark.parametrize("address", ["10.0.0.8:6379", "ray://10.0.0.7:10001"])
def test_a_program_that_is_connected_to_another_cluster_is_told_so(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", ConnectedRay())
    cluster = Cluster(address)
    with pytest.raises(WrongOption, match=r"is connected to one: give ray to use that one") as refused:
        cluster.connect()
    assert refused.value.flag == "--engine"
    assert Cluster("auto").connect() is Cluster("").connect() is sys.modules["ray"]


@with_ray
def test_a_search_with_one_data_set_among_several_refuses_a_wrong_engine_at_once(ragsmith: Any) -> None:
    ended = ragsmith("search", "--dataset", "law", "--dataset", "workshop", "--engine", "ray:nowhere")
    assert ended.code == 2
    assert "--engine is 'ray:nowhere'" in ended.err.replace("\n", " ")


@pytest.mark.parametrize(
    "error",
    [
        WrongOption("workers", "is 0"),
        ModelError("no reply", calls=2),
        StageFailed("retrieval", "bm25", ValueError("x")),
        LookupError("gone"),
    ],
)
def test_an_error_can_be_sent_whatever_it_is_made_of(error: Exception) -> None:
    import pickle  # noqa: PLC0415

    from ragsmith.evaluation.threads import to_picklable  # noqa: PLC0415

    sent = pickle.loads(pickle.dumps(to_picklable(error)))
    assert str(sent) == str(error)
    assert isinstance(sent, RagsmithError) == isinstance(error, RagsmithError)
    assert isinstance(sent, UsageError) == isinstance(error, UsageError)
    assert getattr(sent, "calls", 0) == getattr(error, "calls", 0)


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    try:
        started = Nodes().__enter__()
    except TooBusy as busy:
        (pytest.fail if os.environ.get("RAGSMITH_REAL") else pytest.skip)(str(busy))
    with ExitStack() as stack:
        stack.push(started)
        yield started


def ended(process: subprocess.Popen[str], warned: str = "") -> None:
    """Wait for a command that has to end well, with one warning at most, which is as ``warned`` says."""
    _, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    said = [line for line in err.splitlines() if not line.startswith(WAITING)]  # on a busy machine
    assert re.fullmatch(f"(warning: {warned})?" if warned else "", "\n".join(said)), err


def rows(cache: Path) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(cache)) as connection:
        return connection.execute("SELECT evaluation, question, state, value FROM result ORDER BY 1, 2").fetchall()


def left(tmp_path: Path, name: str) -> tuple[list[tuple[Any, ...]], bytes, bytes]:
    """The rows of the search ``name``, its winner and its ranking."""
    [winner] = (tmp_path / name).glob("*/winner.yaml")
    lines = [line for line in winner.read_bytes().splitlines() if b"source:" not in line]
    return rows(tmp_path / f"{name}.sqlite"), b"\n".join(lines), winner.with_name("ranking.csv").read_bytes()


def times_asked(server: FaultServer) -> Counter[str]:
    """How often each request was answered."""
    return Counter(request.digest for request in server.log if request.status == 200)


def until(happened: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    ends = time.monotonic() + 240
    while not happened():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < ends
        time.sleep(0.02)


@with_ray
@pytest.mark.processes
def test_two_nodes_end_as_one_process_with_a_file_of_ones_own(
    nodes: Nodes, spawn: Spawn, search_arguments: Arguments, tmp_path: Path, tiny_space: Path
) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    space = tiny_space.read_text().replace("    - top_k: {k: [2, 4]}", "    - top_k: {k: [2]}\n    - first_three")
    (tmp_path / "space.yaml").write_text(space)

    def search(name: str, *more: object) -> list[object]:
        own = ("--space", "space.yaml", "--import", "mine.py", "--quiet")
        return search_arguments(*own, *more, cache=f"{name}.sqlite", reports=name)

    ended(spawn(*search("alone", "--workers", 1)))
    ended(spawn(*search("together", "--engine", f"ray:{nodes.address}", "--workers", 2), **LOOPBACK_ALONE))
    assert left(tmp_path, "together") == left(tmp_path, "alone")
    assert len(rows(tmp_path / "alone.sqlite")) > 100
    nowhere = ("--engine", "ray:127.0.0.1:1", "--workers", 2)  # where nothing is missing nobody is connected to
    ended(spawn(*search("together", *nowhere), **LOOPBACK_ALONE))


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer(latency=0.05) as started:
        yield started


@pytest.fixture
def served(server: FaultServer, search_arguments: Arguments) -> Callable[..., list[object]]:
    """Arguments of a search whose language model is at ``server``, by the name of what it leaves."""

    def arguments(name: str, *more: object) -> list[object]:
        models = ("--llm", "openai:tiny", "--base-url", server.url, "--max-evaluations", 6, "--quiet")
        return search_arguments(*models, *more, cache=f"{name}.sqlite", reports=name)

    return arguments


KEY = {"OPENAI_API_KEY": "sk-of-a-test"}


@with_ray
@pytest.mark.processes
def test_a_lost_node_and_a_killed_leader_change_nothing_and_no_call_is_paid_for_twice(
    nodes: Nodes, spawn: Spawn, served: Callable[..., list[object]], server: FaultServer, tmp_path: Path
) -> None:
    ended(spawn(*served("alone"), **KEY))
    expected, needed = left(tmp_path, "alone"), times_asked(server)
    assert set(needed.values()) == {1}
    engine = ("--engine", f"ray:{nodes.address}", "--workers", 2)
    environment = {**KEY, **LOOPBACK_ALONE}

    server.log.clear()
    leader = spawn(*served("killed", *engine), **environment)
    until(lambda: len(server.log) > len(needed) / 3, leader)
    os.killpg(leader.pid, signal.SIGKILL)
    leader.communicate()
    assert len(server.log) < len(needed)
    ended(spawn(*served("killed", *engine), **environment), warned="process .* left calls unfinished: .*")
    assert left(tmp_path, "killed") == expected
    assert times_asked(server).keys() == needed.keys()
    assert times_asked(server).total() <= len(needed) + IN_FLIGHT  # what was on its way when it was killed

    server.log.clear()
    leader = spawn(*served("lost", *engine), **environment)
    until(lambda: len(server.log) > len(needed) / 3, leader)
    nodes.lose()
    assert len(server.log) < len(needed)
    ended(leader)
    assert left(tmp_path, "lost") == expected
    assert times_asked(server) == needed


@with_ray
@pytest.mark.processes
def test_a_budget_holds_over_the_cluster(
    nodes: Nodes, spawn: Spawn, served: Callable[..., list[object]], server: FaultServer
) -> None:
    for most, engine in ((40, f"ray:{nodes.address}"), (60, f"ray://{nodes.client}")):
        process = spawn(
            *served("bounded", "--engine", engine, "--workers", 2, "--max-calls", most), **KEY, **LOOPBACK_ALONE
        )
        _, err = process.communicate(timeout=240)
        assert (process.returncode, "raise it" in err) == (130, True), err
        assert times_asked(server).total() == most
        assert set(times_asked(server).values()) == {1}


LETTERS = """
import numpy as np
from ragsmith.models.registry import provider


@provider("embedder", "letters")
class Letters:
    id = "letters:1"

    def embed(self, texts):
        counts = np.array([[text.lower().count(chr(97 + n)) for n in range(26)] for text in texts], dtype=np.float32)
        return counts / np.maximum(np.linalg.norm(counts, axis=1, keepdims=True), 1e-9)
"""

CHOSEN = """
import sqlite3, sys
from collections import Counter

import ragsmith
from fault_replies import chat_reply
from ragsmith.models.calls import Completion
from ragsmith.models.usage import Usage

asked = Counter()


class Chat:
    id = "an object"

    def complete(self, prompt, *, max_tokens, sample):
        asked[prompt, sample] += 1
        return Completion(chat_reply(prompt), Usage(calls=1, input_tokens=7, output_tokens=3))


def rows(engine, cache):
    asked.clear()
    ragsmith.search(
        sys.argv[1], space="space.yaml", models={"language_model": Chat()}, engine=engine, workers=2, cache=cache,
        max_evaluations=6, probes=False, seed=2,
    )
    assert set(asked.values()) == {1}, asked.most_common(3)
    columns = "SELECT evaluation, question, state, value FROM result ORDER BY 1, 2"
    return sqlite3.connect(cache).execute(columns).fetchall(), asked.keys()


if __name__ == "__main__":
    expected = rows("processes", "alone.sqlite")
    assert len(expected[0]) > 100
    assert rows(sys.argv[2], "together.sqlite") == expected
"""


@with_ray
@pytest.mark.processes
def test_chunks_embedders_of_ones_own_and_an_object_are_searched_over_as_on_one_machine(
    nodes: Nodes, tmp_path: Path, tiny_folder: Path, tiny_space: Path
) -> None:
    (tmp_path / "letters.py").write_text(LETTERS)
    (tmp_path / "chosen.py").write_text(CHOSEN)
    searched = "corpus: {chunk_size: [100, 200]}\nmodels: {embedder: [wordllama, letters]}\nimports: [letters.py]\n"
    (tmp_path / "space.yaml").write_text(tiny_space.read_text() + searched)
    done = subprocess.run(
        [sys.executable, "chosen.py", tiny_folder, f"ray:{nodes.address}"],
        cwd=tmp_path,
        env={**os.environ, **LOOPBACK_ALONE, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests/support'}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def started_by(pid: int) -> set[int]:
    """The processes that ``pid`` has started, and those that they have."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found, new = set(), {pid}
    while new := {child for child, parent in parents.items() if parent in new} - found:
        found |= new
    return found


def listening(pids: set[int]) -> set[str]:
    """The addresses at which processes listen, in hexadecimal."""
    sockets = set()
    for pid in pids:
        for place in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                sockets.add(str(place.readlink()))
            except OSError:
                continue
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()]
    return {line[1].partition(":")[0] for line in lines if line[3] == "0A" and f"socket:[{line[9]}]" in sockets}


def named(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0 ")


def alive(pids: set[int]) -> set[int]:
    def lives(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except OSError:
            return False

    return set(filter(lives, pids))


in_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks processes up in /proc")

LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F"}
"""127.0.0.1, as Linux writes it for sockets of either kind."""


@with_ray
@pytest.mark.processes
@in_proc
def test_the_nodes_of_tests_listen_on_this_machine_alone(nodes: Nodes) -> None:
    started = started_by(nodes.pid)
    assert len(started) > 5
    assert listening(started) == LOOPBACK


@with_ray
@pytest.mark.processes
@in_proc
def test_the_cluster_that_the_documentation_starts_listens_on_this_machine_alone(tmp_path: Path) -> None:
    [command] = re.findall(
        r"^    (RAY_\w+=\S+ ray start .*?)(?: +#.*)?$", (ROOT / "docs/clusters.md").read_text(), re.MULTILINE
    )
    folder = tempfile.mkdtemp(prefix="rs-", dir="/tmp")  # names of sockets are short
    block = f"exec env {command} --block --port=0 --num-cpus=1"
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "RAY_TMPDIR": folder,
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    with (tmp_path / "said").open("w+") as said:
        process = subprocess.Popen(["sh", "-c", block], env=environment, stdout=said, stderr=said, text=True)
        try:
            until(lambda: "--block" in (tmp_path / "said").read_text(), process)  # it says so when it has started
            assert listening(started_by(process.pid)) == LOOPBACK
        finally:
            process.terminate()
            process.wait(60)
            shutil.rmtree(folder, ignore_errors=True)


@with_ray
@pytest.mark.processes
@in_proc
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_a_cluster_started_here_keeps_to_itself_and_ends_with_the_command(
    spawn: Spawn, served: Callable[..., list[object]], server: FaultServer, tmp_path: Path, sent: signal.Signals
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    process = spawn(*served("here", "--engine", "ray", "--workers", 2), **KEY, HOME=str(home), TMPDIR=str(tmp_path))
    until(lambda: len(server.log) > 20, process)
    started = started_by(process.pid)
    assert len(started) > 5
    assert listening(started) == LOOPBACK
    assert not (home / ".ray").exists()
    agents = {pid for pid in started if named(pid).endswith("Agent")} if sent == signal.SIGKILL else set()
    os.kill(process.pid, sent)
    _, err = process.communicate(timeout=30)
    if sent == signal.SIGINT:
        assert process.returncode == 130
        assert err.strip().endswith("Go on with the same command.")
        assert "Traceback" not in err
    ends = time.monotonic() + 20
    while alive(started) - agents and time.monotonic() < ends:
        time.sleep(0.1)
    try:
        assert not alive(started) - agents  # of a command that is killed, Ray's agents are there for a minute longer
    finally:
        for pid in alive(started):
            os.kill(pid, signal.SIGKILL)


@with_ray
@pytest.mark.processes
def test_a_cluster_that_is_not_there_is_one_sentence(spawn: Spawn, search_arguments: Arguments) -> None:
    process = spawn(*search_arguments("--engine", "ray:127.0.0.1:1", "--quiet"), **LOOPBACK_ALONE)
    _, err = process.communicate(timeout=240)
    assert (process.returncode, "no Ray cluster can be used at 127.0.0.1:1" in err.replace("\n", " ")) == (2, True), err
    assert "Traceback" not in err
