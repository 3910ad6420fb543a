"""The parsers of the prompts: what is in the form is read as it stands, and all else is an error, never a guess."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsmith.labelling.drafting import checks
from ragsmith.labelling.drafting.registry import METHODS
from ragsmith.labelling.drafting.replies import MAX_QUESTIONS, DraftReply

TEXTS = st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1).filter(lambda t: any(map(str.isalnum, t)))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
LONG = "one two three four five six seven eight nine ten eleven twelve thirteen"

Parse = Callable[[str], Any]
DRAFTING = {method.name: method for method in METHODS}
PARSERS: dict[str, Parse] = {method.name: method.parse for method in METHODS} | {
    checks.CLOSED_BOOK_NAME: checks.parse_closed_book,
    checks.ROUND_TRIP_NAME: checks.parse_round_trip,
}


def valid_item(name: str, question: str = "How long is it?", answer: str = LONG, quote: str = "It is long.") -> Any:
    """A question in the form that a prompt asks for."""
    if name == "near_misses":
        return {"question": question, "missing": answer}
    quotes = [{"text": number, "words": quote} for number in (1, 2)] if name == "multi_document" else [quote]
    return {"question": question, "answer": answer, "quotes": quotes}


def valid(name: str) -> str:
    """A reply that can be read."""
    if name == checks.CLOSED_BOOK_NAME:
        return '{"known": true, "answer": "A week."}'
    if name == checks.ROUND_TRIP_NAME:
        return '{"text": 2, "words": "It takes a week."}'
    return json.dumps({"questions": [valid_item(name)]})


def read(name: str, reply: str) -> Any:
    """What a parser makes of a reply; None where it refuses it in the way that it should."""
    try:
        return PARSERS[name](reply)
    except ValueError:
        return None


def is_right(name: str, found: Any) -> bool:
    """Whether what was read is something that drafting can go on with, whatever the reply was."""
    if name == checks.CLOSED_BOOK_NAME:
        return isinstance(found, str)
    if name == checks.ROUND_TRIP_NAME:
        number, words = found
        return 0 <= number <= checks.MAX_PASSAGES and bool(words.strip()) == (number > 0)
    answerable = DRAFTING[name].answerable
    return len(found) <= MAX_QUESTIONS and all(
        isinstance(one, DraftReply)
        and one.question.strip()
        and one.answer.strip()
        and bool(one.quotes) == answerable
        and all(words.strip() for _, words in one.quotes)
        for one in found
    )


@pytest.mark.parametrize("name", PARSERS)
@given(reply=st.text() | JSON.map(json.dumps))
def test_whatever_comes_is_read_or_refused(name: str, reply: str) -> None:
    found = read(name, reply)
    assert found is None or is_right(name, found)


@pytest.mark.parametrize("name", PARSERS)
@given(data=st.data())
def test_a_reply_that_was_spoilt_is_read_or_refused(name: str, data: st.DataObject) -> None:
    reply = valid(name)
    start = data.draw(st.integers(0, len(reply)))
    end = data.draw(st.integers(start, len(reply)))
    found = read(name, reply[:start] + data.draw(st.text(max_size=8)) + reply[end:])
    assert found is None or is_right(name, found)


@pytest.mark.parametrize("name", PARSERS)
@given(cut=st.integers(min_value=1))
def test_a_reply_that_was_cut_is_refused(name: str, cut: int) -> None:
    reply = valid(name)
    with pytest.raises(ValueError, match="JSON"):
        PARSERS[name](reply[: -min(cut, len(reply) - 1)])


@pytest.mark.parametrize("name", PARSERS)
@given(data=st.data())
def test_no_value_may_be_of_another_kind(name: str, data: st.DataObject) -> None:
    tree = json.loads(valid(name))
    places = list(leaves(tree))
    path = data.draw(st.sampled_from(places))
    was = tree
    for step in path[:-1]:
        was = was[step]
    other = data.draw(JSON.filter(lambda value: type(value) is not type(was[path[-1]])))
    was[path[-1]] = other
    with pytest.raises(ValueError):  # noqa: PT011  which it is depends on the place
        PARSERS[name](json.dumps(tree))


def leaves(tree: Any, path: tuple[Any, ...] = ()) -> Any:
    """The ways to all values in a reply."""
    children = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for step, child in children:
        yield (*path, step)
        yield from leaves(child, (*path, step))


@pytest.mark.parametrize("name", DRAFTING)
@given(question=TEXTS, quote=TEXTS)
def test_words_come_through_as_they_were_written(name: str, question: str, quote: str) -> None:
    reply = json.dumps({"questions": [valid_item(name, question=question, quote=quote)]})
    [written] = PARSERS[name](reply)
    assert written.question == " ".join(question.split())
    assert {words for _, words in written.quotes} <= {quote}


@pytest.mark.parametrize("name", PARSERS)
@pytest.mark.parametrize(
    "around",
    ["{}", "```json\n{}\n```", "<think>I need a question.</think>\n{}", "Sure! Here you go:\n\n{}", "  {}\n\n"],
)
def test_what_models_put_around_a_reply_is_dropped(name: str, around: str) -> None:
    assert PARSERS[name](around.replace("{}", valid(name))) == PARSERS[name](valid(name))


@pytest.mark.parametrize("name", DRAFTING)
def test_no_question_is_an_answer(name: str) -> None:
    assert PARSERS[name]('{"questions": []}') == ()


@pytest.mark.parametrize(
    ("name", "reply", "problem"),
    [
        ("factual", "I would rather not.", "not JSON"),
        ("factual", "[" * 100_000, "nested"),
        ("factual", '{"questions": [], "questions": []}', "twice"),
        ("factual", '{"questions": [], "note": "none"}', "keys questions"),
        ("factual", json.dumps({"questions": [valid_item("factual")] * (MAX_QUESTIONS + 1)}), "at most"),
        ("factual", json.dumps({"questions": [valid_item("factual", question=" ")]}), "blank"),
        ("factual", json.dumps({"questions": [valid_item("factual", quote="...")]}), "blank"),
        ("factual", json.dumps({"questions": [valid_item("factual", answer="a\ud800")]}), "no text"),
        ("factual", json.dumps({"questions": [{**valid_item("factual"), "quotes": []}]}), "at least one"),
        ("factual", json.dumps({"questions": [{"question": "Why?", "answer": "So."}]}), "keys"),
        (
            "long_answer",
            json.dumps({"questions": [valid_item("long_answer", answer="A week.")]}),
            "fewer than 12 words",
        ),
        ("multi_document", json.dumps({"questions": [valid_item("factual")]}), "object"),
        (
            "multi_document",
            json.dumps({"questions": [{**valid_item("factual"), "quotes": [{"text": 1, "words": "It is."}]}]}),
            "both texts",
        ),
        ("multi_document", valid("multi_document").replace('"text": 2', '"text": 3'), "expected 1 or 2"),
        ("multi_document", valid("multi_document").replace('"text": 2', '"text": true'), "expected 1 or 2"),
        ("near_misses", json.dumps({"questions": [valid_item("factual")]}), "question, missing"),
        ("closed_book", '{"known": false, "answer": "A week."}', "not known"),
        ("closed_book", '{"known": "no", "answer": ""}', "true or false"),
        ("closed_book", '{"known": true, "answer": ""}', "blank"),
        ("round_trip", '{"text": 0, "words": "A week."}', "none answers"),
        ("round_trip", '{"text": 5, "words": "A week."}', "0 to 4"),
        ("round_trip", '{"text": 1, "words": ""}', "blank"),
    ],
)
def test_what_is_wrong_is_said(name: str, reply: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        PARSERS[name](reply)
