import pytest

from ragsmith.techniques.prompt_maker.long_context_reorder import long_context_reorder
from ragsmith.types import Passage, Question


def shown(n):
    prompt = long_context_reorder(Question("?"), tuple(Passage(f"rank {i}", (), 1 / i) for i in range(1, n + 1)))
    return prompt, [int(passage.text.split()[1]) for passage in prompt.passages]


@pytest.mark.parametrize(
    ("n", "order"), [(0, []), (1, [1]), (2, [1, 2]), (3, [1, 3, 2]), (5, [1, 3, 5, 4, 2]), (6, [1, 3, 5, 6, 4, 2])]
)
def test_best_passages_stand_at_both_ends(n, order):
    assert shown(n)[1] == order


@pytest.mark.parametrize("n", range(12))
def test_nothing_is_lost_or_repeated_and_the_middle_is_worst(n):
    prompt, order = shown(n)
    assert sorted(order) == list(range(1, n + 1))
    if n:
        middle = order.index(n)
        assert order[:middle] == sorted(order[:middle])
        assert order[middle:] == sorted(order[middle:], reverse=True)
    assert prompt.text == "\n\n".join(f"[{place}] rank {rank}" for place, rank in enumerate(order, 1))
