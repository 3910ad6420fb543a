from ragsmith.techniques.passage_compress.llm_refine import llm_refine, refine_offline
from ragsmith.types import Passage, Question, Span

QUESTION = Question("Who paid for the new sea wall?")
WALL = "Oswin Tarrel paid for a new sea wall of black stone."
SALT = "It owns the salt pans north of the harbour and sells grey salt to the inland markets."


def refine(model, summary, passage, words=40):
    return refine_offline(
        model, sample=0, question=QUESTION.text, summary=summary, passage=(passage,), words=words
    ).split("\n")


def test_updates_one_summary_by_one_passage_after_the_other(language_model):
    model = language_model({"refine_summary": ["one", "two", "three"]})
    passages = tuple(Passage(f"text {i}", (Span("doc", i, i + 1),), 0.5 + i) for i in range(3))
    result = llm_refine(QUESTION, passages, language_model=model)
    assert [(call.inputs["summary"], call.inputs["passage"]) for call in model.calls] == [
        ("", ("text 0",)),
        ("one", ("text 1",)),
        ("two", ("text 2",)),
    ]
    assert result == (Passage("three", tuple(Span("doc", i, i + 1) for i in range(3)), 2.5),)


def test_no_passage_needs_no_call(language_model):
    assert llm_refine(QUESTION, (), language_model=language_model()) == ()


def test_offline_adds_while_there_is_room(extractive):
    assert refine(extractive, SALT, WALL) == [SALT, WALL]


def test_offline_a_better_sentence_takes_the_place_of_the_least_useful(extractive):
    assert refine(extractive, SALT, WALL, words=20) == [WALL]


def test_offline_a_worse_sentence_takes_no_place(extractive):
    assert refine(extractive, WALL, SALT, words=20) == [WALL]


def test_offline_nothing_is_said_twice(extractive):
    assert refine(extractive, WALL, WALL) == [WALL]
    assert refine(extractive, WALL, "Oswin Tarrel paid for the new sea wall of black stone.") == [WALL]


def test_offline_a_first_sentence_longer_than_the_budget_is_kept_whole(extractive):
    assert refine(extractive, "", SALT, words=3) == [SALT]


def test_offline_over_the_whole_town(chunks, extractive):
    passages = tuple(Passage(chunk.text, (chunk.span,), 1.0) for chunk in chunks)
    (result,) = llm_refine(QUESTION, passages, language_model=extractive, max_words=40)
    assert WALL in result.text.split("\n")
    assert len(result.text.split()) <= 40
    everything = {sentence for chunk in chunks for sentence in extractive.sentences(chunk.text)}
    assert set(result.text.split("\n")) <= everything
