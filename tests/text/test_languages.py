"""Which language a text is in, and what is done with words of other languages than English."""

import unicodedata
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from passages import EXACT, INFLECTED, PARAGRAPHS, PASSAGES

from ragsmith.text.bm25 import BM25
from ragsmith.text.languages import LANGUAGES, detect_language, language_code, stem, stop_words
from ragsmith.text.scripts import split_words
from ragsmith.text.words import content_words, get_surface_forms, terms, tokeniser_for, words

MIXED = st.lists(
    st.sampled_from(
        ["İstanbul", "हिन्दी", "合同期限", "สัญญา", "العَقْد", "e\u0301", "readFile", "a_b", "12", "۳", "한국어", " "]
    )
    | st.text(max_size=5)
).map(" ".join)


@pytest.mark.parametrize(
    ("language", "text"),
    [*((code, " ".join(texts)) for code, texts in PASSAGES.items()), *PARAGRAPHS.items()],
    ids=[*PASSAGES, *PARAGRAPHS],
)
def test_a_paragraph_says_its_language(language, text):
    assert detect_language(text) == language
    assert detect_language(unicodedata.normalize("NFD", text)) == language


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1234 5.6 -- !?",
        "lorem ipsum dolor sit amet " * 9,
        "part: BK-180; price_eur: 38.00; stock: 12\n" * 20,
        "for (i = 0; i < n; i++) { total += prices[i] * rates[i]; }\n" * 5,
        "(no text)",
    ],
)
def test_tables_code_and_nothing_are_in_no_language(text):
    assert detect_language(text) == "und"


@settings(max_examples=50, deadline=None)
@given(MIXED)
def test_any_text_has_a_language_that_is_known_or_none(text):
    assert detect_language(text) in {*LANGUAGES, "und"}


def test_a_few_foreign_words_change_nothing():
    assert detect_language(f"{PARAGRAPHS['en']} He calls it „die Miete“, and in Chinese it is 租金.") == "en"
    assert detect_language(f"{PASSAGES['zh'][0]} See chapter 4, Payment of Rent.") == "zh"


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("de", "de"),
        ("de-AT", "de"),
        ("EN_us", "en"),
        ("German", "de"),
        ("deu", "de"),
        ("nb", "no"),
        ("zh-Hant-TW", "zh"),
        ("sw", "sw"),
        ("Klingon", None),
        ("", None),
    ],
)
def test_languages_are_named_by_codes_and_in_english(name, code):
    assert language_code(name) == code


@pytest.mark.parametrize(("language", "query", "place"), [(code, *found) for code in EXACT for found in EXACT[code]])
def test_bm25_finds_words_as_they_are(language, query, place):
    assert best(language, query) == place


@pytest.mark.parametrize(
    ("language", "query", "place"), [(code, *found) for code in INFLECTED for found in INFLECTED[code]]
)
def test_bm25_finds_other_forms_of_a_word_where_there_is_a_stemmer(language, query, place):
    assert best(language, query) == place
    plain = [word for text in PASSAGES[language] for word in split_words(text)]
    assert any(word not in plain for word in split_words(query)), "the query has no other form"


@pytest.mark.parametrize("language", ["zh", "ja", "th"])
def test_languages_without_a_stemmer_keep_their_words(language):
    assert stem("過濾器", language) == "過濾器"


def best(language, query):
    """The passage that has the highest score for a query; none but it has it."""
    texts = PASSAGES[language]
    scores = BM25(texts, languages=[language] * len(texts)).scores(query)
    assert scores.max() > 0
    assert (scores == scores.max()).sum() == 1
    return int(np.argmax(scores))


def test_a_corpus_of_several_languages_is_asked_in_any_of_them():
    texts = [*PASSAGES["de"], *PASSAGES["tr"], *PASSAGES["zh"], PARAGRAPHS["en"]]
    bm25 = BM25(texts, languages=[*["de"] * 4, *["tr"] * 4, *["zh"] * 4, "en"])
    asked = {"Urlaubstag der Angestellter": 1, "filtre temizliği": 6, "无理由退货": 11, "landlords receipts": 12}
    assert {query: int(np.argmax(bm25.scores(query))) for query in asked} == asked


def test_a_question_counts_a_term_once_however_many_languages_have_it():
    asked = tokeniser_for(["de", "en"])("Rabatt rabatt Mieten")
    assert sorted(asked) == sorted(["rabatt", "rabatt", stem("mieten", "de"), stem("mieten", "en")])


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("İSTANBUL'DA IŞIK", "tr", "istanbul da ışık"),
        ("हिन्दी में क़ानून", "hi", "हिन्दी में क़ानून"),
        ("العَقْدُ الـمُبرَم ١٢٣", "ar", "العقد المبرم 123"),
        ("שָׁלוֹם", "he", "שלום"),
        ("کتاب\u200cها", "fa", "کتاب ها"),
        ("合同期限", "zh", "合同 同期 期限"),
        ("水 税率", "zh", "水 税率"),
        ("用Python3写", "zh", "用 python3 写"),
        ("ＡＢＣ１２", "ja", "abc12"),
        ("ﾃｽﾄ", "ja", "テス スト"),
        ("น้ำมัน", "th", "น้ำ ำมั มัน"),
        ("Ver\u00adtrag Straße", "de", "vertrag straße"),
        ("e\u0301te\u0301", "fr", "été"),
    ],
)
def test_words_of_other_languages(text, language, expected):
    assert words(text, language) == unicodedata.normalize("NFC", expected).split()


@pytest.mark.parametrize("language", ["en", "de", "fr", "tr", "hi", "ar"])
def test_words_do_not_depend_on_how_letters_and_accents_are_put_together(language):
    for text in ("Café Müller İzmir Ştefan", *PASSAGES.get(language, ())):
        composed, apart = (unicodedata.normalize(form, text) for form in ("NFC", "NFD"))
        assert words(composed, language) == words(apart, language)
        assert terms(composed, language) == terms(apart, language)


@settings(max_examples=100, deadline=None)
@given(MIXED, st.sampled_from(["de", "tr", "hi", "zh", "ja", "th", "ar", "xx"]))
def test_there_is_a_spelling_for_each_term_in_every_language(text, language):
    assert len(get_surface_forms(text, language)) == len(terms(text, language))


@settings(max_examples=100, deadline=None)
@given(st.text("合同期限为三年のビス", min_size=2, max_size=12))
def test_a_stretch_without_blanks_gives_its_overlapping_pairs(text):
    assert split_words(text) == [one + other for one, other in pairwise(text)]


@pytest.mark.parametrize("language", sorted(LANGUAGES))
def test_stop_words_are_words_of_their_language(language):
    assert all(words(word, language) == [word] for word in stop_words(language))


def test_content_words_leave_out_the_function_words_of_the_language():
    assert content_words("Wann zahlt der Mieter die Miete?", "de") == ["zahlt", "mieter", "miete"]
