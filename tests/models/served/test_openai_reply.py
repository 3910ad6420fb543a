"""What is believed of a reply: its text without thoughts, how it ended, what it cost, and who wrote it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fault_kinds import completion
from rows import rows

from ragsmith.models.served.openai_reply import MOST_CHARACTERS_A_TOKEN, RequestedModel, is_same_model, read_reply
from ragsmith.models.served.policy import AccessRefused, AttemptFailed, TransientFailure

ASKED = RequestedModel("tiny", "What is due?", 100)


def reply(message: dict[str, Any] | str, finish: str = "stop", **more: Any) -> dict[str, Any]:
    said = {"content": message} if isinstance(message, str) else message
    return {**completion("", finish_reason=finish, message=said), **more}


def usage(**counts: Any) -> dict[str, Any]:
    return reply("Four.", usage={f"{name}_tokens": count for name, count in counts.items()})


@pytest.mark.parametrize(
    ("bad", "counts", "stated"),
    [
        (reply(""), {"prompt_tokens": 4, "completion_tokens": 2}, (4, 2)),
        (reply("Four.", "no reason"), {"prompt_tokens": 4, "completion_tokens": 2}, (4, 2)),
        (reply("", "content_filter"), {"prompt_tokens": 4}, (4, 0)),
        ({}, {"prompt_tokens": 4, "completion_tokens": 2}, (4, 2)),
        (reply(""), {"prompt_tokens": 4, "completion_tokens": 10**9}, (0, 0)),
        (reply(""), None, (0, 0)),
    ],
)
def test_a_reply_of_no_use_has_cost_what_the_server_states(bad: Any, counts: Any, stated: tuple[int, int]) -> None:
    with pytest.raises(AttemptFailed) as raised:
        read_reply(ASKED, {**bad, "usage": counts}, 0.5)
    assert raised.value.usage is not None
    assert (raised.value.usage.input_tokens, raised.value.usage.output_tokens) == stated


@pytest.mark.parametrize(
    ("bad", "said"),
    rows("replies that are no answer"),
)
def test_a_reply_that_is_no_answer_is_asked_for_again(bad: Any, said: str) -> None:
    with pytest.raises(TransientFailure, match=said):
        read_reply(ASKED, bad, 0.5)


# --- thoughts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message",
    rows("messages with thoughts"),
)
def test_thoughts_are_no_part_of_a_reply(message: Any) -> None:
    found = read_reply(ASKED, reply(message), 0.5).completion
    assert (found.text.strip(), found.cut_at) == ("Four.", 0)


@pytest.mark.parametrize(
    ("message", "text"),
    rows("messages that were cut"),
)
def test_a_reply_that_reached_its_limit_says_so_and_is_no_trouble_of_the_server(message: Any, text: str) -> None:
    found = read_reply(ASKED, reply(message, "length"), 0.5).completion
    assert (found.text, found.cut_at) == (text, 100)


THINKING = replace(ASKED, thinks=True)


def test_what_a_model_that_thinks_wrote_before_it_was_cut_may_be_thoughts_that_its_template_opened() -> None:
    cut = read_reply(THINKING, reply("Is it three? Or", "length"), 0.5).completion
    assert (cut.text, cut.cut_at) == ("", 100)
    assert read_reply(ASKED, reply("Four is wh", "length"), 0.5).completion.text == "Four is wh"


@pytest.mark.parametrize(
    "shown",
    [
        reply({"content": "Four is wh", "reasoning_content": "Three?"}, "length"),
        reply("Four is wh", "length", usage={"completion_tokens_details": {"reasoning_tokens": 9}}),
        reply("Three?</think>Four is wh", "length"),
        reply("Four is wh"),
    ],
)
def test_a_server_that_tells_thoughts_apart_is_believed(shown: dict[str, Any]) -> None:
    assert read_reply(THINKING, shown, 0.5).completion.text == "Four is wh"


@pytest.mark.parametrize(
    ("text", "so"), [("Three?</think>Four.", True), ("<think>Three?</think>Four.", False), ("Four.", False)]
)
def test_a_reply_that_ends_thoughts_which_it_did_not_begin_says_so(text: str, so: bool) -> None:
    assert read_reply(ASKED, reply(text), 0.5).begins_in_thought is so


def test_a_thought_that_does_not_end_is_a_cut_whatever_the_server_says() -> None:
    assert read_reply(ASKED, reply("<think>\nIs it"), 0.5).completion.cut_at == 100


# --- tokens ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counts", "read", "written"),
    [
        ({"prompt": 12, "completion": 90, "total": 102}, 12, 90),
        ({"prompt": 12, "completion": 3, "total": 95}, 12, 83),  # thoughts are in the total alone
        ({"prompt": 12.0, "completion": 3.0}, 12, 3),
        ({"prompt": 800, "completion": 3}, 800, 3),  # a system prompt of the server's own
        ({"prompt": True, "completion": -3, "total": "many"}, 0, 0),
        ({"prompt": float("inf"), "completion": 1.5}, 0, 0),
    ],
)
def test_a_count_that_can_be_true_is_believed(counts: dict[str, Any], read: int, written: int) -> None:
    found = read_reply(ASKED, usage(**counts), 0.5)
    assert (found.completion.usage.input_tokens, found.completion.usage.output_tokens) == (read, written)
    assert found.odd == {}


@pytest.mark.parametrize("count", [2_000, 6 * 10**9, 9 * 10**18, 10**100])
@pytest.mark.parametrize("name", ["prompt", "completion", "total"])
def test_a_count_beyond_what_the_request_could_use_is_replaced_and_named(name: str, count: int) -> None:
    found = read_reply(ASKED, usage(**{"prompt": 12, "completion": 3, name: count}), 0.5)
    assert found.completion.usage.input_tokens <= 12
    assert found.completion.usage.output_tokens <= 3
    [said] = found.odd.values()
    assert f"{count:,}" in said or f"{count - 12:,}" in said
    assert "estimated" in said


@pytest.mark.parametrize("counts", [{"prompt": 12, "completion": 0}, {"completion": 0}])
def test_a_reply_of_no_tokens_is_counted_here_and_that_is_named(counts: dict[str, int]) -> None:
    found = read_reply(ASKED, usage(**counts), 0.5)
    assert found.completion.usage.output_tokens == 2  # "Four."
    [said] = found.odd.values()
    assert said.startswith("says of a reply of 5 characters that it wrote no tokens: such numbers are estimated here")


# --- length ----------------------------------------------------------------------------------------------------------


def test_a_reply_longer_than_its_tokens_could_hold_is_refused() -> None:
    longest = 100 * MOST_CHARACTERS_A_TOKEN
    assert len(read_reply(ASKED, reply("x" * longest), 0.5).completion.text) == longest
    with pytest.raises(TransientFailure, match=r"12,801 characters, which 100 tokens cannot hold"):
        read_reply(ASKED, reply("x" * (longest + 1)), 0.5)


# --- who wrote it ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "replied", "same"),
    [(*row, True) for row in rows("names of one model")] + [(*row, False) for row in rows("names of two models")],
)
def test_a_dated_or_longer_name_is_the_same_model_and_another_one_is_not(asked: str, replied: str, same: bool) -> None:
    assert is_same_model(asked, replied) is same


@pytest.mark.parametrize("named", [None, 3, "", "tiny", ...])
def test_a_server_that_names_no_model_is_believed(named: Any) -> None:
    assert read_reply(ASKED, reply("Four.", **({} if named is ... else {"model": named})), 0.5).odd == {}


def test_a_reply_by_another_model_is_refused_unless_it_is_accepted() -> None:
    by_other = reply("Four.", model="large-2025-04-14")
    with pytest.raises(AccessRefused, match=r"by another model, 'large-2025-04-14': .* accept_model"):
        read_reply(ASKED, by_other, 0.5)
    for accepts in ("large", "any"):
        found = read_reply(RequestedModel("tiny", "What is due?", 100, accepts), by_other, 0.5)
        assert found.completion.text == "Four."
        assert "large-2025-04-14" in found.odd["model"]
    with pytest.raises(AccessRefused):
        read_reply(RequestedModel("tiny", "What is due?", 100, "small"), by_other, 0.5)
