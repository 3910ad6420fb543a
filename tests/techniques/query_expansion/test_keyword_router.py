import pytest

from ragsmith.techniques.query_expansion.keyword_router import choose_as_printed, choose_corrected, keyword_router
from ragsmith.testing import ScriptedModel, hits_of
from ragsmith.types import Question, Scale


@pytest.mark.parametrize(
    ("text", "strategy"),
    [
        ("Who rings the bell?", "dual_path"),
        ("what is a tide", "dual_path"),
        ("Is the harbour deep", "dual_path"),
        ("Tide Tower bell?", "dual_path"),
        ("Tide Tower bell", "semantic"),
        ("", "semantic"),
        ("Compare the guild and the town.", "step_back"),
        ("What are the main causes of the flood?", "step_back"),  # breadth wins over the question
    ],
)
def test_the_printed_rule(text, strategy):
    assert choose_as_printed(text) == strategy


@pytest.mark.parametrize(
    ("text", "strategy"),
    [
        ("Who rings the bell?", "semantic"),
        ("When did the flood come?", "semantic"),
        ("By when are dues to be paid?", "semantic"),
        ("How many houses fell?", "semantic"),
        ("Under the Code, after how long does a claim end?", "semantic"),
        ("What year was the harbour dug?", "semantic"),
        ("Which of the wardens built the market?", "semantic"),
        ("May a ship leave when the bell has rung?", "semantic"),
        ("Tide Tower bell?", "semantic"),
        ("Who?", "semantic"),
        ("What?", "dual_path"),
        ("Why was the wall not repaired?", "dual_path"),
        ("How are members chosen?", "dual_path"),
        ("What is a salt pan?", "dual_path"),
        ("I left in May, when the lease was over. Why do I still pay?", "dual_path"),
        ("A bank lent on all my tools. Who is first in line?", "semantic"),
        ("Is it a harbour at all?", "semantic"),
        ("Name all wardens.", "step_back"),
        ("How do dues differ from taxes?", "step_back"),
        ("Summarise the flood.", "step_back"),
        ("", "semantic"),
        ("  ?! ", "semantic"),
    ],
)
def test_the_corrected_rule(text, strategy):
    assert choose_corrected(text) == strategy


def test_each_strategy_is_carried_out(search, chunks):
    def found(text, rule):
        model = ScriptedModel({"imagine_passage": ["A passage."], "broader_question": ["The town?"]})
        results = search(
            {
                text: hits_of(chunks, [0.9, 0.8, 0.7]),
                "A passage.": hits_of(chunks[2:], [0.5, 0.4]),
                "The town?": hits_of(chunks[5:], [0.5, 0.4]),
            }
        )
        return keyword_router(Question(text), results, language_model=model, rule=rule, depth=2), model

    plain, model = found("Who rings the bell?", "corrected")
    assert plain == hits_of(chunks, [0.9, 0.8])
    assert model.calls == []
    dual, model = found("Who rings the bell?", "as_printed")
    assert [call.task for call in model.calls] == ["imagine_passage"]
    assert [(hit.chunk, hit.scale) for hit in dual] == [(chunks[2], Scale.RRF), (chunks[0], Scale.RRF)]
    broad, model = found("Compare bells.", "corrected")
    assert [call.task for call in model.calls] == ["broader_question"]
    assert {hit.scale for hit in broad} == {Scale.CONVEX}
