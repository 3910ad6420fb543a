"""Recognise replies that decline to answer, for measures, techniques and `ragsmith ask`."""

import re

from ragsmith.text.words import sentences

NOT_FOUND = "The passages do not contain the answer."
"""The reply that models are instructed to give if the passages do not contain the answer."""

_DECLINES = re.compile(
    r"(?:(?:i['’]m |i am )?(?:very )?sorry,? (?:but )?|unfortunately,? )?"
    r"(?:i (?:do not|don['’]t) know\b(?:(?!,? (?:but|however|yet)\b)[^;:])*"
    r"|(?:the|these) (?:(?:given|provided|above|retrieved|numbered) )?(?:passages?|context|documents?|sources?|texts?)"
    r" (?:do|does)(?: not|n['’]t) (?:\w+ )?(?:answer|contain|give|include|mention|provide|say|specify|state|tell)\b"
    r"(?:(?!,? (?:but|however|yet)\b)[^;:])*)",
    re.IGNORECASE,
)
"""One sentence which says that there is no answer, without an exception after "but"."""


def declines(answer: str) -> bool:
    """Whether ``answer`` is a single sentence which says that there is no answer."""
    return _DECLINES.fullmatch(answer.strip()) is not None and len(sentences(answer)) == 1
