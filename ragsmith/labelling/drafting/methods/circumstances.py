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
_ABOUT = r"(?:about |at most |at least |up to |more than |less than |around |over |under |some )?"
_UNIT = r"(?:milli)?(?:second|minute|hour|day|week|month|quarter|year|decade)s?"
_MONTH = "(?:January|February|March|April|May|June|July|August|September|October|November|December)"
_YEAR = r"(?:1[5-9]|20)\d\d"
_MONEY = (
    r"(?:(?:US|M|EUR|USD|GBP|\$|€|£) ?\d[\d,.]*(?: ?(?:million|billion|thousand))?|\d[\d,.]* (?:dollars|euros|pounds))"
)

_ASKED: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (re.compile(rf"\b(?:within|in) {_ABOUT}{_NUMBER} (?:\w+ )?{_UNIT}\b(?P<of> of [^,;:]+)?"), "within what time"),
    (re.compile(rf"\bfor {_ABOUT}{_NUMBER} (?:\w+ )?{_UNIT}\b"), "for how long"),
    (re.compile(rf"\b(?:after|before) {_NUMBER} (?:\w+ )?(?P<unit>{_UNIT})\b"), lambda m: f"after how many {_many(m)}"),
    (re.compile(rf"\b(?:since) (?:\d\d? )?(?:{_MONTH} )?{_YEAR}\b"), "since when"),
    (re.compile(rf"\b(?:in|on|by|until|from) (?:the )?(?:\d\d? )?(?:{_MONTH} )?(?:\d\d?, )?{_YEAR}\b"), "when"),
    (re.compile(rf"\b(?:on|by|until) \d\d? {_MONTH}\b"), "when"),
    (re.compile(rf"\b{_ABOUT}{_NUMBER} ?(?:%|per ?cent\b)(?P<of> of [^,;:]+)?"), "what percentage"),
    (re.compile(rf"(?:\b{_ABOUT})?{_MONEY}"), "how much"),
    (re.compile(rf"\b{_ABOUT}{_NUMBER} (?P<unit>[a-z]+(?:es|[^s]s))\b(?!')"), lambda m: f"how many {m['unit']}"),
    (re.compile(r",? (?:because|so that|in order (?:to|that)) .+$"), "why"),
    (re.compile(r",? by \w+ing\b.*$"), "how"),
)

_CLAUSE_END = re.compile(r"[,;:]| (?:and|but|or) (?:\w+ ){0,3}(?:is|are|was|were|has|have|must|may|\w+s) ")


def circumstances(passage: Chunk, material: Material) -> Sequence[Draft]:
    """``The buyer must give notice within nine days.`` -> ``Within what time must the buyer give notice?``"""
    drafts: list[Draft] = []
    for quote, found in statements(passage, material):
        for pattern, asks in _ASKED:
            phrase = pattern.search(found.predicate)
            if phrase is None:
                continue
            if _CLAUSE_END.search(found.predicate, 0, phrase.start()) or found.subject.split()[0].endswith("ly"):
                break
            wanted = f"{asks if isinstance(asks, str) else asks(phrase)}{phrase.groupdict().get('of') or ''}"
            left = without_tail(f"{found.predicate[: phrase.start()]} {found.predicate[phrase.end() :]}".strip(), 3)
            drafts += asked(
                passage, quote, f"{wanted} {found.auxiliary} {found.subject} {left}", phrase.group(), "circumstances"
            )
            break
    return drafts


def _many(match: re.Match[str]) -> str:
    return match["unit"] if match["unit"].endswith("s") else f"{match['unit']}s"
