"""What is learnt of a model, by many threads at once."""

from __future__ import annotations

import time

import pytest

from ragsmith.models.capabilities import FIRST_REQUEST_SECONDS, CapabilityLearner, ModelCapabilities


def test_traits_join_and_come_back_as_they_were_kept() -> None:
    both = ModelCapabilities(frozenset({"seed"}), 512) | ModelCapabilities(frozenset({"temperature"}), 64)
    assert both == ModelCapabilities(frozenset({"seed", "temperature"}), 512)
    assert (both | ModelCapabilities(begins_in_thought=True)) == ModelCapabilities(both.refuses, 512, True)
    for traits in (both, ModelCapabilities(begins_in_thought=True)):
        assert ModelCapabilities.from_dict(traits.to_dict()) == traits
    assert ModelCapabilities.from_dict(both.to_dict()) == both
    known = ModelCapabilities(
        frozenset({"seed"}), 64, begins_in_thought=True, tasks={"judge 1": False}, takes_forms=True
    )
    assert known.without_refusals() == ModelCapabilities(
        frozenset(), 64, begins_in_thought=True, tasks={"judge 1": False}
    )


def test_only_what_is_new_is_kept() -> None:
    learner, kept = CapabilityLearner(), []
    learner.on_change = kept.append
    for traits in (
        ModelCapabilities(),
        ModelCapabilities(),
        ModelCapabilities(thinking_tokens=64),
        ModelCapabilities(thinking_tokens=32),
    ):
        learner.learn(traits)
    assert kept == [ModelCapabilities(), ModelCapabilities(thinking_tokens=64)]  # that it refuses nothing is news once
    known = CapabilityLearner()
    known.keep = kept.append
    known.restore(ModelCapabilities(thinking_tokens=64))
    known.learn(ModelCapabilities(thinking_tokens=64))
    assert len(kept) == 2


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
def test_other_requests_do_not_wait_after_a_first_one_that_failed(kind: type[BaseException]) -> None:
    learner = CapabilityLearner()
    with pytest.raises(kind), learner.request():
        raise kind
    began = time.monotonic()
    with learner.request():
        assert time.monotonic() - began < FIRST_REQUEST_SECONDS / 2
