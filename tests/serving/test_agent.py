"""The tools of a coding agent, with the client of the package ``mcp``: what they do, and what they never exceed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from asking import PATIENCE
from fault_server import FaultServer
from mcp import StdioServerParameters
from mcp.client import Client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

import ragsmith
from ragsmith.api.agent import AgentTools
from ragsmith.errors import UsageError
from ragsmith.gateway.budget import TOTAL_KEY, Budget, Limits, Price, Prices, Spent
from ragsmith.store.store import Store

TOKEN = "correct-horse-battery-staple"
MAX_CHARACTERS = 2000
PRICES = Prices({"openai:tiny": Price(input=1000, output=1000, requests=1)})
REPLACES = pytest.mark.filterwarnings("default:.* has the report of another search")  # an agent has one folder
SMALL = {"population": 4, "generations": 1, "elitism": 1, "max_evaluations": 4, "probes": False}
Spawn = Callable[..., "subprocess.Popen[str]"]
Call = Callable[..., Coroutine[Any, Any, dict[str, Any]]]


@pytest.fixture
def island(tiny_folder: Path) -> dict[str, str]:
    return {"island": str(tiny_folder)}


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none-here")


@contextmanager
def tools_on(
    cache: Path, datasets: dict[str, str], space: Path, limits: Limits, max_looks: int | None = 1, **arguments: Any
) -> Iterator[AgentTools]:
    """The tools in this process, on a cache that is opened for them as by `ragsmith.agent`."""
    with Store.open(cache) as store:
        store.max_looks = max_looks
        store.total = Budget(store, TOTAL_KEY, limits, PRICES)
        arguments = {"workers": 2, **arguments, "cache": store}
        yield AgentTools(store, store.total, datasets, [space.parent], cache.parent / "reports", arguments)
        store.total.close()


def served(server: FaultServer) -> dict[str, Any]:
    return {"models": {"language_model": "openai:tiny"}, "base_url": server.url}


def asked(client: Client) -> Call:
    """Call a tool; its result is short, and an error raises."""

    async def call(tool: str, **arguments: Any) -> dict[str, Any]:
        result = await client.call_tool(tool, arguments)
        text = result.content[0].text  # type: ignore[union-attr]
        assert len(text) < MAX_CHARACTERS
        if result.is_error:
            raise UsageError(text)
        found: dict[str, Any] = result.structured_content  # type: ignore[assignment]
        assert json.loads(text) == found
        assert found["decision"]
        assert found["next_step"]
        return found

    return call


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(coroutine, 2 * PATIENCE))


async def wait_until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.01)


def test_an_agent_plans_searches_reports_explains_compares_and_gates(
    tmp_path: Path, island: dict[str, str], tiny_space: Path
) -> None:
    about = {"dataset": "island", "space": str(tiny_space), "settings": SMALL}

    async def go(tools: AgentTools) -> None:
        async with Client(tools.server) as client:
            call, told = asked(client), []

            async def hear(progress: float, total: float | None, message: str | None) -> None:
                told.append((progress, message))

            assert (await call("plan", **about))["decision"].endswith("within limits")
            result = await client.call_tool("search", about, progress_callback=hear)
            found: Any = result.structured_content
            assert found["decision"].startswith("take ")
            assert [moment for moment, _ in told] == sorted(moment for moment, _ in told)
            assert any("pipelines, best fitness" in (message or "") for _, message in told)
            assert await call("search", **about) == found
            assert await call("report", dataset="island", run=found["run"]) == found
            assert (await call("status"))["reasons"] == [f"{found['run']} on island: finished"]
            winner = found["winner"]
            expected = ragsmith.explain(winner, "ferry-1", dataset=island["island"])
            explained = await call("explain", dataset="island", pipeline=winner, question="ferry-1")
            assert explained["scores"] == pytest.approx(expected.scores)
            compared = await call("compare", dataset="island", first=winner, second="bm25")
            assert compared["decision"].startswith("the first:")
            gated = await call("gate", dataset="island", pipeline=winner, against="bm25", split="search")
            assert gated["passed"] is True

    with tools_on(tmp_path / "cache.sqlite", island, tiny_space, Limits()) as tools:
        run(go(tools))
    direct = ragsmith.search(island["island"], space=tiny_space, cache=tmp_path / "cache.sqlite", **SMALL, workers=2)
    assert (direct.state, direct.computed) == ("finished", 0)  # it was the same search


def test_what_is_not_allowed_is_refused_with_what_is(tmp_path: Path, island: dict[str, str], tiny_space: Path) -> None:
    async def go(tools: AgentTools) -> None:
        async with Client(tools.server) as client:
            call = asked(client)
            for arguments, said in (
                ({"dataset": "law"}, "unknown dataset 'law': known: island"),
                ({"dataset": "island", "settings": {"fitness": "f.py:f"}}, "unknown setting 'fitness'"),
                ({"dataset": "island", "settings": {"cache": "other.sqlite"}}, "unknown setting 'cache'"),
                ({"dataset": "island", "settings": {"seed": "x"}}, "seed is 'x': give a whole number"),
                ({"dataset": "island", "settings": {"race": "no"}}, "race is 'no': give true or false"),
                ({"dataset": "island", "settings": {"max_evaluations": -1}}, "max_evaluations is -1: give at least 1"),
                ({"dataset": "island", "space": __file__}, "not in the folders of this server"),
                ({"dataset": "island", "space": "no-such-space"}, "no-such-space"),
                ({"dataset": "island", "max_calls": 0}, "give a number above 0"),
            ):
                with pytest.raises(UsageError, match=said):
                    await call("search", **arguments)
            outside = tmp_path / "winner.yaml"
            outside.write_text("pipeline: {}\n")
            (tmp_path / "reports").mkdir()
            (tmp_path / "reports" / "link.yaml").symlink_to(outside)
            code = tmp_path / "evil.py"
            code.write_text("raise SystemExit('imported')\n")
            for named in (
                str(outside),
                str(tmp_path / "reports" / "link.yaml"),
                str(tmp_path / "reports" / ".." / "winner.yaml"),
                f"{code}:answer",
                "http://127.0.0.1:9/ask",
                "~/winner.yaml",
            ):
                for tool, arguments in (
                    ("gate", {"pipeline": named}),
                    ("compare", {"first": "naive", "second": named}),
                ):
                    with pytest.raises(UsageError, match="not in the folders"):
                        await call(tool, dataset="island", **arguments)
            with pytest.raises(UsageError, match="there is no file 'nave', nor a pipeline of that name"):
                await call("compare", dataset="island", first="nave", second="bm25")

    with tools_on(tmp_path / "cache.sqlite", island, tiny_space, Limits()) as tools:
        run(go(tools))


def test_a_search_that_was_stopped_or_cancelled_is_resumed_by_the_same_call_and_nothing_is_paid_twice(
    tmp_path: Path, island: dict[str, str], tiny_space: Path
) -> None:
    about = {"dataset": "island", "space": str(tiny_space), "settings": SMALL}

    async def go(tools: AgentTools, server: FaultServer) -> None:
        async with Client(tools.server) as client:
            call = asked(client)
            searching = asyncio.create_task(client.call_tool("search", about))
            await wait_until(lambda: len(server.log) > 20)
            assert "1 searches are stopping" in (await call("stop"))["decision"]
            stopped = await searching
            assert "the search was stopped" in stopped.content[0].text  # type: ignore[union-attr]
            sent = len(server.log)
            await asyncio.sleep(0.5)
            assert len(server.log) == sent
            cancelled = asyncio.create_task(client.call_tool("search", about))
            await wait_until(lambda: len(server.log) > sent + 20)
            cancelled.cancel()
            await wait_until(lambda: not tools._stops)
            sent = -1
            while sent != len(server.log):  # requests in flight are awaited
                sent = len(server.log)
                await asyncio.sleep(0.5)
            server.latency = 0.0
            found = await call("search", **about)
            assert found["decision"].startswith("take ")

    with FaultServer(latency=0.05) as server:
        with tools_on(tmp_path / "cache.sqlite", island, tiny_space, Limits(calls=100_000), **served(server)) as tools:
            run(go(tools, server))
            spent = tools._store.spending(TOTAL_KEY).spent
        assert spent.calls == len(server.log)
        assert len({request.digest for request in server.log}) == len(server.log)


@REPLACES
@pytest.mark.parametrize("limits", [Limits(calls=60), Limits(cost=3.0), Limits(tokens=3000)])
def test_searches_at_once_and_restarts_never_exceed_what_the_person_allows(
    tmp_path: Path, island: dict[str, str], tiny_space: Path, limits: Limits
) -> None:
    async def go(tools: AgentTools) -> None:
        async with Client(tools.server) as client:
            ends = await asyncio.gather(
                *(
                    client.call_tool(
                        "search",
                        {
                            "dataset": "island",
                            "space": str(tiny_space),
                            "settings": {**SMALL, "seed": seed},
                            "max_calls": 10**6,
                            "max_cost": 10.0**6,
                        },
                    )
                    for seed in (1, 2)
                )
            )
            said = [end.content[0].text for end in ends]  # type: ignore[union-attr]
            assert all("the budget is exhausted" in text for text in said), said

    with FaultServer(latency=0.01) as server:
        for _ in range(2):  # the second server continues from what the first has spent
            with tools_on(tmp_path / "cache.sqlite", island, tiny_space, limits, **served(server)) as tools:
                run(go(tools))
                spent = tools._store.spending(TOTAL_KEY).spent
            assert limits.exceeded(spent) is None
            assert spent.calls == len(server.log)
            with Store.open(tmp_path / "cache.sqlite") as store:
                runs = [store.spending(row.key).spent for row in store.runs()]
            assert sum(runs, Spent()).calls == spent.calls
            assert sum(runs, Spent()).tokens == spent.tokens
        bill = sum(one.cost for one in runs)
        assert bill == pytest.approx(spent.cost)
        assert len(server.log) > 5


def test_tools_besides_a_search_pay_from_the_same_budget(
    tmp_path: Path, island: dict[str, str], tiny_space: Path
) -> None:
    pipelines = tmp_path / "reports"
    found = ragsmith.search(
        island["island"], space=tiny_space, cache=tmp_path / "other.sqlite", reports=pipelines, **SMALL
    )
    winner = str(found.files[-1] if found.files[-1].suffix == ".yaml" else pipelines / "island" / "winner.yaml")

    async def go(tools: AgentTools, server: FaultServer) -> None:
        async with Client(tools.server) as client:
            call = asked(client)
            await call("explain", dataset="island", pipeline=winner, question="ferry-1")
            assert server.log
            with pytest.raises(UsageError, match=r"the budget is exhausted \(--max-calls 10\)"):
                await call("compare", dataset="island", first=winner, second="naive")

    with FaultServer() as server:
        with tools_on(tmp_path / "cache.sqlite", island, tiny_space, Limits(calls=10), **served(server)) as tools:
            run(go(tools, server))
            spent = tools._store.spending(TOTAL_KEY).spent
        assert spent.calls == len(server.log) == 10


def test_no_model_without_a_price_is_asked_under_a_limit_on_cost(
    tmp_path: Path, island: dict[str, str], tiny_space: Path
) -> None:
    async def go(tools: AgentTools) -> None:
        async with Client(tools.server) as client:
            with pytest.raises(UsageError, match="needs the price of openai:other"):
                await asked(client)("search", dataset="island", space=str(tiny_space), settings=SMALL)

    with FaultServer() as server:
        models = {**served(server), "models": {"language_model": "openai:other"}}
        with tools_on(tmp_path / "cache.sqlite", island, tiny_space, Limits(cost=1.0), **models) as tools:
            run(go(tools))
        assert server.log == []


@REPLACES
def test_test_questions_are_looked_at_no_more_often_than_the_person_allows(
    tmp_path: Path, island: dict[str, str], tiny_space: Path
) -> None:
    about = {"dataset": "island", "space": str(tiny_space)}

    async def go(tools: AgentTools) -> None:
        async with Client(tools.server) as client:
            call = asked(client)
            first = await call("search", **about, settings=SMALL)
            assert not first["reasons"][0].startswith("Not tested")
            again = await call("search", **about, settings={**SMALL, "objective": "retrieval", "test": True})
            assert again["reasons"][0].startswith("Not tested: the test questions were looked at once before")
            for tool, arguments in (
                ("compare", {"first": again["winner"], "second": "naive", "split": "test"}),
                ("compare", {"first": again["winner"], "second": "naive", "split": "all"}),
                ("gate", {"pipeline": again["winner"], "against": "naive"}),
            ):
                with pytest.raises(UsageError, match=r"\(--max-looks 1\) is reached, and this would be look 2"):
                    await call(tool, dataset="island", **arguments)
            await call("compare", dataset="island", first=again["winner"], second="naive")

    with tools_on(tmp_path / "cache.sqlite", island, tiny_space, Limits()) as tools:
        run(go(tools))
    with tools_on(tmp_path / "cache.sqlite", island, tiny_space, Limits(), max_looks=0) as tools:

        async def never() -> None:
            async with Client(tools.server) as client:
                found = await asked(client)("search", **about, settings={**SMALL, "objective": "retrieval"})
                assert found["reasons"][0].startswith("Not tested")

        run(never())


def test_an_agent_over_standard_input_ends_with_its_search_paused(
    tmp_path: Path, tiny_folder: Path, tiny_space: Path
) -> None:
    with FaultServer(latency=0.2) as server:
        options = ("--llm", "openai:tiny", "--base-url", server.url, "--max-calls", "1000", "--workers", "2")
        where = (
            "--dataset",
            str(tiny_folder),
            "--folder",
            str(tiny_space.parent),
            "--cache",
            str(tmp_path / "c.sqlite"),
        )
        command = StdioServerParameters(
            command=sys.executable,
            args=["-m", "ragsmith", "agent", *where, "--reports", str(tmp_path / "reports"), *options],
            env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        )

        async def go(log: Any) -> None:
            async with Client(stdio_client(command, errlog=log)) as client:
                names = {tool.name for tool in (await client.list_tools()).tools}
                assert names == {"plan", "search", "stop", "status", "report", "explain", "compare", "gate"}
                about = {"dataset": "island", "space": str(tiny_space), "settings": SMALL}
                searching = asyncio.create_task(client.call_tool("search", about))
                await wait_until(lambda: len(server.log) > 4)
                searching.cancel()

        with (tmp_path / "log").open("w") as log:
            run(go(log))
        assert (tmp_path / "log").read_text() == ""
        with Store.open(tmp_path / "c.sqlite", read_only=True) as store:
            assert [row.state for row in store.runs()] == ["interrupted"]
        with Store.open(tmp_path / "c.sqlite") as store:
            assert store.spending(TOTAL_KEY).spent.calls == len(server.log)


def address_of(process: subprocess.Popen[str]) -> str:
    """Where a server says that it is."""
    said = ""
    for line in process.stdout or ():
        said += line
        if line == "}\n":
            return str(json.loads(said)["url"])
    raise AssertionError(process.stderr and process.stderr.read())


def test_an_agent_over_http_needs_the_token_and_is_stopped_in_the_middle_of_a_search(
    tmp_path: Path, tiny_folder: Path, tiny_space: Path, spawn: Spawn
) -> None:
    secret = tmp_path / "token"
    secret.write_text(TOKEN)
    with FaultServer(latency=0.1) as model:
        process = spawn(
            *("agent", "--dataset", tiny_folder, "--folder", tiny_space.parent, "--cache", tmp_path / "c.sqlite"),
            *("--llm", "openai:tiny", "--base-url", model.url, "--max-calls", 1000, "--workers", 2),
            *("--http", "--port", 0, "--token-file", secret, "--json"),
        )
        url = address_of(process)
        hello = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        assert httpx.post(url, json=hello).status_code == 401
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        assert httpx.post(url, json=hello, headers={**bearer, "Origin": "https://example.org"}).status_code == 403
        assert httpx.get(url, headers=bearer).status_code == 405

        about = {"dataset": "island", "space": str(tiny_space), "settings": SMALL}

        async def cancel(mode: str) -> None:
            """By a notification, as of earlier versions of the protocol, or by closing the stream of the reply."""
            async with (
                create_mcp_http_client(headers=bearer) as http,
                Client(streamable_http_client(url, http_client=http), mode=mode) as client,
            ):
                before = len(model.log)
                searching = asyncio.create_task(client.call_tool("search", about))
                await wait_until(lambda: len(model.log) > before + 5)
                searching.cancel()
                sent = -1
                async with asyncio.timeout(PATIENCE):
                    while sent != len(model.log):
                        sent = len(model.log)
                        await asyncio.sleep(1.0)

        async def go() -> None:
            await cancel("legacy")
            await cancel("auto")
            async with (
                create_mcp_http_client(headers=bearer) as http,
                Client(streamable_http_client(url, http_client=http)) as client,
            ):
                before = len(model.log)
                planned = await asked(client)("plan", **about)
                assert "requests" in planned["decision"]
                searching = asyncio.create_task(client.call_tool("search", about))
                await wait_until(lambda: len(model.log) > before + 5)
                process.send_signal(signal.SIGTERM)
                ended = await searching
                assert "the search was stopped" in ended.content[0].text  # type: ignore[union-attr]

        run(go())
        _, log = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0
        assert TOKEN not in log
        assert json.loads(log.splitlines()[-1])["event"] == "stopped"


def test_an_agent_over_http_without_a_token_answers_this_machine_alone(
    tmp_path: Path, tiny_folder: Path, spawn: Spawn
) -> None:
    process = spawn(
        "agent", "--dataset", tiny_folder, "--cache", tmp_path / "c.sqlite", "--http", "--port", 0, "--json"
    )
    url = address_of(process)
    rebound = httpx.post(url, json={}, headers={"Host": "attacker.example"})
    assert (rebound.status_code, rebound.json()["error"]["code"]) == (403, "unknown_host")

    async def go() -> None:
        async with Client(url) as client:
            assert (await asked(client)("status"))["decision"].startswith("data sets: island")

    run(go())


def test_an_agent_that_could_spend_without_a_limit_is_not_served(
    ragsmith: Callable[..., Any], tiny_folder: Path, tmp_path: Path
) -> None:
    got = ragsmith("agent", "--dataset", tiny_folder, "--llm", "openai:tiny", "--base-url", "http://127.0.0.1:9/v1")
    assert (got.code, got.err) == (
        2,
        "error: the agent could spend any amount on openai:tiny: set --max-calls or --max-cost\n",
    )
    public = ragsmith(
        "agent", "--dataset", tiny_folder, "--http", "--host", "0.0.0.0", "--port", 0, "--cache", tmp_path / "c.sqlite"
    )
    assert public.code == 2
    assert "give a token" in public.err


def test_a_served_pipeline_has_its_tools_over_http_too(winner: Path, tmp_path: Path, spawn: Spawn) -> None:
    secret = tmp_path / "token"
    secret.write_text(TOKEN)
    process = spawn("serve", winner, "--port", 0, "--json", "--token-file", secret)
    url, question = f"{address_of(process)}mcp", "When does the ferry to Marrow leave?"
    assert httpx.post(url, json={}).status_code == 401
    assert httpx.post(url, json={}, headers={"Authorization": f"Bearer {TOKEN}x"}).status_code == 401
    large = httpx.post(url, content=b"x" * (2 << 20), headers={"Authorization": f"Bearer {TOKEN}"})
    assert large.status_code == 413

    async def go(url: str) -> None:
        async with (
            create_mcp_http_client(headers={"Authorization": f"Bearer {TOKEN}"}) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            assert [tool.name for tool in (await client.list_tools()).tools] == ["ask", "retrieve", "explain"]
            answers = await asyncio.gather(*(client.call_tool("ask", {"question": question}) for _ in range(4)))
            assert {answer.structured_content["answer"] for answer in answers} == {  # type: ignore[index]
                ragsmith.ask(winner, question).answer
            }
            wrong = await client.call_tool("ask", {"question": " "})
            assert wrong.is_error

    run(go(url))
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert time.monotonic() - began < PATIENCE
