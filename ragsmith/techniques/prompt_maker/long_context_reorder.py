"""Long-context reordering: the best passages at both ends, the worst in the middle (Liu et al. 2023)."""

from ragsmith.techniques.families import prompt_maker
from ragsmith.text.blocks import number_blocks
from ragsmith.types import Passages, Prompt, Question


@prompt_maker(paper="https://arxiv.org/abs/2307.03172")
def long_context_reorder(question: Question, passages: Passages) -> Prompt:
    """Show the passages of ranks 1, 3, 5, ... and then those of ranks ..., 6, 4, 2, as numbered blocks.

    Helps when the context is long and the model attends less to its middle. Costs nothing. Each passage is shown once;
    the original system kept the order and repeated the best passages at the end (`reorder_with_repetition`).
    """
    shown = passages[::2] + passages[1::2][::-1]
    return Prompt(number_blocks(passage.text for passage in shown), shown)
