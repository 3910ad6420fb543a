from ragsmith.techniques.passage_compress.none import none
from ragsmith.types import Passage, Question, Span


def test_leaves_passages_as_they_are():
    passages = (Passage("one", (Span("a", 0, 3),), 0.5), Passage("two", (Span("b", 0, 3),), 0.4))
    assert none(Question("?"), passages) == passages
    assert none(Question("?"), ()) == ()
