"""How much is asked at once, and when a provider counts as down: worked instants on a clock that the tests hold."""

from __future__ import annotations

import asyncio

from ragsmith.models.served.policy import CircuitBreaker, Limiter, Policy


def test_a_pause_halves_the_slots_once_for_all_who_were_under_way() -> None:
    limiter = Limiter(9)
    for now in (2.0, 2.1, 2.2):
        limiter.pause_for(1.0, sent=1.0, now=now)
    assert limiter.slots == 4
    for sent in (3.0, 4.0, 5.0):
        limiter.pause_for(1.0, sent=sent, now=sent + 0.5)
    assert limiter.slots == 1


def test_as_many_hold_a_slot_as_there_are() -> None:
    async def most(limiter: Limiter, tasks: int) -> int:
        held = highest = 0

        async def one() -> None:
            nonlocal held, highest
            async with limiter.slot():
                held += 1
                highest = max(highest, held)
                await asyncio.sleep(0)
                held -= 1

        await asyncio.gather(*(one() for _ in range(tasks)))
        return highest

    async def story() -> list[int]:
        limiter = Limiter(8)
        found = [await most(limiter, 20)]
        async with limiter.slot(), limiter.slot():  # two in flight are asked to wait
            limiter.pause_for(0.0, sent=0.0, now=1.0)
        await most(limiter, 20)  # surplus slots go as they become free
        found.append(await most(limiter, 20))
        for _ in range(9):
            limiter.succeeded()
        found.append(await most(limiter, 20))
        return found

    assert asyncio.run(story()) == [8, 4, 8]


POLICY = Policy(failures_in_a_row=3, silence=30.0, cooldown=10.0)


def test_a_success_begins_a_new_row() -> None:
    breaker = CircuitBreaker(POLICY)
    for now in (1.0, 2.0):
        breaker.record_failed_request(now)
    breaker.record_answer(2.5)
    for now in (3.0, 4.0):
        breaker.record_failed_request(now)
    assert breaker.suspicion == ""


def test_silence_raises_one_once_several_requests_have_failed() -> None:
    breaker = CircuitBreaker(POLICY)
    for request in "aab":
        breaker.record_failure(request, sent=0.0, now=31.0)
    assert breaker.suspicion == ""  # two requests that may have something in common
    breaker.record_failure("c", sent=5.0, now=31.0)
    assert breaker.suspicion == "only failures for 31 s"


def test_silence_is_counted_from_the_last_success() -> None:
    breaker = CircuitBreaker(POLICY)
    breaker.record_answer(20.0)
    for request in "abc":
        breaker.record_failure(request, sent=0.0, now=49.0)
    assert breaker.suspicion == ""
    breaker.record_failure("d", sent=40.0, now=50.0)
    assert breaker.suspicion == "only failures for 30 s"


def test_a_requested_pause_is_no_silence() -> None:
    breaker = CircuitBreaker(POLICY)
    for request in "abcd":
        breaker.record_failure(request, sent=0.0, now=1.0, pause=40.0)  # four times the same 40 seconds
    breaker.record_failure("a", sent=41.0, now=42.0)
    assert breaker.suspicion == ""
    breaker.record_failure("a", sent=60.0, now=60.0)  # but in all it may last twice as long
    assert breaker.suspicion == "only failures for 60 s"


def test_a_further_pause_that_would_take_too_long_is_not_waited_for() -> None:
    breaker = CircuitBreaker(POLICY)
    for request in "abc":
        breaker.record_failure(request, sent=0.0, now=1.0, pause=35.0)
    breaker.record_failure("a", sent=36.0, now=36.0, pause=35.0, alone=False)
    assert breaker.suspicion == ""  # others are under way, and may be answered
    breaker.record_failure("b", sent=36.0, now=36.0, pause=35.0, alone=True)
    assert breaker.suspicion == "only failures for 36 s"


def test_a_suspicion_that_was_wrong_is_not_raised_again_at_once() -> None:
    breaker = CircuitBreaker(POLICY)
    for _ in range(3):
        breaker.record_failed_request(1.0)
    breaker.clear_suspicion(1.0)
    assert breaker.suspicion == ""
    for now in (2.0, 3.0, 10.9):
        breaker.record_failed_request(now)
    assert breaker.suspicion == ""
    breaker.record_failed_request(11.0)
    assert breaker.suspicion == "4 requests in a row failed"


def test_an_answer_in_the_meantime_goes_before_a_probe_that_failed() -> None:
    breaker = CircuitBreaker(POLICY)
    for _ in range(3):
        breaker.record_failed_request(1.0)
    breaker.record_answer(1.5)
    breaker.open(2.0, "HTTP 503")
    assert breaker.open_reason(2.0) == ""


def test_it_knows_since_when_and_how() -> None:
    breaker = CircuitBreaker(POLICY)
    for n in range(3):
        breaker.record_failure(n, sent=1.0 + n, now=5.0 + n, kind=f"HTTP 50{n}")
        breaker.record_failed_request(5.0 + n)
    assert (breaker.since, breaker.kind) == (1.0, "HTTP 502")


def test_the_longest_pause_holds() -> None:
    limiter = Limiter(4)
    assert limiter.remaining(5.0) == 0.0
    limiter.pause_for(3.0, sent=4.0, now=5.0)
    limiter.pause_for(1.0, sent=4.0, now=6.0)
    assert limiter.remaining(6.0) == 2.0
    assert limiter.remaining(8.5) == 0.0
