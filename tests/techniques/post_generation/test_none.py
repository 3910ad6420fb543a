from ragsmith.techniques.post_generation.none import none
from ragsmith.types import Answer, Prompt, Question


def test_delivers_the_draft():
    draft = Answer("In 1598.", (0,))
    assert none(Question("?"), Prompt("", ()), draft) is draft
