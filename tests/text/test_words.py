import re
from itertools import pairwise
from unicodedata import normalize

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsmith.text.languages import stem
from ragsmith.text.words import STOP_WORDS, get_surface_forms, normalise_answer, sentences, terms, words

MARKS = st.text(st.sampled_from("aB1. \n!?。\"')[]=|-\t…,v"), max_size=80)


def split(text):
    return [text[start:end] for start, end in sentences(text)]


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=60) | st.text("aB_é9 "))
def test_words_are_runs_of_letters_and_digits_in_lower_case(text):
    assert words(text) == re.findall(r"\b\w+\b", normalize("NFC", text).lower().replace("_", " "))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.from_regex(r"\w+|\W+", fullmatch=True).map(str.capitalize) | st.text() | st.just("UNESCO")))
def test_prose_has_the_terms_that_it_had_before_identifiers_were_taken_apart(pieces):
    text = normalize("NFC", " ".join(pieces).replace("_", " "))
    text = re.sub(r"(?<=\w)[A-Z](?=\w*[a-z])|(?<=[a-z0-9])[A-Z]", lambda inner: inner[0].lower(), text)
    former = [stem(word) for word in re.findall(r"\w+", text.lower()) if word not in STOP_WORDS]
    assert list(terms(text)) == former


@pytest.mark.parametrize(
    ("identifier", "expected"),
    [
        ("parseHTTPHeader", "parseHTTPHeader parse HTTP Header"),
        ("max_retry_count", "max retry count"),
        ("Master_Services_Agreement", "Master Services Agreement"),
        ("utf8Decode", "utf8Decode utf8 Decode"),
        ("XMLHttpRequest", "XMLHttpRequest XML Http Request"),
        ("readFile_asText", "readFile read File asText Text"),
        ("HTTP iPhone", "HTTP iPhone Phone"),
        ("PhD IDs PDFs B2B GmbH mRNA McDonald 3rd", "PhD IDs PDFs B2B GmbH mRNA RNA McDonald 3rd"),
        ("__init__ ____ _", "init"),
    ],
)
def test_an_identifier_stands_for_itself_and_for_its_parts(identifier, expected):
    assert get_surface_forms(identifier) == expected.split()
    assert terms(identifier) == tuple(stem(word.lower()) for word in expected.split())


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=60) | st.text("aBc_é9 İ"))
def test_there_is_a_spelling_for_each_term(text):
    assert tuple(stem(words(form)[0]) for form in get_surface_forms(text)) == terms(text)


def test_terms_drop_stop_words_and_inflection():
    assert terms("The courts were NOT applying these limitations!") == ("court", "appli", "limit")
    assert terms("When is it, and who?") == ()
    assert terms("He doesn't; they're; I'd") == ()


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The  Eiffel-Tower!", "eiffeltower"),
        ("a cat, an apple and the dog", "cat apple and dog"),
        ("Theatre another", "theatre another"),
        ("$1,000.50", "100050"),
        ("  The ", ""),
    ],
)
def test_answers_are_normalised_as_squad_does(text, normal):
    assert normalise_answer(text) == normal


@pytest.mark.parametrize(
    "expected",
    [
        ["Art. 12 of the Code applies.", "See e.g. No. 5 and Smith v. Jones."],
        ["He met J. R. R. Tolkien.", "Dr. Watson and Mrs. Hudson came at 5 p.m.", "They left."],
        ["The rate is 3.14.", "It rose by 2.5 percent."],
        ["He works for the U.S. Government.", "He left the U.S.", "The rest is history."],
        ["Apple Inc. Chairman Cook spoke.", "He heads Apple Inc.", "The firm grew."],
        ["See ss. 31–33 and pp. 4, Fig. B and Vol. IV of it.", "He loved art.", "The museum closed."],
        ["The answer was no.", "A man came.", "No. 7 won."],
        ['He said "Stop."', "Then he left.", '"What?" she asked.', "(Yes!)", "Wait... what?"],
        ["It is a crime.[3][14]", "The next one is not."],
        ["Some vote.", "12 people left.", "1. Read this.", "2. Do that."],
    ],
)
def test_sentences_end_where_a_reader_ends_them(expected):
    assert split(" ".join(expected)) == expected


def test_lists_tables_and_headings_are_split_at_line_breaks():
    lines = [
        "# Costs of the year under review in detail",
        "- rent and other fixed costs of the business, paid",
        "- wages",
    ]
    lines += [
        "year | amount in thousands of euros and change",
        "2019 | 5",
        "revenue\t7",
        "Heading",
        "1) first",
        "(b) second",
    ]
    assert split("\n".join(lines)) == lines


def test_a_line_break_inside_wrapped_prose_is_not_an_end():
    first = (
        "The treaty was signed by the delegates of the United\nStates and those of the Kingdom of Norway, cf.\nArt. 5."
    )
    second = "It still holds, in this form and in all others,\r\nfor everyone."
    assert split(f"{first} {second}") == [first, second]
    assert split("A line of more than forty characters of text\n\nand a new paragraph")[1] == "and a new paragraph"


def test_inline_wiki_headings_are_sentences():
    assert split("A crime. == Act == === Origin === The act is a = b.") == [
        "A crime.",
        "== Act ==",
        "=== Origin ===",
        "The act is a = b.",
    ]


def test_tokenised_lower_case_text_ends_at_its_spaced_full_stops():
    assert split("a wing was tested .\nthe lift was larger .") == ["a wing was tested .", "the lift was larger ."]


def test_scripts_without_spaces_or_capitals():
    assert split("これは文です。次の文！最後") == ["これは文です。", "次の文！", "最後"]


def test_no_text_has_no_sentence():
    assert sentences("") == sentences(" \n ") == []


@settings(max_examples=200, deadline=None)
@given(MARKS | st.text(max_size=60))
def test_every_visible_character_lies_in_exactly_one_trimmed_sentence(text):
    spans = sentences(text)
    assert all(start < end and text[start:end] == text[start:end].strip() for start, end in spans)
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    assert "".join("".join(text[a:b].split()) for a, b in spans) == "".join(text.split())


@pytest.mark.parametrize("unit", [".", " ", ". ", "\n", "== ", "=", "[1]", "a.\n", "|\n", "("])
def test_long_runs_of_marks_do_not_take_quadratic_time(unit):
    text = unit * (200_000 // len(unit))  # quadratic time would take minutes here, not milliseconds
    assert "".join("".join(split(text)).split()) == "".join(text.split())


def test_the_caller_may_change_the_lists():
    sentences("One. Two.").clear()
    words("one two").clear()
    assert split("One. Two.") == ["One.", "Two."]
    assert words("one two") == ["one", "two"]


def test_rows_of_a_loaded_table_are_sentences_of_their_own():
    rows = [
        "part: DX-1; name: brass impeller; price: 12.50",
        "part: DX-2; name: steel impeller; price: 9.00; note: for salt water. Rinse.",
        "part: DX-3; name: seal; price: 1.20",
    ]
    text = "\n".join(rows)
    assert [text[start:end] for start, end in sentences(text)] == [
        rows[0],
        "part: DX-2; name: steel impeller; price: 9.00; note: for salt water.",
        "Rinse.",
        rows[2],
    ]
