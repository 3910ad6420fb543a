import pytest

from ragsmith.techniques.prompt_maker.reorder_with_repetition import reorder_with_repetition
from ragsmith.text.blocks import blocks
from ragsmith.types import Passage, Question


def shown(texts, n):
    prompt = reorder_with_repetition(Question("?"), tuple(Passage(text, (), 1.0) for text in texts), n=n)
    assert blocks(prompt.text) == tuple(passage.text for passage in prompt.passages)
    return "".join(passage.text for passage in prompt.passages)


@pytest.mark.parametrize(
    ("texts", "n", "order"),
    [("ABC", 2, "ABCBA"), ("ABC", 1, "ABCA"), ("A", 2, "AA"), ("AB", 5, "ABBA"), ("", 2, "")],
)
def test_the_best_passages_stand_at_the_end_once_more(texts, n, order):
    assert shown(texts, n) == order
