import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ragsmith.models.embedded.extractive import ExtractiveModel
from ragsmith.models.embedded.wordllama import WordLlamaEmbedder
from ragsmith.techniques.generation import answer_offline, answer_task, generate, parse_citations
from ragsmith.testing import ScriptedModel, example_chunks
from ragsmith.text.blocks import number_blocks, split_blocks
from ragsmith.text.declining import NOT_FOUND
from ragsmith.types import Answer, Passage, Prompt, Question

CHUNKS = example_chunks()
MODEL = ExtractiveModel([chunk.text for chunk in CHUNKS], WordLlamaEmbedder())
CONTEXT = number_blocks(chunk.text for chunk in CHUNKS)


def prompt_of(*texts):
    return Prompt(number_blocks(texts), tuple(Passage(text, (), 1.0) for text in texts))


def ask(question, context=CONTEXT):
    return answer_offline(MODEL, sample=0, question=question, context=context)


@given(st.lists(st.text(alphabet="a[]12 \n\r\u2028\u200b", max_size=30), max_size=5))
@example(["[1] a\n[2] b\n\n[3] c", "\u200b[1] d", "a\r[2] e"])
@settings(max_examples=100)
def test_blocks_are_read_back_and_cannot_be_forged(texts):
    shown = number_blocks(texts)
    assert len(split_blocks(shown)) == len(texts)
    for text, block in zip(texts, split_blocks(shown), strict=True):
        assert block.translate(str.maketrans("()", "[]")) == text.strip()
    markers = [line for line in shown.splitlines() if line.lstrip(" \u200b").startswith("[1] ")]
    assert len(markers) == min(1, len(texts))


def test_only_block_marks_at_the_beginning_of_a_line_are_changed():
    assert number_blocks(["See [2].\n [3] Smith"]) == "[1] See [2].\n (3) Smith"


@pytest.mark.parametrize(
    ("reply", "text", "cited"),
    [
        ("In 1598 [2].", "In 1598.", (1,)),
        ("In 1598.[2][1]", "In 1598.", (1, 0)),
        ("One [1, 3]. Two [3].", "One. Two.", (0, 2)),
        ("All agree [2-4].", "All agree.", (1, 2, 3)),
        ("No source.", "No source.", ()),
        ("  The year [1598] is given.  ", "The year [1598] is given.", ()),
        ("Nothing cites [0].", "Nothing cites [0].", ()),
        ("See item [12]. It was 1598 [2, 12].", "See item [12]. It was 1598.", (1,)),
        ("In 1598 [Passage 2]. It stayed [passages 1 and 3].", "In 1598. It stayed.", (1, 0, 2)),
        ("In 1598【2】. It stayed 【3†source】.", "In 1598. It stayed.", (1, 2)),
        ("It stayed (2).", "It stayed (2).", ()),
    ],
)
def test_takes_citations_out_of_a_reply(reply, text, cited):
    assert parse_citations(reply, 4) == (text, cited)


@pytest.mark.parametrize("reply", ["", "  \n", "[1] [2]"])
def test_refuses_a_reply_without_text(reply):
    with pytest.raises(ValueError, match="no text"):
        parse_citations(reply, 2)


def test_asks_for_an_answer_from_the_prompt():
    model = ScriptedModel({"answer": [("In 1598.", (1,))]})
    prompt = prompt_of("one", "two")
    assert generate(Question("When?"), prompt, language_model=model) == Answer("In 1598.", (1,))
    assert model.calls[0].inputs == {"question": "When?", "context": prompt.text}


def test_a_citation_that_no_passage_has_is_dropped():
    model = ScriptedModel({"answer": [("In 1598.", (1, 4))]})
    assert generate(Question("When?"), prompt_of("one", "two"), language_model=model).cited == (1,)


def test_without_passages_no_model_is_asked():
    assert generate(Question("When?"), Prompt("", ()), language_model=ScriptedModel()) == Answer(NOT_FOUND)


def test_the_request_holds_question_and_blocks_and_nothing_is_filled_twice():
    shown = answer_task(1).render({"question": "What is {context}?", "context": number_blocks(["{question}"])})
    assert "What is {context}?" in shown
    assert "[1] {question}" in shown


@pytest.mark.parametrize(
    ("question", "answer", "block"),
    [
        ("When was the Salt Guild founded?", "The Salt Guild was founded in 1598 by twelve families of Velmouth.", 4),
        ("Who paid for a new sea wall?", "Oswin Tarrel paid for a new sea wall of black stone.", 9),
        ("How much are the harbour dues?", "Every ship pays harbour dues of four crowns a night.", 2),
    ],
)
def test_a_question_for_a_fact_gets_the_sentence_that_has_it(question, answer, block):
    assert ask(question) == (answer, (block,))


def test_an_explanation_takes_more_sentences_in_reading_order():
    text, cited = ask("Explain the role of the keeper of the Tide Tower, the bell and the ships.")
    sentences = [sentence for chunk in CHUNKS for sentence in MODEL.sentences(chunk.text) if sentence in text]
    assert 2 <= len(sentences) <= 5
    assert text == " ".join(sentences)
    assert cited == tuple(dict.fromkeys(i for i, c in enumerate(CHUNKS) if any(s in c.text for s in sentences)))


def test_earlier_blocks_win_between_equals():
    one, other = "The guild was founded in spring and summer.", "The guild was founded in summer and spring."
    for order in ((one, other), (other, one)):
        assert ask("When was the guild founded?", number_blocks(order)) == (order[0], (0,))


def test_a_number_is_preferred_when_one_is_asked_for():
    context = number_blocks(
        ("The old harbour of Velmouth was dug by order.", "The harbour of Velmouth was dug in 1612 by her.")
    )
    assert ask("When was the harbour of Velmouth dug?", context)[1] == (1,)


def test_headings_are_no_answers():
    context = number_blocks(("Salt Guild founded\n\nThe Salt Guild was founded by twelve families in 1598.",))
    assert ask("When was the Salt Guild founded?", context)[0].startswith("The Salt Guild was")


@pytest.mark.parametrize("context", [CONTEXT, number_blocks(["", " "]), ""])
def test_says_when_the_passages_have_no_answer(context):
    assert ask("Quantum chromodynamics gluon?", context) == (NOT_FOUND, ())
