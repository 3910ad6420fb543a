"""Reordering with repetition: the best passages are repeated at the end (Kartal et al. 2025)."""

from ragsmith.plugins import Count
from ragsmith.techniques.families import prompt_maker
from ragsmith.text.blocks import number_blocks
from ragsmith.types import Passages, Prompt, Question


@prompt_maker(paper="https://arxiv.org/abs/2511.01386", choices={"n": (1, 2)})
def reorder_with_repetition(question: Question, passages: Passages, *, n: Count = 2) -> Prompt:
    """Show the passages in rank order, then the best ``n`` again in reverse order, as numbered blocks.

    For ``n=2``, A, B, C becomes A, B, C, B, A. Helps when a model attends less to the middle of a long context, or a
    server truncates the beginning. Costs the tokens of ``n`` passages. A repeated passage has a second number. The
    RAGSmith code calls this reordering; `long_context_reorder` shows each passage once.

    The embedded model ignores repeated sentences, so its answers are those of `listing`.
    """
    shown = passages + passages[:n][::-1]
    return Prompt(number_blocks(passage.text for passage in shown), shown)
