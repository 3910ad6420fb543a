"""The forms of replies: JSON of every form is read as the text is, and by the same checks."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from never_repeating import tokens
from schema_replies import json_reply

from ragsmith.index.relations import EXTRACT_RELATIONS
from ragsmith.labelling.drafting.checks import CLOSED_BOOK, MAX_PASSAGES, ROUND_TRIP
from ragsmith.labelling.drafting.registry import METHODS
from ragsmith.labelling.drafting.replies import questions_in
from ragsmith.measures.faithfulness import CLAIMS, support_task
from ragsmith.measures.judge import JUDGE
from ragsmith.models.calls import completion_key, form_argument
from ragsmith.models.tasks import ReplyForm, Task
from ragsmith.plugins import load_plugins
from ragsmith.techniques.families import FAMILIES
from ragsmith.techniques.post_generation.abstain import ANSWERABLE
from ragsmith.techniques.post_generation.reflection_revising import REVIEW_TASK
from ragsmith.techniques.query_expansion.crag import JUDGE_EVIDENCE
from ragsmith.techniques.query_expansion.decomposition import DECOMPOSE
from ragsmith.techniques.query_expansion.hyde import IMAGINE_PASSAGE
from ragsmith.techniques.query_expansion.self_query import PROPOSE_FILTER
from ragsmith.techniques.query_expansion.srr import JUDGE_SUFFICIENCY, SUB_QUERIES
from ragsmith.techniques.reranking.llm import make_ranking_task
from ragsmith.techniques.task_lookup import find_tasks

load_plugins("ragsmith.techniques")

TASKS = {
    task.name: task
    for task in (
        *(task for family in FAMILIES for one in family.techniques.values() for task in find_tasks(one)),
        *(method.task for method in METHODS),
        *(JUDGE, CLAIMS, support_task(3), EXTRACT_RELATIONS, CLOSED_BOOK, ROUND_TRIP),
    )
}
FREE = {
    *("imagine_passage", "imagine_framed_passage", "imagine_code", "imagine_table", "note_on_evidence"),
    *("rewrite_query", "broader_question", "write_header", "summarise_cluster", "summarise_passages"),
    *("refine_summary", "revise_answer"),
}

TEXTS: list[tuple[Task[Any], str, Any]] = [
    (JUDGE, "Score: 4", 0.75),
    (JUDGE_EVIDENCE, "57", 57.0),
    (JUDGE_SUFFICIENCY, "Insufficient", 0.0),
    (JUDGE_SUFFICIENCY, "Sufficient", 1.0),
    (ANSWERABLE, "Insufficient", False),
    (CLAIMS, "Rent is due monthly.\nThe tenant pays it.", ("Rent is due monthly.", "The tenant pays it.")),
    (CLAIMS, "NONE", ()),
    (support_task(3), "1: yes\n2: no\n3: yes", (True, False, True)),
    (make_ranking_task(4), "3, 1, 4, 2", (2, 0, 3, 1)),
    (DECOMPOSE, "What is due?\nWho pays?", ("What is due?", "Who pays?")),
    (
        SUB_QUERIES,
        "<query>rent due</query>\n<probability>0.25</probability>\n"
        "<query>who pays</query>\n<probability>0.5</probability>",
        (("rent due", 0.25), ("who pays", 0.5)),
    ),
    (
        EXTRACT_RELATIONS,
        "Tenant | pays | rent\nRent | is due | monthly",
        (("Tenant", "pays", "rent"), ("Rent", "is due", "monthly")),
    ),
    (EXTRACT_RELATIONS, "NONE", ()),
    (
        PROPOSE_FILTER,
        '"signed on" >= "1 May 2020"\n"signed by" in "Acme Nord|Acme Sud"',
        '"signed on" >= "1 May 2020" and "signed by" in "Acme Nord"|"Acme Sud"',
    ),
    (PROPOSE_FILTER, "NONE", ""),
    (REVIEW_TASK, "Verdict: ok", ()),
    (
        REVIEW_TASK,
        "Verdict: revise\n- missing: the date: it is due\n- unsupported: the sum",
        ("missing: the date: it is due", "unsupported: the sum"),
    ),
]


def form_of(task: Task[Any]) -> ReplyForm:
    assert task.form is not None
    return task.form


def objects(schema: Any) -> list[dict[str, Any]]:
    parts = [part for one in schema.values() if isinstance(one, dict) for part in objects(one)]
    return parts + ([schema] if schema.get("type") == "object" else [])


def test_a_task_has_a_form_unless_its_reply_is_free_text() -> None:
    assert {name for name, task in TASKS.items() if task.form is None} == FREE


@pytest.mark.parametrize("task", [task for task in TASKS.values() if task.form], ids=lambda task: task.name)
def test_a_schema_is_valid_and_as_strict_servers_require(task: Task[Any]) -> None:
    form = form_of(task)
    jsonschema.Draft202012Validator.check_schema(form.schema)
    assert form.name.isidentifier()
    for one in objects(form.schema):
        assert one["additionalProperties"] is False
        assert one["required"] == list(one["properties"])
    used = set(json.dumps(form.schema).replace('"', " ").split()) & {
        "minimum",
        "maximum",
        "pattern",
        "uniqueItems",
        "anyOf",
    }
    assert not used  # not every server has these


@pytest.mark.parametrize(("task", "text", "result"), TEXTS)
def test_json_is_read_like_the_text(task: Task[Any], text: str, result: Any) -> None:
    reply = json_reply(text, form_of(task).schema)
    jsonschema.validate(json.loads(reply), form_of(task).schema)
    assert task.read(text) == task.read(reply) == result
    for shown in (
        f"```json\n{reply}\n```",
        f'<think>\nIs it {{"score": 1}}? Score: 1\n</think>\n\n{reply}',
        json.dumps(json.loads(reply), indent=2),
        f"Sure!\n\n{reply}\n",
    ):
        assert task.read(shown) == result


@pytest.mark.parametrize("task", [JUDGE, make_ranking_task(3), DECOMPOSE, SUB_QUERIES, EXTRACT_RELATIONS, REVIEW_TASK])
def test_cut_json_is_not_read(task: Task[Any]) -> None:
    text = next(text for other, text, _ in TEXTS if other.name == task.name)
    reply = json_reply(text, form_of(task).schema)
    for end in range(1, len(reply)):
        with pytest.raises(ValueError, match=r"JSON that is cut"):
            task.read(reply[:end])


@pytest.mark.parametrize(
    ("task", "found"),
    [
        (JUDGE, {"score": 6}),
        (JUDGE, {"score": 0}),
        (JUDGE, {"score": 3.5}),
        (JUDGE, {"score": True}),
        (JUDGE, {"score": "4"}),
        (JUDGE, {"score": None}),
        (JUDGE, {"score": [4]}),
        (JUDGE, {"verdict": 4}),
        (JUDGE, {"score": 4, "reason": "It agrees."}),
        (JUDGE, {}),
        (JUDGE_EVIDENCE, {"score": 101}),
        (JUDGE_SUFFICIENCY, {"verdict": "partly"}),
        (support_task(2), {"1": "yes"}),
        (support_task(2), {"1": "yes", "2": "no", "3": "no"}),
        (support_task(2), {"1": "yes", "2": "perhaps"}),
        (make_ranking_task(3), {"ranking": [1, 2, 4]}),
        (make_ranking_task(3), {"ranking": [1, 1, 2]}),
        (make_ranking_task(3), {"ranking": []}),
        (make_ranking_task(3), {"ranking": 2}),
        (DECOMPOSE, {"questions": []}),
        (DECOMPOSE, {"questions": [{"question": "What is due?"}]}),
        (DECOMPOSE, {"queries": ["What is due?"]}),
        (DECOMPOSE, {"questions": ["I'm sorry, I cannot help with that."]}),
        (SUB_QUERIES, {"queries": [{"query": "rent"}]}),
        (SUB_QUERIES, {"queries": [{"query": " ", "probability": 0.5}]}),
        (EXTRACT_RELATIONS, {"facts": [{"subject": "", "relation": "is", "object": "due"}]}),
        (EXTRACT_RELATIONS, {"facts": ["Rent | is | due"]}),
        (REVIEW_TASK, {"verdict": "ok", "points": [{"kind": "missing", "what": "the date"}]}),
        (REVIEW_TASK, {"points": [{"kind": "style", "what": "dull"}]}),
        (REVIEW_TASK, {"points": ["missing: the date"]}),
    ],
)
def test_other_json_is_not_read(task: Task[Any], found: Any) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        task.read(json.dumps(found))


def test_a_bare_line_break_in_a_string_is_read_as_the_grammar_of_llama_cpp_python_lets_it_be_written() -> None:
    assert DECOMPOSE.read('{ "questions": [ "What\nis due?", "Who pays?"]\n}') == ("What is due?", "Who pays?")
    quote = '{"questions": [{"question": "What\nis due?", "answer": "Rent.", "quotes": ["Rent\nis due"]}]}'
    assert questions_in(quote)[0].question == "What is due?"


def test_a_list_that_must_not_be_empty_says_so() -> None:
    form = form_of(DECOMPOSE)
    assert list(jsonschema.Draft202012Validator(form.schema).iter_errors({"questions": []}))
    for task, reply in (
        (CLAIMS, {"statements": []}),
        (EXTRACT_RELATIONS, {"facts": []}),
        (REVIEW_TASK, {"points": []}),
    ):
        jsonschema.validate(reply, form_of(task).schema)
        assert task.read(json.dumps(reply)) == ()


def test_a_reply_in_json_that_repeats_the_instructions_is_not_read() -> None:
    rule = "Each must make sense alone: repeat names instead of writing 'it' or 'they'."
    assert rule in DECOMPOSE.prompt
    with pytest.raises(ValueError, match="repeats the instructions"):
        DECOMPOSE.read(json.dumps({"questions": [rule]}))


def test_a_parser_of_json_still_refuses_a_key_that_is_there_twice() -> None:
    assert CLOSED_BOOK.read('{"known": false, "answer": ""}') == ""
    with pytest.raises(ValueError, match="twice"):
        CLOSED_BOOK.read('{"known": true, "known": true, "answer": "Four."}')


def test_drafts_are_of_the_form_that_their_parsers_read() -> None:
    quote = {"questions": [{"question": "What is due?", "answer": "Rent.", "quotes": ["Rent is due"]}]}
    factual = next(method.task for method in METHODS if method.name == "factual")
    assert form_of(factual).has(json.dumps(quote))
    assert [one.question for one in factual.read(json.dumps(quote))] == ["What is due?"]
    assert form_of(ROUND_TRIP).has(json.dumps({"text": MAX_PASSAGES, "words": "due"}))
    assert not form_of(ROUND_TRIP).has(json.dumps({"text": MAX_PASSAGES + 1, "words": "due"}))


@pytest.mark.parametrize("n", [2, 10, 20, 50])
def test_limits_suffice_for_json(n: int) -> None:
    """Twice the tokens, for servers that indent JSON and tokenisers that take each digit alone."""
    ranking, support = make_ranking_task(n), support_task(n)
    assert 2 * tokens(json.dumps({"ranking": [100] * n})) <= ranking.max_tokens
    assert 2 * tokens(json.dumps({str(i): "yes" for i in range(1, n + 1)})) <= support.max_tokens


# --- keys ------------------------------------------------------------------------------------------------------------


class TakesForms:
    structured_output = True


def test_a_key_has_the_schema_that_is_sent_and_is_as_before_without_one() -> None:
    plain = completion_key("m", "Question", 64, 0)
    assert plain == completion_key("m", "Question", 64, 0, form=None)
    assert plain == "13e6f9497ae823900f9f1d8f3248ca7f"
    forms = [
        ReplyForm("a", {"x": str, "y": int}),
        ReplyForm("a", {"y": int, "x": str}),  # replies are written in this order
        ReplyForm("a", {"x": str, "y": (1, 2)}),
        ReplyForm("b", {"x": str, "y": int}),
    ]
    keys = [completion_key("m", "Question", 64, 0, form=form) for form in forms]
    keys += [completion_key("m", "Question", 64, 0, form=forms[0], cut=True)]
    assert len({plain, *keys}) == 6
    read_otherwise = ReplyForm("a", {"x": str, "y": int}, "* {text}", empty="NONE")
    assert completion_key("m", "Question", 64, 0, form=read_otherwise) == keys[0]


def test_a_form_is_sent_only_of_a_task_that_has_one_to_a_model_that_takes_one() -> None:
    assert form_argument(TakesForms(), JUDGE) == {"form": JUDGE.form}
    assert form_argument(TakesForms(), IMAGINE_PASSAGE) == {}
    assert form_argument(object(), JUDGE) == {}
