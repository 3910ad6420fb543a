from ragsmith.models.embedded.lexicon import Lexicon
from ragsmith.models.embedded.thesaurus import Thesaurus

VECTORS = {
    "judge": [1.0, 0, 0],
    "judges": [0.99, 0.14, 0],
    "court": [0.8, 0.6, 0],
    "law": [0.5, 0, 0.87],
    "weather": [0, 0, 1.0],
    "1976": [1.0, 0, 0],
    "arbiter": [0.9, 0.43, 0],
    "umpire": [0.2, 0, 0.98],
    "Paris": [0, 1.0, 0],
}
TEXTS = ("A judge in court, with two judges.", "The law of 1976 and the weather in Paris")


def thesaurus(word_vectors, texts=TEXTS) -> Thesaurus:
    return Thesaurus(Lexicon(texts), word_vectors(VECTORS))


def test_words_of_the_corpus_come_nearest_first_down_to_the_floor(word_vectors) -> None:
    assert thesaurus(word_vectors).related("judge", 9) == ("court", "law")  # .8 and .5; 1976 is no word
    assert thesaurus(word_vectors).related("judge", 1) == ("court",)
    assert thesaurus(word_vectors).related("judge", 0) == ()


def test_a_form_of_the_word_itself_is_never_related(word_vectors) -> None:
    assert thesaurus(word_vectors).related("judges", 9) == ("court", "law")
    assert thesaurus(word_vectors).related("Judging", 9) == ()  # the toy has no vector for this spelling


def test_a_word_that_the_corpus_lacks_needs_nearer_neighbours(word_vectors) -> None:
    assert thesaurus(word_vectors).related("arbiter", 9) == ("court", "judge")  # .978 and .9; law is at .45
    assert thesaurus(word_vectors).related("umpire", 9) == ("weather", "law")  # .98 and .95; judge is at .2


def test_unknown_words_and_stop_words_have_no_relations(word_vectors) -> None:
    assert thesaurus(word_vectors).related("zzzz", 9) == ()
    assert thesaurus(word_vectors).related("the", 9) == ()
    assert thesaurus(word_vectors).related("", 9) == ()
    assert thesaurus(word_vectors, ()).related("judge", 9) == ()


def test_a_name_is_looked_up_as_the_corpus_spells_it(word_vectors) -> None:
    assert thesaurus(word_vectors).related("paris", 9) == ("court",) == thesaurus(word_vectors).related("Paris", 9)


def test_equals_go_by_the_alphabet_of_their_stems(word_vectors) -> None:
    vectors = word_vectors({"judge": [1, 0], "zebra": [1, 0], "apple": [1, 0]})
    assert Thesaurus(Lexicon(["zebra judge apple"]), vectors).related("judge", 5) == ("apple", "zebra")
