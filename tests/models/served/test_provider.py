"""Providers, with attempts that the tests make up: retries, pauses, limits, and the end of all patience."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from ragsmith.errors import ModelError, ModelUnavailable, ProviderTrouble, RefusedContent, TooLong, Unreadable
from ragsmith.models.served.policy import AccessRefused, Policy, RequestRejected, TransientFailure, UnusableReply
from ragsmith.models.served.provider import Provider
from ragsmith.models.usage import Usage

QUICK = Policy(attempts=3, pause=0.001, deadline=0.2, in_flight=4, longest_wait=1.0)


class Attempts:
    """Attempts that fail in turn with the errors given, and then give ``result``; ``sent`` holds their instants."""

    def __init__(self, *failures: Exception, result: str = "done", seconds: float = 0.0) -> None:
        self._failures = list(failures)
        self._result, self._seconds = result, seconds
        self.sent: list[float] = []
        self.now = self.most = 0

    async def __call__(self) -> str:
        self.sent.append(time.monotonic())
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await asyncio.sleep(self._seconds)
        finally:
            self.now -= 1
        if self._failures:
            raise self._failures.pop(0)
        return self._result


@pytest.fixture
def provider() -> Iterator[Provider]:
    provider = Provider("host", QUICK)
    yield provider
    provider.close()


def failures(n: int) -> list[Exception]:
    return [TransientFailure(f"trouble {i}") for i in range(1, n + 1)]


def test_what_may_pass_is_tried_again(provider: Provider) -> None:
    attempts = Attempts(*failures(2))
    assert provider.send(attempts, what="m") == "done"
    assert len(attempts.sent) == 3
    assert (provider.activity.attempts, provider.activity.retries, provider.activity.in_flight) == (3, 2, 0)


@pytest.mark.parametrize(
    ("failure", "raised"),
    [
        (RequestRejected("no"), RefusedContent),
        (RequestRejected("no", TooLong), TooLong),
        (AccessRefused("no"), ModelUnavailable),
    ],
)
def test_a_refusal_is_final(provider: Provider, failure: Exception, raised: type[Exception]) -> None:
    attempts = Attempts(failure)
    with pytest.raises(raised, match=r"^m: no$"):
        provider.send(attempts, what="m")
    assert len(attempts.sent) == 1


def test_pauses_grow() -> None:
    provider = Provider("host", Policy(attempts=4, pause=0.04))
    attempts = Attempts(*failures(3))
    provider.send(attempts, what="m")
    pauses = [after - before for before, after in zip(attempts.sent, attempts.sent[1:], strict=False)]
    for pause, least in zip(pauses, (0.02, 0.04, 0.08), strict=True):
        assert pause >= least
    provider.close()


def test_no_more_than_so_many_are_in_flight(provider: Provider) -> None:
    attempts = Attempts(seconds=0.02)
    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(lambda _: provider.send(attempts, what="m"), range(32))) == ["done"] * 32
    assert attempts.most == 4


def test_a_pause_asked_of_one_request_holds_for_all(provider: Provider) -> None:
    told, others = Attempts(TransientFailure("HTTP 429", 0.3)), Attempts()
    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(provider.send, told, what="m")
        while not provider.activity.waiting_until:
            time.sleep(0.001)
        rest = [pool.submit(provider.send, others, what="m") for _ in range(7)]
        assert [future.result() for future in (first, *rest)] == ["done"] * 8
    until = provider.activity.waiting_until
    assert until >= told.sent[0] + 0.3
    assert min(told.sent[1], *others.sent) >= until


def test_a_pause_that_is_too_long_ends_the_run(provider: Provider) -> None:
    attempts = Attempts(TransientFailure("HTTP 429", 3600.0))
    with pytest.raises(ModelUnavailable, match="host asks to wait for 3600 s: run the same command again"):
        provider.send(attempts, what="m")
    with pytest.raises(ModelUnavailable, match="asks to wait"):
        provider.send(attempts, what="m")
    assert len(attempts.sent) == 1


def test_no_request_is_sent_to_a_provider_that_is_down() -> None:
    provider = Provider("host", Policy(attempts=2, pause=0.0, failures_in_a_row=3, cooldown=0.2))
    attempts = Attempts(*failures(6))
    for _ in range(2):
        with pytest.raises(ModelError):
            provider.send(attempts, what="m")
    with pytest.raises(
        ModelUnavailable, match=r"host seems to be down \(trouble 6 since [\d:]{8}: 3 requests in a row"
    ):
        provider.send(attempts, what="m")
    with pytest.raises(ModelUnavailable, match="seems to be down"):
        provider.send(attempts, what="m")
    assert len(attempts.sent) == 6
    time.sleep(0.2)
    assert provider.send(attempts, what="m") == "done"
    provider.close()


def test_replies_of_no_use_are_asked_for_a_few_times_and_never_make_a_provider_suspect() -> None:
    provider = Provider("host", Policy(attempts=5, replies=3, pause=0.0, failures_in_a_row=2))
    attempts = Attempts(*[UnusableReply("no text") for _ in range(30)])
    for _ in range(10):
        with pytest.raises(Unreadable, match=r"^m: no text \(attempts: 3\)$") as raised:
            provider.send(attempts, what="m", probe=Attempts(TransientFailure("HTTP 503")))
        assert raised.value.calls == 3
    assert len(attempts.sent) == 30
    provider.close()


@pytest.mark.parametrize(
    ("last", "error", "tokens"),
    [
        (UnusableReply("no text", Usage(1, 0, 0, 4, 2)), Unreadable, (7, 3)),
        (RequestRejected("no"), RefusedContent, (3, 1)),
    ],
)
def test_what_replies_of_no_use_cost_goes_with_the_error(
    last: Exception, error: type[ModelError], tokens: tuple[int, int]
) -> None:
    provider = Provider("host", Policy(pause=0.0))
    lost: list[Usage] = []
    provider.on_billable_failure = lost.append
    attempts = Attempts(UnusableReply("no text", Usage(1, 0, 0, 3, 1)), UnusableReply("no JSON"), last)
    with pytest.raises(error) as raised:
        provider.send(attempts, what="m")
    assert (raised.value.calls, raised.value.input_tokens, raised.value.output_tokens) == (3, *tokens)
    assert sum(usage.input_tokens for usage in lost) == tokens[0]
    provider.close()


def test_a_reply_of_no_use_among_failures_of_the_server_is_no_verdict_on_the_request(provider: Provider) -> None:
    attempts = Attempts(TransientFailure("HTTP 500"), TransientFailure("HTTP 500"), UnusableReply("no text"))
    with pytest.raises(ModelError) as raised:
        provider.send(attempts, what="m")
    assert type(raised.value) is ProviderTrouble


def suspected(**policy: float) -> Provider:
    """A provider that has failed so many requests in a row that the next makes it suspect."""
    provider = Provider("host", Policy(attempts=1, failures_in_a_row=3, **policy))  # type: ignore[arg-type]
    for _ in range(2):
        with pytest.raises(ModelError):
            provider.send(Attempts(TransientFailure("HTTP 500")), what="m")
    return provider


@pytest.mark.parametrize("answer", [None, RequestRejected("no"), UnusableReply("no text"), AccessRefused("no")])
def test_requests_that_fail_alone_do_not_stop_others_while_a_probe_is_answered(answer: Exception | None) -> None:
    provider = suspected()
    probe = Attempts(*[answer] if answer else [])
    for _ in range(4):
        with pytest.raises(ModelError):
            provider.send(Attempts(TransientFailure("HTTP 500")), what="m", probe=probe)
    assert provider.send(Attempts(), what="m") == "done"
    assert len(probe.sent) == 1
    assert provider.activity.attempts == 2 + 4 + 1 + 1
    provider.close()


@pytest.mark.parametrize(
    ("probe", "kind"),
    [
        (Attempts(*[TransientFailure("no answer", kind="no connection")] * 3), "no connection"),
        (Attempts(seconds=60), "no reply in"),
    ],
)
def test_a_probe_that_fails_too_says_what_is_wrong(probe: Attempts, kind: str) -> None:
    provider = suspected(probe_deadline=0.05, pause=0.01)
    for _ in range(2):
        with pytest.raises(ModelUnavailable, match=rf"host seems to be down \({kind}.* since [\d:]{{8}}: 3 requests"):
            provider.send(Attempts(TransientFailure("HTTP 500")), what="m", probe=probe)
    assert len(probe.sent) == 3
    provider.close()


def test_one_probe_without_an_answer_does_not_stop_a_provider() -> None:
    provider, probe = suspected(pause=0.01), Attempts(TransientFailure("HTTP 502"), TransientFailure("a page"))
    with pytest.raises(ProviderTrouble, match="HTTP 500"):
        provider.send(Attempts(TransientFailure("HTTP 500")), what="m", probe=probe)
    assert len(probe.sent) == 3
    assert provider.send(Attempts(), what="m") == "done"
    provider.close()


def test_many_who_suspect_a_provider_send_one_probe() -> None:
    provider, probe = suspected(), Attempts(seconds=0.1)
    failing = [Attempts(TransientFailure("HTTP 500"), seconds=0.01) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(provider.send, attempt, what="m", probe=probe) for attempt in failing]
        assert all(type(future.exception()) is ProviderTrouble for future in futures)
    assert len(probe.sent) == 1
    provider.close()


def test_a_provider_that_asks_to_wait_is_not_probed_before() -> None:
    provider = Provider("host", Policy(attempts=1, pauses=2, silence=0.1, longest_wait=9.0))
    probe = Attempts()
    with ThreadPoolExecutor(3) as pool:
        told = [Attempts(*[TransientFailure("busy", 0.15, kind="HTTP 429")] * 9) for _ in range(3)]
        futures = [pool.submit(provider.send, attempt, what="m", probe=probe) for attempt in told]
        messages = [str(future.exception()) for future in futures]
    assert any("seems to be down (HTTP 429 since" in message for message in messages), messages
    assert probe.sent == []
    provider.close()


def test_a_silent_provider_stops_all_who_wait_for_it() -> None:
    provider = Provider("host", Policy(attempts=9, pause=30.0, deadline=0.1, silence=0.1))
    started = time.monotonic()
    with ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(provider.send, Attempts(seconds=60), what="m") for _ in range(8)]
        assert all(isinstance(future.exception(), ModelUnavailable) for future in futures)
    assert time.monotonic() - started < 10
    provider.close()


def test_closing_ends_who_waits() -> None:
    provider = Provider("host", Policy())
    attempts = Attempts(seconds=60)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(provider.send, attempts, what="m")
        while not attempts.now:
            time.sleep(0.001)
        provider.close()
        assert isinstance(future.exception(), ModelUnavailable)
    with pytest.raises(ModelUnavailable, match="was closed"):
        provider.send(attempts, what="m")


def test_all_providers_share_one_thread(provider: Provider) -> None:
    other = Provider("other", QUICK)
    before = threading.active_count()
    provider.send(Attempts(), what="m")
    threads = threading.active_count()
    other.send(Attempts(), what="m")
    assert threading.active_count() == threads <= before + 1
    other.close()


def test_a_strict_rate_limit_fails_no_request() -> None:
    """One request in 20 ms is allowed, and earlier ones are asked to wait: all succeed."""
    allowed = time.monotonic()
    provider = Provider("host", Policy(attempts=5, pause=0.001))

    async def limited() -> str:
        nonlocal allowed
        await asyncio.sleep(0.005)
        now = time.monotonic()
        if now < allowed:
            raise TransientFailure("HTTP 429", allowed - now)
        allowed = now + 0.02
        return "done"

    with ThreadPoolExecutor(32) as pool:
        assert list(pool.map(lambda _: provider.send(limited, what="m"), range(64))) == ["done"] * 64
    provider.close()


def test_what_must_be_reserved_is_reserved_before_sending(provider: Provider) -> None:
    left = 2

    def reserve() -> None:
        nonlocal left
        if left == 0:
            raise LookupError("the budget is exhausted")
        left -= 1

    provider.on_attempt = reserve
    attempts = Attempts(*failures(9))
    with pytest.raises(LookupError, match="the budget is exhausted"):
        provider.send(attempts, what="m")
    assert len(attempts.sent) == 2
