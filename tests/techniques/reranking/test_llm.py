import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ragsmith.techniques.reranking.llm import llm, parse_ranking, rank_passages_offline, truncate_text
from ragsmith.testing import hits_of
from ragsmith.types import Question, Scale

QUESTION = Question("When was the Salt Guild founded?")


def test_scores_by_place_on_a_scale_of_its_own(chunks, language_model):
    model = language_model({"rank_passages": [(2, 0, 3, 1)]})
    result = llm(QUESTION, hits_of(chunks, [0.9, 0.8, 0.7, 0.6]), language_model=model)
    assert [(hit.chunk.id, hit.score) for hit in result] == [
        ("harbour:2", 1.0),
        ("harbour:0", 0.75),
        ("harbour:3", 0.5),
        ("harbour:1", 0.25),
    ]
    assert {hit.scale for hit in result} == {Scale.LISTWISE}


def test_asks_once_for_the_best_candidates_in_their_order(chunks, language_model):
    model = language_model({"rank_passages": [(0, 1)]})
    result = llm(QUESTION, hits_of(chunks, [0.1, 0.5, 0.9]), language_model=model, depth=2)
    assert [call.inputs["passages"] for call in model.calls] == [(chunks[2].text, chunks[1].text)]
    assert [hit.chunk.id for hit in result] == ["harbour:2", "harbour:1"]


@pytest.mark.parametrize("n", [0, 1])
def test_what_has_one_order_only_needs_no_call(chunks, language_model, n):
    model = language_model()
    result = llm(QUESTION, hits_of(chunks, [0.4] * n), language_model=model)
    assert [(hit.score, hit.scale) for hit in result] == [(1.0, Scale.LISTWISE)] * n
    assert model.calls == []


def test_passages_are_cut_for_the_prompt_only(chunks, language_model):
    model = language_model({"rank_passages": [(0, 1)]})
    result = llm(QUESTION, hits_of(chunks, [0.9, 0.8]), language_model=model, max_characters=100)
    assert (
        model.calls[0].inputs["passages"][0]
        == "The harbour of Velmouth was dug in 1612 by order of Countess Isaura Brandt."
    )
    assert result[0].chunk.text == chunks[0].text


@given(st.text(alphabet="ab .\n", max_size=60), st.integers(1, 40))
@example("\n\n a", 1)
@settings(max_examples=60)
def test_a_beginning_is_one_and_keeps_the_limit(text, limit):
    start = truncate_text(text, limit)
    assert text.strip().startswith(start)
    assert len(start) <= limit


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("One sentence. Another one.", 20, "One sentence."),
        ("no sentence ends in these words", 12, "no sentence"),
        ("unbreakable", 5, "unbre"),
        ("short", 5, "short"),
    ],
)
def test_a_beginning_ends_with_a_sentence_or_a_word(text, limit, expected):
    assert truncate_text(text, limit) == expected


@pytest.mark.parametrize("reply", ["[3] > [1] > [2]", "3, 1, 2", "[3, 1, 2]", "The order is:\n[3] > [1] > [2].\n"])
def test_reads_a_ranking(reply):
    assert parse_ranking(reply, 3) == (2, 0, 1)


def test_passages_that_are_not_named_come_last_in_their_old_order():
    assert parse_ranking("[4] > [2]", 5) == (3, 1, 0, 2, 4)
    assert parse_ranking("[4]", 5) == (3, 0, 1, 2, 4)


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "I cannot rank these.",
        "5",  # a bare number is no ranking
        "[1] > [1] > [2]",
        "[1] > [2] > [4]",
        "[0] > [1] > [2]",
        "[1] > [2]\n[2] > [1]",
        "Passage 3 is best, then 1, then 2",
        "[a] > [b]",
    ],
)
def test_refuses_everything_else(reply):
    with pytest.raises(ValueError, match=r"ranking"):
        parse_ranking(reply, 3)


def test_offline_prefers_the_passage_with_the_best_sentence(chunks, extractive):
    texts = tuple(chunk.text for chunk in chunks)
    order = rank_passages_offline(extractive, sample=0, question=QUESTION.text, passages=texts)
    assert sorted(order) == list(range(len(texts)))
    assert chunks[order[0]].id == "guild:0"
    assert order == rank_passages_offline(extractive, sample=0, question=QUESTION.text, passages=texts)


def test_offline_a_copy_falls_behind_a_passage_that_says_something_else(extractive):
    passages = (
        "The Salt Guild was founded in 1598.",
        "The Salt Guild was founded in 1598.",
        "The guild was founded by twelve families in 1598.",
    )
    order = rank_passages_offline(
        extractive, sample=0, question="When was the guild founded and by which families?", passages=passages
    )
    assert order.index(2) < order.index(1)


def test_offline_copes_with_passages_without_words(extractive):
    assert sorted(rank_passages_offline(extractive, sample=0, question="What?", passages=("", "…", "salt"))) == [
        0,
        1,
        2,
    ]
