import pytest

from ragsmith.techniques.pre_embedding.hype import ASK_QUESTIONS, hype
from ragsmith.testing import ScriptedModel


def test_keys_are_the_text_and_the_questions(chunks):
    model = ScriptedModel({"hypothetical_questions": [("Who dug it?", "When?"), ("Who rings?",)]})
    entries = hype(chunks[:2], language_model=model, n=2)
    assert [entry.keys for entry in entries] == [
        (chunks[0].text, "Who dug it?", "When?"),
        (chunks[1].text, "Who rings?"),
    ]
    assert tuple(entry.chunk for entry in entries) == chunks[:2]
    assert model.calls[0].inputs == {"passage": chunks[0].text, "n": 2}


def test_the_text_can_be_left_out_as_in_the_paper(chunks):
    model = ScriptedModel({"hypothetical_questions": [("Who dug it?",)]})
    assert hype(chunks[:1], language_model=model, keep_text=False)[0].keys == ("Who dug it?",)


def test_more_questions_than_asked_for_are_cut(chunks):
    model = ScriptedModel({"hypothetical_questions": [("A?", "B?", "C?")]})
    assert hype(chunks[:1], language_model=model, n=1, keep_text=False)[0].keys == ("A?",)


def test_talk_is_no_question():
    assert ASK_QUESTIONS.parse("Here are the questions:\n1. Who dug it?\n- When was it dug?\nHope this helps!") == (
        "Who dug it?",
        "When was it dug?",
    )


@pytest.mark.parametrize("reply", ["", "I cannot do that.", "Questions:"])
def test_a_reply_without_a_question_is_refused(reply):
    with pytest.raises(ValueError, match=r"blank|refusal|no question"):
        ASK_QUESTIONS.parse(reply)


@pytest.mark.parametrize(
    ("sentence", "question"),
    [
        ("The dues were doubled in 1620.", "When were the dues doubled?"),
        (
            "The Salt Guild was founded by twelve families.",
            "How much or how many was the Salt Guild founded by families?",
        ),
        (
            "However, the warden of the guild is elected by its members.",
            "What is the warden of the guild elected by its members?",
        ),
        ("Oswin Tarrel paid for black stone.", "What is said about oswin tarrel paid black stone?"),
    ],
)
def test_offline_questions_move_the_verb(extractive, sentence, question):
    assert extractive.run(ASK_QUESTIONS, passage=sentence, n=1) == (question,)


def test_offline_questions_are_different_and_their_terms_are_the_chunks_own(extractive, chunks):
    scaffold = {"said", "mani", "much"}
    for chunk in chunks:
        made = extractive.run(ASK_QUESTIONS, passage=chunk.text, n=3)
        assert made == extractive.run(ASK_QUESTIONS, passage=chunk.text, n=3)
        assert 1 <= len(made) == len(set(made)) <= 3
        assert all(question.endswith("?") and chunk.text != question for question in made)
        terms = {term for question in made for term in extractive.terms(question)} - scaffold
        assert terms <= set(extractive.terms(chunk.text))


@pytest.mark.parametrize("passage", ["", "the", "***"])
def test_offline_there_is_a_question_about_anything(extractive, passage):
    assert len(extractive.run(ASK_QUESTIONS, passage=passage, n=3)) == 1
