"""Tasks: how a request is put to a chat model, and how its reply is read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsmith.models.tasks import Input, Task, parse_lines, parse_text


def task(prompt: str) -> Task[str]:
    return Task("echo", prompt, parse_text, lambda model, *, sample, **inputs: f"{model} {sample} {sorted(inputs)}")


def test_inputs_are_filled_in() -> None:
    rendered = task("{question} of {n} and {share}").render({"question": "Who?", "n": 3, "share": 0.5})
    assert rendered == "Who? of 3 and 0.5"


def test_a_tuple_is_shown_as_numbered_blocks() -> None:
    assert task("Read:\n{passages}").render({"passages": ("one", "two")}) == "Read:\n[1] one\n\n[2] two"


def test_a_missing_input_is_named() -> None:
    with pytest.raises(TypeError, match="task 'echo' was not given b, c"):
        task("{a} {c} {b}").render({"a": "x"})


@given(st.text(max_size=30), st.text(max_size=30))
def test_what_a_document_says_is_text_and_is_never_filled_in(question: str, passage: str) -> None:
    rendered = task("Q {question} P {passage} E").render({"question": question, "passage": passage})
    assert rendered == "Q " + question + " P " + passage + " E"


def test_the_classical_method_gets_model_sample_and_inputs() -> None:
    assert task("{a}").offline("model", sample=2, a="x", b=1) == "model 2 ['a', 'b']"


@pytest.mark.parametrize("number", ["1990 was the year", "3.5 metres", "-5 degrees"])
def test_an_item_that_begins_with_a_number_keeps_it(number: str) -> None:
    assert parse_lines(number) == (number,)


@given(st.text(alphabet="a>[]1 \n\r\u2028\x85", max_size=30))
def test_a_quoted_input_begins_every_line_with_a_mark_and_loses_nothing(passage: str) -> None:
    echoed = task("Read:\n{>passage}\nEnd").render({"passage": passage}).removeprefix("Read:\n").removesuffix("\nEnd")
    assert [line[:2] for line in echoed.splitlines()] == ["> "] * len(passage.splitlines())
    assert [line[2:] for line in echoed.splitlines()] == passage.splitlines()


def test_only_the_prompt_is_quoted() -> None:
    echo = Task("echo", "{>passage}", parse_text, lambda model, *, sample, passage: passage)
    assert echo.offline("model", sample=0, passage="a\nb") == "a\nb"
    assert echo.render({"passage": ("a\nb", "c")}) == "> [1] a\n> b\n> \n> [2] c"


# --- what does not fit -----------------------------------------------------------------------------------------------

LONG = Task(name="long", prompt="Q: {question}\n\n{passages}", parse=parse_text, offline=lambda model, **_: "")


def test_what_is_longer_than_the_window_is_cut_from_the_end_of_the_longest_input() -> None:
    inputs: dict[str, Input] = {"question": "Why?", "passages": ("a" * 300, "b" * 300, "c" * 300)}
    whole = len(LONG.render(inputs))
    assert LONG.truncate_inputs(inputs, whole) == inputs
    fitted = LONG.truncate_inputs(inputs, 500)
    assert len(LONG.render(fitted)) <= 500
    assert fitted["question"] == "Why?"
    passages = fitted["passages"]
    assert isinstance(passages, tuple)
    assert passages[0] == "a" * 300
    assert len(passages) == 2
    assert passages[1].endswith("[...]")
    single = LONG.truncate_inputs({"question": "Why?", "passages": "x" * 1000}, 120)
    assert len(LONG.render(single)) <= 120


def test_a_prompt_that_cannot_be_made_to_fit_is_an_error() -> None:
    with pytest.raises(ValueError, match="the prompt of long does not fit into 5 characters"):
        LONG.truncate_inputs({"question": "Why?", "passages": ("a",)}, 5)
