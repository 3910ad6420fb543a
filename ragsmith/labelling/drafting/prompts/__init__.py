"""A prompt is what a chat model is told to draft, or to check: one file has its words, its parser, and where it suits.

Those of `PROMPTS` draft; `closed_book` and `round_trip` check what was drafted. Replies are JSON and nothing else: what
cannot be read is asked for once more and then a failure, never a question.
"""

from __future__ import annotations

from ragsmith.labelling.drafting.prompts.code import CODE
from ragsmith.labelling.drafting.prompts.factual import FACTUAL
from ragsmith.labelling.drafting.prompts.interpretation import INTERPRETATION
from ragsmith.labelling.drafting.prompts.long_answer import LONG_ANSWER
from ragsmith.labelling.drafting.prompts.multi_document import MULTI_DOCUMENT
from ragsmith.labelling.drafting.prompts.near_misses import NEAR_MISSES
from ragsmith.labelling.drafting.prompts.prompt import Prompt
from ragsmith.labelling.drafting.prompts.tables import TABLES

PROMPTS: tuple[Prompt, ...] = (TABLES, CODE, MULTI_DOCUMENT, NEAR_MISSES, INTERPRETATION, LONG_ANSWER, FACTUAL)
"""What suits fewer passages comes first."""
