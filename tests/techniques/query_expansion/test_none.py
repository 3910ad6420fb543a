from ragsmith.techniques.query_expansion.none import none
from ragsmith.types import Question


def test_the_question_is_searched_once_as_it_is(search, hits):
    found = search({"Who?": hits([0.9, 0.5])})
    assert none(Question("Who?"), found) == hits([0.9, 0.5])
    assert found.calls == [("Who?",)]
