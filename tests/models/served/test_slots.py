"""Servers as they are: slots and deadlines that are learnt, on a clock that jumps, and on the loopback interface."""

from __future__ import annotations

import asyncio
import json
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import ClassVar

import pytest
from fault_server import FaultServer
from served_slots import VirtualProvider, measure
from virtual_time import SlottedServer, run_virtually

from ragsmith.errors import ModelError
from ragsmith.models.served.json_endpoint import JsonEndpoint
from ragsmith.models.served.openai_chat import OpenAIChat
from ragsmith.models.served.policy import Limiter, Policy
from ragsmith.models.served.provider import Provider
from ragsmith.models.served.reply_wait import is_private


class WatchedProvider(Provider):
    """A provider of a server that is alive; ``asked`` holds the times at which it was asked for a sign of that."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.asked: list[float] = []

    async def _get(self, url: str) -> bytes | None:
        if url.endswith("/models"):
            self.asked.append(asyncio.get_running_loop().time())
        return b""


@pytest.mark.parametrize("slots", [1, 2, 8])
@pytest.mark.parametrize(("least", "most"), [(5.0, 5.0), (120.0, 120.0), (5.0, 120.0)])
def test_all_slots_are_used_and_nothing_is_asked_twice(slots: int, least: float, most: float) -> None:
    for tells in (True, False):
        found = run_virtually(measure(slots, least, most, replies=300, seed=0, tells=tells))
        assert found.steady >= 0.9
        assert (found.retries, found.left) == (0, 0)
        if tells:
            assert found.share >= 0.9
            assert found.most_in_flight == slots


def test_the_first_request_is_alone_and_few_follow() -> None:
    async def story() -> list[int]:
        server, provider = SlottedServer(100, 60.0, 60.0), VirtualProvider()
        requests = [asyncio.ensure_future(provider.send_async(server.reply, "m")) for _ in range(40)]
        found = []
        for seconds in (50.0, 60.0):
            await asyncio.sleep(seconds)
            found.append(provider.activity.in_flight)
        await asyncio.gather(*requests)
        return found

    assert run_virtually(story()) == [1, 2]


def test_a_server_that_gives_no_sign_of_life_is_not_waited_for() -> None:
    class Dead(VirtualProvider):
        async def _get(self, url: str) -> bytes | None:
            return None

    async def story() -> float:
        server, provider = SlottedServer(1, 9000.0, 9000.0), Dead()
        with pytest.raises(
            ModelError,
            match=r"within 45 s with 1 in flight, none came before: set a longer `deadline` or a smaller `in_flight` "
            r"of the model \(for the --llm: --deadline, --in-flight\) \(attempts: 5\)",
        ):
            await provider.send_async(server.reply, "m")
        assert server.left == provider.activity.attempts == 5
        return asyncio.get_running_loop().time()

    assert run_virtually(story()) < 5 * 45 + 60


@pytest.mark.parametrize(("replies", "limit"), [((), 600), ((20,), 600), ((500,), 2000), ((500, 1000), 2400)])
def test_a_private_server_that_lives_is_asked_at_intervals_and_waited_for_once(
    replies: tuple[int, ...], limit: int
) -> None:
    async def story() -> list[float]:
        provider, server = WatchedProvider("http://127.0.0.1:1/v1"), SlottedServer(1, 9000.0, 9000.0)
        for seconds in replies:
            await provider.send_async(SlottedServer(1, seconds, seconds).reply, "m")
        provider.asked.clear()
        with pytest.raises(ModelError, match=rf"no complete reply within {limit} s .* \(attempts: 1\)$"):
            await provider.send_async(server.reply, "m")
        assert server.left == 1
        assert asyncio.get_running_loop().time() == pytest.approx(sum(replies) + limit)
        return provider.asked

    assert run_virtually(story()) == pytest.approx([sum(replies) + late for late in range(45, limit, 45)])


def test_a_public_server_is_not_waited_for_because_its_front_answers() -> None:
    async def story() -> None:
        provider, server = WatchedProvider("https://api.example.com/v1"), SlottedServer(1, 9000.0, 9000.0)
        with pytest.raises(ModelError, match=r"no complete reply within 45 s .* \(attempts: 5\)$"):
            await provider.send_async(server.reply, "m")
        await provider.send_async(SlottedServer(1, 40.0, 40.0).reply, "m")
        with pytest.raises(ModelError, match=r"no complete reply within 160 s .* \(attempts: 5\)$"):
            await provider.send_async(server.reply, "m")
        assert (provider.asked, server.left) == ([], 10)

    run_virtually(story())


def test_a_reply_that_comes_while_a_server_gives_no_sign_of_life_is_kept() -> None:
    class Busy(VirtualProvider):
        async def _get(self, url: str) -> bytes | None:
            await asyncio.sleep(5.0)
            return None

    async def story() -> int:
        provider = Busy()
        assert await provider.send_async(SlottedServer(1, 47.0, 47.0).reply, "m") == "done"
        return provider.activity.attempts

    assert run_virtually(story()) == 1


def test_a_deadline_that_is_set_holds_although_the_server_lives() -> None:
    async def story() -> None:
        provider = Provider("http://127.0.0.1:1/v1", Policy(in_flight=1, deadline=10.0, attempts=1))
        with pytest.raises(ModelError, match="no complete reply within 10 s"):
            await provider.send_async(SlottedServer(1, 60.0, 60.0).reply, "m")

    run_virtually(story())


def test_slots_that_a_server_takes_away_are_given_up() -> None:
    limiter = Limiter(32, learning=True)
    while limiter.slots < 8:
        limiter.succeeded(limiter.slots, 10.0)
    for _ in range(500):  # four of the eight are gone
        limiter.succeeded(limiter.slots, 10.0 * max(1.0, limiter.slots / 4))
    assert limiter.slots in (4, 8)


def test_a_growth_that_held_ends_the_wait_for_the_next_one() -> None:
    def count_replies(limiter: Limiter, slots: int) -> int:
        for n in range(10_000):
            if limiter.slots == slots:
                return n
            limiter.succeeded(limiter.slots, 10.0)
        raise AssertionError(limiter.slots)

    limiter = Limiter(32, learning=True)
    count_replies(limiter, 4)
    for _ in range(1000):  # four slots are busy with other work for a while
        limiter.succeeded(limiter.slots, 10.0 * max(1.0, limiter.slots / 4))
    count_replies(limiter, 8)
    assert count_replies(limiter, 32) == 8 + 16


def test_replies_to_fewer_requests_say_nothing_about_slots() -> None:
    limiter = Limiter(32, learning=True)
    limiter.succeeded(1, 1.0)
    for _ in range(100):
        limiter.succeeded(1, 1.0)
    assert limiter.slots == 2


@pytest.mark.parametrize(
    ("url", "private"),
    [
        ("http://127.0.0.1:8080/v1", True),
        ("http://[::1]:8080", True),
        ("http://localhost:11434/v1", True),
        ("http://192.168.1.7/v1", True),
        ("http://judge:8000/v1", True),
        ("http://gpu.local/v1", True),
        ("https://api.openai.com/v1", False),
        ("https://8.8.8.8/v1", False),
        ("http://[::1/v1", False),
    ],
)
def test_private_addresses_are_known(url: str, private: bool) -> None:
    assert is_private(url) is private


@pytest.mark.parametrize("tells", [True, False])
def test_a_server_on_the_loopback_interface_is_asked_for_its_slots(tells: bool) -> None:
    with FaultServer(latency=0.02, slots=2, tells_slots=tells) as server:
        chat = OpenAIChat("tiny", endpoint=JsonEndpoint(server.url))
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda n: chat.complete(f"Say {n}.", max_tokens=9, sample=0), range(40)))
        chat.provider.close()
        assert len(server.log) == 40
        assert server.most_in_flight <= (2 if tells else 16)
        assert server.most_in_flight >= 2
        assert chat.provider.activity.retries == 0


class _OneThread(BaseHTTPRequestHandler):
    """Answers requests in turn, and nothing else meanwhile, as the server of llama-cpp-python does."""

    asked: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        self.asked.append(self.path)
        self.rfile.read(int(self.headers["content-length"]))
        time.sleep(1.0)
        message = {"message": {"role": "assistant", "content": "Four."}, "finish_reason": "stop"}
        body = json.dumps({"model": "tiny", "choices": [message]}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.send_error(404)

    def log_message(self, *args: object) -> None:
        """Keep quiet."""


def test_a_private_server_that_answers_nothing_else_meanwhile_is_waited_for() -> None:
    with HTTPServer(("127.0.0.1", 0), _OneThread) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        policy = Policy(patience=0.3, probe_deadline=0.1)
        chat = OpenAIChat("tiny", endpoint=JsonEndpoint(f"http://127.0.0.1:{server.server_port}/v1", policy=policy))
        try:
            assert chat.complete("Say a number.", max_tokens=9, sample=0).text == "Four."
        finally:
            chat.provider.close()
            server.shutdown()
            thread.join()
    assert _OneThread.asked == ["/v1/chat/completions"]
