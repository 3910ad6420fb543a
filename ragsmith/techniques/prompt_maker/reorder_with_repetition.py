"""Reordering with repetition: the best passages are shown once more, at the end (Kartal et al. 2025)."""

from ragsmith.plugins import Count
from ragsmith.techniques.families import prompt_maker
from ragsmith.text.blocks import numbered
from ragsmith.types import Passages, Prompt, Question


@prompt_maker(paper="https://arxiv.org/abs/2511.01386", choices={"n": (1, 2)})
def reorder_with_repetition(question: Question, passages: Passages, *, n: Count = 2) -> Prompt:
    """Show the passages in rank order, then the best ``n`` again, the best one last, as numbered blocks.

    Of A, B and C that is A, B, C, B, A. Helps when a model reads the middle of a long context less closely, or a server
    cuts the beginning off. Costs the tokens of ``n`` passages. A repeated block has a number of its own, and stands for
    the same passage. This is what the RAGSmith code does under the name of reordering; `long_context_reorder` shows
    each passage once.

    The embedded model reads a repeated sentence once: with it answers are those of `listing`.
    """
    shown = passages + passages[:n][::-1]
    return Prompt(numbered(passage.text for passage in shown), shown)
