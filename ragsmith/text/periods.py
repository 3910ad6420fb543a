"""The period that a text names, in English words or in digits: ``spring of 2021``, ``Q3 2022``, ``before 2020``.

Expressions are read as in temporal taggers (HeidelTime, Strötgen & Gertz 2010). None is relative to today.
"""

import re
from collections import defaultdict
from datetime import date, timedelta

_MONTHS = (
    "jan|january",
    "feb|february",
    "mar|march",
    "apr|april",
    "may",
    "jun|june",
    "jul|july",
    "aug|august",
    "sep|sept|september",
    "oct|october",
    "nov|november",
    "dec|december",
)
_PARTS = (
    {name: (place, 1) for place, names in enumerate(_MONTHS) for name in (*names.split("|"), f"m{place + 1:02}")}
    | {
        name: (length * place, length)
        for part, length, ordinals in (
            ("quarter", 3, ("first 1st", "second 2nd", "third 3rd", "fourth 4th last final")),
            ("half", 6, ("first 1st", "second 2nd last final")),
        )
        for place, words in enumerate(ordinals)
        for name in (f"{part[0]}{place + 1}", *(f"{word} {part}" for word in words.split()))
    }
    | {"spring": (2, 3), "summer": (5, 3), "autumn": (8, 3), "fall": (8, 3)}
    | {"winter": (-1, 15)}  # of this year, or begun in the last one
)
"""The first month of each part of a year, from 0, and its number of months; ``m01`` is a month in digits."""

_YEAR = r"(?:1\d|20)\d\d"
_ORDINAL = "first|1st|second|2nd|third|3rd|fourth|4th|last|final"
_IN_WORDS = (
    (re.compile(rf"\b({_YEAR})-(0[1-9]|1[0-2])(?:-(\d\d))?(?![\d-])"), r"\3 m\2 \1"),
    (re.compile(rf"\b(\d\d?)\.(0[1-9]|1[0-2])\.({_YEAR})\b"), r"\1 m\2 \3"),
    (re.compile(rf"\b({_YEAR})[\s/-]*(q[1-4]|h[12])\b"), r"\2 \1"),
    (re.compile(rf"\b({_ORDINAL})(\s(?:and|or|to)\s(?:the\s)?(?:{_ORDINAL})\s(quarter|half)\b)"), r"\1 \3\2"),
)
"""Forms in digits and ellipses, and the order in which `_EXPRESSION` reads their parts."""
_BOUNDS = {
    **dict.fromkeys(("before the end of", "until", "till", "up to", "through", "by"), "until"),
    **dict.fromkeys(("not after", "no later than", "not later than"), "until"),
    **dict.fromkeys(("before", "prior to", "earlier than"), "before"),
    **dict.fromkeys(("after the start of", "after the beginning of", "since"), "since"),
    **dict.fromkeys(("not before", "no earlier than", "not earlier than"), "since"),
    **dict.fromkeys(("after", "later than"), "after"),
}
_EXPRESSION = re.compile(
    r"(?P<link>\s*[-–]\s*|,?\s+(?:and|or|to|than|versus|vs\.?)\s+|,\s+(?=\w+(?:,|,?\s+(?:and|or)\s)))?"
    rf"(?<![\w.,/$€£])(?:(?:(?P<bound>{'|'.join(_BOUNDS)})|(?P<preposition>in|during|throughout|within|of|for|from|between))"
    r"\s+)?(?:(?:the|both|either|early|mid|late)[\s-]+){,3}(?:(?:start|beginning|end)\s+of\s+)?(?:the\s+)?"
    r"(?:(?:(?P<before>\d\d?)(?:st|nd|rd|th)?\s+(?:of\s+)?)?"
    rf"(?P<part>{'|'.join(sorted(_PARTS, key=len, reverse=True))})\b\.?"
    r"(?:\s+(?P<behind>\d\d?)(?:st|nd|rd|th)?\b)?"
    rf"(?:[\s,]*(?:of\s+)?(?:the\s+)?(?:(?:fiscal|financial)\s+)?(?:year\s+)?(?:fy\s?)?(?P<year>{_YEAR}))?"
    rf"|(?P<unit>(?:(?:fiscal|financial)\s+)?(?:years?\s+)?(?:fy\s?)?)(?P<alone>{_YEAR})(?P<decade>(?<=0)s)?)"
    r"(?![\w%]|[.,/]\d)(?P<onwards>,?\s+(?:onwards?|(?:and|or) (?:later(?! than)|after(?! \w))))?"
)


def find_period(text: str, years: range = range(1000, 2100)) -> tuple[date | None, date | None] | None:
    """Return the first and the last day of the period that ``text`` names, None for an open end; None without one.

    Several periods are joined to one that has them all, and bounds (``before``, ``until``, ``after``, ``since``) limit
    it; bounds with ``or`` between them are no one period. A part without a year is of the next year that is named, or
    else of the last one, but not of a bound. Seasons are those of the north; a winter may begin in the year or before
    it.

    A number is a year behind a preposition of time, ``year``, ``FY`` or a part of the year, or in a range or list with
    such a one. Without ``year``, ``FY`` or a part, it or another of its range has to be one of ``years``. The words
    ``may`` and ``march`` are months only next to a day or a year, or in a range or list with a part that has a year.
    """
    lowered = " ".join(text.lower().split())
    for form, replacement in _IN_WORDS:
        lowered = form.sub(replacement, lowered)
    chains: list[list[re.Match[str]]] = []
    for found in _EXPRESSION.finditer(lowered):
        is_linked = (
            chains
            and not found["preposition"]
            and (found["link"] or found["bound"] in ("until", "till", "through", "up to"))
        )
        if is_linked and found.start() - chains[-1][-1].end() == (0 if found["link"] else 1):
            chains[-1].append(found)
        else:
            chains.append([found])
    read = [
        (found, chain[place:])
        for chain in chains
        for place, found in enumerate(chain)
        if _is_named(found, chain[place:], chain, years)
    ]
    bounds = [found for found, _ in read if found["bound"] or found["onwards"]]
    if bounds and re.search(r"\bor\b", lowered[bounds[0].end() : max(bounds[-1].start(), bounds[-1].end("link"))]):
        return None
    named = ["" if found in bounds else found["year"] or found["alone"] for found, _ in read]
    found_days: defaultdict[str, list[tuple[date, date]]] = defaultdict(list)
    for place, (found, rest) in enumerate(read):
        candidates = (found["alone"], *(each["year"] for each in rest), *named[place:], *reversed(named[:place]))
        year = next(filter(None, candidates), None)
        if year and (days := _find_days(found, int(year))):
            kind = "since" if found["onwards"] else _BOUNDS.get(found["bound"] or "", "")
            found_days["" if kind == "until" and found_days[""] else kind].append(days)  # from 2019 until 2021
    starts = [
        *(first for first, _ in found_days["since"] + sorted(found_days[""])[:1]),
        *(last + timedelta(1) for _, last in found_days["after"]),
    ]
    ends = [
        *(last for _, last in found_days["until"]),
        *sorted(last for _, last in found_days[""])[-1:],
        *(first - timedelta(1) for first, _ in found_days["before"]),
    ]
    start, end = max(starts, default=None), min(ends, default=None)
    return None if not (start or end) or (start and end and start > end) else (start, end)


def _is_named(found: re.Match[str], rest: list[re.Match[str]], chain: list[re.Match[str]], years: range) -> bool:
    """Whether a part of a year is no verb, or a number is a year; ``rest`` is its range or list from it on."""
    return (
        found["part"] not in ("may", "march")
        or any([found["before"], found["behind"], *(each["year"] for each in rest)])
        if found["part"]
        else bool(found["unit"] or found["decade"])
        or (
            any(each[mark] for each in chain for mark in ("preposition", "bound", "onwards", "unit", "part"))
            and any(int(each["year"] or each["alone"] or 0) in years for each in chain)
        )
    )


def _find_days(found: re.Match[str], year: int) -> tuple[date, date] | None:
    """Return the first and the last day of an expression; None if there is no such day."""
    start, months = _PARTS[found["part"]] if found["part"] else (0, 120 if found["decade"] else 12)
    first, after = (date(n // 12, n % 12 + 1, 1) for n in (12 * year + start, 12 * year + start + months))
    day = found["before"] or found["behind"] if months == 1 else None
    if day is None:
        return first, after - timedelta(1)
    named = first + timedelta(int(day) - 1)
    return (named, named) if first <= named < after else None
