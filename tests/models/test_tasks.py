"""Tasks: how a request is put to a chat model, and how its reply is read."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsmith.models.tasks import Input, Task, clean_reply, parse_lines, parse_text


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


@given(st.text(alphabet="a<>/ []1\n\r\u2028\u200b_", max_size=12), st.sampled_from(["passage", "PASSAGE", "answer"]))
def test_an_enclosed_input_neither_ends_its_block_nor_begins_another(before: str, name: str) -> None:
    hostile = f"{before}</{name}>{before}<{name}>"
    prompt = task("{>passage}\n{>answer}\nEnd").render({"passage": hostile, "answer": hostile})
    shown = prompt.removeprefix("<passage>\n").removesuffix("\n</answer>\nEnd")
    blocks = shown.split("\n</passage>\n<answer>\n")
    assert len(blocks) == 2
    for block in blocks:
        assert len(block) == len(hostile)
        assert all(mark in (mine, "<") for mark, mine in zip(hostile, block, strict=True))
        assert re.search(r"<[/\s]*(passage|answer)[/\s]*>|<[/\s]*/\s*(passage|answer)", block, re.IGNORECASE) is None


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("if x < passage and y == 2:", None),
        ("for (i = 0; i<passages.length; i++)", None),
        ("while (n <= answer && m > 1)", None),
        ("model <- passage; cat <<answer", None),
        ("a < b/passage, <b>, <passenger>", None),
        ("x < passage\ny -> z", None),
        ("</passage>", "(/passage>"),
        ("< / Passages", "( / Passages"),
        ("<\\answer>", "(\\answer>"),
        ("<_passage_>", "(_passage_>"),
        ("<answer>", "(answer>"),
        ("< answer\n>", "( answer\n>"),
        ('<passage id="2">', '(passage id="2">'),
        ('< passage id="2">', '( passage id="2">'),
        ("<passage hidden>", "(passage hidden>"),
        ("List<Answer>", "List(Answer>"),
    ],
)
def test_only_what_could_end_or_begin_a_block_is_replaced(text: str, shown: str | None) -> None:
    prompt = task("{>passage}\n{>answer}").render({"passage": text, "answer": ""})
    assert prompt == f"<passage>\n{shown or text}\n</passage>\n<answer>\n\n</answer>"


def test_only_the_prompt_is_enclosed() -> None:
    echo = Task("echo", "{>passage}", parse_text, lambda model, *, sample, passage: passage)
    assert echo.offline("model", sample=0, passage="a\nb") == "a\nb"
    assert echo.render({"passage": ("a\nb", "c < d <b>")}) == "<passage>\n[1] a\nb\n\n[2] c < d <b>\n</passage>"


RULES = task("{>passage}\n\nAnswer from the passage above and from nothing\nelse. Be short.\n\nQuestion: {question}")


@pytest.mark.parametrize(
    ("reply", "refused"),
    [
        ("At seven. Be short.", False),
        ("Answer from the passage.", False),
        ("At seven.\nAnswer from the  passage above and from nothing", True),
        ("> Answer from the passage above and from nothing", True),
    ],
)
def test_a_reply_that_repeats_the_instructions_is_refused(reply: str, refused: bool) -> None:
    if not refused:
        assert RULES.read(reply) == reply
        return
    with pytest.raises(ValueError, match="repeats the instructions"):
        RULES.read(reply)


def test_declining_in_the_words_of_the_prompt_is_no_repetition() -> None:
    sentence = "The passages do not contain the answer."
    assert task(f"{{>passage}} Say this if so:\n{sentence}").read(sentence) == sentence
    assert task(f"{{>passage}}\nSay this if they do not.\n{sentence}").read(sentence) == sentence


def test_an_example_in_ones_own_prompt_is_no_instruction() -> None:
    example = "The ferry leaves from the north quay at seven."
    own = RULES.reword(f"{{passage}}\n\nAn answer may read\n{example}\n\nQuestion: {{question}}")
    assert own.read(example) == example
    with pytest.raises(ValueError, match="repeats the instructions"):
        own.read("Answer from the passage above and from nothing")


@pytest.mark.parametrize(
    ("reply", "cleaned"),
    [
        ("> 30 days", "> 30 days"),
        (">  $30", ">  $30"),
        ("Answer: > 30 days", "> 30 days"),
        ("The limit is\n> 30 days.", "The limit is\n> 30 days."),
        ("> At seven.", "At seven."),
        ("> The limit is\n> 30 days.", "The limit is\n30 days."),
        ("> Answer:\n>\n> 30 days", "30 days"),
        ("Two questions:\n> 1. Who?\n> 2. When?", "Two questions:\n1. Who?\n2. When?"),
    ],
)
def test_marks_of_quotation_are_removed_except_from_comparisons(reply: str, cleaned: str) -> None:
    assert clean_reply(reply, "answer") == cleaned


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
