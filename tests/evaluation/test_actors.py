"""A Ray cluster: the same end as one process has, whoever is lost on the way."""

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
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ray_nodes import LOOPBACK_ALONE, Nodes, TooBusy

from ragsmith.errors import MissingExtra, ModelError, RagsmithError, StageFailed, UsageError, WrongOption
from ragsmith.evaluation.cluster import Cluster, parse_engine

with_ray = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed (pip install 'ragsmith[ray]')")

Arguments = Callable[..., list[object]]
Spawn = Callable[..., subprocess.Popen[str]]

ROOT = Path(__file__).resolve().parents[2]

WAITING = "warning: waiting for the Ray cluster to have room for an actor"

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


@pytest.mark.parametrize(
    "engine", ["", "rays", "dask", "ray:", "ray://", "ray:head", "ray://head", "ray://head:port", "ray://:10001"]
)
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


def ended(process: subprocess.Popen[str]) -> None:
    """Wait for a command that has to end well, without another warning than that of a busy machine."""
    _, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    assert [line for line in err.splitlines() if not line.startswith(WAITING)] == []


def rows(cache: Path) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"file:{cache}?mode=ro", uri=True)) as connection:  # that changes nothing
        return connection.execute("SELECT evaluation, question, state, value FROM result ORDER BY 1, 2").fetchall()


def stored(cache: Path) -> int:
    """The number of results that are stored so far."""
    try:
        return len(rows(cache))
    except sqlite3.OperationalError:  # the search has not begun
        return 0


def left(tmp_path: Path, name: str) -> tuple[list[tuple[Any, ...]], bytes, bytes]:
    """The rows of the search ``name``, its winner and its ranking."""
    [winner] = (tmp_path / name).glob("*/winner.yaml")
    lines = [line for line in winner.read_bytes().splitlines() if b"source:" not in line]
    return rows(tmp_path / f"{name}.sqlite"), b"\n".join(lines), winner.with_name("ranking.csv").read_bytes()


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


@with_ray
@pytest.mark.processes
def test_a_lost_node_and_a_killed_leader_change_nothing(nodes: Nodes, spawn: Spawn, tmp_path: Path) -> None:
    def search(name: str, *more: object) -> list[object]:
        own = ("--space", "quick", "--max-evaluations", 30, "--no-probes", "--quiet")
        own += ("--cache", f"{name}.sqlite", "--reports", name)
        return ["search", "--dataset", "law", *own, *more]

    killed, lost = tmp_path / "killed.sqlite", tmp_path / "lost.sqlite"
    ended(spawn(*search("alone", "--workers", 1)))
    expected, third = left(tmp_path, "alone"), stored(tmp_path / "alone.sqlite") / 3
    engine = ("--engine", f"ray:{nodes.address}", "--workers", 2)

    leader = spawn(*search("killed", *engine), **LOOPBACK_ALONE)
    until(lambda: stored(killed) > third, leader)
    os.killpg(leader.pid, signal.SIGKILL)
    leader.communicate()
    assert third < stored(killed) < 3 * third
    ended(spawn(*search("killed", *engine), **LOOPBACK_ALONE))
    assert left(tmp_path, "killed") == expected

    leader = spawn(*search("lost", *engine), **LOOPBACK_ALONE)
    until(lambda: stored(lost) > third, leader)
    nodes.lose()
    assert stored(lost) < 3 * third
    ended(leader)
    assert left(tmp_path, "lost") == expected


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


@with_ray
@pytest.mark.processes
def test_chunks_and_an_embedder_of_ones_own_are_searched_over_as_on_one_machine(
    nodes: Nodes, spawn: Spawn, tmp_path: Path, tiny_folder: Path, tiny_space: Path
) -> None:
    (tmp_path / "letters.py").write_text(LETTERS)
    searched = "corpus: {chunk_size: [100, 200]}\nmodels: {embedder: [wordllama, letters]}\nimports: [letters.py]\n"
    (tmp_path / "space.yaml").write_text(tiny_space.read_text() + searched)

    def search(name: str, *more: object) -> list[object]:
        own = ("--space", "space.yaml", "--max-evaluations", 6, "--no-probes", "--quiet")
        stored_in = ("--cache", f"{name}.sqlite", "--reports", name)
        return ["search", "--dataset", tiny_folder, *own, *stored_in, *more]

    ended(spawn(*search("alone", "--workers", 1)))
    ended(spawn(*search("together", "--engine", f"ray://{nodes.client}", "--workers", 2), **LOOPBACK_ALONE))
    assert left(tmp_path, "together") == left(tmp_path, "alone")
    assert len(rows(tmp_path / "alone.sqlite")) > 100


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
    spawn: Spawn, tmp_path: Path, sent: signal.Signals
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    here = ("--engine", "ray", "--workers", 2, "--cache", "here.sqlite", "--quiet")
    process = spawn("search", "--dataset", "law", *here, HOME=str(home), TMPDIR=str(tmp_path))
    until(lambda: stored(tmp_path / "here.sqlite") > 20, process)
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
