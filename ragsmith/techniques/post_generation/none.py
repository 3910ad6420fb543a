"""No post-generation."""

from ragsmith.techniques.families import post_generation
from ragsmith.types import Answer, Prompt, Question


@post_generation(paper="https://arxiv.org/abs/2511.01386")
def none(question: Question, prompt: Prompt, answer: Answer) -> Answer:
    """Return the draft unchanged."""
    return answer
