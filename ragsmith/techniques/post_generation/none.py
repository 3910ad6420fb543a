"""No post-generation: the draft is delivered."""

from ragsmith.techniques.families import post_generation
from ragsmith.types import Answer, Prompt, Question


@post_generation(paper="https://arxiv.org/abs/2511.01386")
def none(question: Question, prompt: Prompt, answer: Answer) -> Answer:
    """Deliver the draft."""
    return answer
