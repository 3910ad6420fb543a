"""Long-context reordering: the best passages at both ends, the worst in the middle (Liu et al. 2023)."""

from ragsmith.techniques.families import prompt_maker
from ragsmith.text.blocks import numbered
from ragsmith.types import Passages, Prompt, Question


@prompt_maker(paper="https://arxiv.org/abs/2307.03172")
def long_context_reorder(question: Question, passages: Passages) -> Prompt:
    """Show ranks 1, 3, 5, ... from the beginning and 2, 4, 6, ... from the end, as numbered blocks.

    Helps when the context is long and the model reads its middle less closely. Costs nothing. Each passage is shown
    once; the original system moved nothing and repeated the best passages at the end: `reorder_with_repetition`.
    """
    shown = passages[::2] + passages[1::2][::-1]
    return Prompt(numbered(passage.text for passage in shown), shown)
