"""Questions for when, how long, how much, how many, why and how: for the phrase of a statement that says so."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ragsmith.labelling.drafting.draft import Draft
from ragsmith.labelling.drafting.material import Material
from ragsmith.labelling.drafting.methods.statements import asked, statements, without_tail
from ragsmith.types import Chunk

_NUMBER = (
    r"(?:\d[\d,.]*\d|\d|(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fourteen|fifteen|twenty|thirty|"
    r"forty|fifty|sixty|ninety|hundred|a dozen)(?:[- ](?:one|two|three|four|five|six|seven|eight|nine|hundred))*)"
)
_UNIT = r"(?:milli)?(?:second|minute|hour|day|week|month|quarter|year|decade)s?"
_MONTH = "(?:January|February|March|April|May|June|July|August|September|October|November|December)"
_YEAR = r"(?:1[5-9]|20)\d\d"
_MONEY = (
    r"(?:(?:US|M|EUR|USD|GBP|\$|€|£) ?\d[\d,.]*(?: ?(?:million|billion|thousand))?|\d[\d,.]* (?:dollars|euros|pounds))"
)

_ASKED: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (re.compile(rf"\b(?:within|in) (?:about |at most )?{_NUMBER} (?:\w+ )?{_UNIT}\b(?: of\b)?"), "within what time"),
    (re.compile(rf"\bfor (?:about |at least |up to )?{_NUMBER} (?:\w+ )?{_UNIT}\b"), "for how long"),
    (re.compile(rf"\b(?:after|before) {_NUMBER} (?:\w+ )?(?P<unit>{_UNIT})\b"), lambda m: f"after how many {_many(m)}"),
    (re.compile(rf"\b(?:since) (?:\d\d? )?(?:{_MONTH} )?{_YEAR}\b"), "since when"),
    (re.compile(rf"\b(?:in|on|by|until|from) (?:the )?(?:\d\d? )?(?:{_MONTH} )?(?:\d\d?, )?{_YEAR}\b"), "when"),
    (re.compile(rf"\b(?:on|by|until) \d\d? {_MONTH}\b"), "when"),
    (re.compile(rf"\b{_NUMBER} ?(?:%|per ?cent\b)(?: of\b)?"), "what percentage"),
    (re.compile(_MONEY), "how much"),
    (re.compile(rf"\b{_NUMBER} (?P<unit>[a-z]+(?:es|[^s]s))\b"), lambda m: f"how many {m['unit']}"),
    (re.compile(r",? (?:because|so that|in order (?:to|that)) .+$"), "why"),
    (re.compile(r",? by \w+ing\b.*$"), "how"),
)


def circumstances(passage: Chunk, material: Material) -> Sequence[Draft]:
    """``The buyer must give notice within nine days.`` -> ``Within what time must the buyer give notice?``"""
    drafts: list[Draft] = []
    for quote, found in statements(passage, material):
        for pattern, asks in _ASKED:
            phrase = pattern.search(found.predicate)
            if phrase is None:
                continue
            wanted = asks if isinstance(asks, str) else asks(phrase)
            left = without_tail(f"{found.predicate[: phrase.start()]} {found.predicate[phrase.end() :]}".strip(), 3)
            drafts += asked(
                passage, quote, f"{wanted} {found.auxiliary} {found.subject} {left}", phrase.group(), "circumstances"
            )
            break
    return drafts


def _many(match: re.Match[str]) -> str:
    return match["unit"] if match["unit"].endswith("s") else f"{match['unit']}s"
