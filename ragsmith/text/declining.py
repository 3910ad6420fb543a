"""What counts as declining to answer: the one rule for measures, techniques and `ragsmith ask`."""

import re

from ragsmith.text.words import sentences

NOT_FOUND = "The passages do not contain the answer."
"""The sentence that models are asked for where the passages do not hold the answer."""

_DECLINES = re.compile(
    r"(?:(?:i['’]m |i am )?(?:very )?sorry,? (?:but )?|unfortunately,? )?"
    r"(?:i (?:do not|don['’]t) know\b(?:(?!,? (?:but|however|yet)\b)[^;:])*"
    r"|(?:the|these) (?:(?:given|provided|above|retrieved|numbered) )?(?:passages?|context|documents?|sources?|texts?)"
    r" (?:do|does)(?: not|n['’]t) (?:\w+ )?(?:answer|contain|give|include|mention|provide|say|specify|state|tell)\b"
    r"(?:(?!,? (?:but|however|yet)\b)[^;:])*)",
    re.IGNORECASE,
)
"""One sentence that says that there is no answer, and nothing after a "but"."""


def declines(answer: str) -> bool:
    """Whether ``answer`` is one sentence that only says that there is no answer."""
    return _DECLINES.fullmatch(answer.strip()) is not None and len(sentences(answer)) == 1
