"""Secrets are planted, servers repeat them, runs end in every way: no byte that is left behind has a trace of them.

Planted are a key under its usual name, keys under a name of one's own and for a reranker, the password of a database,
and a key in an address. What is looked for are the first characters of each, as it is, in URLs and in JSON.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from fault_kinds import Fault, completion, endpoint, reply_to
from served import Ruled, is_judging

import ragsmith as library
from ragsmith.cli import run
from ragsmith.errors import Notice, StoreError, UsageError
from ragsmith.integrations.optuna import mirror_all
from ragsmith.models.names import ModelName, ModelNames
from ragsmith.store.store import Store

KEYS = {
    "OPENAI_API_KEY": "Qx4/openai+Lm82nWd07rTz",
    "OUR_JUDGE": "Jb7.judge~Rk31vYc96pHs",
    "CO_API_KEY": "Ht9-cohere_Fs54qZe28mNb",
}
PASSWORD = "Dw3/data+base:Gv65xKa19"
IN_URL = "Uu8-address_Pq27cXm40jLy"
SECRETS = {**KEYS, "password": PASSWORD, "address": IN_URL}
ENOUGH = 10
"""Characters that give a secret away."""

DATABASES = (
    f"postgresql://me:{quote(PASSWORD, safe='')}@127.0.0.1:1/db?connect_timeout=1",
    f"postgresql://127.0.0.1:1/db?user=me&password={quote(PASSWORD, safe='')}&connect_timeout=1",
    f"postgresql://me:{PASSWORD}@127.0.0.1:1/db?connect_timeout=1",  # as people write it
    f"postgresql://me@127.0.0.1:{PASSWORD}/db",
    f"mysql://me:{quote(PASSWORD, safe='')}@127.0.0.1/db?password={quote(PASSWORD, safe='')}",
)
ADDRESSES = (f"https://host/v1?key={IN_URL}", f"https://me:{IN_URL}@host/v1", f"ftp://host/{IN_URL}")


def traces(*given: str | bytes) -> set[str]:
    """The names of the secrets that begin somewhere in what is given."""
    text = b"\n".join(part.encode() if isinstance(part, str) else part for part in given)
    begun = {name: secret[:ENOUGH] for name, secret in SECRETS.items()}
    return {
        name
        for name, start in begun.items()
        for form in {start, quote(start), quote(start, safe=""), start.replace("/", "\\/")}
        if form.encode() in text
    }


def left(folder: Path) -> set[str]:
    """What is found in the names and bytes of all files below ``folder``."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    return traces(*map(str, files), *(path.read_bytes() for path in files))


def whole(error: BaseException) -> str:
    return f"{error!s}\n{error!r}\n" + "".join(traceback.format_exception(error))


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, key in KEYS.items():
        monkeypatch.setenv(name, key)


@pytest.fixture
def server() -> Iterator[Ruled]:
    with Ruled() as running:
        yield running


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own for all that commands leave."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def models(server: Ruled, tmp_path: Path) -> Path:
    """A file of models with a key for each."""
    file = tmp_path / "models.yaml"
    file.write_text(
        f"language_model: {{model: 'openai:tiny', base_url: '{server.url}', attempts: 2}}\n"
        f"judge: {{model: 'openai:judge', base_url: '{server.url}', api_key_env: OUR_JUDGE, attempts: 2}}\n"
        f"cross_encoder: {{model: 'cohere:ranks', base_url: '{server.root}', attempts: 2}}\n"
    )
    return file


@pytest.fixture
def searching(search_arguments: Callable[..., list[object]], models: Path) -> list[object]:
    return search_arguments("--max-evaluations", 4, "--no-probes", "--models", models)


Command = Callable[..., Any]


def repeating(path: str, body: Any) -> Any:
    """A good reply with every key in it, wherever a server may say something."""
    said = " and ".join(KEYS.values())
    good = reply_to("POST", path, body)
    if endpoint(path, body) == "chat" and "<reference>" not in body["messages"][-1]["content"]:
        good = completion(good["choices"][0]["message"]["content"] + f" The keys are {said}.")
    return {**good, "error": {"message": f"deprecated: {said}"}, "system_fingerprint": said, "id": said}


def test_a_search_that_succeeds_and_all_that_reads_it_leave_no_trace(
    ragsmith: Command,
    searching: list[object],
    server: Ruled,
    home: Path,
    models: Path,
    tiny_folder: Path,
    tiny_space: Path,
) -> None:
    planning = ("plan", "--dataset", tiny_folder, "--space", tiny_space, "--max-evaluations", 2, "--no-probes")
    server.answer = repeating
    server.rule = lambda request: Fault("key") if request.number < 2 and request.attempt == 1 else None
    winner = Path("reports/island/winner.yaml")
    shown = [
        ragsmith(*command)
        for command in (
            (*planning, "--models", models),
            searching,
            ("models", "check", "--models", models, "--space", tiny_space, "--no-judge-cases"),
            ("report", "-o", "again"),
            ("export", "--dataset", tiny_folder, "-o", "winner.yaml"),
            ("ask", winner, "Who founded the library?", "--models", models),
            ("evaluate", winner, "--models", models),
            ("runs",),
            ("runs", "--json"),
            ("runs", "--mirror"),
            ("cache", "--verify"),
        )
    ]
    assert [ended.code for ended in shown] == [0] * len(shown), shown
    sent = {request.headers.get("authorization", "").removeprefix("Bearer ") for request in server.log}
    assert sent == set(KEYS.values())
    assert "The keys are *** and *** and ***." in shown[5].out  # it was said, and is hidden
    assert traces(*(ended.out + ended.err for ended in shown)) == set()
    assert left(home) == set()


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Fault(status=400, said="the key KEY may not ask for this"), "ask for this"),
        (Fault(status=401, said="there is no key KEY"), "refuses the key"),
        (Fault(status=500, said='{"headers": "Authorization: Bearer KEY", "x-api-key": "KEY"}'), "HTTP 500"),
    ],
)
def test_a_search_that_fails_leaves_no_trace(
    ragsmith: Command, searching: list[object], server: Ruled, home: Path, models: Path, fault: Fault, said: str
) -> None:
    server.always = fault
    shown = [
        ragsmith(*searching),
        ragsmith("models", "check", "--models", models),
        ragsmith("runs"),
        ragsmith("report"),
    ]
    assert (shown[0].code, shown[1].code) in ((1, 1), (2, 1))  # a judge without verdicts is refused
    assert said in shown[0].err + shown[1].out
    assert "***" in shown[1].out
    assert traces(*(ended.out + ended.err for ended in shown)) == set()
    assert left(home) == set()


def test_replies_that_are_none_leave_no_trace(
    ragsmith: Command, searching: list[object], server: Ruled, home: Path, models: Path
) -> None:
    def answer(path: str, body: Any) -> Any:
        said = KEYS["OPENAI_API_KEY"]
        finish = {"content_filter": False} if "judge" in str(body) else f"see {said} for {said}"
        return {"error": said, **completion(f"{said}", finish_reason=finish), "results": said, "message": said}

    server.answer = answer
    shown = [ragsmith(*searching), ragsmith("models", "check", "--models", models)]
    assert [ended.code for ended in shown] == [2, 1]  # a judge without verdicts is refused
    assert "finish_reason 'see *** for ***'" in shown[1].out
    assert traces(*(ended.out + ended.err for ended in shown)) == set()
    assert left(home) == set()


def answered(server: Ruled, process: subprocess.Popen[str], most: int) -> None:
    """Wait until the server has answered so often."""
    while len(server.given) < most:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_search_that_is_stopped_leaves_no_trace(
    spawn: Command, searching: list[object], server: Ruled, tmp_path: Path, how: signal.Signals
) -> None:
    server.answer = repeating
    server.latency = 0.02
    server.rule = lambda request: Fault("key") if is_judging(request) and request.attempt == 1 else None
    process = spawn(*searching)
    answered(server, process, 40)
    os.killpg(process.pid, how)
    out, err = process.communicate(timeout=30)
    assert process.returncode == (130 if how is signal.SIGINT else -how)
    assert traces(out, err) == set()
    assert (tmp_path / "cache.sqlite-wal").exists() == (how is signal.SIGKILL)
    assert left(tmp_path) == set()


@pytest.mark.parametrize("database", DATABASES)
def test_the_password_of_a_database_is_not_said(
    ragsmith: Command, home: Path, searching: list[object], tiny_folder: Path, database: str
) -> None:
    pytest.importorskip("psycopg", reason="needs the extra postgres")
    at = ("--cache", database)
    commands = (
        (*searching, *at),
        ("plan", "--dataset", tiny_folder, *at),
        ("report", *at),
        ("export", "--dataset", tiny_folder, *at),
        ("runs", *at),
        ("runs", "--mirror", *at),
        ("cache", *at),
        ("cache", "--cache", database.replace("://", ":/")),
    )
    shown = [ragsmith(*command) for command in commands]
    assert {ended.code for ended in shown} <= {1, 2}
    assert traces(*(ended.out + ended.err for ended in shown)) == set()
    for use in (Store.open, mirror_all):
        with pytest.raises(StoreError) as raised:
            use(database)
        assert traces(whole(raised.value)) == set()


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_key_in_an_address_is_refused_and_not_said(
    ragsmith: Command, home: Path, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    file = home / "models.yaml"
    file.write_text(f"language_model: {{model: 'openai:x', base_url: '{address}'}}\n")
    search = ("search", "--dataset", tiny_folder)
    shown = [
        ragsmith(*command, *models)
        for command in (search, ("plan", "--dataset", tiny_folder), ("models", "check"))
        for models in (("--llm", "openai:x", "--base-url", address), ("--models", file))
    ]
    with pytest.raises(UsageError) as by_name:
        ModelName("openai:x", base_url=address)
    with pytest.raises(UsageError) as by_names:
        ModelNames(base_url=address)
    monkeypatch.setenv("OPENAI_BASE_URL", address)
    shown.append(ragsmith(*search, "--llm", "openai:x"))
    assert [ended.code for ended in shown] == [2] * len(shown)
    assert "base URL" in shown[0].err
    assert traces(*(ended.out + ended.err for ended in shown), whole(by_name.value), whole(by_names.value)) == set()
    file.unlink()
    assert not list(home.iterdir())


class Careless:
    """A client of the user, whose errors quote its key."""

    id = "careless"

    def complete(self, prompt: str, *, max_tokens: int, sample: int) -> Any:
        try:
            raise PermissionError(f"401: Bearer {KEYS['OUR_JUDGE']}")
        except PermissionError as error:
            raise RuntimeError(f"cannot ask https://host/v1?key={KEYS['OPENAI_API_KEY']}") from error


def test_failures_that_are_recorded_have_no_trace(
    home: Path, tiny_folder: Path, tiny_space: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUR_API_KEY", KEYS["OUR_JUDGE"])
    settings = library.RunSettings(max_evaluations=1, probes=False, trust_judge=True)
    with pytest.warns(Notice, match=r"the judge careless failed on planted answers: .*key=\*\*\*"):
        found = library.search(
            tiny_folder, space=tiny_space, settings=settings, models={"language_model": Careless()}, chunk_size=100
        )
    assert "RuntimeError: cannot ask https://host/v1?key=***" in found.no_winner
    assert traces(found.no_winner, repr(found), str(found.verdict)) == set()
    with Store.open("cache.sqlite") as store:
        [run] = store.runs()
        rows = [row for e in store.evaluations(run.dataset) for row in store.results(e.key).values()]
    failures = [row.value for row in rows if row.state == "failed"]  # rankings, which ask no model, do not fail
    assert failures
    assert all("PermissionError: 401: Bearer ***" in failure["traceback"] for failure in failures)
    assert left(home) == set()


UNEXPECTED = """
import os, sys
from ragsmith import cli
from ragsmith.cli.app import app

@app.command()
def break_down():
    try:
        raise KeyError(os.environ["OPENAI_API_KEY"])
    except KeyError as error:
        raise RuntimeError("this is a mistake in the program") from error

sys.argv = ["ragsmith", "break-down"]
cli.main()
"""


def test_an_unexpected_traceback_has_no_trace() -> None:
    done = subprocess.run(
        [sys.executable, "-c", UNEXPECTED],
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "KeyError: '***'" in done.stderr
    assert "RuntimeError: this is a mistake in the program" in done.stderr
    assert traces(done.stdout, done.stderr) == set()


def test_what_is_looked_for_would_be_found() -> None:
    for name, secret in SECRETS.items():
        assert traces(f"<{secret}>") == traces(f"?key={quote(secret, safe='')}") == {name}
        assert traces(json.dumps({"said": secret}).encode()) == {name}
    assert run(["runs", "--cache", "nowhere"]) == 2
