"""The length of what the generator reads."""

import math

from ragsmith.measures.case import Case
from ragsmith.measures.registry import measure


@measure(label="Prompt, characters", subject="passages", range=(0.0, math.inf), direction=None)
def context_chars(case: Case) -> float:
    """The characters of the prompt's passages, as the generator reads them."""
    return float(len(case.prompt))
