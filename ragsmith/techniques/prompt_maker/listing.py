"""Listing: the passages as numbered blocks, best first."""

from ragsmith.techniques.families import prompt_maker
from ragsmith.text.blocks import number_blocks
from ragsmith.types import Passages, Prompt, Question


@prompt_maker(paper="https://arxiv.org/abs/2005.11401")
def listing(question: Question, passages: Passages) -> Prompt:
    """Show the passages as numbered blocks in rank order."""
    return Prompt(number_blocks(passage.text for passage in passages), passages)
